/*
 * Every function of graph/ops/elementwise.h, by itself and behind a product, on each engine: as the operator's own kernel
 * computes it. One that has no case in an engine's tables shows here.
 */
#include "graph/ops/op.h"
#include "maker.h"
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <math.h>

enum { WIDTH = 64 };

static const engine_ops_t *engine_ops(const char *name)
{
    const engine_ops_t *ops = NULL;
    err_t err;
    cr_assert_eq(engine_find(name, &ops, &err), STATUS_OK, "%s", err.text);
    return ops;
}

static maker_t *network(const char *name, bool behind)
{
    maker_t *m = maker_create(20);
    float unit[WIDTH * WIDTH] = {0};
    for (int i = 0; i < WIDTH; i++)
        unit[i * WIDTH + i] = 1;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDTH});
    maker_floats(m, "w", 2, (int64_t[]){WIDTH, WIDTH}, unit);
    if (behind)
        maker_node(m, "MatMul", "x w", "h");
    maker_node(m, name, behind ? "h" : "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

static void run(const char *engine_name, maker_t *m, const float *in, float *out)
{
    const engine_ops_t *ops = engine_ops(engine_name);
    engine_model_t *model;
    engine_t *engine;
    ticket_t ticket;
    err_t err;
    cr_assert_eq(ops->open(&(engine_config_t){.streams = 1}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(m, ops, engine, 1, ENGINE_FP32, &model, &err), STATUS_OK, "%s", err.text);
    engine_job_t job = {
        .model = model, .batch = 1, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, ops, engine, job), STATUS_OK, "%s", ticket.text);
    ops->unload(model);
    ops->close(engine);
}

static bool is_near(float a, float b)
{
    return (isnan(a) && isnan(b)) || a == b || fabsf(a - b) <= 1e-5f + 1e-5f * fabsf(b);
}

static void compare(const op_t *op, const char *engine, bool behind)
{
    float in[WIDTH], want[WIDTH], out[WIDTH];
    for (int i = 0; i < WIDTH; i++)
        in[i] = (float)(i - WIDTH / 2) / 16 +
                0.01f; /* -2 .. 2, within and beyond what each function is defined for */
    run("reference", network(op->name, behind), in, want);
    run(engine, network(op->name, behind), in, out);
    for (int i = 0; i < WIDTH; i++)
        cr_expect(is_near(out[i], want[i]), "%s of %g%s on %s is %g, not %g", op->name, (double)in[i],
                  behind ? " behind a product" : "", engine, (double)out[i], (double)want[i]);
}

static void compare_all(void *engine, const op_t *op)
{
    if (op->kind != OP_UNARY)
        return;
    compare(op, engine, false);
    compare(op, engine, true);
}

Test(elementwise, onednn_computes_what_the_table_says)
{
    op_each(compare_all, "onednn");
}

Test(elementwise, cuda_computes_what_the_table_says)
{
    op_each(compare_all, "cuda-host");
}
