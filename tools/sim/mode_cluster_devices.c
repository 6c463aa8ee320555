/*
 * The devices of a cluster: what is launched on them, by an exec object or as one batch, and who is answered
 * when it ends.
 */
#include "mode_cluster.h"

staged_cost_t cluster_stage_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const mode_model_t *model = ((const cluster_model_t *)ctx)->model;
    return mode_cost(model, stage ? model->stage_end[stage - 1] : 0, model->stage_end[stage], rows, length);
}

uint32_t cluster_longest(const mode_model_t *model)
{
    uint32_t length = 1;
    for (uint32_t i = 0; i < model->length_count; i++)
        length = model->lengths[i] > length ? model->lengths[i] : length;
    return length;
}

/* What the scheduler orders, as a Schedule() table: each grant a batch, and rows join when they are to. */

static const cluster_request_t *request_of(const staged_view_t *view, uint32_t waiting)
{
    const cluster_model_t *model = view->config->cost_ctx;
    return &model->cluster->requests[view->waiting[waiting]->tag];
}

/* With it what was granted to join it. */
static uint32_t enter_granted(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    const cluster_model_t *model = view->config->cost_ctx;
    uint32_t first = request_of(view, 0)->first;
    uint64_t batch = model->cluster->requests[first].batch_id;
    (void)wake_ns;
    for (uint32_t i = 0; i < view->waiting_count; i++) {
        const cluster_request_t *request = request_of(view, i);
        group[i] = request->first == first || (request->joins && request->joins == batch) ? 0 : STAGED_LATER;
    }
    return 1;
}

/* The batch of the exec object that it was granted to join; 0: none (any more). */
static uint64_t wanted_by(const cluster_t *cluster, const cluster_request_t *request)
{
    const cluster_gpu_t *gpu = &cluster->gpus[request->gpu];
    for (uint32_t i = 0; request->joins && i < CLUSTER_INFLIGHT; i++) {
        const cluster_request_t *first =
            gpu->granted[i] == CLUSTER_NOBODY ? NULL : &cluster->requests[gpu->granted[i]];
        if (first && first->left && first->batch_id == request->joins)
            return first->entered;
    }
    return 0;
}

static uint32_t stretch_granted(const staged_view_t *view)
{
    const cluster_model_t *model = view->config->cost_ctx;
    uint32_t count = 0;
    while (count < view->waiting_count && wanted_by(model->cluster, request_of(view, count)) == view->batch)
        count++;
    return count;
}

static uint32_t split_where_cheaper(const staged_view_t *view)
{
    const cluster_model_t *model = view->config->cost_ctx;
    return model->splits ? staged_schedule_operator.split(view) : 0;
}

/* With slots the scheduler has decided what runs side by side. */
static bool start_granted(const staged_view_t *view)
{
    const cluster_model_t *model = view->config->cost_ctx;
    return model->cluster->options->slots > 1 || staged_schedule_load.start(view);
}

const staged_schedule_t cluster_granted = {.name = "granted",
                                           .enter = enter_granted,
                                           .stretch = stretch_granted,
                                           .split = split_where_cheaper,
                                           .start = start_granted};

void cluster_fail(cluster_t *cluster, status_t status)
{
    if (cluster->status == STATUS_OK)
        cluster->status = status;
}

uint32_t cluster_operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    const cluster_t *cluster = ctx;
    exec_part_t of = *part;
    if (cluster->staged)
        of = mode_part_of_stages(cluster->models[part->model].model, of);
    return mode_operators(cluster->scenario, &of, ops);
}

void cluster_launch(cluster_t *cluster, accel_t *device, uint32_t stream, uint64_t tag,
                    const exec_part_t *part)
{
    accel_op_t ops[MODE_OPS_MAX + 1];
    uint32_t count = cluster_operators(cluster, part, ops);
    cluster_fail(cluster, accel_launch(device, stream, tag, ops, count, cluster->err));
}

static void answer(cluster_t *cluster, uint32_t index)
{
    cluster_request_t *request = &cluster->requests[index], *first = &cluster->requests[request->first];
    mode_tally_answer(&cluster->tally, (double)cluster->now_ns / 1e9,
                      (double)(cluster->now_ns - request->arrival_ns) / 1e6, cluster->scenario->slo_ms);
    cluster->answered++;
    cluster->gpus[request->gpu].unanswered--;
    if (cluster->scheduled && --first->left == 0)
        sched_batch_done(cluster->sched, cluster->now_ns, first->batch_id, cluster->now_ns);
}

