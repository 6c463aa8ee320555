/*
 * Models, GPUs and policies join, change and leave. None of this is a hot path.
 */
#include "sched/core.h"

#include <string.h>

/* So many models more, or fewer, can be stopped, or the policy is another. */
static void settle_stopping(sched_t *sched, int change)
{
    policy_t *policy = &sched->policy;
    policy->stoppable += (uint32_t)change;
    policy->stopping = policy->stops && (policy->stoppable > 0 || policy->ops->stops_all);
}

static void set_exit_points(sched_t *sched, uint32_t model, uint32_t exit_points)
{
    uint32_t *own = &sched->shards[model].opts.exit_points;
    int change = (exit_points > 0) - (*own > 0);
    *own = exit_points;
    settle_stopping(sched, change);
}

status_t sched_set_policy(sched_t *sched, int64_t now_ns, const char *name, const char *params, err_t *err)
{
    double values[POLICY_PARAMS_MAX];
    const policy_ops_t *ops = policy_find(name);
    if (!ops)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is no policy '%s'", name);
    status_t status = policy_parse(ops, params, values, err);
    if (status != STATUS_OK)
        return status;
    core_close_lanes(sched, now_ns);
    policy_start(&sched->policy, ops, values);
    settle_stopping(sched, 0);
    sched->tick_ns = now_ns;
    core_mark_all_dirty(sched);
    return STATUS_OK;
}

const char *sched_policy_name(uint32_t index)
{
    const policy_ops_t *ops = policy_at(index);
    return ops ? ops->name : NULL;
}

const char *sched_policy_help(uint32_t index)
{
    return policy_at(index)->help;
}

const sched_param_t *sched_policy_params(uint32_t index)
{
    return policy_at(index)->params;
}

/* Models */

status_t sched_add_model(sched_t *sched, int64_t now_ns, uint32_t model, const profile_t *profile,
                         const sched_model_opts_t *opts, err_t *err)
{
    if (model >= sched->limits.models_max)
        return err_set(err, STATUS_TOO_LARGE, "model id %u, but models_max is %u", model,
                       sched->limits.models_max);
    if (sched->shards[model].present)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model id %u is in use", model);
    status_t status = shard_check_profile(profile, err);
    if (status != STATUS_OK)
        return status;
    shard_t *shard = &sched->shards[model];
    shard->present = true;
    sched->profiles[model] = *profile;
    shard_set_up(shard, opts, sched->limits.batch_max);
    shard_set_delays(shard, &sched->delays);
    sched->latest[model] = 0;
    memset(sched->policy.model_state + (size_t)model * sched->policy.ops->model_bytes, 0,
           sched->policy.ops->model_bytes);
    settle_stopping(sched, shard->opts.exit_points > 0);
    sched->tick_ns = now_ns;
    return STATUS_OK;
}

status_t sched_set_exit_points(sched_t *sched, uint32_t model, uint32_t exit_points)
{
    if (!core_has_model(sched, model))
        return STATUS_NOT_FOUND;
    set_exit_points(sched, model, exit_points);
    return STATUS_OK;
}

status_t sched_update_profile(sched_t *sched, int64_t now_ns, uint32_t model, const profile_t *profile)
{
    if (!core_has_model(sched, model))
        return STATUS_NOT_FOUND;
    status_t status = shard_check_profile(profile, NULL);
    if (status != STATUS_OK)
        return status;
    core_close_lanes(sched, now_ns);
    shard_set_profile(&sched->shards[model], &sched->profiles[model], profile);
    shard_set_limit(&sched->shards[model], sched->limits.batch_max);
    sched->tick_ns = now_ns;
    core_mark_dirty(sched, model);
    return STATUS_OK;
}

/* Its batches go on without it: their tasks have been granted, and end when they do. */
static void orphan_batches(sched_t *sched, uint32_t model)
{
    for (uint32_t b = 0; b < sched->batches.capacity; b++) {
        batch_slot_t *slot = &sched->batches.slots[b];
        if (slot->generation % 2 == 1 && slot->model == model)
            slot->model = BATCH_NO_MODEL;
    }
}

