/*
 * Where a thread can be brought to a stand between two of its turns. It is inside while it works and steps
 * out before it sleeps; who asks for the gate and takes it keeps it out, until the gate is given back.
 */
#ifndef SHARDS_GATE_H
#define SHARDS_GATE_H

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

/* Semaphores, as one thread may hold the gates of several groups, in any order. */
typedef struct {
    sem_t inside, given;
    _Atomic bool asked;
    bool waits; /* of whoever has `inside` */
} gate_t;

void gate_init(gate_t *gate);
void gate_dispose(gate_t *gate);

/* The thread's side. */
void gate_enter(gate_t *gate);
void gate_leave(gate_t *gate);
void gate_wait(gate_t *gate); /* inside: stays out until the gate is given back */
static inline bool gate_asked(const gate_t *gate)
{
    return atomic_load_explicit(&gate->asked, memory_order_relaxed);
}

/* The other side's, one at a time: asks (many gates at once, so that their threads stop together), then takes each. */
void gate_ask(gate_t *gate);
void gate_take(gate_t *gate);
void gate_give(gate_t *gate);

#endif
