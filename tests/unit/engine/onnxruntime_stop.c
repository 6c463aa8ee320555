/* A run of onnxruntime that is told to stop: in the middle of a model that would run for years. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 4 };

static const engine_ops_t *ops;
static engine_t *engine;

static void begin(uint32_t streams)
{
    err_t err;
    cr_assert_eq(engine_find("onnxruntime", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = streams}, &engine, &err), STATUS_OK, "%s", err.text);
}

/* Values and nodes that the maker makes for a graph of its own become the body of `loop`. */
static void set_body(Onnx__NodeProto *loop, maker_t *body)
{
    Onnx__AttributeProto *attr = malloc(sizeof *attr);
    onnx__attribute_proto__init(attr);
    attr->name = strdup("body");
    attr->has_type = 1;
    attr->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    attr->g = maker_proto(body)->graph;
    free(attr->g->name);
    attr->g->name = strdup("body");
    maker_proto(body)->graph = NULL;
    loop->attribute = realloc(loop->attribute, (loop->n_attribute + 1) * sizeof *loop->attribute);
    loop->attribute[loop->n_attribute++] = attr;
}

/* x, a row, added to itself as often as the sum of its elements says. */
static engine_model_t *load_counter(void)
{
    engine_model_t *model = NULL;
    size_t len;
    err_t err;
    maker_t *m = maker_create(17), *body = maker_create(17);
    maker_input(body, "i", DTYPE_I64, 0, NULL);
    maker_input(body, "going", DTYPE_BOOL, 0, NULL);
    maker_input(body, "before", DTYPE_F32, 2, (int64_t[]){1, WIDTH});
    maker_node(body, "Identity", "going", "on");
    maker_node(body, "Add", "before x", "after");
    maker_output(body, "on", DTYPE_BOOL, 0, NULL);
    maker_output(body, "after", DTYPE_F32, 2, (int64_t[]){1, WIDTH});
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){1, WIDTH});
    maker_attr_int(maker_node(m, "ReduceSum", "x", "sum"), "keepdims", 0);
    maker_attr_int(maker_node(m, "Cast", "sum", "times"), "to", DTYPE_I64);
    set_body(maker_node(m, "Loop", "times  x", "y"), body);
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){1, WIDTH});
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){.max_batch = 2}, &model, &err), STATUS_OK,
                 "%s", err.text);
    free(maker_pack(body, &len));
    return model;
}

typedef struct {
    float in[WIDTH], out[WIDTH];
    const void *inputs[1];
    void *outputs[1];
    ticket_t ticket;
} run_t;

static void start(run_t *run, engine_model_t *model, uint32_t stream, float first, bool stoppable)
{
    memset(run, 0, sizeof *run);
    run->in[0] = first;
    run->inputs[0] = run->in;
    run->outputs[0] = run->out;
    ticket_start(&run->ticket, ops, engine,
                 (engine_job_t){.model = model,
                                .batch = 1,
                                .range = {.stream = stream},
                                .inputs = run->inputs,
                                .outputs = run->outputs,
                                .stoppable = stoppable});
}

static void wait_until_it_runs(const run_t *run)
{
    while (!*(const volatile int64_t *)&run->ticket.job.started_ns)
        sched_yield();
}

static void end(engine_model_t *model)
{
    ops->unload(model);
    ops->close(engine);
}

static const float FOR_YEARS = 1e18f;

Test(onnxruntime_stop, a_run_ends_when_it_is_told_and_the_next_one_runs, .timeout = 120)
{
    static run_t endless, behind;
    begin(1);
    engine_model_t *model = load_counter();
    cr_expect_geq(ops->info(model)->stop_points, 1);
    for (int round = 0; round < 20; round++) {
        start(&endless, model, 0, FOR_YEARS, true);
        if (round % 2)
            wait_until_it_runs(&endless);
        start(&behind, model, 0, 3, true);
        cr_assert(ops->stop(engine, &endless.ticket.job));
        cr_assert_eq(ticket_wait(&endless.ticket), STATUS_CANCELLED, "%s", endless.ticket.text);
        cr_expect_eq(endless.ticket.job.reached, 0);
        cr_assert_eq(ticket_wait(&behind.ticket), STATUS_OK, "%s", behind.ticket.text);
        cr_expect_float_eq(behind.out[0], 12, 1e-6f);
    }
    end(model);
}

/* What is told to one stream stays there. */
Test(onnxruntime_stop, a_run_beside_goes_on, .timeout = 120)
{
    static run_t endless, beside;
    begin(2);
    engine_model_t *model = load_counter();
    start(&endless, model, 0, FOR_YEARS, true);
    start(&beside, model, 1, 100000, true);
    wait_until_it_runs(&endless);
    wait_until_it_runs(&beside);
    cr_assert(ops->stop(engine, &endless.ticket.job));
    cr_assert_eq(ticket_wait(&endless.ticket), STATUS_CANCELLED);
    cr_assert_eq(ticket_wait(&beside.ticket), STATUS_OK, "%s", beside.ticket.text);
    end(model);
}

Test(onnxruntime_stop, who_is_not_stoppable_is_not_stopped, .timeout = 120)
{
    static run_t run;
    begin(1);
    engine_model_t *model = load_counter();
    start(&run, model, 0, 50000, false);
    wait_until_it_runs(&run);
    cr_assert_not(ops->stop(engine, &run.ticket.job));
    cr_assert_eq(ticket_wait(&run.ticket), STATUS_OK, "%s", run.ticket.text);
    end(model);
}
