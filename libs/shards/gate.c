#include "shards/gate.h"

void gate_init(gate_t *gate)
{
    pthread_mutex_init(&gate->inside, NULL);
    pthread_cond_init(&gate->given, NULL);
    atomic_init(&gate->asked, false);
}

void gate_dispose(gate_t *gate)
{
    pthread_cond_destroy(&gate->given);
    pthread_mutex_destroy(&gate->inside);
}

void gate_enter(gate_t *gate)
{
    pthread_mutex_lock(&gate->inside);
}

void gate_leave(gate_t *gate)
{
    pthread_mutex_unlock(&gate->inside);
}

void gate_wait(gate_t *gate)
{
    while (gate_asked(gate))
        pthread_cond_wait(&gate->given, &gate->inside);
}

void gate_ask(gate_t *gate)
{
    atomic_store_explicit(&gate->asked, true, memory_order_relaxed);
}

void gate_take(gate_t *gate)
{
    pthread_mutex_lock(&gate->inside);
}

void gate_give(gate_t *gate)
{
    atomic_store_explicit(&gate->asked, false, memory_order_relaxed);
    pthread_cond_signal(&gate->given);
    pthread_mutex_unlock(&gate->inside);
}
