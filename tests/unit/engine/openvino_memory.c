/* What models of OpenVINO keep in memory. */
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, CHANNELS = 1024, WIDE = 2304 };

static const engine_ops_t *ops;

static engine_t *open_engine(void)
{
    engine_t *engine;
    err_t err;
    cr_assert_eq(engine_find("openvino", &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = 1, .threads = 1}, &engine, &err), STATUS_OK, "%s",
                 err.text);
    return engine;
}

static float *noise(size_t count, unsigned seed)
{
    float *values = malloc(count * sizeof *values);
    network_noise(values, count, seed);
    return values;
}

/* 4 MiB of weights, which the normalisation behind them changes: what was read is nothing that is computed with. */
static maker_t *normalised(void)
{
    float *w = noise((size_t)CHANNELS * CHANNELS, 1), *ones = malloc(CHANNELS * sizeof *ones);
    maker_t *m = maker_create(17);
    for (int i = 0; i < CHANNELS; i++)
        ones[i] = 1;
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, CHANNELS, 2, 2});
    maker_floats(m, "w", 4, (int64_t[]){CHANNELS, CHANNELS, 1, 1}, w);
    maker_floats(m, "one", 1, (int64_t[]){CHANNELS}, ones);
    maker_node(m, "Conv", "x w", "c");
    maker_node(m, "BatchNormalization", "c one one one one", "y");
    maker_output(m, "y", DTYPE_F32, 4, (int64_t[]){-1, CHANNELS, 2, 2});
    free(w);
    free(ones);
    return m;
}

/* As large as what is tried before it is there twice; rows of WIDE give rows of WIDE. */
static maker_t *large(void)
{
    float *w = noise((size_t)WIDE * WIDE, 2);
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, WIDE});
    maker_floats(m, "w", 2, (int64_t[]){WIDE, WIDE}, w);
    maker_node(m, "MatMul", "x w", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, WIDE});
    free(w);
    return m;
}

static engine_model_t *load(engine_t *engine, maker_t *m, uint32_t max_batch)
{
    engine_model_t *model;
    err_t err;
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){.max_batch = max_batch}, &model, &err),
                 STATUS_OK, "%s", err.text);
    return model;
}

static void prepare(engine_model_t *model, uint32_t batch)
{
    err_t err;
    cr_assert_eq(ops->prepare(model, batch, &err), STATUS_OK, "%s", err.text);
}

static void run(engine_t *engine, engine_model_t *model, uint32_t batch, const float *in, float *out)
{
    ticket_t ticket;
    engine_job_t job = {
        .model = model, .batch = batch, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, ops, engine, job), STATUS_OK, "%s", ticket.text);
}

Test(openvino_memory, a_model_that_takes_one_row_is_compiled_once)
{
    engine_t *engine = open_engine();
    engine_model_t *model = load(engine, normalised(), 1);
    uint64_t loaded_bytes = ops->info(model)->memory_bytes;
    prepare(model, 1);
    cr_expect_eq(ops->info(model)->memory_bytes, loaded_bytes);
    ops->unload(model);
    model = load(engine, normalised(), ROWS);
    loaded_bytes = ops->info(model)->memory_bytes;
    prepare(model, 1);
    cr_expect_gt(ops->info(model)->memory_bytes, loaded_bytes);
    ops->unload(model);
    ops->close(engine);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which have heaps of their own */
static size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

/* How often its 4 MiB of weights are there, in tenths. */
static size_t tenths_of_weights(engine_t *engine, uint32_t max_batch)
{
    float *in = noise((size_t)ROWS * CHANNELS * 4, 3), *out = noise((size_t)ROWS * CHANNELS * 4, 4);
    size_t before = heap_bytes();
    engine_model_t *model = load(engine, normalised(), max_batch);
    for (uint32_t b = 1; b <= max_batch; b *= 2) {
        prepare(model, b);
        run(engine, model, b, in, out);
    }
    size_t after = heap_bytes();
    ops->unload(model);
    free(in);
    free(out);
    return (after - before) * 10 / ((size_t)CHANNELS * CHANNELS * sizeof(float));
}

/* As it computes with them, and as they were before that, which OpenVINO keeps: of each compiled form. What was read has gone. */
Test(openvino_memory, what_was_read_goes_when_nothing_more_is_compiled)
{
    engine_t *engine = open_engine();
    (void)tenths_of_weights(engine, ROWS); /* the library's own */
    size_t once = tenths_of_weights(engine, 1), twice = tenths_of_weights(engine, ROWS);
    cr_expect_geq(once, 10, "%zu", once); /* it is seen at all */
    cr_expect_lt(once, 26, "%zu", once);
    cr_expect_lt(twice, 46, "%zu", twice);
    ops->close(engine);
}
#endif

/* Whether it got a form of its own for lone rows or not. */
Test(openvino_memory, a_large_model_computes_the_same_before_and_after_it_is_prepared)
{
    float *in = noise((size_t)ROWS * WIDE, 5), *out = malloc(sizeof(float) * ROWS * WIDE),
          *wanted = malloc(sizeof(float) * ROWS * WIDE);
    engine_t *engine = open_engine();
    engine_model_t *model = load(engine, large(), ROWS);
    run(engine, model, ROWS, in, wanted);
    for (int i = 0; i < 2; i++)
        prepare(model, 1);
    for (uint32_t r = 0; r < ROWS; r++)
        run(engine, model, 1, in + (size_t)r * WIDE, out + (size_t)r * WIDE);
    for (uint32_t i = 0; i < ROWS * WIDE; i++)
        cr_assert_float_eq(out[i], wanted[i], 1e-2f, "element %u: %g and %g", i, (double)out[i],
                           (double)wanted[i]);
    ops->unload(model);
    ops->close(engine);
    free(in);
    free(out);
    free(wanted);
}
