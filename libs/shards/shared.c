/* What all halves read, whatever thread has written it: who has a model, and the delays. */
#include "shards/internal.h"

uint32_t shards_owner(const shards_t *shards, uint32_t model)
{
    return atomic_load_explicit(&shards->owner[model], memory_order_acquire);
}

bool shards_has_model(const shards_t *shards, uint32_t model)
{
    return model < shards->options.limits.models_max && shards_owner(shards, model) != OWNER_NONE;
}

void shards_wake(shards_t *shards)
{
    for (uint32_t k = 0; k < shards->options.shard_count; k++)
        waiter_wake(&shards->workers[k].waiter);
}

void shards_set_delays(shards_t *shards, const sched_delays_t *delays)
{
    pthread_mutex_lock(&shards->delays.lock);
    shards->delays.now = *delays;
    atomic_fetch_add_explicit(&shards->delays.version, 1, memory_order_release);
    pthread_mutex_unlock(&shards->delays.lock);
    shards_wake(shards);
}

bool shards_take_delays(shards_t *shards, uint32_t *taken, sched_delays_t *delays)
{
    if (atomic_load_explicit(&shards->delays.version, memory_order_acquire) == *taken)
        return false;
    pthread_mutex_lock(&shards->delays.lock);
    *taken = atomic_load_explicit(&shards->delays.version, memory_order_relaxed);
    *delays = shards->delays.now;
    pthread_mutex_unlock(&shards->delays.lock);
    return true;
}