status_t sched_remove_model(sched_t *sched, int64_t now_ns, uint32_t model)
{
    if (!core_has_model(sched, model))
        return STATUS_NOT_FOUND;
    shard_t *shard = &sched->shards[model];
    core_close_lanes(sched, now_ns);
    shard_drop_all(shard, SCHED_DROP_MODEL_REMOVED);
    orphan_batches(sched, model);
    shard->candidate = (candidate_t){0};
    matcher_on_candidate(&sched->matcher, now_ns, model, &shard->candidate);
    for (uint32_t g = 0; g < sched->limits.gpus_max; g++)
        matcher_allow(&sched->matcher, model, g, true);
    heap_remove(&sched->expiry, &sched->expiry_nodes[model]);
    core_mark_dirty(sched, model); /* so that the next run tells of the drops */
    set_exit_points(sched, model, 0);
    shard->present = false;
    sched->tick_ns = now_ns;
    return STATUS_OK;
}

bool sched_model_scatter(const sched_t *sched, uint32_t model, sched_scatter_t *scatter)
{
    if (!core_has_model(sched, model))
        return false;
    const shard_t *shard = &sched->shards[model];
    *scatter = (sched_scatter_t){.mean = shard_mean_factor(shard), .guard = shard_guard_factor(shard)};
    return true;
}

double sched_needed(const sched_t *sched)
{
    return sched->policy.needed;
}

/* GPUs */

static void count_gpus(sched_t *sched, int64_t now_ns)
{
    uint32_t count = 0;
    for (uint32_t g = 0; g < sched->limits.gpus_max; g++)
        count += sched->gpus[g].present && !sched->gpus[g].draining;
    core_close_lanes(sched, now_ns);
    sched->policy.gpus = count;
    sched->tick_ns = now_ns;
}

status_t sched_add_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu, int64_t free_at_ns)
{
    if (gpu >= sched->limits.gpus_max)
        return STATUS_TOO_LARGE;
    if (sched->gpus[gpu].present)
        return STATUS_INVALID_ARGUMENT;
    sched->gpus[gpu] = (core_gpu_t){.present = true, .free_ns = free_at_ns};
    core_offer_gpu(sched, gpu);
    count_gpus(sched, now_ns);
    return STATUS_OK;
}

static void set_mode(sched_t *sched, uint32_t gpu, const sched_gpu_mode_t *mode)
{
    core_gpu_t *entry = &sched->gpus[gpu];
    sched->stretching -= entry->mode.stretches;
    sched->sharing -= core_has_slots(entry);
    entry->mode = *mode;
    sched->stretching += entry->mode.stretches;
    sched->sharing += core_has_slots(entry);
    uint8_t gpus =
        (uint8_t)((sched->stretching ? SHARD_GPUS_STRETCH : 0) | (sched->sharing ? SHARD_GPUS_SHARE : 0));
    if (gpus == sched->shards[0].gpus) /* all have the same, also those that are not in use */
        return;
    for (uint32_t s = 0; s < sched->shards_max; s++)
        sched->shards[s].gpus = gpus;
}

status_t sched_remove_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu)
{
    if (!core_has_gpu(sched, gpu))
        return STATUS_NOT_FOUND;
    while (sched->batches.gpu_first[gpu] != BATCH_NONE)
        core_end_batch(sched, sched->batches.gpu_first[gpu], CORE_TASKS_LOST);
    set_mode(sched, gpu, &(sched_gpu_mode_t){0});
    sched->gpus[gpu].present = false;
    core_offer_gpu(sched, gpu);
    for (uint32_t m = 0; m < sched->limits.models_max; m++)
        matcher_allow(&sched->matcher, m, gpu, true);
    count_gpus(sched, now_ns);
    return STATUS_OK;
}

status_t sched_drain_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu)
{
    if (!core_has_gpu(sched, gpu))
        return STATUS_NOT_FOUND;
    sched->gpus[gpu].draining = true;
    core_offer_gpu(sched, gpu);
    count_gpus(sched, now_ns);
    return STATUS_OK;
}

status_t sched_set_gpu_mode(sched_t *sched, int64_t now_ns, uint32_t gpu, const sched_gpu_mode_t *mode)
{
    if (!core_has_gpu(sched, gpu))
        return STATUS_NOT_FOUND;
    if (mode->slots > SCHED_SLOTS_MAX || mode->inflight > sched->limits.gpu_inflight_max)
        return STATUS_INVALID_ARGUMENT;
    if (sched->batches.gpu_count[gpu])
        return STATUS_UNAVAILABLE;
    set_mode(sched, gpu, mode);
    core_offer_gpu(sched, gpu);
    sched->tick_ns = now_ns;
    core_mark_all_dirty(sched);
    return STATUS_OK;
}

