/*
 * Everything of the core that allocates or frees. Nothing else in libs/sched does: scripts/check-purity sees
 * to it.
 */
#include "sched/core.h"

#include <stdlib.h>
#include <string.h>

enum {
    GPU_INFLIGHT_DEFAULT = 2,
    GPU_INFLIGHT_MOST = 64, /* a chain that is walked: longer would only hide a worker that is gone */
    MODELS_MOST = 1 << 16,
    GPUS_MOST = 1 << 16,
    TASKS_MOST = 1 << 26, /* 4 GiB */
};

status_t matcher_init(matcher_t *matcher, uint32_t models_max, uint32_t gpus_max, err_t *err)
{
    memset(matcher, 0, sizeof(*matcher));
    matcher->models_max = models_max;
    matcher->gpus_max = gpus_max;
    matcher->models = calloc(models_max, sizeof(*matcher->models));
    matcher->gpus = calloc(gpus_max, sizeof(*matcher->gpus));
    matcher->denied = calloc(((uint64_t)models_max * gpus_max + 63) / 64, sizeof(*matcher->denied));
    for (uint32_t m = 0; matcher->models && m < models_max; m++)
        matcher->models[m].pinned = BITMAP_NONE;
    status_t status = STATUS_OK;
    if (!matcher->models || !matcher->gpus || !matcher->denied)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for the matcher");
    if (status == STATUS_OK)
        status = heap_init(&matcher->waiting, models_max, err);
    if (status == STATUS_OK)
        status = heap_init(&matcher->early, models_max, err);
    if (status == STATUS_OK)
        status = heap_init(&matcher->ready, models_max, err);
    if (status == STATUS_OK)
        status = heap_init(&matcher->busy, gpus_max, err);
    if (status == STATUS_OK)
        status = bitmap_init(&matcher->free, gpus_max, err);
    if (status != STATUS_OK)
        matcher_dispose(matcher);
    return status;
}

void matcher_dispose(matcher_t *matcher)
{
    bitmap_dispose(&matcher->free);
    heap_dispose(&matcher->busy);
    heap_dispose(&matcher->ready);
    heap_dispose(&matcher->early);
    heap_dispose(&matcher->waiting);
    free(matcher->denied);
    free(matcher->gpus);
    free(matcher->models);
    memset(matcher, 0, sizeof(*matcher));
}

static status_t check_limit(const char *name, uint32_t value, uint32_t most, err_t *err)
{
    if (value >= 1 && value <= most)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "%s is %u, not within 1..%u", name, value, most);
}

static status_t check_limits(const sched_limits_t *limits, err_t *err)
{
    status_t status = check_limit("models_max", limits->models_max, MODELS_MOST, err);
    if (status == STATUS_OK)
        status = check_limit("gpus_max", limits->gpus_max, GPUS_MOST, err);
    if (status == STATUS_OK)
        status = check_limit("tasks_max", limits->tasks_max, TASKS_MOST, err);
    if (status == STATUS_OK)
        status = check_limit("batch_max", limits->batch_max, PROFILE_BATCH_MAX, err);
    if (status == STATUS_OK)
        status = check_limit("gpu_inflight_max", limits->gpu_inflight_max, GPU_INFLIGHT_MOST, err);
    return status;
}

static bool allocate_tables(sched_t *sched)
{
    const sched_limits_t *limits = &sched->limits;
    uint32_t batches = limits->gpus_max * limits->gpu_inflight_max;
    task_slot_t *tasks = calloc(limits->tasks_max, sizeof(*tasks));
    batch_slot_t *slots = calloc(batches, sizeof(*slots));
    uint32_t *gpu_first = calloc(limits->gpus_max, sizeof(*gpu_first));
    uint32_t *gpu_count = calloc(limits->gpus_max, sizeof(*gpu_count));
    sched->pool.slots = tasks; /* owned from here on, whatever comes */
    sched->batches.slots = slots;
    sched->batches.gpu_first = gpu_first;
    sched->batches.gpu_count = gpu_count;
    if (!tasks || !slots || !gpu_first || !gpu_count)
        return false;
    task_pool_init(&sched->pool, tasks, limits->tasks_max);
    batch_table_init(&sched->batches, slots, batches, gpu_first, gpu_count, limits->gpus_max);
    return true;
}

