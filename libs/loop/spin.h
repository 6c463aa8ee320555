/*
 * Spinning before sleep. A thread that sleeps in the kernel is woken by a system call of the one that has
 * news for it, and by an interrupt that takes tens of microseconds on a virtual machine. A loop may therefore
 * watch its mailboxes for a while before it sleeps; meanwhile who posts makes no system call either.
 *
 * Only under traffic: it watches for at most spin_ns after the last news, and not at all while news come so
 * rarely that hardly any would come in that time. Sockets and timers wait until the watch ends, which the
 * next timer does too. It pays where a CPU is free for it; on a host whose CPUs are all busy it takes time
 * from those that would bring the news.
 */
#ifndef LOOP_SPIN_H
#define LOOP_SPIN_H

#include "loop/loop.h"

#define LOOP_SPIN_MAX_NS INT64_C(1000000)

/* On the loop's thread, before it runs. 0, as at first: never. At most LOOP_SPIN_MAX_NS. */
void loop_set_spin(loop_t *loop, int64_t spin_ns);

/* Deliveries that came to a watching loop, and all; for tests and benches. */
typedef struct {
    uint64_t watched, all;
} loop_spin_stats_t;
loop_spin_stats_t loop_spin_stats(const loop_t *loop);

#endif
