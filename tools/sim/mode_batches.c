/*
 * Modes that form batches of single rows: an exec object, the emulated device and a Poisson stream between them.
 */
#include "accel/device.h"
#include "exec/whole.h"
#include "mode.h"
#include "mode_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Of a batch that runs whole: the launch itself and the first operator. */
enum { READERS = 2 };

/* What a stream runs, for the trace. */
typedef struct {
    uint64_t launch;
    mode_trace_row_t row;
} traced_t;

typedef struct {
    mode_trace_t trace;
    traced_t traced[STAGED_STAGES_MAX * STAGED_WIDTH_MAX];
    const mode_scenario_t *scenario;
    const mode_model_t *model;
    staged_cost_t *costs; /* see stage_cost; all zero: not asked for yet */
    driver_t driver;
    accel_device_t *device;
    prng_t prng;
    mode_tally_t tally;
    bool closed, staged;
    double rate_rps, next_s;
    uint32_t sent, answered, queries;
} world_t;

/* Policies ask for the same costs at every decision. */
static staged_cost_t stage_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    world_t *world = ctx;
    const mode_model_t *model = world->model;
    uint32_t which = 0;
    while (which + 1 < model->length_count && model->lengths[which] != length)
        which++;
    staged_cost_t *cost =
        &world->costs[((size_t)stage * MODE_LENGTHS_MAX + which) * (EXEC_ROWS_MAX + 1) + rows];
    if (!cost->ns)
        *cost =
            mode_cost(model, stage ? model->stage_end[stage - 1] : 0, model->stage_end[stage], rows, length);
    return *cost;
}

/* The host's launch goes before the operators and uses nothing of the device. */
static uint32_t operators(void *ctx, const exec_part_t *part, accel_op_t *ops)
{
    const world_t *world = ctx;
    exec_part_t of = *part;
    of.to = world->model->op_count;
    if (world->staged)
        of = mode_part_of_stages(world->model, *part);
    return mode_operators(world->scenario, &of, ops);
}

static void trace_launch(world_t *world, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    world->traced[part->stream] = (traced_t){.launch = action->launch.launch,
                                             .row = {.stream = part->stream,
                                                     .stage = part->from,
                                                     .batch = action->batch,
                                                     .rows = part->rows,
                                                     .start_ns = world->driver.now_ns}};
}

static void trace_end(void *ctx, uint64_t launch, uint32_t part, bool stopped)
{
    world_t *world = ctx;
    (void)part;
    (void)stopped;
    for (uint32_t i = 0; i < STAGED_STAGES_MAX * STAGED_WIDTH_MAX; i++) {
        traced_t *traced = &world->traced[i];
        traced->row.end_ns = world->driver.now_ns;
        if (traced->launch == launch)
            mode_trace_row(&world->trace, &traced->row);
    }
}

static void act(void *ctx, const exec_action_t *action)
{
    world_t *world = ctx;
    int64_t now_ns = world->driver.now_ns;
    if (action->kind == EXEC_LAUNCH)
        trace_launch(world, action);
    if (action->kind != EXEC_COMPLETE)
        return;
    for (uint32_t i = 0; i < action->done.count; i++)
        mode_tally_answer(&world->tally, (double)now_ns / 1e9,
                          (double)(now_ns - action->done.queries[i].arrival_ns) / 1e6,
                          world->scenario->slo_ms);
    world->answered += action->done.count;
    if (world->closed)
        world->next_s = (double)now_ns / 1e9 + 1e-3;
}

static int64_t arrival_ns(const void *ctx)
{
    const world_t *world = ctx;
    bool waits = world->sent == world->queries || (world->closed && world->sent > world->answered);
    return waits ? EXEC_NEVER : (int64_t)llround(world->next_s * 1e9);
}

static status_t arrive(void *ctx, int64_t now_ns, err_t *err)
{
    world_t *world = ctx;
    exec_query_t query = {.tag = world->sent++, .rows = 1, .arrival_ns = now_ns, .deadline_ns = EXEC_NEVER};
    query.length = mode_draw_length(world->model, &world->prng);
    if (!world->closed)
        world->next_s += prng_exponential(&world->prng, 1 / world->rate_rps);
    return exec_submit(world->driver.exec, now_ns, &query, 1, 0, err);
}

