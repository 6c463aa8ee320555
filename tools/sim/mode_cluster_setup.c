/*
 * Setting a cluster up: an exec object for each model on each device, and the scheduling core with profiles
 * of what these do.
 */
#include "accel/device.h"
#include "exec/overlap_share.h"
#include "exec/whole.h"
#include "mode_cluster.h"
#include "mode_train.h"

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
    driver_t driver;
    exec_query_t row;
    uint32_t sent, answered, rows; /* the last: that are to be sent */
} alone_t;

static int64_t alone_next_ns(const void *ctx)
{
    const alone_t *alone = ctx;
    return alone->sent < alone->rows ? alone->driver.now_ns : EXEC_NEVER;
}

static status_t alone_come(void *ctx, int64_t now_ns, err_t *err)
{
    alone_t *alone = ctx;
    alone->sent++;
    return exec_submit(alone->driver.exec, now_ns, &alone->row, 1, 0, err);
}

static void alone_act(void *ctx, const exec_action_t *action)
{
    alone_t *alone = ctx;
    if (action->kind == EXEC_COMPLETE)
        alone->answered += action->done.count;
}

/* Batch by batch, each when the one before has ended. */
static status_t play_alone(alone_t *alone, uint32_t most, profile_point_t *points)
{
    driver_t *driver = &alone->driver;
    for (uint32_t b = 1; driver->status == STATUS_OK && b <= most; b++) {
        int64_t begun_ns = driver->now_ns;
        alone->rows += b;
        while (driver->status == STATUS_OK && alone->answered < alone->rows)
            (void)driver_step(driver, EXEC_NEVER);
        points[b - 1] = (profile_point_t){.batch = b, .latency_ns = driver->now_ns - begun_ns};
    }
    return driver->status;
}

static status_t measure(cluster_t *cluster, uint32_t index, uint32_t most, profile_point_t *points)
{
    static const driver_user_ops_t user = {alone_next_ns, alone_come, alone_act};
    const accel_device_config_t config = {.streams = cluster->streams,
                                          .ops_max = MODE_OPS_MAX + 1,
                                          .operators = cluster_operators,
                                          .ctx = cluster};
    alone_t alone = {.row = {.model = index,
                             .rows = 1,
                             .length = cluster_longest(cluster->models[index].model),
                             .deadline_ns = EXEC_NEVER}};
    exec_t *exec = make_exec(cluster, &cluster->models[index]);
    accel_device_t *device = exec ? accel_device_create(&config, cluster->err) : NULL;
    alone.driver = (driver_t){.exec = exec,
                              .on = &accel_device_ops,
                              .device = device,
                              .user = &user,
                              .ctx = &alone,
                              .wake_ns = EXEC_NEVER,
                              .err = cluster->err};
    status_t status = device ? play_alone(&alone, most, points) : cluster->err->code;
    accel_device_destroy(device);
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
    for (uint32_t i = 0; i < count; i++)
        cluster_fail(cluster, mode_measure_group(cluster->scenario, &groups[i], &ns[i], cluster->err));
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
    *gpu = (cluster_gpu_t){.cluster = cluster,
                           .device = accel_create(cluster->streams * models, 8 * MODE_OPS_MAX, cluster->err)};
    for (uint32_t s = 0; s < CLUSTER_SLOTS_MAX; s++)
        gpu->running[s] = CLUSTER_NOBODY;
    for (uint32_t i = 0; i < CLUSTER_INFLIGHT; i++)
        gpu->granted[i] = CLUSTER_NOBODY;
    cluster_drive(gpu);
    bool by_exec = cluster->staged || !cluster->scheduled;
    for (uint32_t m = 0; gpu->device && by_exec && m < models; m++) {
        gpu->drivers[m].exec = make_exec(cluster, &cluster->models[m]);
        if (!gpu->drivers[m].exec)
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
            exec_destroy(cluster->gpus[g].drivers[m].exec);
    }
    mode_tally_dispose(&cluster->tally);
    free(cluster->gpus);
    free(cluster->requests);
}
