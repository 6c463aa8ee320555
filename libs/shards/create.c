/* Everything of libs/shards that allocates or frees, but for parcels. */
#include "shards/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
    INBOX_DEFAULT = 1 << 16,
    CONTROL_LEN = 1 << 12, /* a whole cluster may join at once; more try again */
    GPU_INFLIGHT_DEFAULT = 2,
    MODELS_MOST = 1 << 16,
};

static status_t check(const shards_options_t *options, err_t *err)
{
    const sched_limits_t *limits = &options->limits;
    if (options->shard_count < 1 || options->shard_count > SHARDS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "shards: %u, not in 1..%d", options->shard_count,
                       SHARDS_MAX);
    if (limits->models_max < 1 || limits->models_max > MODELS_MOST || limits->tasks_max < 1 ||
        limits->batch_max < 1 || limits->gpus_max < 1 ||
        (uint64_t)limits->gpus_max * limits->gpu_inflight_max >= UINT32_C(1) << BATCH_INDEX_BITS)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "a limit on models, GPUs, tasks or batches is out of range");
    if (!options->sink)
        return err_set(err, STATUS_INVALID_ARGUMENT, "nobody takes the grants");
    return STATUS_OK;
}

status_t shards_find_policy(const char *name, const char *params, const policy_ops_t **ops, double *values,
                            err_t *err)
{
    *ops = name ? policy_find(name) : policy_at(0);
    if (!*ops)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is no policy '%s'", name);
    if ((*ops)->routes || (*ops)->stops_all)
        return err_set(err, STATUS_UNSUPPORTED,
                       "policy %s needs one thread that sees queues and GPUs at once", name);
    return policy_parse(*ops, params, values, err);
}

static status_t no_memory(err_t *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for the scheduling core's shards");
}

/* ---- A shard ---- */

static status_t create_worker(shards_t *shards, uint32_t index, err_t *err)
{
    const shards_options_t *options = &shards->options;
    const sched_limits_t *limits = &options->limits;
    worker_t *worker = &shards->workers[index];
    uint32_t batches = limits->gpus_max * limits->gpu_inflight_max;
    uint32_t orders = 4 * (batches + limits->models_max); /* see may_grant */
    task_slot_t *slots = calloc(limits->tasks_max, sizeof *slots);
    worker->shards = shards;
    worker->index = index;
    worker->dirty = TASK_NONE;
    worker->pool.slots = slots;
    worker->models = calloc(limits->models_max, sizeof *worker->models);
    worker->seen = calloc(limits->models_max, sizeof *worker->seen);
    worker->counts = calloc(limits->models_max, sizeof *worker->counts);
    worker->batches = calloc(batches, sizeof *worker->batches);
    worker->granted = calloc(limits->batch_max, sizeof *worker->granted);
    worker->places = calloc((size_t)options->tags_max + 1, sizeof *worker->places);
    worker->expiry_nodes = calloc(limits->models_max, sizeof *worker->expiry_nodes);
    if (!slots || !worker->models || !worker->seen || !worker->counts || !worker->batches ||
        !worker->granted || !worker->expiry_nodes || !worker->places)
        return no_memory(err);
    task_pool_init(&worker->pool, slots, limits->tasks_max);
    for (uint32_t m = 0; m < limits->models_max; m++) {
        shard_init(&worker->models[m], &worker->pool, m);
        shard_place(&worker->models[m], &shards->profiles[m], &shards->guarded[m], &shards->scatter[m]);
        shard_set_delays(&worker->models[m], &options->delays);
    }
    status_t status = heap_init(&worker->expiry, limits->models_max, err);
    if (status == STATUS_OK)
        status = mpsc_init(&worker->inbox, sizeof(inbox_t),
                           options->inbox_len ? options->inbox_len : INBOX_DEFAULT, err);
    if (status == STATUS_OK)
        status = spsc_init(&worker->orders, sizeof(order_t), orders, err);
    if (status == STATUS_OK)
        status = spsc_init(&worker->answers, sizeof(answer_t), orders + 3 * batches, err);
    return status;
}

