/*
 * What changes rarely: models, profiles and the policy. All threads stand still meanwhile, with nothing under
 * way between them, so that each change is made as sched_t makes it.
 */
#include "base/clock.h"
#include "shards/internal.h"

#include <assert.h>
#include <string.h>

/* ---- Standing still ---- */

static int64_t time_of(const shards_t *shards, int64_t now_ns)
{
    return shards->threaded ? clock_now_ns() : now_ns; /* the threads' clock must not run backwards */
}

void shards_hold(shards_t *shards)
{
    uint32_t count = shards->options.shard_count;
    while (sem_wait(&shards->door) != 0)
        ; /* a signal came */
    gate_ask(&shards->planner.gate);
    gate_take(&shards->planner.gate); /* first, while the others still answer its questions */
    gate_ask(&shards->binder.gate);
    for (uint32_t k = 0; k < count; k++)
        gate_ask(&shards->workers[k].gate);
    gate_take(&shards->binder.gate);
    for (uint32_t k = 0; k < count; k++)
        gate_take(&shards->workers[k].gate);
    shards->held = true;
    atomic_store_explicit(&shards->holder, pthread_self(), memory_order_relaxed);
    if (shards->threaded)
        shards_settle(shards, clock_now_ns());
}

void shards_release(shards_t *shards)
{
    uint32_t count = shards->options.shard_count;
    if (shards->threaded)
        (void)shards_decide(shards, clock_now_ns());
    shards->held = false;
    atomic_store_explicit(&shards->holder, 0, memory_order_relaxed);
    for (uint32_t k = 0; k < count; k++)
        gate_give(&shards->workers[k].gate);
    gate_give(&shards->binder.gate);
    gate_give(&shards->planner.gate);
    (void)sem_post(&shards->door);
    for (uint32_t k = 0; k < count; k++)
        waiter_wake(&shards->workers[k].waiter); /* its next time may be another now */
    waiter_wake(&shards->binder.waiter);
    waiter_wake(&shards->planner.waiter);
}

/* Before a change: what happened earlier has been taken in. */
static int64_t begin_change(shards_t *shards, int64_t now_ns)
{
    assert(shards_alone(shards));
    now_ns = time_of(shards, now_ns);
    shards_settle(shards, now_ns);
    return now_ns;
}

/* The slow loop plans anew. */
static void end_change(shards_t *shards, int64_t now_ns)
{
    shards->planner.tick_ns = now_ns;
}

/* ---- Models ---- */

static uint32_t emptiest(const shards_t *shards)
{
    uint32_t held[SHARDS_MAX] = {0}, best = 0;
    for (uint32_t m = 0; m < shards->options.limits.models_max; m++) {
        uint32_t owner = shards_owner(shards, m);
        if (owner != OWNER_NONE)
            held[owner]++;
    }
    for (uint32_t k = 1; k < shards->options.shard_count; k++)
        best = held[k] < held[best] ? k : best;
    return best;
}

status_t shards_add_model(shards_t *shards, int64_t now_ns, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err)
{
    policy_t *policy = &shards->planner.policy;
    if (model >= shards->options.limits.models_max || shards_has_model(shards, model))
        return err_set(err, STATUS_INVALID_ARGUMENT, "model id %u is in use or above %u", model,
                       shards->options.limits.models_max - 1);
    status_t status = shard_check_profile(profile, err);
    if (status != STATUS_OK)
        return status;
    now_ns = begin_change(shards, now_ns);
    uint32_t owner = emptiest(shards);
    worker_t *worker = &shards->workers[owner];
    worker->seen[model] = shards->binder.issued[model];
    shards->profiles[model] = *profile;
    shard_set_up(&shards->planner.view[model], opts, shards->options.limits.batch_max);
    for (uint32_t k = 0; k < shards->options.shard_count; k++)
        shard_set_up(&shards->workers[k].models[model], opts, shards->options.limits.batch_max);
    shards->planner.submitted_seen[model] = 0;
    shards->planner.view[model].present = true;
    worker->models[model].present = true;
    shards->binder.route[model] = owner;
    memset(policy->model_state + (size_t)model * policy->ops->model_bytes, 0, policy->ops->model_bytes);
    atomic_store_explicit(&shards->owner[model], owner, memory_order_release);
    end_change(shards, now_ns);
    return STATUS_OK;
}

