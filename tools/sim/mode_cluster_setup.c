/*
 * Setting a cluster up: an exec object for each model on each device, and the scheduling core with profiles
 * of what these do.
 */
#include "exec/overlap_share.h"
#include "exec/whole.h"
#include "mode_cluster.h"

#include <math.h>
#include <stdlib.h>

static staged_config_t staged_config(cluster_model_t *model)
{
    const mode_scenario_t *scenario = model->cluster->scenario;
    return (staged_config_t){.stages = scenario->stages,
                             .new_pairs = scenario->new_pairs,
                             .width = scenario->width,
                             .rows_max = scenario->rows_max,
                             .queries_max = model->cluster->options->queries,
                             .window_ns = (int64_t)(scenario->window_us * 1e3),
                             .eager = true,
                             .comp_wait_ns = (int64_t)(scenario->comp_wait_us * 1e3),
                             .split_slack = scenario->slack,
                             .cost = cluster_stage_cost,
                             .cost_ctx = model};
}

static exec_t *make_exec(cluster_t *cluster, cluster_model_t *model)
{
    const mode_scenario_t *scenario = cluster->scenario;
    if (!cluster->staged) {
        whole_config_t whole = {
            .gather = true, .rows_max = scenario->rows_max, .queries_max = cluster->options->queries};
        return exec_create_whole(&whole, cluster->err);
    }
    staged_config_t config = staged_config(model);
    config.schedule = staged_schedule_find(scenario->schedule);
    if (!config.schedule)
        config.schedule = &staged_schedule_load;
    if (cluster->scheduled) {
        config.schedule = &cluster_granted;
        config.new_pairs = config.width = cluster->options->slots;
    }
    config.pairs = config.new_pairs < STAGED_PAIRS_MAX ? config.new_pairs + 1 : STAGED_PAIRS_MAX;
    return exec_create_staged(&config, cluster->err);
}

/* One batch alone, through the exec object that will run it: splitting makes it faster than its operators
 * one by one. */
typedef struct {
    cluster_t *cluster;
    cluster_gpu_t gpu;
    uint32_t left;
} alone_t;

static void on_alone(void *ctx, const exec_action_t *action)
{
    alone_t *alone = ctx;
    if (action->kind == EXEC_LAUNCH)
        cluster_launch_for_exec(alone->cluster, &alone->gpu, action);
    if (action->kind == EXEC_COMPLETE)
        alone->left -= action->done.count;
}

static status_t run_alone(cluster_t *cluster, exec_t *exec, uint32_t model, uint32_t rows, int64_t *ns)
{
    alone_t alone = {.cluster = cluster, .left = rows};
    exec_query_t query = {.model = model,
                          .rows = 1,
                          .length = cluster_longest(cluster->models[model].model),
                          .deadline_ns = EXEC_NEVER};
    alone.gpu.device = accel_create(cluster->streams * MODE_MODELS_MAX, 8 * MODE_OPS_MAX, cluster->err);
    status_t status = alone.gpu.device ? STATUS_OK : cluster->err->code;
    for (uint32_t i = 0; status == STATUS_OK && i < rows; i++)
        status = exec_submit(exec, *ns, &query, 1, 0, cluster->err);
    int64_t begun_ns = *ns;
    while (status == STATUS_OK && alone.left) {
        uint64_t tag;
        exec_run(exec, *ns, on_alone, &alone);
        if (alone.left == 0)
            break;
        *ns = begun_ns + accel_next_ns(alone.gpu.device);
        accel_advance(alone.gpu.device, *ns - begun_ns);
        while (accel_take_ended(alone.gpu.device, &tag))
            exec_finished(exec, *ns, tag >> CLUSTER_TAG_MODEL_BITS);
        status = cluster->status;
    }
    accel_destroy(alone.gpu.device);
    return status;
}

static status_t measure(cluster_t *cluster, uint32_t index, uint32_t most, profile_point_t *points)
{
    exec_t *exec = make_exec(cluster, &cluster->models[index]);
    int64_t ns = 0;
    status_t status = exec ? STATUS_OK : cluster->err->code;
    for (uint32_t b = 1; status == STATUS_OK && b <= most; b++) {
        int64_t begun_ns = ns;
        status = run_alone(cluster, exec, index, b, &ns);
        points[b - 1] = (profile_point_t){.batch = b, .latency_ns = ns - begun_ns};
    }
    exec_destroy(exec);
    return status;
}

