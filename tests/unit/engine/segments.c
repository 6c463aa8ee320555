/*
 * Segments of real models: whatever the cut, the rows and the order, what comes out is what the whole model computes.
 */
#include "base/prng.h"
#include "exec/driver.h"
#include "exec/staged.h"
#include "networks.h"
#include "support/cases.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SEGMENTS_ENGINE
#define SEGMENTS_ENGINE "onednn"
#endif
#ifndef SEGMENTS_TOLERANCE
#define SEGMENTS_TOLERANCE 0 /* a part runs the steps of the whole */
#endif

enum { ROWS = 6, STREAMS = 3, FLOATS_MAX = ROWS * 2048, PAIRS = 3, QUERIES = 60 };

static const engine_ops_t *ops;

typedef struct {
    engine_t *engine;
    engine_model_t *model;
    const engine_model_info_t *info;
    engine_cuts_t cuts;
    float in[2][FLOATS_MAX], whole[2][FLOATS_MAX], out[2][FLOATS_MAX], other[2][FLOATS_MAX];
    const void *inputs[2], *others[2];
    void *outputs[2], *wholes[2];
} rig_t;

static void run(rig_t *rig, engine_job_t job, const char *what)
{
    ticket_t t;
    cr_assert_eq(ticket_run(&t, ops, rig->engine, job), STATUS_OK, "%s: %s", what, t.text);
}

static engine_job_t part(rig_t *rig, uint32_t stream, uint32_t from, uint32_t to, uint32_t row, uint32_t rows)
{
    return (engine_job_t){.model = rig->model,
                          .batch = rows,
                          .row = row,
                          .range = {.stream = stream, .from = from, .to = to},
                          .inputs = rig->inputs,
                          .outputs = rig->outputs};
}

static engine_border_t *border(rig_t *rig, uint32_t cut)
{
    engine_border_t *made = NULL;
    err_t err;
    cr_assert_eq(ops->border_create(rig->model, &cut, 1, ROWS, NULL, &made, &err), STATUS_OK, "%s", err.text);
    return made;
}