static status_t launch_for_exec(void *device, const exec_action_t *action, err_t *err)
{
    cluster_gpu_t *gpu = device;
    cluster_t *cluster = gpu->cluster;
    exec_part_t part = action->launch.parts[0];
    (void)err;
    for (uint32_t i = 0; cluster->staged && part.from == 0 && i < action->launch.query_count; i++)
        cluster->requests[cluster->requests[action->launch.queries[i].tag].first].entered = action->batch;
    if (!cluster->staged)
        part.to = cluster->models[part.model].model->op_count;
    cluster_launch(cluster, gpu->device, part.model * cluster->streams + part.stream,
                   action->launch.launch << CLUSTER_TAG_MODEL_BITS | part.model, &part);
    return cluster->status;
}

static void on_exec(void *ctx, const exec_action_t *action)
{
    for (uint32_t i = 0; action->kind == EXEC_COMPLETE && i < action->done.count; i++)
        answer(((cluster_gpu_t *)ctx)->cluster, (uint32_t)action->done.queries[i].tag);
}

void cluster_drive(cluster_gpu_t *gpu)
{
    static const driver_device_ops_t device = {.launch = launch_for_exec};
    static const driver_user_ops_t user = {.act = on_exec};
    for (uint32_t m = 0; m < MODE_MODELS_MAX; m++)
        gpu->drivers[m] =
            (driver_t){.on = &device, .device = gpu, .user = &user, .ctx = gpu, .wake_ns = EXEC_NEVER};
}

void cluster_give_to_exec(cluster_t *cluster, cluster_gpu_t *gpu, uint32_t index)
{
    const cluster_request_t *request = &cluster->requests[index];
    const mode_model_t *model = cluster->models[request->model].model;
    exec_query_t query = {.tag = index,
                          .model = request->model,
                          .rows = 1,
                          .length = cluster->scheduled ? cluster_longest(model)
                                                       : mode_draw_length(model, &cluster->prng),
                          .arrival_ns = request->arrival_ns,
                          .deadline_ns = EXEC_NEVER};
    cluster_fail(cluster,
                 exec_submit(gpu->drivers[request->model].exec, cluster->now_ns, &query, 1, 0, cluster->err));
}

void cluster_run_batch(cluster_t *cluster, cluster_gpu_t *gpu, const cluster_request_t *first, uint32_t rows)
{
    uint32_t stream = 0;
    const mode_model_t *model = cluster->models[first->model].model;
    while (gpu->running[stream] != CLUSTER_NOBODY)
        stream++;
    gpu->running[stream] = first->first;
    exec_part_t part = {
        .model = first->model, .to = model->op_count, .rows = rows, .length = cluster_longest(model)};
    cluster_launch(cluster, gpu->device, stream, stream, &part);
}

static void end_batch(cluster_t *cluster, cluster_gpu_t *gpu, uint32_t stream)
{
    uint32_t next = gpu->running[stream];
    gpu->running[stream] = CLUSTER_NOBODY;
    while (next != CLUSTER_NOBODY) {
        uint32_t index = next;
        next = cluster->requests[index].next;
        answer(cluster, index);
    }
}

void cluster_take_ended(cluster_t *cluster, cluster_gpu_t *gpu)
{
    uint64_t tag;
    accel_advance(gpu->device, cluster->now_ns);
    while (accel_take_ended(gpu->device, &tag)) {
        driver_t *driver = &gpu->drivers[tag & ((1u << CLUSTER_TAG_MODEL_BITS) - 1)];
        const driver_end_t end = {tag >> CLUSTER_TAG_MODEL_BITS, DRIVER_FINISHED};
        driver->now_ns = cluster->now_ns;
        if (driver->exec)
            driver_end(driver, &end);
        else
            end_batch(cluster, gpu, (uint32_t)tag);
    }
}

void cluster_run_execs(cluster_t *cluster, cluster_gpu_t *gpu)
{
    for (uint32_t m = 0; m < cluster->scenario->model_count && gpu->drivers[m].exec; m++) {
        gpu->drivers[m].now_ns = cluster->now_ns;
        cluster_fail(cluster, driver_run(&gpu->drivers[m]));
    }
}
