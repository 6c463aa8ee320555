/*
 * The policy's slow loop, beside the threads that decide: it asks every shard for its counts, lets the policy
 * plan on the sums, and tells the shards to take the plans. And, more rarely, it moves a model from the
 * busiest shard.
 */
#include "shards/internal.h"

#include "base/clock.h"

#include <string.h>

void counts_add(shard_counts_t *sum, const shard_counts_t *counts)
{
    sched_model_stats_t *into = &sum->stats;
    const sched_model_stats_t *from = &counts->stats;
    into->submitted += from->submitted;
    into->granted += from->granted;
    into->cancelled += from->cancelled;
    for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
        into->dropped[r] += from->dropped[r];
    into->batches += from->batches;
    into->stretches += from->stretches;
    into->preempted_batches += from->preempted_batches;
    into->queued += from->queued;
    into->in_flight += from->in_flight;
    into->busy_ns += from->busy_ns;
    sum->budget_ns += counts->budget_ns;
    sum->silence_ns += counts->silence_ns;
    sum->silence_expected_ns += counts->silence_expected_ns;
    sum->spells += counts->spells;
    sum->followers += counts->followers;
    sum->complete += counts->complete;
}

static bool threaded(const planner_t *planner)
{
    return !shards_alone(planner->shards);
}

/* Sees that every shard has told its counts as of now, which also means that it has taken the plans before. */
static bool ask_all(planner_t *planner)
{
    shards_t *shards = planner->shards;
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        worker_t *worker = &shards->workers[k];
        atomic_fetch_add_explicit(&worker->ask, 1, memory_order_release);
        if (threaded(planner))
            waiter_wake(&worker->waiter);
        else
            worker_tell(worker);
    }
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        worker_t *worker = &shards->workers[k];
        uint32_t ask = atomic_load_explicit(&worker->ask, memory_order_relaxed);
        while (atomic_load_explicit(&worker->told, memory_order_acquire) != ask) {
            waiter_prepare(&planner->waiter);
            if (atomic_load_explicit(&worker->told, memory_order_acquire) == ask ||
                atomic_load_explicit(&shards->stop, memory_order_acquire))
                waiter_cancel(&planner->waiter);
            else
                waiter_sleep(&planner->waiter, INT64_MAX);
            if (atomic_load_explicit(&shards->stop, memory_order_acquire))
                return false;
        }
    }
    return true;
}

static void sum_counts(planner_t *planner)
{
    shards_t *shards = planner->shards;
    for (uint32_t m = 0; m < planner->policy.models_max; m++) {
        shard_counts_t *sum = &planner->view[m].own;
        memset(sum, 0, sizeof *sum);
        for (uint32_t k = 0; k < shards->options.shard_count; k++)
            counts_add(sum, &shards->workers[k].counts[m]);
        uint32_t owner = shards_owner(shards, m);
        if (owner == OWNER_NONE)
            continue;
        sum->mean =
            shards->workers[owner].counts[m].mean; /* only one has learned; 0 while it is on its way there */
        sum->guard = shards->workers[owner].counts[m].guard;
        sum->spared = shards->workers[owner].counts[m].spared;
        (void)shard_count_on_delays(&planner->view[m]);
    }
}

static void hand_out(planner_t *planner)
{
    shards_t *shards = planner->shards;
    for (uint32_t k = 0; k < shards->options.shard_count; k++) {
        worker_t *worker = &shards->workers[k];
        atomic_fetch_add_explicit(&worker->planned, 1, memory_order_release);
        if (threaded(planner))
            waiter_wake(&worker->waiter);
        else
            worker_tell(worker);
    }
}

/* ---- Moving models ---- */

/* A shard is worth relieving when it has a quarter more than the least busy one; the model that goes is the one that
 * evens out the two best. */
static bool pick_move(const planner_t *planner, uint32_t *model, uint32_t *to)
{
    const shards_t *shards = planner->shards;
    uint64_t load[SHARDS_MAX] = {0}, best = 0;
    uint32_t most = 0, least = 0;
    for (uint32_t m = 0; m < planner->policy.models_max; m++) {
        uint32_t owner = shards_owner(shards, m);
        if (owner != OWNER_NONE)
            load[owner] += planner->view[m].own.stats.submitted - planner->submitted_seen[m];
    }
    for (uint32_t k = 1; k < shards->options.shard_count; k++) {
        most = load[k] > load[most] ? k : most;
        least = load[k] < load[least] ? k : least;
    }
    if (load[most] <
        load[least] + load[least] / 4 + 1000) /* and a thousand requests, below which nobody is busy */
        return false;
    uint64_t gap = load[most] - load[least];
    for (uint32_t m = 0; m < planner->policy.models_max; m++) {
        uint64_t rate = planner->view[m].own.stats.submitted - planner->submitted_seen[m];
        uint64_t gain = rate < gap ? rate < gap - rate ? rate : gap - rate : 0;
        if (shards_owner(shards, m) == most && gain > best) {
            best = gain;
            *model = m;
        }
    }
    *to = least;
    return best > 0;
}

static void balance(planner_t *planner, int64_t now_ns)
{
    shards_t *shards = planner->shards;
    uint32_t model, to;
    if (shards->options.balance_ns <= 0 || now_ns < planner->balance_ns)
        return;
    planner->balance_ns = now_ns + shards->options.balance_ns;
    if (pick_move(planner, &model, &to))
        (void)shards_move_model(shards, model, to); /* full: the next look comes to the same */
    for (uint32_t m = 0; m < planner->policy.models_max; m++)
        planner->submitted_seen[m] = planner->view[m].own.stats.submitted;
}

static bool planner_is_due(const planner_t *planner, int64_t now_ns)
{
    const binder_t *binder = &planner->shards->binder;
    return now_ns >= planner->tick_ns ||
           atomic_load_explicit(&binder->gpus_changes, memory_order_acquire) != planner->gpus_seen;
}

static void take_delays(planner_t *planner)
{
    sched_delays_t delays;
    if (!shards_take_delays(planner->shards, &planner->delays_taken, &delays))
        return;
    for (uint32_t m = 0; m < planner->policy.models_max; m++)
        shard_set_delays(&planner->view[m], &delays);
}

bool planner_turn(planner_t *planner, int64_t now_ns)
{
    const policy_ops_t *ops = planner->policy.ops;
    const binder_t *binder = &planner->shards->binder;
    uint32_t changes = atomic_load_explicit(&binder->gpus_changes, memory_order_acquire);
    if (!planner_is_due(planner, now_ns) || !ask_all(planner))
        return false;
    take_delays(planner);
    sum_counts(planner);
    planner->gpus_seen = changes;
    planner->policy.gpus = atomic_load_explicit(&binder->gpus_usable, memory_order_relaxed);
    planner->tick_ns = ops->tick ? ops->tick(&planner->policy, now_ns) : SCHED_NEVER;
    atomic_store_explicit(&planner->needed, (uint32_t)(planner->policy.needed * NEEDED_WHOLE),
                          memory_order_relaxed);
    balance(planner, now_ns);
    if (planner->shards->options.balance_ns > 0 && planner->balance_ns < planner->tick_ns)
        planner->tick_ns = planner->balance_ns;
    hand_out(planner);
    return true;
}
