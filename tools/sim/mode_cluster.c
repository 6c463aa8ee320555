/*
 * A cluster of emulated devices: the scheduling core of the service in front, an execution mode inside each device, and
 * Poisson streams of single rows.
 *
 *   requests ─▶ sched_t ─ grants, stretches ─▶ device g: whole and overlap launch a batch into a stream of its own;
 *           ◀─ done ────────────────────────            staged gives its rows to the model's exec object
 *
 * With policy `none` there is no scheduler: a request goes at once to the device with the fewest unanswered, whose mode makes
 * batches as it does alone. All models are on all devices, and are asked for equally often.
 */
#include "exec/whole.h"
#include "mode.h"
#include "sched/sched.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    INFLIGHT = 8, /* batches of a device, with what has joined them */
    CLUSTER_SLOTS_MAX = STAGED_WIDTH_MAX,
    TAG_MODEL_BITS = 4, /* of a launch of an exec object: its number, and the model */
};

#define NOBODY UINT32_MAX

typedef struct {
    uint32_t model, gpu;
    uint32_t first, next; /* request that stands for its batch; the one behind it there */
    bool joins;
    uint64_t batch_id; /* first only */
    uint32_t left;     /* first only: rows that run */
    int64_t arrival_ns;
} request_t;

typedef struct {
    accel_t *device;
    exec_t *exec[MODE_MODELS_MAX];
    uint32_t running
        [CLUSTER_SLOTS_MAX]; /* whole, overlap: the first request of the batch in each stream, or NOBODY */
    uint32_t unanswered;
    int64_t wake_ns[MODE_MODELS_MAX];
} gpu_t;

typedef struct world world_t;

/* What an exec object's schedule is told through its cost_ctx. */
typedef struct {
    world_t *world;
    const mode_model_t *model;
    uint32_t index;
    profile_t profile;
} model_t;

struct world {
    const mode_options_t *options;
    const mode_scenario_t *scenario;
    bool staged, scheduled;
    uint32_t streams; /* of one model */
    sched_t *sched;
    gpu_t *gpus;
    gpu_t *at; /* the device whose exec object is told to decide */
    model_t models[MODE_MODELS_MAX];
    request_t *requests;
    uint32_t sent, answered;
    double rate_rps, next_s;
    prng_t prng;
    mode_tally_t tally;
    int64_t now_ns, sched_wake_ns;
    status_t status;
    err_t *err;
};

static staged_cost_t stage_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const mode_model_t *model = ((const model_t *)ctx)->model;
    return mode_cost(model, stage ? model->stage_end[stage - 1] : 0, model->stage_end[stage], rows, length);
}

static uint32_t longest(const mode_model_t *model)
{
    uint32_t length = 1;
    for (uint32_t i = 0; i < model->length_count; i++)
        length = model->lengths[i] > length ? model->lengths[i] : length;
    return length;
}

/* What the scheduler orders, as a Schedule() table: each grant a batch, and rows join when they are to. */

static const request_t *request_of(const staged_view_t *view, uint32_t waiting)
{
    const model_t *model = view->config->cost_ctx;
    return &model->world->requests[view->waiting[waiting]->tag];
}

static uint32_t enter_granted(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    (void)wake_ns;
    for (uint32_t i = 0; i < view->waiting_count; i++)
        group[i] = request_of(view, i)->first == request_of(view, 0)->first ? 0 : STAGED_LATER;
    return 1;
}

static uint32_t stretch_granted(const staged_view_t *view)
{
    uint32_t count = 0;
    while (count < view->waiting_count && request_of(view, count)->joins)
        count++;
    return count;
}

static uint32_t split_as_planned(const staged_view_t *view)
{
    return staged_schedule_operator.split(view);
}

static const staged_schedule_t granted = {
    .name = "granted", .enter = enter_granted, .stretch = stretch_granted};
static const staged_schedule_t granted_split = {.name = "granted, operator",
                                                .enter = enter_granted,
                                                .stretch = stretch_granted,
                                                .split = split_as_planned};

/* Devices */

static void fail(world_t *world, status_t status)
{
    if (world->status == STATUS_OK)
        world->status = status;
}

static void launch(world_t *world, gpu_t *gpu, uint32_t stream, uint64_t tag, const exec_part_t *part)
{
    const mode_model_t *model = world->models[part->model].model;
    accel_op_t ops[MODE_OPS_MAX + 1];
    uint32_t count = 0;
    ops[count++] = (accel_op_t){.ns = (int64_t)(world->scenario->launch_us * 1e3)};
    for (uint32_t i = part->from; i < part->to; i++)
        ops[count++] = mode_op(&model->ops[i], part->rows, part->length);
    fail(world, accel_launch(gpu->device, stream, tag, ops, count, world->err));
}