static void dispose_worker(worker_t *worker)
{
    for (parcel_t *parcel = parcel_take_all(&worker->parcels), *next; parcel; parcel = next) {
        next = parcel->next;
        if (!parcel->with_model)
            free(parcel);
    }
    gate_dispose(&worker->gate);
    free(worker->places);
    spsc_dispose(&worker->answers);
    spsc_dispose(&worker->orders);
    mpsc_dispose(&worker->inbox);
    heap_dispose(&worker->expiry);
    free(worker->expiry_nodes);
    free(worker->granted);
    free(worker->batches);
    free(worker->counts);
    free(worker->seen);
    free(worker->models);
    free(worker->pool.slots);
}

/* ---- The matcher ---- */

static status_t create_binder(shards_t *shards, err_t *err)
{
    const sched_limits_t *limits = &shards->options.limits;
    binder_t *binder = &shards->binder;
    uint32_t batches = limits->gpus_max * limits->gpu_inflight_max;
    batch_slot_t *slots = calloc(batches, sizeof *slots);
    uint32_t *first = calloc(limits->gpus_max, sizeof *first),
             *count = calloc(limits->gpus_max, sizeof *count);
    binder->shards = shards;
    binder->stage = calloc(batches, sizeof *binder->stage);
    binder->batches = (batch_table_t){.slots = slots, .gpu_first = first, .gpu_count = count};
    binder->gpus = calloc(limits->gpus_max, sizeof *binder->gpus);
    binder->issued = calloc(limits->models_max, sizeof *binder->issued);
    binder->current = calloc(limits->models_max, sizeof *binder->current);
    binder->route = calloc(limits->models_max, sizeof *binder->route);
    if (!slots || !first || !count || !binder->gpus || !binder->issued || !binder->current ||
        !binder->route || !binder->stage)
        return no_memory(err);
    batch_table_init(&binder->batches, slots, batches, first, count, limits->gpus_max);
    status_t status = matcher_init(&binder->matcher, limits->models_max, limits->gpus_max, err);
    if (status == STATUS_OK)
        status = mpsc_init(&binder->control, sizeof(control_t), CONTROL_LEN, err);
    return status;
}

static void dispose_binder(binder_t *binder)
{
    gate_dispose(&binder->gate);
    free(binder->stage);
    mpsc_dispose(&binder->control);
    matcher_dispose(&binder->matcher);
    free(binder->route);
    free(binder->current);
    free(binder->issued);
    free(binder->gpus);
    free(binder->batches.gpu_count);
    free(binder->batches.gpu_first);
    free(binder->batches.slots);
}

/* ---- The planner ---- */

static status_t create_planner(shards_t *shards, const policy_ops_t *ops, const double *values, err_t *err)
{
    const sched_limits_t *limits = &shards->options.limits;
    planner_t *planner = &shards->planner;
    planner->shards = shards;
    planner->view = calloc(limits->models_max, sizeof *planner->view);
    planner->submitted_seen = calloc(limits->models_max, sizeof *planner->submitted_seen);
    planner->policy = (policy_t){.shards = planner->view,
                                 .models_max = limits->models_max,
                                 .shards_max = limits->models_max,
                                 .gpus_max = limits->gpus_max,
                                 .state = calloc(1, policy_state_bytes()),
                                 .model_state = calloc(limits->models_max, policy_model_bytes() + 1),
                                 .gpu_state = calloc(limits->gpus_max, policy_gpu_bytes() + 1)};
    if (!planner->view || !planner->submitted_seen || !planner->policy.state ||
        !planner->policy.model_state || !planner->policy.gpu_state)
        return no_memory(err);
    for (uint32_t m = 0; m < limits->models_max; m++) {
        shard_init(&planner->view[m], NULL, m);
        shard_place(&planner->view[m], &shards->profiles[m], NULL, NULL);
        shard_set_delays(&planner->view[m], &shards->options.delays);
    }
    policy_start(&planner->policy, ops, values);
    atomic_init(&planner->needed, NEEDED_WHOLE);
    return STATUS_OK;
}

