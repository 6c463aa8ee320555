/*
 * Modes that form batches of single rows: an exec object, the emulated device and a Poisson stream between them.
 */
#include "exec/whole.h"
#include "mode.h"
#include "mode_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Marks the part of a launch that reads its inputs. */
#define INPUTS_READ (UINT64_C(1) << 63)

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
    exec_t *exec;
    accel_t *device;
    prng_t prng;
    mode_tally_t tally;
    bool closed, staged;
    double rate_rps, next_s;
    uint32_t sent, answered, queries;
    int64_t now_ns;
    status_t status;
    err_t *err;
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
static void launch(world_t *world, const exec_action_t *action)
{
    const exec_part_t *part = &action->launch.parts[0];
    accel_op_t ops[MODE_OPS_MAX + 1];
    uint32_t from = 0, to = world->model->op_count, count = 0, first = 0;
    if (world->staged) {
        from = part->from ? world->model->stage_end[part->from - 1] : 0;
        to = world->model->stage_end[part->from];
    }
    ops[count++] = (accel_op_t){.ns = (int64_t)(world->scenario->launch_us * 1e3)};
    for (uint32_t i = from; i < to; i++)
        ops[count++] = mode_op(&world->model->ops[i], part->rows, part->length);
    uint64_t tag = action->launch.launch;
    status_t status = STATUS_OK;
    if (!world->staged && count > 2) { /* the first operator reads the inputs */
        status = accel_launch(world->device, part->stream, tag | INPUTS_READ, ops, 2, world->err);
        first = 2;
    }
    if (status == STATUS_OK)
        status = accel_launch(world->device, part->stream, tag, ops + first, count - first, world->err);
    if (status != STATUS_OK)
        world->status = status;
    world->traced[part->stream] = (traced_t){.launch = tag,
                                             .row = {.stream = part->stream,
                                                     .stage = part->from,
                                                     .batch = action->batch,
                                                     .rows = part->rows,
                                                     .start_ns = world->now_ns}};
}

static void trace_end(world_t *world, uint64_t launch)
{
    for (uint32_t i = 0; i < STAGED_STAGES_MAX * STAGED_WIDTH_MAX; i++) {
        traced_t *traced = &world->traced[i];
        traced->row.end_ns = world->now_ns;
        if (traced->launch == launch)
            mode_trace_row(&world->trace, &traced->row);
    }
}

static void sink(void *ctx, const exec_action_t *action)
{
    world_t *world = ctx;
    if (action->kind == EXEC_LAUNCH)
        launch(world, action);
    if (action->kind != EXEC_COMPLETE)
        return;
    for (uint32_t i = 0; i < action->done.count; i++)
        mode_tally_answer(&world->tally, (double)world->now_ns / 1e9,
                          (double)(world->now_ns - action->done.queries[i].arrival_ns) / 1e6,
                          world->scenario->slo_ms);
    world->answered += action->done.count;
    if (world->closed)
        world->next_s = (double)world->now_ns / 1e9 + 1e-3;
}

static int64_t arrival_ns(const world_t *world)
{
    bool waits = world->sent == world->queries || (world->closed && world->sent > world->answered);
    return waits ? EXEC_NEVER : (int64_t)llround(world->next_s * 1e9);
}

static status_t arrive(world_t *world)
{
    exec_query_t query = {
        .tag = world->sent++, .rows = 1, .arrival_ns = world->now_ns, .deadline_ns = EXEC_NEVER};
    query.length = mode_draw_length(world->model, &world->prng);
    if (!world->closed)
        world->next_s += prng_exponential(&world->prng, 1 / world->rate_rps);
    return exec_submit(world->exec, world->now_ns, &query, 1, 0, world->err);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static status_t play(world_t *world)
{
    int64_t wake_ns = EXEC_NEVER;
    while (world->status == STATUS_OK && world->answered < world->queries) {
        uint64_t ended;
        int64_t next = least(least(arrival_ns(world), accel_next_ns(world->device)), wake_ns);
        if (next == EXEC_NEVER)
            return err_set(world->err, STATUS_INTERNAL, "nothing moves with %u queries unanswered",
                           world->queries - world->answered);
        world->now_ns = next;
        accel_advance(world->device, next);
        while (world->status == STATUS_OK && arrival_ns(world) <= next)
            world->status = arrive(world);
        while (accel_take_ended(world->device, &ended)) {
            if (ended & INPUTS_READ) {
                whole_inputs_read(world->exec, ended & ~INPUTS_READ);
                continue;
            }
            trace_end(world, ended);
            exec_finished(world->exec, next, ended);
        }
        wake_ns = exec_run(world->exec, next, sink, world);
    }
    return world->status;
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

status_t mode_run_batches(const mode_options_t *options, const mode_scenario_t *scenario, double rate_rps,
                          mode_result_t *result, err_t *err)
{
    world_t world = {.scenario = scenario,
                     .model = &scenario->models[0],
                     .rate_rps = rate_rps,
                     .err = err,
                     .queries = options->queries,
                     .closed = options->load == MODE_CLOSED,
                     .staged = strcmp(options->mode, "staged") == 0};
    prng_init(&world.prng, options->seed);
    uint32_t slots = options->queries > scenario->rows_max ? options->queries : scenario->rows_max;
    world.exec = world.staged ? make_staged(&world, slots, err) : make_whole(options, scenario, slots, err);
    world.device =
        world.exec ? accel_create(scenario->stages * scenario->width, 2 * MODE_OPS_MAX, err) : NULL;
    status_t status = world.device ? mode_tally_init(&world.tally, options->queries, err) : STATUS_NO_MEMORY;
    if (status == STATUS_OK)
        status = mode_trace_open(&world.trace, options->trace_path, err);
    if (status == STATUS_OK)
        status = play(&world);
    status = mode_trace_close(&world.trace, status, err);
    if (status == STATUS_OK) {
        mode_tally_close(&world.tally, result);
        result->rate_rps = rate_rps;
        result->utilization = accel_busy_ns(world.device) / (double)world.now_ns;
    }
    mode_tally_dispose(&world.tally);
    accel_destroy(world.device);
    if (world.exec)
        exec_destroy(world.exec);
    free(world.costs);
    return status;
}