static void answer(world_t *world, uint32_t index)
{
    request_t *request = &world->requests[index], *first = &world->requests[request->first];
    mode_tally_answer(&world->tally, (double)world->now_ns / 1e9,
                      (double)(world->now_ns - request->arrival_ns) / 1e6, world->scenario->slo_ms);
    world->answered++;
    world->gpus[request->gpu].unanswered--;
    if (world->scheduled && --first->left == 0)
        sched_batch_done(world->sched, world->now_ns, first->batch_id, world->now_ns);
}

static void launch_for_exec(world_t *world, gpu_t *gpu, const exec_action_t *action)
{
    exec_part_t part = action->launch.parts[0];
    const mode_model_t *model = world->models[part.model].model;
    uint32_t stage = part.from;
    part.from = world->staged && stage ? model->stage_end[stage - 1] : 0;
    part.to = world->staged ? model->stage_end[stage] : model->op_count;
    launch(world, gpu, part.model * world->streams + part.stream,
           action->launch.launch << TAG_MODEL_BITS | part.model, &part);
}

static void on_exec(void *ctx, const exec_action_t *action)
{
    world_t *world = ctx;
    if (action->kind == EXEC_LAUNCH)
        launch_for_exec(world, world->at, action);
    for (uint32_t i = 0; action->kind == EXEC_COMPLETE && i < action->done.count; i++)
        answer(world, (uint32_t)action->done.queries[i].tag);
}

static void give_to_exec(world_t *world, gpu_t *gpu, uint32_t index)
{
    const request_t *request = &world->requests[index];
    const mode_model_t *model = world->models[request->model].model;
    exec_query_t query = {.tag = index,
                          .model = request->model,
                          .rows = 1,
                          .length = world->scheduled ? longest(model) : mode_draw_length(model, &world->prng),
                          .arrival_ns = request->arrival_ns,
                          .deadline_ns = EXEC_NEVER};
    fail(world, exec_submit(gpu->exec[request->model], world->now_ns, &query, 1, 0, world->err));
}

static void run_batch(world_t *world, gpu_t *gpu, const request_t *first, uint32_t rows)
{
    uint32_t stream = 0;
    const mode_model_t *model = world->models[first->model].model;
    while (gpu->running[stream] != NOBODY)
        stream++;
    gpu->running[stream] = first->first;
    exec_part_t part = {.model = first->model, .to = model->op_count, .rows = rows, .length = longest(model)};
    launch(world, gpu, stream, stream, &part);
}

static void end_batch(world_t *world, gpu_t *gpu, uint32_t stream)
{
    uint32_t next = gpu->running[stream];
    gpu->running[stream] = NOBODY;
    while (next != NOBODY) {
        uint32_t index = next;
        next = world->requests[index].next;
        answer(world, index);
    }
}

static void take_ended(world_t *world, gpu_t *gpu)
{
    uint64_t tag;
    accel_advance(gpu->device, world->now_ns);
    while (accel_take_ended(gpu->device, &tag)) {
        exec_t *exec = gpu->exec[tag & ((1u << TAG_MODEL_BITS) - 1)];
        if (exec)
            exec_finished(exec, world->now_ns, tag >> TAG_MODEL_BITS);
        else
            end_batch(world, gpu, (uint32_t)tag);
    }
}

static void run_execs(world_t *world, gpu_t *gpu)
{
    world->at = gpu;
    for (uint32_t m = 0; m < world->scenario->model_count && gpu->exec[m]; m++)
        gpu->wake_ns[m] = exec_run(gpu->exec[m], world->now_ns, on_exec, world);
}

/* The scheduler */

static void on_grant(world_t *world, const sched_action_t *action)
{
    gpu_t *gpu = &world->gpus[action->grant.gpu];
    uint32_t first = (uint32_t)action->grant.tasks[0].tag;
    world->requests[first].batch_id = action->grant.batch_id;
    world->requests[first].left = action->grant.count;
    gpu->unanswered += action->grant.count;
    for (uint32_t i = 0; i < action->grant.count; i++) {
        uint32_t index = (uint32_t)action->grant.tasks[i].tag;
        request_t *request = &world->requests[index];
        request->first = first;
        request->next = i + 1 < action->grant.count ? (uint32_t)action->grant.tasks[i + 1].tag : NOBODY;
        request->joins = action->grant.stretches != 0;
        request->gpu = action->grant.gpu;
        if (world->staged)
            give_to_exec(world, gpu, index);
    }
    if (!world->staged)
        run_batch(world, gpu, &world->requests[first], action->grant.count);
}