static rig_t *open_rig_in(maker_t *m, engine_precision_t precision)
{
    rig_t *rig = calloc(1, sizeof *rig);
    err_t err;
    cr_assert_eq(engine_find(SEGMENTS_ENGINE, &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = STREAMS}, &rig->engine, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(network_load(m, ops, rig->engine, ROWS, precision, &rig->model, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert_eq(ops->cuts(rig->model, &rig->cuts, &err), STATUS_OK, "%s", err.text);
    rig->info = ops->info(rig->model);
    for (uint32_t i = 0; i < 2; i++) {
        network_noise(rig->in[i], FLOATS_MAX, i + 1);
        rig->inputs[i] = rig->in[i];
        rig->outputs[i] = rig->out[i];
        rig->wholes[i] = rig->whole[i];
        network_noise(rig->other[i], FLOATS_MAX, i + 7);
        rig->others[i] = rig->other[i];
    }
    engine_job_t whole = part(rig, 0, 0, 0, 0, ROWS);
    whole.outputs = rig->wholes;
    run(rig, whole, "whole");
    return rig;
}

static rig_t *open_rig(maker_t *m)
{
    return open_rig_in(m, ENGINE_FP32);
}

static void close_rig(rig_t *rig)
{
    ops->unload(rig->model);
    ops->close(rig->engine);
    free(rig);
}

/* Every row equals that of the whole batch, exactly or nearly. */
static void compare(const rig_t *rig, double tolerance, const char *what)
{
    for (uint32_t i = 0; i < rig->info->output_count; i++)
        for (size_t at = 0; at < ROWS * rig->info->outputs[i].row_bytes / sizeof(float); at++)
            cr_assert(fabs((double)rig->out[i][at] - (double)rig->whole[i][at]) <=
                          tolerance * (1 + fabs((double)rig->whole[i][at])),
                      "%s: output %u, element %zu is %g, not %g", what, i, at, (double)rig->out[i][at],
                      (double)rig->whole[i][at]);
}

/* Leaves other numbers in the work space of the stream: what a segment needs must come from its border. */
static void spoil(rig_t *rig, uint32_t stream, uint32_t rows)
{
    engine_job_t job = part(rig, stream, 0, 0, 0, rows);
    job.inputs = rig->others;
    run(rig, job, "something else");
    memset(rig->out, 0xff, sizeof rig->out);
}

/* In two halves at each cut, on any stream: to the last bit. Then rows that came apart and go on together, and the
 * other way round. */
static void try_cuts(rig_t *rig, const char *name)
{
    cr_assert_gt(rig->cuts.cut_count, 1);
    for (uint32_t c = 0; c < rig->cuts.cut_count; c++) {
        uint32_t op = rig->cuts.cuts[c].op, stream = c % STREAMS;
        char what[80];
        engine_border_t *at = border(rig, op);
        snprintf(what, sizeof what, "%s cut before operator %u of %u", name, op, rig->cuts.ops);
        engine_job_t first = part(rig, stream, 0, op, 0, ROWS), rest = part(rig, stream, op, 0, 0, ROWS);
        first.target = at;
        rest.source = at;
        run(rig, first, what);
        spoil(rig, stream, ROWS);
        run(rig, rest, what);
        compare(rig, SEGMENTS_TOLERANCE, what);
        first.batch = 2;
        run(rig, first, what);
        first.row = 2;
        first.batch = ROWS - 2;
        run(rig, first, what);
        spoil(rig, stream, ROWS - 1);
        spoil(rig, stream, 1);
        rest.batch = 1;
        run(rig, rest, what);
        rest.row = 1;
        rest.batch = ROWS - 1;
        run(rig, rest, what);
        compare(rig, 1e-4, what);
        ops->border_destroy(at);
    }
    close_rig(rig);
}

Test(segments, two_halves_at_any_cut)
{
    for (uint32_t i = 0; i < network_count; i++) {
        rig_t *rig = open_rig(networks[i].make());
        cr_assert_eq(rig->cuts.cut_count, rig->cuts.ops - 1, "%s has %u cuts in %u operators",
                     networks[i].name, rig->cuts.cut_count, rig->cuts.ops);
        try_cuts(rig, networks[i].name);
    }
}

Test(segments, random_networks_at_any_cut)
{
    for (unsigned seed = 1; seed <= CASES(8); seed++) {
        char name[32];
        snprintf(name, sizeof name, "random %u", seed);
        try_cuts(open_rig(network_random(seed)), name);
    }
}

Test(segments, operators_one_by_one_through_two_borders)
{
    for (uint32_t i = 0; i < network_count; i++) {
        rig_t *rig = open_rig(networks[i].make());
        uint32_t all[64];
        engine_border_t *borders[2];
        cr_assert_leq(rig->cuts.cut_count, 64);
        for (uint32_t c = 0; c < rig->cuts.cut_count; c++)
            all[c] = rig->cuts.cuts[c].op;
        for (int b = 0; b < 2; b++)
            cr_assert_eq(
                ops->border_create(rig->model, all, rig->cuts.cut_count, ROWS, NULL, &borders[b], NULL),
                STATUS_OK);
        for (uint32_t c = 0; c <= rig->cuts.cut_count; c++) {
            engine_job_t job =
                part(rig, 0, c ? all[c - 1] : 0, c < rig->cuts.cut_count ? all[c] : 0, 0, ROWS);
            job.source = c ? borders[c % 2] : NULL;
            job.target = c < rig->cuts.cut_count ? borders[!(c % 2)] : NULL;
            run(rig, job, networks[i].name);
        }
        compare(rig, SEGMENTS_TOLERANCE, networks[i].name);
        ops->border_destroy(borders[0]);
        ops->border_destroy(borders[1]);
        close_rig(rig);
    }
}

/* ---- schedules of exec/staged.h ---- */

typedef struct {
    ticket_t ticket;
    uint64_t launch;
    uint32_t stage, pair;
    bool used;
} flight_t;

/* Each query is a row of the whole run; `source` follows which one lies where. */
typedef struct {
    rig_t *rig;
    driver_t driver;
    prng_t prng;
    uint32_t stages, at[STAGED_STAGES_MAX + 1]; /* operators at the borders, those at the ends included */
    engine_border_t *borders[STAGED_STAGES_MAX][PAIRS];
    float in[PAIRS][2][FLOATS_MAX], out[PAIRS][2][FLOATS_MAX];
    const void *inputs[PAIRS][2];
    void *outputs[PAIRS][2];
    uint32_t source[STAGED_STAGES_MAX + 1][PAIRS][ROWS];
    flight_t flights[STAGED_STAGES_MAX * STAGED_WIDTH_MAX];
    uint32_t in_flight, entered, answered;
} play_t;

static uint32_t stretch_by_chance(const staged_view_t *view)
{
    return view->now_ns % 3 ? view->waiting_count : 0;
}

static uint32_t split_some(const staged_view_t *view)
{
    return view->rows > 2 && (view->rows + view->stage) % 3 == 0 ? (view->rows + 1) / 2 : 0;
}

static const staged_schedule_t by_chance = {
    .name = "chance", .enter = staged_enter_together, .stretch = stretch_by_chance, .split = split_some};

static staged_cost_t no_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    (void)ctx, (void)stage, (void)rows, (void)length;
    return (staged_cost_t){.ns = 1, .busy_ns = 1};
}

static void fill_inputs(play_t *play, uint32_t pair, uint32_t row)
{
    const rig_t *rig = play->rig;
    uint32_t source = play->entered++ % ROWS;
    play->source[0][pair][row] = source;
    for (uint32_t i = 0; i < rig->info->input_count; i++) {
        size_t len = rig->info->inputs[i].row_bytes;
        memcpy((char *)play->in[pair][i] + row * len, (const char *)rig->in[i] + source * len, len);
    }
}

static status_t start_launch(void *device, const exec_action_t *action, err_t *err)
{
    play_t *play = device;
    (void)err;
    const exec_part_t *p = &action->launch.parts[0];
    uint32_t in = action->launch.in_pair, out = action->launch.out_pair, start = action->launch.start;
    engine_job_t job =
        part(play->rig, p->stream % STREAMS, play->at[p->from], play->at[p->to], start, p->rows);
    for (uint32_t row = start; row < start + p->rows; row++) {
        if (p->from == 0)
            fill_inputs(play, in, row);
        play->source[p->to][out][row] = play->source[p->from][in][row];
    }
    job.inputs = play->inputs[in];
    job.outputs = play->outputs[out];
    job.source = p->from ? play->borders[p->from][in] : NULL;
    job.target = p->to < play->stages ? play->borders[p->to][out] : NULL;
    flight_t *flight = play->flights;
    while (flight->used)
        flight++;
    flight->used = true;
    flight->launch = action->launch.launch;
    flight->stage = p->from;
    flight->pair = out;
    play->in_flight++;
    ticket_start(&flight->ticket, ops, play->rig->engine, job);
    return STATUS_OK;
}

static void act(void *ctx, const exec_action_t *action)
{
    play_t *play = ctx;
    if (action->kind == EXEC_COMPLETE)
        play->answered += action->done.count;
}

static const driver_device_ops_t by_tickets = {.launch = start_launch};
static const driver_user_ops_t those_answered = {.act = act};

static void check_rows(const play_t *play, const flight_t *flight)
{
    const rig_t *rig = play->rig;
    const engine_job_t *job = &flight->ticket.job;
    for (uint32_t row = job->row; row < job->row + job->batch; row++)
        for (uint32_t i = 0; i < rig->info->output_count; i++) {
            size_t count = rig->info->outputs[i].row_bytes / sizeof(float);
            const float *got = play->out[flight->pair][i] + row * count;
            const float *want = rig->whole[i] + play->source[play->stages][flight->pair][row] * count;
            for (size_t at = 0; at < count; at++)
                cr_assert(fabs((double)got[at] - (double)want[at]) <= 1e-4 * (1 + fabs((double)want[at])),
                          "output %u of row %u: element %zu is %g, not %g", i, row, at, (double)got[at],
                          (double)want[at]);
        }
}

/* Any of those under way: they end in whatever order. */
static void finish_one(play_t *play)
{
    uint64_t nth = prng_below(&play->prng, play->in_flight);
    flight_t *flight = play->flights;
    for (; !flight->used || nth > 0; flight++)
        nth -= flight->used;
    cr_assert_eq(ticket_wait(&flight->ticket), STATUS_OK, "%s", flight->ticket.text);
    if (flight->stage + 1 == play->stages)
        check_rows(play, flight);
    flight->used = false;
    play->in_flight--;
    driver_end(&play->driver, &(driver_end_t){flight->launch, DRIVER_FINISHED});
}

static void choose_stages(play_t *play)
{
    const engine_cuts_t *cuts = &play->rig->cuts;
    play->stages = 0;
    for (uint32_t c = 0; c < cuts->cut_count && play->stages + 1 < STAGED_STAGES_MAX; c++)
        if (prng_below(&play->prng, 3) == 0)
            play->at[++play->stages] = cuts->cuts[c].op;
    play->at[++play->stages] = cuts->ops;
    for (uint32_t b = 1; b < play->stages; b++)
        for (uint32_t pair = 0; pair < PAIRS; pair++)
            play->borders[b][pair] = border(play->rig, play->at[b]);
}

static void play_schedule(play_t *play, staged_counts_t *counts)
{
    err_t err;
    staged_config_t config = {.stages = play->stages,
                              .pairs = PAIRS,
                              .new_pairs = 1 + (uint32_t)prng_below(&play->prng, PAIRS),
                              .width = 1 + (uint32_t)prng_below(&play->prng, 2),
                              .rows_max = ROWS,
                              .queries_max = QUERIES,
                              .cost = no_cost,
                              .schedule = &by_chance};
    exec_t *exec = exec_create_staged(&config, &err);
    cr_assert(exec, "%s", err.text);
    play->driver =
        (driver_t){.exec = exec, .on = &by_tickets, .device = play, .user = &those_answered, .ctx = play};
    uint32_t sent = 0;
    for (int64_t now_ns = 0; play->answered < QUERIES; now_ns++) {
        exec_query_t query = {.rows = 1, .length = 1, .arrival_ns = now_ns, .deadline_ns = INT64_MAX};
        for (uint64_t n = prng_below(&play->prng, 4); n > 0 && sent < QUERIES; n--, sent++)
            cr_assert_eq(exec_submit(exec, now_ns, &query, 1, 0, &err), STATUS_OK, "%s", err.text);
        play->driver.now_ns = now_ns;
        if (play->in_flight && prng_below(&play->prng, 4))
            finish_one(play);
        cr_assert_eq(driver_run(&play->driver), STATUS_OK);
        cr_assert_null(exec_validate(exec));
        cr_assert_lt(now_ns, 100 * QUERIES, "nothing moves");
    }
    *counts = staged_counts(exec);
    exec_destroy(exec);
}

static void play_network(maker_t *m, uint64_t seed, staged_counts_t *sum)
{
    play_t *play = calloc(1, sizeof *play);
    staged_counts_t counts;
    play->rig = open_rig(m);
    prng_init(&play->prng, seed);
    for (uint32_t pair = 0; pair < PAIRS; pair++)
        for (uint32_t i = 0; i < 2; i++) {
            play->inputs[pair][i] = play->in[pair][i];
            play->outputs[pair][i] = play->out[pair][i];
        }
    choose_stages(play);
    play_schedule(play, &counts);
    sum->stretches += counts.stretches;
    sum->splits += counts.splits;
    for (uint32_t b = 1; b < play->stages; b++)
        for (uint32_t pair = 0; pair < PAIRS; pair++)
            ops->border_destroy(play->borders[b][pair]);
    close_rig(play->rig);
    free(play);
}

Test(segments, staged_schedules_by_chance)
{
    staged_counts_t sum = {0};
    for (uint64_t seed = 1; seed <= CASES(12); seed++) {
        play_network(networks[seed % network_count].make(), seed, &sum);
        play_network(network_random((unsigned)seed), seed, &sum);
    }
    cr_assert_gt(sum.stretches, CASES(20), "rows were stretched in %llu times",
                 (unsigned long long)sum.stretches);
    cr_assert_gt(sum.splits, CASES(20), "batches were split %llu times", (unsigned long long)sum.splits);
}

/* ---- what it takes ---- */

#ifndef SEGMENTS_OTHER_MEMORY
static void prepare(rig_t *rig, uint32_t from, uint32_t to)
{
    engine_range_t range = {.stream = 1, .from = from, .to = to};
    err_t err;
    cr_assert_eq(ops->prepare_range(rig->model, &range, ROWS, NULL, &err), STATUS_OK, "%s", err.text);
}

Test(segments, a_stream_takes_its_memory_once_whatever_ranges_it_runs)
{
    for (uint32_t n = 0; n < network_count; n++) {
        rig_t *rig = open_rig(networks[n].make());
        uint32_t count = rig->cuts.cut_count, ends[66] = {0};
        uint64_t before = rig->info->memory_bytes;
        cr_assert_lt(count, 64);
        for (uint32_t c = 0; c < count; c++)
            ends[c + 1] = rig->cuts.cuts[c].op;
        ends[count + 1] = rig->cuts.ops;
        for (uint32_t c = 0; c <= count; c++)
            prepare(rig, ends[c], ends[c + 1]);
        uint64_t prepared = rig->info->memory_bytes;
        cr_assert_gt(prepared, before, "it is counted");
        for (uint32_t from = 0; from <= count; from++)
            for (uint32_t to = from + 1; to <= count + 1; to++)
                prepare(rig, ends[from], ends[to]);
        cr_assert_eq(rig->info->memory_bytes, prepared);
        close_rig(rig);
    }
}
#endif

/* ---- what does not go ---- */

Test(segments, a_running_batch_stops_at_an_exit)
{
    rig_t *rig = open_rig(networks[0].make());
    uint32_t exits[64];
    ticket_t first, t;
    for (uint32_t c = 0; c < rig->cuts.cut_count; c++)
        exits[c] = rig->cuts.cuts[c].op;
    engine_job_t job = part(rig, 0, 0, 0, 0, ROWS);
    job.exits = exits;
    job.exit_count = rig->cuts.cut_count;
    /* The second one waits for the first, or has begun, when it is told: it never ends as if nothing had been said,
     * unless it was past its last exit. */
    ticket_start(&first, ops, rig->engine, job);
    ticket_start(&t, ops, rig->engine, job);
    bool told = ops->stop(rig->engine, &t.job);
    status_t status = ticket_wait(&t);
    cr_assert(!told || status == STATUS_CANCELLED || t.job.reached == rig->cuts.ops);
    cr_assert_eq(ticket_wait(&first), STATUS_OK);
    cr_assert_eq(first.job.reached, rig->cuts.ops);
    close_rig(rig);
}

Test(segments, operator_times_add_up)
{
    rig_t *rig = open_rig(networks[0].make());
    int64_t op_ns[64] = {0}, sum_ns = 0;
    ticket_t t;
    engine_job_t job = part(rig, 0, 0, 0, 0, ROWS);
    job.op_ns = op_ns;
    cr_assert_eq(ticket_run(&t, ops, rig->engine, job), STATUS_OK, "%s", t.text);
    for (uint32_t op = 0; op < rig->cuts.ops; op++)
        sum_ns += op_ns[op];
    cr_assert_gt(sum_ns, 0);
    cr_assert_leq(sum_ns, t.job.finished_ns - t.job.started_ns);
    close_rig(rig);
}

Test(segments, wrong_borders_are_refused)
{
    rig_t *rig = open_rig(networks[0].make());
    uint32_t op = rig->cuts.cuts[0].op, none = rig->cuts.ops;
    engine_border_t *at = border(rig, op), *other = NULL;
    err_t err;
    ticket_t t;
    engine_job_t job = part(rig, 0, 0, op, 1, ROWS);
    job.target = at;
    cr_assert_eq(ticket_run(&t, ops, rig->engine, job), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "rows 1..7 are outside a border of 6");
    cr_assert_eq(ops->border_create(rig->model, &none, 1, ROWS, NULL, &other, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ops->prepare_range(rig->model, &(engine_range_t){.from = op, .to = op}, 1, NULL, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ops->prepare_range(rig->model, &(engine_range_t){.stream = STREAMS}, 1, NULL, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ops->prepare_range(rig->model, &(engine_range_t){.from = op}, 3, NULL, &err), STATUS_OK);
    ops->border_destroy(at);
    close_rig(rig);
}