/* Its batches go on without it: their tasks have been granted, and end when they do. */
static void orphan_batches(worker_t *worker, uint32_t model)
{
    for (uint32_t b = 0; b < worker->shards->binder.batches.capacity; b++)
        if (worker->batches[b].batch_id && worker->batches[b].model == model)
            worker->batches[b].model = BATCH_NO_MODEL;
}

status_t shards_remove_model(shards_t *shards, int64_t now_ns, uint32_t model)
{
    if (!shards_has_model(shards, model))
        return STATUS_NOT_FOUND;
    now_ns = begin_change(shards, now_ns);
    worker_t *worker = &shards->workers[shards_owner(shards, model)];
    shard_t *shard = &worker->models[model];
    shard_drop_all(shard, SCHED_DROP_MODEL_REMOVED);
    for (uint32_t k = 0; k < shards->options.shard_count; k++)
        orphan_batches(&shards->workers[k], model);
    shard->candidate = (candidate_t){0};
    matcher_on_candidate(&shards->binder.matcher, now_ns, model, &shard->candidate);
    for (uint32_t g = 0; g < shards->options.limits.gpus_max; g++)
        matcher_allow(&shards->binder.matcher, model, g, true);
    heap_remove(&worker->expiry, &worker->expiry_nodes[model]);
    worker_mark_dirty(worker, model); /* so that its next turn tells of the drops */
    shard->present = false;
    shards->planner.view[model].present = false;
    atomic_store_explicit(&shards->owner[model], OWNER_NONE, memory_order_release);
    end_change(shards, now_ns);
    return STATUS_OK;
}

status_t shards_update_profile(shards_t *shards, int64_t now_ns, uint32_t model, const profile_t *profile)
{
    if (!shards_has_model(shards, model))
        return STATUS_NOT_FOUND;
    status_t status = shard_check_profile(profile, NULL);
    if (status != STATUS_OK)
        return status;
    now_ns = begin_change(shards, now_ns);
    shard_set_profile(&shards->workers[shards_owner(shards, model)].models[model], &shards->profiles[model],
                      profile);
    shard_set_limit(&shards->planner.view[model], shards->options.limits.batch_max);
    for (uint32_t k = 0; k < shards->options.shard_count; k++)
        shard_set_limit(&shards->workers[k].models[model], shards->options.limits.batch_max);
    worker_mark_dirty(&shards->workers[shards_owner(shards, model)], model);
    end_change(shards, now_ns);
    return STATUS_OK;
}

status_t shards_allow(shards_t *shards, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed)
{
    (void)begin_change(shards, now_ns);
    if (!shards_has_model(shards, model) || gpu >= shards->options.limits.gpus_max ||
        !shards->binder.gpus[gpu].present)
        return STATUS_NOT_FOUND;
    matcher_allow(&shards->binder.matcher, model, gpu, allowed);
    return STATUS_OK;
}

/* ---- The policy ---- */

status_t shards_set_policy(shards_t *shards, int64_t now_ns, const char *name, const char *params, err_t *err)
{
    double values[POLICY_PARAMS_MAX] = {0};
    const policy_ops_t *ops;
    status_t status = shards_find_policy(name, params, &ops, values, err);
    if (status != STATUS_OK)
        return status;
    now_ns = begin_change(shards, now_ns);
    policy_start(&shards->planner.policy, ops, values);
    for (uint32_t m = 0; m < shards->options.limits.models_max; m++)
        if (shards_has_model(shards, m))
            worker_mark_dirty(&shards->workers[shards_owner(shards, m)], m);
    end_change(shards, now_ns);
    return STATUS_OK;
}

/* ---- Looking in ---- */

void shards_stats(shards_t *shards, shards_stats_t *stats)
{
    shard_counts_t sum = {0};
    *stats = (shards_stats_t){.candidates = shards->binder.candidates,
                              .stale = shards->binder.stale,
                              .moves = shards->binder.moves};
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        stats->unused += shards->workers[k].unused;
        stats->requeued += shards->workers[k].requeued;
        for (uint32_t m = 0; m < shards->options.limits.models_max; m++) {
            counts_add(&sum, &shards->workers[k].models[m].own);
            sum.stats.queued += shards->workers[k].models[m].queue.len;
        }
    }
    stats->all = sum.stats;
}

bool shards_model_stats(shards_t *shards, uint32_t model, sched_model_stats_t *stats)
{
    shard_counts_t sum = {0};
    if (!shards_has_model(shards, model))
        return false;
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        counts_add(&sum, &shards->workers[k].models[model].own);
        sum.stats.queued += shards->workers[k].models[model].queue.len;
    }
    *stats = sum.stats;
    return true;
}