static void on_action(void *ctx, const sched_action_t *action)
{
    world_t *world = ctx;
    if (action->kind == SCHED_GRANT) {
        on_grant(world, action);
        return;
    }
    mode_tally_drop(&world->tally, (double)world->now_ns / 1e9);
    world->answered++;
}

/* Requests */

static gpu_t *least_asked(world_t *world)
{
    gpu_t *gpu = world->gpus;
    for (uint32_t g = 1; g < world->options->gpus; g++)
        gpu = world->gpus[g].unanswered < gpu->unanswered ? &world->gpus[g] : gpu;
    return gpu;
}

static void arrive(world_t *world)
{
    uint32_t index = world->sent++;
    request_t *request = &world->requests[index];
    *request = (request_t){.first = index, .arrival_ns = world->now_ns};
    request->model = (uint32_t)prng_below(&world->prng, world->scenario->model_count);
    world->next_s += prng_exponential(&world->prng, 1 / world->rate_rps);
    if (world->scheduled) {
        sched_task_t task = {.tag = index, .arrival_ns = world->now_ns};
        task.deadline_ns = world->now_ns + (int64_t)(world->scenario->slo_ms * 1e6);
        fail(world, sched_submit(world->sched, world->now_ns, request->model, &task, NULL));
        return;
    }
    gpu_t *gpu = least_asked(world);
    request->gpu = (uint32_t)(gpu - world->gpus);
    gpu->unanswered++;
    give_to_exec(world, gpu, index);
}

