/*
 * Segments, streams and exits of the emulated engine.
 */
#include "base/clock.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <string.h>

enum { OPS = 4, ROWS = 8, IN = 2, OUT = 3 };

static const engine_ops_t *ops;
static const engine_tensor_t in_desc = {.name = "x", .dtype = DTYPE_F32, .rank = 1, .dims = {IN}};
static const engine_tensor_t out_desc = {.name = "y", .dtype = DTYPE_F32, .rank = 1, .dims = {OUT}};

typedef struct {
    int64_t op_ns;
    double occupancy;
    uint32_t op_count;
} cost_t;

static int64_t whole_ns(void *arg, uint32_t batch)
{
    const cost_t *cost = arg;
    (void)batch;
    return cost->op_ns * cost->op_count;
}

static engine_op_cost_t op_cost(void *arg, uint32_t op, uint32_t batch)
{
    const cost_t *cost = arg;
    (void)op, (void)batch;
    return (engine_op_cost_t){.ns = cost->op_ns, .occupancy = cost->occupancy};
}

typedef struct {
    engine_t *engine;
    engine_model_t *model;
    float in[ROWS][IN], out[ROWS][OUT];
    const void *inputs[1];
    void *outputs[1];
} bench_t;

static void open_bench(bench_t *bench, uint32_t streams, cost_t *cost)
{
    err_t err;
    engine_config_t config = {.streams = streams};
    engine_load_t what = {.name = "m",
                          .max_batch = ROWS,
                          .latency = whole_ns,
                          .latency_arg = cost,
                          .op = op_cost,
                          .op_arg = cost,
                          .op_count = cost->op_count,
                          .inputs = &in_desc,
                          .input_count = 1,
                          .outputs = &out_desc,
                          .output_count = 1};
    memset(bench, 0, sizeof *bench);
    cr_assert_eq(engine_find("emulated", &ops, NULL), STATUS_OK);
    cr_assert_eq(ops->open(&config, &bench->engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->load(bench->engine, &what, &bench->model, &err), STATUS_OK, "%s", err.text);
    for (int row = 0; row < ROWS; row++)
        for (int i = 0; i < IN; i++)
            bench->in[row][i] = (float)(10 * row + i);
    bench->inputs[0] = bench->in;
    bench->outputs[0] = bench->out;
}

static void close_bench(bench_t *bench)
{
    ops->unload(bench->model);
    ops->close(bench->engine);
}

static engine_border_t *border(bench_t *bench, uint32_t cut, uint32_t rows)
{
    engine_border_t *made = NULL;
    err_t err;
    cr_assert_eq(ops->border_create(bench->model, &cut, 1, rows, NULL, &made, &err), STATUS_OK, "%s",
                 err.text);
    return made;
}

static engine_job_t job(bench_t *bench, uint32_t stream, uint32_t from, uint32_t to, uint32_t row,
                        uint32_t rows)
{
    return (engine_job_t){.model = bench->model,
                          .batch = rows,
                          .row = row,
                          .range = {.stream = stream, .from = from, .to = to},
                          .inputs = bench->inputs,
                          .outputs = bench->outputs};
}

Test(emulated_segments, operators_of_two_streams_share_the_device)
{
    cost_t cost = {.op_ns = 5 * NS_PER_MS, .occupancy = 0.8, .op_count = OPS};
    bench_t bench;
    ticket_t a, b;
    open_bench(&bench, 2, &cost);
    ticket_start(&a, ops, bench.engine, job(&bench, 0, 0, OPS, 0, 1));
    ticket_start(&b, ops, bench.engine, job(&bench, 1, 0, OPS, 1, 1));
    cr_assert_eq(ticket_wait(&a), STATUS_OK, "%s", a.text);
    cr_assert_eq(ticket_wait(&b), STATUS_OK, "%s", b.text);
    int64_t both_ns = b.job.finished_ns - a.job.started_ns;
    int64_t apart_ns = b.job.started_ns - a.job.started_ns; /* b came so much later */
    cr_assert_leq(both_ns, 32 * NS_PER_MS + apart_ns, "%lld", (long long)both_ns);
    cr_assert_geq(both_ns, 32 * NS_PER_MS, "1.6 times 20 ms, not %lld ns", (long long)both_ns);
    cr_assert_lt(b.job.started_ns, a.job.finished_ns, "side by side");
    close_bench(&bench);
}

Test(emulated_segments, rows_that_come_later_lie_behind_and_parts_go_on_alone)
{
    cost_t cost = {.op_ns = 0, .occupancy = 1, .op_count = OPS};
    bench_t bench;
    ticket_t t;
    float whole[ROWS][OUT];
    open_bench(&bench, 1, &cost);
    cr_assert_eq(ticket_run(&t, ops, bench.engine, job(&bench, 0, 0, 0, 0, ROWS)), STATUS_OK);
    memcpy(whole, bench.out, sizeof whole);
    memset(bench.out, 0, sizeof bench.out);
    engine_border_t *at1 = border(&bench, 1, ROWS), *at3 = border(&bench, 3, ROWS);
    cr_assert_eq(ops->border_bytes(at1), ROWS * IN * sizeof(float));
    const struct {
        uint32_t from, to, row, rows;
    } steps[] = {{0, 1, 0, 3}, {0, 1, 3, 5}, {1, 3, 0, 8}, {3, OPS, 4, 4}, {3, OPS, 0, 4}};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        engine_job_t j = job(&bench, 0, steps[i].from, steps[i].to, steps[i].row, steps[i].rows);
        j.source = steps[i].from == 1 ? at1 : steps[i].from == 3 ? at3 : NULL;
        j.target = steps[i].to == 1 ? at1 : steps[i].to == 3 ? at3 : NULL;
        cr_assert_eq(ticket_run(&t, ops, bench.engine, j), STATUS_OK, "step %zu: %s", i, t.text);
        cr_assert_eq(t.job.reached, steps[i].to);
    }
    cr_assert(!memcmp(bench.out, whole, sizeof whole));
    ops->border_destroy(at1);
    ops->border_destroy(at3);
    close_bench(&bench);
}