static staged_cost_t whole_cost(const cluster_model_t *model, uint32_t rows)
{
    return mode_cost(model->model, 0, model->model->op_count, rows, cluster_longest(model->model));
}

/* As a worker does it. */
static void tell_stages(cluster_model_t *model, sched_inside_t *inside)
{
    uint32_t until[STAGED_STAGES_MAX];
    staged_config_t config = staged_config(model);
    inside->stages = staged_joinable(&config, cluster_longest(model->model), SCHED_WHOLE, until);
    inside->comp_wait_ns = config.comp_wait_ns;
    for (uint32_t s = 0; s < inside->stages; s++)
        inside->until[s] = (uint16_t)until[s];
    model->splits = inside->stages == 0;
}

/* What an exact duration model says: batches side by side with nothing between them but the device. */
static void play_group(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns)
{
    cluster_t *cluster = ctx;
    for (uint32_t i = 0; i < count; i++) {
        accel_t *device = accel_create(groups[i].count, EXEC_PARTS_MAX * MODE_OPS_MAX, cluster->err);
        ns[i] = 0;
        if (!device) {
            cluster_fail(cluster, cluster->err->code);
            continue;
        }
        for (uint32_t p = 0; p < groups[i].count; p++)
            cluster_launch(cluster, device, p, p, &groups[i].parts[p]);
        for (int64_t next = accel_next_ns(device); next != ACCEL_NEVER; next = accel_next_ns(device)) {
            uint64_t tag;
            accel_advance(device, next);
            while (accel_take_ended(device, &tag))
                ns[i] = next;
        }
        accel_destroy(device);
    }
}

/* As a worker does it. */
static void tell_busy(cluster_model_t *model, sched_inside_t *inside)
{
    cluster_t *cluster = model->cluster;
    uint32_t lengths[OVERLAP_MODELS_MAX], index = (uint32_t)(model - cluster->models);
    overlap_config_t config = {
        .models = cluster->scenario->model_count, .predict = play_group, .predict_ctx = cluster};
    for (uint32_t m = 0; m < config.models; m++) {
        config.ops[m] = cluster->scenario->models[m].op_count;
        lengths[m] = cluster_longest(&cluster->scenario->models[m]);
    }
    overlap_busy_t busy = overlap_busy(&config, index, cluster->scenario->rows_max, lengths, SCHED_WHOLE);
    inside->busy_fixed = busy.fixed;
    inside->busy_row = busy.row;
}

/* What the scheduler is told: latency alone on the device, where the stages end in it, and how much of it is used. */
static status_t profile_model(cluster_t *cluster, cluster_model_t *model, sched_inside_t *inside)
{
    const mode_scenario_t *scenario = cluster->scenario;
    uint32_t most = scenario->rows_max;
    double row = 0;
    profile_point_t points[EXEC_ROWS_MAX];
    staged_cost_t one = whole_cost(model, 1);
    double fixed = (double)one.busy_ns / (double)one.ns;
    for (uint32_t b = 1; b <= most; b++) {
        staged_cost_t cost = whole_cost(model, b);
        points[b - 1].batch = b;
        points[b - 1].latency_ns = cost.ns + (int64_t)(scenario->launch_us * 1e3);
        row = fmax(row, ((double)cost.busy_ns / (double)cost.ns - fixed) / b);
    }
    *inside = (sched_inside_t){.busy_fixed = (uint32_t)ceil(fixed * SCHED_WHOLE),
                               .busy_row = (uint32_t)ceil(row * SCHED_WHOLE)};
    if (cluster->staged)
        tell_stages(model, inside);
    if (cluster->overlap)
        tell_busy(model, inside);
    status_t status =
        cluster->staged ? measure(cluster, (uint32_t)(model - cluster->models), most, points) : STATUS_OK;
    return status == STATUS_OK ? profile_from_points(&model->profile, points, most, most, cluster->err)
                               : status;
}

static status_t add_model(cluster_t *cluster, uint32_t index)
{
    cluster_model_t *model = &cluster->models[index];
    sched_inside_t inside;
    sched_model_opts_t opts = {.slo_ns = (int64_t)(cluster->scenario->slo_ms * 1e6)};
    status_t status = profile_model(cluster, model, &inside);
    if (status == STATUS_OK)
        status = sched_add_model(cluster->sched, 0, index, &model->profile, &opts, cluster->err);
    return status == STATUS_OK ? sched_set_inside(cluster->sched, 0, index, &inside, cluster->err) : status;
}