status_t sched_set_inside(sched_t *sched, int64_t now_ns, uint32_t model, const sched_inside_t *inside,
                          err_t *err)
{
    if (!core_has_model(sched, model))
        return err_set(err, STATUS_NOT_FOUND, "no model %u", model);
    if (inside->stages > SCHED_STAGES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u stages, at most %d", inside->stages,
                       SCHED_STAGES_MAX);
    for (uint32_t s = 0; s < inside->stages; s++) {
        bool last = s + 1 == inside->stages;
        uint32_t most = last ? SCHED_WHOLE : inside->until[s + 1];
        if (inside->until[s] > most || (last && inside->until[s] != SCHED_WHOLE))
            return err_set(err, STATUS_INVALID_ARGUMENT, "stage %u ends at %u of %d per mille", s,
                           inside->until[s], SCHED_WHOLE);
    }
    sched->shards[model].inside = *inside;
    sched->tick_ns = now_ns;
    core_mark_dirty(sched, model);
    return STATUS_OK;
}

uint32_t sched_gpu_inflight(const sched_t *sched, uint32_t gpu)
{
    return core_has_gpu(sched, gpu) ? sched->batches.gpu_count[gpu] : 0;
}

status_t sched_allow(sched_t *sched, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed)
{
    if (!core_has_model(sched, model) || !core_has_gpu(sched, gpu))
        return STATUS_NOT_FOUND;
    if (matcher_may_use(&sched->matcher, model, gpu) != allowed)
        core_close_lanes(sched, now_ns); /* planned with what was allowed */
    matcher_allow(&sched->matcher, model, gpu, allowed);
    return STATUS_OK;
}

void sched_set_delays(sched_t *sched, int64_t now_ns, const sched_delays_t *delays)
{
    (void)now_ns;
    sched->delays = *delays;
    for (uint32_t m = 0; m < sched->shards_max; m++)
        shard_set_delays(&sched->shards[m], delays);
    core_mark_all_dirty(sched);
}

/* Looking in */

bool sched_model_stats(const sched_t *sched, uint32_t model, sched_model_stats_t *stats)
{
    if (!core_has_model(sched, model))
        return false;
    *stats = sched->shards[model].own.stats;
    stats->queued = 0;
    for (uint32_t s = 0; s < sched->shards_max; s++)
        stats->queued += sched->shards[s].model == model ? sched->shards[s].queue.len : 0;
    return true;
}

static const char *validate_counts(const sched_t *sched)
{
    uint32_t queued = 0, dropped = 0, in_flight = 0;
    for (uint32_t m = 0; m < sched->shards_max; m++)
        queued += sched->shards[m].queue.len;
    for (uint32_t i = 0; i < sched->pool.capacity; i++) {
        dropped += sched->pool.slots[i].state == TASK_GIVEN_UP;
        in_flight += sched->pool.slots[i].state == TASK_IN_FLIGHT;
    }
    if (queued + dropped + in_flight != sched->pool.used)
        return "a task is in no place or in two";
    uint32_t batched = 0;
    for (uint32_t b = 0; b < sched->batches.capacity; b++) {
        if (sched->batches.slots[b].generation % 2 == 1)
            batched += sched->batches.slots[b].count;
    }
    return batched == in_flight ? NULL : "tasks in flight are not those of the batches";
}

/* What is kept as members come and go. */
static const char *validate_kept(const sched_t *sched)
{
    uint32_t stoppable = 0;
    for (uint32_t s = 1; s < sched->shards_max; s++) {
        if (sched->shards[s].gpus != sched->shards[0].gpus)
            return "what GPUs do besides is not known to all models";
    }
    for (uint32_t m = 0; m < sched->limits.models_max; m++)
        stoppable += sched->shards[m].present && sched->shards[m].opts.exit_points > 0;
    return stoppable == sched->policy.stoppable ? NULL : "the count of models that can be stopped";
}

const char *sched_validate(const sched_t *sched)
{
    const char *broken = matcher_validate(&sched->matcher);
    if (!broken)
        broken = validate_kept(sched);
    for (uint32_t m = 0; !broken && m < sched->shards_max; m++)
        broken = shard_validate(&sched->shards[m]);
    if (!broken)
        broken = batch_table_validate(&sched->batches, sched->limits.gpu_inflight_max);
    if (!broken && !heap_validate(&sched->expiry, NULL))
        broken = "the expiry heap";
    return broken ? broken : validate_counts(sched);
}