/* ---- All ---- */

static status_t create_shared(shards_t *shards, err_t *err)
{
    uint32_t models = shards->options.limits.models_max;
    shards->fresh_words = (models + 63) / 64;
    shards->profiles = calloc(models, sizeof *shards->profiles);
    shards->guarded = calloc(models, sizeof *shards->guarded);
    shards->scatter = calloc(models, sizeof *shards->scatter);
    shards->workers = aligned_alloc(RING_CACHE_LINE, shards->options.shard_count * sizeof *shards->workers);
    shards->slots = aligned_alloc(RING_CACHE_LINE, models * sizeof *shards->slots);
    shards->fresh = calloc(shards->fresh_words, sizeof *shards->fresh);
    shards->owner = calloc(models, sizeof *shards->owner);
    shards->handover = calloc(models, sizeof *shards->handover);
    if (shards->workers)
        memset(shards->workers, 0, shards->options.shard_count * sizeof *shards->workers);
    for (uint32_t k = 0; shards->workers && k < shards->options.shard_count; k++)
        gate_init(&shards->workers[k].gate);
    if (!shards->profiles || !shards->guarded || !shards->scatter || !shards->workers || !shards->slots ||
        !shards->fresh || !shards->owner || !shards->handover)
        return no_memory(err);
    for (uint32_t m = 0; m < models; m++) {
        slot_init(&shards->slots[m]);
        atomic_init(&shards->owner[m], OWNER_NONE);
        shards->handover[m] = (parcel_t){.model = m, .with_model = true};
    }
    return STATUS_OK;
}

status_t shards_create(const shards_options_t *options, shards_t **out, err_t *err)
{
    double values[POLICY_PARAMS_MAX] = {0};
    const policy_ops_t *ops;
    shards_options_t checked = *options;
    if (checked.limits.gpu_inflight_max == 0)
        checked.limits.gpu_inflight_max = GPU_INFLIGHT_DEFAULT;
    status_t status = check(&checked, err);
    if (status == STATUS_OK)
        status = shards_find_policy(checked.policy, checked.params, &ops, values, err);
    if (status != STATUS_OK)
        return status;
    shards_t *shards = aligned_alloc(RING_CACHE_LINE, sizeof *shards);
    if (!shards)
        return no_memory(err);
    memset(shards, 0, sizeof *shards);
    (void)sem_init(&shards->door, 0, 1);
    gate_init(&shards->binder.gate);
    gate_init(&shards->planner.gate);
    pthread_mutex_init(&shards->delays.lock, NULL);
    shards->options = checked;
    shards->delays.now = checked.delays;
    shards->options.policy = shards->options.params = NULL; /* the caller's, and read */
    status = create_shared(shards, err);
    if (status == STATUS_OK)
        status = create_planner(shards, ops, values, err);
    if (status == STATUS_OK)
        status = create_binder(shards, err);
    for (uint32_t k = 0; k < checked.shard_count && status == STATUS_OK; k++)
        status = create_worker(shards, k, err);
    if (status == STATUS_OK)
        *out = shards;
    else
        shards_destroy(shards);
    return status;
}

void shards_destroy(shards_t *shards)
{
    if (!shards)
        return;
    shards_stop(shards);
    for (uint32_t k = 0; shards->workers && k < shards->options.shard_count; k++)
        dispose_worker(&shards->workers[k]);
    dispose_binder(&shards->binder);
    gate_dispose(&shards->planner.gate);
    pthread_mutex_destroy(&shards->delays.lock);
    (void)sem_destroy(&shards->door);
    free(shards->planner.policy.gpu_state);
    free(shards->planner.policy.model_state);
    free(shards->planner.policy.state);
    free(shards->planner.submitted_seen);
    free(shards->planner.view);
    free(shards->handover);
    free((void *)shards->owner);
    free((void *)shards->fresh);
    free(shards->slots);
    free(shards->workers);
    free(shards->scatter);
    free(shards->guarded);
    free(shards->profiles);
    free(shards);
}
