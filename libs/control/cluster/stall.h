/*
 * A host that stands still (a hypervisor that takes its CPUs, a container that is paused) is one event, and says nothing of
 * the ways to peers, although each of them was slow in that moment: delays of what was under way are not believed. Two
 * things show it: that the machine itself was not run when it was due, and that of several peers, all of them asked (pings),
 * none answered for so long.
 *
 * Only what is rare is excused. A host that has hardly run before it stands still again is slow, and what is measured on it
 * is how it is. So are the rests of a CPU quota, which end with its period: bounds of delays are there for them.
 */
#ifndef CONTROL_CLUSTER_STALL_H
#define CONTROL_CLUSTER_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* The period of a quota, unless somebody chose another one; and twice what any bound goes to. */
#define STALL_LEAST_NS INT64_C(100000000)
/* Stalls are rare if it has run for so long before, and twice as long as it stood still. */
#define STALL_APART_NS INT64_C(1000000000)

typedef struct {
    int64_t ended_ns;   /* the last one */
    int64_t excused_ns; /* the last one that is excused: its end */
    int64_t asked_ns;   /* since when no peer has answered; INT64_MAX: nobody is asked */
} stall_t;

void stall_init(stall_t *stall, int64_t now_ns);

/* Nothing happened in between, though something should have. True: another event begins to be excused with it. */
bool stall_was(stall_t *stall, int64_t from_ns, int64_t to_ns);

/* All peers are asked, at least two; one of them is heard: as stall_was. */
void stall_asked(stall_t *stall, int64_t now_ns);
bool stall_heard(stall_t *stall, int64_t now_ns);

/* What was under way since then says nothing of how long it takes. */
static inline bool stall_excuses(const stall_t *stall, int64_t since_ns)
{
    return since_ns < stall->excused_ns;
}

#endif