static int64_t arrival_ns(const world_t *world)
{
    return world->sent < world->options->queries ? (int64_t)llround(world->next_s * 1e9) : EXEC_NEVER;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t next_ns(const world_t *world)
{
    int64_t next = least(arrival_ns(world), world->sched_wake_ns);
    for (uint32_t g = 0; g < world->options->gpus; g++) {
        next = least(next, accel_next_ns(world->gpus[g].device));
        for (uint32_t m = 0; m < world->scenario->model_count; m++)
            next = least(next, world->gpus[g].wake_ns[m]);
    }
    return next;
}

/* What ended, then what came, then what is decided: by the scheduler, and by the modes on what it granted. */
static status_t play(world_t *world)
{
    while (world->status == STATUS_OK && world->answered < world->options->queries) {
        world->now_ns = next_ns(world);
        if (world->now_ns == EXEC_NEVER)
            return err_set(world->err, STATUS_INTERNAL, "nothing moves with %u queries unanswered",
                           world->options->queries - world->answered);
        for (uint32_t g = 0; g < world->options->gpus; g++)
            take_ended(world, &world->gpus[g]);
        while (world->status == STATUS_OK && arrival_ns(world) <= world->now_ns)
            arrive(world);
        for (uint32_t g = 0; world->scheduled && g < world->options->gpus; g++)
            run_execs(world, &world->gpus[g]);
        if (world->scheduled)
            world->sched_wake_ns = sched_run(world->sched, world->now_ns, on_action, world);
        for (uint32_t g = 0; g < world->options->gpus; g++)
            run_execs(world, &world->gpus[g]);
    }
    return world->status;
}

/* Setting up */

static exec_t *make_exec(world_t *world, model_t *model)
{
    const mode_scenario_t *scenario = world->scenario;
    if (!world->staged) {
        whole_config_t whole = {
            .gather = true, .rows_max = scenario->rows_max, .queries_max = world->options->queries};
        return exec_create_whole(&whole, world->err);
    }
    staged_config_t config = {.stages = scenario->stages,
                              .new_pairs = scenario->new_pairs,
                              .width = scenario->width,
                              .rows_max = scenario->rows_max,
                              .queries_max = world->options->queries,
                              .window_ns = (int64_t)(scenario->window_us * 1e3),
                              .eager = true,
                              .comp_wait_ns = (int64_t)(scenario->comp_wait_us * 1e3),
                              .split_slack = scenario->slack,
                              .cost = stage_cost,
                              .cost_ctx = model,
                              .schedule = staged_schedule_find(scenario->schedule)};
    if (!config.schedule)
        config.schedule = &staged_schedule_load;
    if (world->scheduled) {
        config.schedule = config.schedule->split ? &granted_split : &granted;
        config.new_pairs = config.width = world->options->slots;
    }
    config.pairs = config.new_pairs < STAGED_PAIRS_MAX ? config.new_pairs + 1 : STAGED_PAIRS_MAX;
    return exec_create_staged(&config, world->err);
}

/* One batch alone, through the exec object that will run it: splitting makes it faster than its operators one by one. */
typedef struct {
    world_t *world;
    gpu_t gpu;
    uint32_t left;
} alone_t;

static void on_alone(void *ctx, const exec_action_t *action)
{
    alone_t *alone = ctx;
    if (action->kind == EXEC_LAUNCH)
        launch_for_exec(alone->world, &alone->gpu, action);
    if (action->kind == EXEC_COMPLETE)
        alone->left -= action->done.count;
}

static status_t run_alone(world_t *world, exec_t *exec, uint32_t model, uint32_t rows, int64_t *ns)
{
    alone_t alone = {.world = world, .left = rows};
    exec_query_t query = {
        .model = model, .rows = 1, .length = longest(world->models[model].model), .deadline_ns = EXEC_NEVER};
    alone.gpu.device = accel_create(world->streams * MODE_MODELS_MAX, 8 * MODE_OPS_MAX, world->err);
    status_t status = alone.gpu.device ? STATUS_OK : world->err->code;
    for (uint32_t i = 0; status == STATUS_OK && i < rows; i++)
        status = exec_submit(exec, *ns, &query, 1, 0, world->err);
    int64_t begun_ns = *ns;
    while (status == STATUS_OK && alone.left) {
        uint64_t tag;
        exec_run(exec, *ns, on_alone, &alone);
        if (alone.left == 0)
            break;
        *ns = begun_ns + accel_next_ns(alone.gpu.device);
        accel_advance(alone.gpu.device, *ns - begun_ns);
        while (accel_take_ended(alone.gpu.device, &tag))
            exec_finished(exec, *ns, tag >> TAG_MODEL_BITS);
        status = world->status;
    }
    accel_destroy(alone.gpu.device);
    return status;
}

static status_t measure(world_t *world, uint32_t index, uint32_t most, profile_point_t *points)
{
    exec_t *exec = make_exec(world, &world->models[index]);
    int64_t ns = 0;
    status_t status = exec ? STATUS_OK : world->err->code;
    for (uint32_t b = 1; status == STATUS_OK && b <= most; b++) {
        int64_t begun_ns = ns;
        status = run_alone(world, exec, index, b, &ns);
        points[b - 1] = (profile_point_t){.batch = b, .latency_ns = ns - begun_ns};
    }
    exec_destroy(exec);
    return status;
}

static staged_cost_t whole_cost(const model_t *model, uint32_t rows)
{
    return mode_cost(model->model, 0, model->model->op_count, rows, longest(model->model));
}

/* What the scheduler is told: latency alone on the device, where the stages end in it, and how much of it is used. */
static status_t profile_model(world_t *world, model_t *model, sched_inside_t *inside)
{
    const mode_scenario_t *scenario = world->scenario;
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
    *inside = (sched_inside_t){.stages = scenario->stages,
                               .comp_wait_ns = (int64_t)(scenario->comp_wait_us * 1e3),
                               .busy_fixed = (uint32_t)ceil(fixed * SCHED_WHOLE),
                               .busy_row = (uint32_t)ceil(row * SCHED_WHOLE)};
    double all = (double)whole_cost(model, most / 4 + 1).ns, until = 0;
    for (uint32_t s = 0; s < scenario->stages; s++) {
        until += (double)stage_cost(model, s, most / 4 + 1, longest(model->model)).ns;
        inside->until[s] = (uint16_t)lround(until / all * SCHED_WHOLE);
    }
    status_t status =
        world->staged ? measure(world, (uint32_t)(model - world->models), most, points) : STATUS_OK;
    return status == STATUS_OK ? profile_from_points(&model->profile, points, most, most, world->err)
                               : status;
}

static status_t add_model(world_t *world, uint32_t index)
{
    model_t *model = &world->models[index];
    sched_inside_t inside;
    sched_model_opts_t opts = {.slo_ns = (int64_t)(world->scenario->slo_ms * 1e6)};
    status_t status = profile_model(world, model, &inside);
    if (status == STATUS_OK)
        status = sched_add_model(world->sched, 0, index, &model->profile, &opts, world->err);
    return status == STATUS_OK ? sched_set_inside(world->sched, 0, index, &inside, world->err) : status;
}

static status_t make_scheduler(world_t *world)
{
    const mode_options_t *options = world->options;
    sched_limits_t limits = {.models_max = world->scenario->model_count,
                             .gpus_max = options->gpus,
                             .tasks_max = options->queries,
                             .batch_max = world->scenario->rows_max,
                             .gpu_inflight_max = INFLIGHT};
    sched_gpu_mode_t mode = {.stretches = world->staged, .slots = options->slots};
    world->sched = sched_create(&limits, world->err);
    if (!world->sched)
        return world->err->code;
    status_t status = sched_set_policy(world->sched, 0, options->policy, options->params, world->err);
    for (uint32_t m = 0; status == STATUS_OK && m < world->scenario->model_count; m++)
        status = add_model(world, m);
    for (uint32_t g = 0; status == STATUS_OK && g < options->gpus; g++) {
        status = sched_add_gpu(world->sched, 0, g, 0);
        if (status == STATUS_OK)
            status = sched_set_gpu_mode(world->sched, 0, g, &mode);
    }
    return status;
}

static status_t make_gpu(world_t *world, gpu_t *gpu)
{
    uint32_t models = world->scenario->model_count;
    *gpu = (gpu_t){.device = accel_create(world->streams * models, 8 * MODE_OPS_MAX, world->err)};
    for (uint32_t s = 0; s < CLUSTER_SLOTS_MAX; s++)
        gpu->running[s] = NOBODY;
    for (uint32_t m = 0; m < MODE_MODELS_MAX; m++)
        gpu->wake_ns[m] = EXEC_NEVER;
    bool by_exec = world->staged || !world->scheduled;
    for (uint32_t m = 0; gpu->device && by_exec && m < models; m++) {
        gpu->exec[m] = make_exec(world, &world->models[m]);
        if (!gpu->exec[m])
            return world->err->code;
    }
    return gpu->device ? STATUS_OK : world->err->code;
}

static status_t world_init(world_t *world)
{
    const mode_options_t *options = world->options;
    const mode_scenario_t *scenario = world->scenario;
    uint32_t width = world->scheduled ? options->slots : scenario->width;
    world->streams = world->staged ? scenario->stages * width : options->slots;
    world->sched_wake_ns = EXEC_NEVER;
    world->gpus = calloc(options->gpus, sizeof(*world->gpus));
    world->requests = calloc(options->queries, sizeof(*world->requests));
    if (!world->gpus || !world->requests)
        return err_set(world->err, STATUS_NO_MEMORY, "no memory for %u devices", options->gpus);
    for (uint32_t m = 0; m < scenario->model_count; m++)
        world->models[m] = (model_t){.world = world, .model = &scenario->models[m]};
    status_t status = mode_tally_init(&world->tally, options->queries, world->err);
    for (uint32_t g = 0; status == STATUS_OK && g < options->gpus; g++)
        status = make_gpu(world, &world->gpus[g]);
    return status == STATUS_OK && world->scheduled ? make_scheduler(world) : status;
}

static void world_dispose(world_t *world)
{
    sched_destroy(world->sched);
    for (uint32_t g = 0; world->gpus && g < world->options->gpus; g++) {
        accel_destroy(world->gpus[g].device);
        for (uint32_t m = 0; m < MODE_MODELS_MAX; m++)
            exec_destroy(world->gpus[g].exec[m]);
    }
    mode_tally_dispose(&world->tally);
    free(world->gpus);
    free(world->requests);
}

status_t mode_run_cluster(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err)
{
    world_t world = {.options = options,
                     .scenario = scenario,
                     .staged = strcmp(options->mode, "staged") == 0,
                     .scheduled = strcmp(options->policy, "none") != 0,
                     .rate_rps = rate_rps,
                     .err = err};
    bool whole = strcmp(options->mode, "whole") == 0;
    if (!world.staged && !whole && (strcmp(options->mode, "overlap") || !world.scheduled))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "a cluster runs whole, staged, or, behind a policy, overlap");
    prng_init(&world.prng, options->seed);
    *result = (mode_result_t){0};
    status_t status = world_init(&world);
    if (status == STATUS_OK)
        status = play(&world);
    if (status == STATUS_OK) {
        mode_tally_close(&world.tally, result);
        result->rate_rps = rate_rps;
        for (uint32_t g = 0; g < options->gpus; g++)
            result->utilization += accel_busy_ns(world.gpus[g].device) / (double)world.now_ns / options->gpus;
        for (uint32_t m = 0; world.scheduled && m < scenario->model_count; m++) {
            sched_model_stats_t stats;
            sched_model_stats(world.sched, m, &stats);
            result->batches += stats.batches;
            result->stretches += stats.stretches;
        }
        for (uint32_t g = 0; world.staged && g < options->gpus; g++)
            for (uint32_t m = 0; m < scenario->model_count; m++)
                result->joined += staged_counts(world.gpus[g].exec[m]).stretches;
    }
    world_dispose(&world);
    return status;
}