Test(emulated_segments, a_running_batch_stops_at_its_next_exit)
{
    static const uint32_t exits[] = {2};
    cost_t cost = {.op_ns = 50 * NS_PER_MS, .occupancy = 1, .op_count = OPS};
    bench_t bench;
    ticket_t running, waiting;
    open_bench(&bench, 1, &cost);
    engine_job_t j = job(&bench, 0, 0, 0, 0, 1);
    j.exits = exits;
    j.exit_count = 1;
    ticket_start(&running, ops, bench.engine, j);
    ticket_start(&waiting, ops, bench.engine, j);
    cr_assert(ops->stop(bench.engine, &waiting.job));
    cr_assert_eq(ticket_wait(&waiting), STATUS_CANCELLED);
    cr_assert(ops->stop(bench.engine, &running.job));
    cr_assert_eq(ticket_wait(&running), STATUS_CANCELLED);
    cr_assert_eq(running.job.reached, 2);
    cr_assert_eq(running.job.finished_ns - running.job.started_ns, 100 * NS_PER_MS);
    close_bench(&bench);
}

Test(emulated_segments, a_batch_without_exits_cannot_be_stopped)
{
    cost_t cost = {.op_ns = 5 * NS_PER_MS, .occupancy = 1, .op_count = OPS};
    bench_t bench;
    ticket_t t;
    open_bench(&bench, 1, &cost);
    ticket_start(&t, ops, bench.engine, job(&bench, 0, 0, 0, 0, 1));
    cr_assert(!ops->stop(bench.engine, &t.job));
    cr_assert_eq(ticket_wait(&t), STATUS_OK);
    cr_assert_eq(t.job.reached, OPS);
    close_bench(&bench);
}

Test(emulated_segments, says_what_does_not_fit)
{
    static const uint32_t exits[] = {1};
    cost_t cost = {.op_ns = 0, .occupancy = 1, .op_count = OPS};
    bench_t bench;
    ticket_t t;
    open_bench(&bench, 2, &cost);
    engine_border_t *at2 = border(&bench, 2, 4);
    engine_job_t j = job(&bench, 2, 0, 0, 0, 1);
    cr_assert_eq(ticket_run(&t, ops, bench.engine, j), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "there is no stream 2; the engine was opened with 2");
    cr_assert_eq(ticket_run(&t, ops, bench.engine, job(&bench, 0, 3, 2, 0, 1)), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "the model cannot be cut to operators 3..2");
    cr_assert_eq(ticket_run(&t, ops, bench.engine, job(&bench, 0, 0, 2, 0, 1)), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "operators 0..2: a border is missing, or too many");
    j = job(&bench, 0, 0, 2, 3, 2);
    j.target = at2;
    cr_assert_eq(ticket_run(&t, ops, bench.engine, j), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "rows 3..5 are outside a border of 4");
    j = job(&bench, 0, 2, OPS, 0, 1);
    j.source = at2;
    j.exits = exits;
    j.exit_count = 1;
    cr_assert_eq(ticket_run(&t, ops, bench.engine, j), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(t.text, "operator 1 is no exit of operators 2..4");
    ops->border_destroy(at2);
    close_bench(&bench);
}

Test(emulated_segments, one_operator_cannot_be_cut)
{
    cost_t cost = {.op_ns = 0, .occupancy = 1, .op_count = 1};
    bench_t bench;
    engine_cuts_t cuts;
    err_t err;
    open_bench(&bench, 1, &cost);
    cr_assert_eq(ops->cuts(bench.model, &cuts, &err), STATUS_UNSUPPORTED);
    cr_assert_str_eq(err.text, "the emulated model has one operator: it runs whole");
    close_bench(&bench);
}