static bool allocate_members(sched_t *sched)
{
    const sched_limits_t *limits = &sched->limits;
    sched->shards_max =
        2 * limits->models_max + limits->gpus_max; /* see policy.h: a lane per model and one per GPU */
    sched->shards = calloc(sched->shards_max, sizeof(*sched->shards));
    sched->profiles = calloc(limits->models_max, sizeof(*sched->profiles));
    sched->guarded = calloc(limits->models_max, sizeof(*sched->guarded));
    sched->scatter = calloc(limits->models_max, sizeof(*sched->scatter));
    sched->policy.gpu_state = calloc(limits->gpus_max, policy_gpu_bytes() + 1);
    sched->gpus = calloc(limits->gpus_max, sizeof(*sched->gpus));
    sched->latest = calloc(limits->models_max, sizeof(*sched->latest));
    sched->expiry_nodes = calloc(sched->shards_max, sizeof(*sched->expiry_nodes));
    sched->granted = calloc(limits->batch_max, sizeof(*sched->granted));
    sched->policy.state = calloc(1, policy_state_bytes());
    sched->policy.model_state = calloc(limits->models_max, policy_model_bytes() + 1);
    if (!sched->shards || !sched->profiles || !sched->guarded || !sched->scatter || !sched->latest ||
        !sched->policy.gpu_state || !sched->gpus || !sched->expiry_nodes || !sched->granted ||
        !sched->policy.state || !sched->policy.model_state || !allocate_tables(sched))
        return false;
    for (uint32_t m = 0; m < sched->shards_max; m++)
        shard_init(&sched->shards[m], &sched->pool, m);
    for (uint32_t m = 0; m < limits->models_max; m++)
        shard_place(&sched->shards[m], &sched->profiles[m], &sched->guarded[m], &sched->scatter[m]);
    sched->policy.shards = sched->shards;
    sched->policy.models_max = limits->models_max;
    sched->policy.shards_max = sched->shards_max;
    sched->policy.gpus_max = limits->gpus_max;
    return true;
}

sched_t *sched_create(const sched_limits_t *limits, err_t *err)
{
    sched_limits_t checked = *limits;
    if (checked.gpu_inflight_max == 0)
        checked.gpu_inflight_max = GPU_INFLIGHT_DEFAULT;
    if (check_limits(&checked, err) != STATUS_OK)
        return NULL;
    sched_t *sched = calloc(1, sizeof(*sched));
    if (!sched) {
        err_set(err, STATUS_NO_MEMORY, "no memory for a scheduling core");
        return NULL;
    }
    sched->limits = checked;
    sched->dirty = TASK_NONE;
    if (!allocate_members(sched)) {
        err_set(err, STATUS_NO_MEMORY, "no memory for a scheduling core of %u tasks", checked.tasks_max);
        sched_destroy(sched);
        return NULL;
    }
    if (matcher_init(&sched->matcher, sched->shards_max, checked.gpus_max, err) != STATUS_OK ||
        heap_init(&sched->expiry, sched->shards_max, err) != STATUS_OK ||
        sched_set_policy(sched, 0, policy_at(0)->name, NULL, err) != STATUS_OK) {
        sched_destroy(sched);
        return NULL;
    }
    sched->matcher.fits = core_share_fits;
    sched->matcher.fits_ctx = sched;
    return sched;
}

void sched_destroy(sched_t *sched)
{
    if (!sched)
        return;
    heap_dispose(&sched->expiry);
    matcher_dispose(&sched->matcher);
    free(sched->batches.gpu_count);
    free(sched->batches.gpu_first);
    free(sched->batches.slots);
    free(sched->pool.slots);
    free(sched->policy.gpu_state);
    free(sched->policy.model_state);
    free(sched->policy.state);
    free(sched->granted);
    free(sched->expiry_nodes);
    free(sched->latest);
    free(sched->gpus);
    free(sched->scatter);
    free(sched->guarded);
    free(sched->profiles);
    free(sched->shards);
    free(sched);
}