static status_t make_scheduler(cluster_t *cluster)
{
    const mode_options_t *options = cluster->options;
    sched_limits_t limits = {.models_max = cluster->scenario->model_count,
                             .gpus_max = options->gpus,
                             .tasks_max = options->queries,
                             .batch_max = cluster->scenario->rows_max,
                             .gpu_inflight_max = CLUSTER_INFLIGHT};
    sched_gpu_mode_t mode = {.stretches = cluster->staged, .slots = options->slots};
    if (cluster->staged && options->slots == 1)
        mode.inflight = CLUSTER_STAGED_INFLIGHT;
    cluster->sched = sched_create(&limits, cluster->err);
    if (!cluster->sched)
        return cluster->err->code;
    status_t status = sched_set_policy(cluster->sched, 0, options->policy, options->params, cluster->err);
    for (uint32_t m = 0; status == STATUS_OK && m < cluster->scenario->model_count; m++)
        status = add_model(cluster, m);
    for (uint32_t g = 0; status == STATUS_OK && g < options->gpus; g++) {
        status = sched_add_gpu(cluster->sched, 0, g, 0);
        if (status == STATUS_OK)
            status = sched_set_gpu_mode(cluster->sched, 0, g, &mode);
    }
    return status;
}

static status_t make_gpu(cluster_t *cluster, cluster_gpu_t *gpu)
{
    uint32_t models = cluster->scenario->model_count;
    *gpu = (cluster_gpu_t){.device = accel_create(cluster->streams * models, 8 * MODE_OPS_MAX, cluster->err)};
    for (uint32_t s = 0; s < CLUSTER_SLOTS_MAX; s++)
        gpu->running[s] = CLUSTER_NOBODY;
    for (uint32_t i = 0; i < CLUSTER_INFLIGHT; i++)
        gpu->granted[i] = CLUSTER_NOBODY;
    for (uint32_t m = 0; m < MODE_MODELS_MAX; m++)
        gpu->wake_ns[m] = EXEC_NEVER;
    bool by_exec = cluster->staged || !cluster->scheduled;
    for (uint32_t m = 0; gpu->device && by_exec && m < models; m++) {
        gpu->exec[m] = make_exec(cluster, &cluster->models[m]);
        if (!gpu->exec[m])
            return cluster->err->code;
    }
    return gpu->device ? STATUS_OK : cluster->err->code;
}

status_t cluster_init(cluster_t *cluster)
{
    const mode_options_t *options = cluster->options;
    const mode_scenario_t *scenario = cluster->scenario;
    uint32_t width = cluster->scheduled ? options->slots : scenario->width;
    cluster->streams = cluster->staged ? scenario->stages * width : options->slots;
    cluster->sched_wake_ns = EXEC_NEVER;
    cluster->gpus = calloc(options->gpus, sizeof(*cluster->gpus));
    cluster->requests = calloc(options->queries, sizeof(*cluster->requests));
    if (!cluster->gpus || !cluster->requests)
        return err_set(cluster->err, STATUS_NO_MEMORY, "no memory for %u devices", options->gpus);
    for (uint32_t m = 0; m < scenario->model_count; m++)
        cluster->models[m] = (cluster_model_t){.cluster = cluster, .model = &scenario->models[m]};
    status_t status = mode_tally_init(&cluster->tally, options->queries, cluster->err);
    for (uint32_t g = 0; status == STATUS_OK && g < options->gpus; g++)
        status = make_gpu(cluster, &cluster->gpus[g]);
    return status == STATUS_OK && cluster->scheduled ? make_scheduler(cluster) : status;
}

void cluster_dispose(cluster_t *cluster)
{
    sched_destroy(cluster->sched);
    for (uint32_t g = 0; cluster->gpus && g < cluster->options->gpus; g++) {
        accel_destroy(cluster->gpus[g].device);
        for (uint32_t m = 0; m < MODE_MODELS_MAX; m++)
            exec_destroy(cluster->gpus[g].exec[m]);
    }
    mode_tally_dispose(&cluster->tally);
    free(cluster->gpus);
    free(cluster->requests);
}
