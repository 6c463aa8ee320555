#include "shards/gate.h"

#include <errno.h>

static void take(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0 && errno == EINTR)
        ;
}

void gate_init(gate_t *gate)
{
    (void)sem_init(&gate->inside, 0, 1);
    (void)sem_init(&gate->given, 0, 0);
    atomic_init(&gate->asked, false);
    gate->waits = false;
}

void gate_dispose(gate_t *gate)
{
    (void)sem_destroy(&gate->given);
    (void)sem_destroy(&gate->inside);
}

void gate_enter(gate_t *gate)
{
    take(&gate->inside);
}

void gate_leave(gate_t *gate)
{
    (void)sem_post(&gate->inside);
}

void gate_wait(gate_t *gate)
{
    while (gate_asked(gate)) {
        gate->waits = true;
        gate_leave(gate);
        take(&gate->given);
        gate_enter(gate);
    }
}

void gate_ask(gate_t *gate)
{
    atomic_store_explicit(&gate->asked, true, memory_order_relaxed);
}

void gate_take(gate_t *gate)
{
    take(&gate->inside);
}

void gate_give(gate_t *gate)
{
    atomic_store_explicit(&gate->asked, false, memory_order_relaxed);
    if (gate->waits)
        (void)sem_post(&gate->given);
    gate->waits = false;
    (void)sem_post(&gate->inside);
}