static const driver_user_ops_t world_ops = {arrival_ns, arrive, act};

static status_t play(world_t *world)
{
    status_t status = STATUS_OK;
    while (status == STATUS_OK && world->answered < world->queries)
        status = driver_step(&world->driver, EXEC_NEVER);
    return status;
}

static exec_t *make_whole(const mode_options_t *options, const mode_scenario_t *scenario, uint32_t queries,
                          err_t *err)
{
    whole_config_t config = {.gather = true, .rows_max = scenario->rows_max, .queries_max = queries};
    config.ahead = !options->late && strcmp(options->mode, "whole") != 0;
    double window_us = options->window_ms > 0 ? options->window_ms * 1e3 : scenario->delay_window_us;
    config.window_ns = strcmp(options->mode, "delaybatch") == 0 ? (int64_t)(window_us * 1e3) : 0;
    return exec_create_whole(&config, err);
}

static exec_t *make_staged(world_t *world, uint32_t queries, err_t *err)
{
    const mode_scenario_t *scenario = world->scenario;
    staged_config_t config = {.stages = scenario->stages,
                              .new_pairs = scenario->new_pairs,
                              .width = scenario->width,
                              .rows_max = scenario->rows_max,
                              .queries_max = queries,
                              .eager = true,
                              .split_slack = scenario->slack,
                              .cost = stage_cost};
    config.pairs = config.new_pairs > 2 ? config.new_pairs : 2;
    config.window_ns = (int64_t)(scenario->window_us * 1e3);
    config.comp_wait_ns = (int64_t)(scenario->comp_wait_us * 1e3);
    config.cost_ctx = world;
    world->costs =
        calloc((size_t)config.stages * MODE_LENGTHS_MAX * (EXEC_ROWS_MAX + 1), sizeof(*world->costs));
    if (!world->costs) {
        err_set(err, STATUS_NO_MEMORY, "no memory for the costs of %u stages", config.stages);
        return NULL;
    }
    config.schedule = staged_schedule_find(scenario->schedule[0] ? scenario->schedule : "load");
    return exec_create_staged(&config, err);
}

static accel_device_t *make_device(world_t *world, err_t *err)
{
    const accel_device_config_t config = {.streams = world->scenario->stages * world->scenario->width,
                                          .ops_max = 2 * MODE_OPS_MAX,
                                          .operators = operators,
                                          .part_ended = trace_end,
                                          .ctx = world,
                                          .readers = world->staged ? 0 : READERS};
    return accel_device_create(&config, err);
}

status_t mode_run_batches(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err)
{
    world_t world = {.scenario = scenario,
                     .model = &scenario->models[0],
                     .rate_rps = rate_rps,
                     .queries = options->queries,
                     .closed = options->load == MODE_CLOSED,
                     .staged = strcmp(options->mode, "staged") == 0};
    prng_init(&world.prng, options->seed);
    uint32_t slots = options->queries > scenario->rows_max ? options->queries : scenario->rows_max;
    exec_t *exec = world.staged ? make_staged(&world, slots, err) : make_whole(options, scenario, slots, err);
    world.device = exec ? make_device(&world, err) : NULL;
    world.driver = (driver_t){.exec = exec,
                              .on = &accel_device_ops,
                              .device = world.device,
                              .user = &world_ops,
                              .ctx = &world,
                              .wake_ns = EXEC_NEVER,
                              .err = err};
    status_t status = world.device ? mode_tally_init(&world.tally, options->queries, err) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = mode_trace_open(&world.trace, options->trace_path, err);
    if (status == STATUS_OK)
        status = play(&world);
    status = mode_trace_close(&world.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&world.tally, result);
        result->rate_rps = rate_rps;
        result->utilization = accel_device_busy_ns(world.device) / (double)world.driver.now_ns;
    }
    mode_tally_dispose(&world.tally);
    accel_device_destroy(world.device);
    if (exec)
        exec_destroy(exec);
    free(world.costs);
    return status;
}
