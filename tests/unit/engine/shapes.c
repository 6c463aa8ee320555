/*
 * Models whose dimensions vary from job to job, on an engine that compiles each set of shapes.
 */
#include "base/prng.h"
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SHAPES_ENGINE
#define SHAPES_ENGINE "onednn"
#endif

enum { ROWS = 2, WIDTH_MAX = 400, STREAMS = 3 };

static const engine_ops_t *ops;

/* One job with rows of `width`, and where it puts them. */
typedef struct {
    ticket_t ticket;
    float in[ROWS * WIDTH_MAX], out[ROWS * WIDTH_MAX];
    const void *inputs[1];
    void *outputs[1];
    engine_shape_t in_shape, out_shape;
    size_t capacity_bytes;
} run_t;

static engine_t *open_engine(engine_model_t **model)
{
    engine_t *engine;
    err_t err;
    cr_assert_eq(engine_find(SHAPES_ENGINE, &ops, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->open(&(engine_config_t){.streams = STREAMS}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(network_varying(), ops, engine, 0, ENGINE_FP32, model, &err), STATUS_OK, "%s",
                 err.text);
    return engine;
}

static engine_job_t job_of(run_t *run, engine_model_t *model, uint32_t stream, uint32_t rows, int64_t width)
{
    run->inputs[0] = run->in;
    run->outputs[0] = run->out;
    run->in_shape = (engine_shape_t){2, {rows, width}};
    run->out_shape = (engine_shape_t){0};
    run->capacity_bytes = rows * (size_t)width * sizeof(float);
    for (int64_t i = 0; i < rows * width; i++)
        run->in[i] = (float)((i * 5 + width) % 7);
    return (engine_job_t){.model = model,
                          .batch = rows,
                          .range = {.stream = stream},
                          .inputs = run->inputs,
                          .outputs = run->outputs,
                          .input_shapes = &run->in_shape,
                          .output_shapes = &run->out_shape,
                          .output_capacity_bytes = &run->capacity_bytes};
}

static void check(const run_t *run)
{
    int64_t rows = run->in_shape.dims[0], width = run->in_shape.dims[1];
    cr_assert_eq(run->out_shape.dims[1], width);
    for (int64_t row = 0; row < rows; row++) {
        float sum = 0;
        for (int64_t i = 0; i < width; i++)
            sum += run->in[row * width + i];
        for (int64_t i = 0; i < width; i++)
            cr_assert_float_eq(run->out[row * width + i], run->in[row * width + i] - sum, 1e-2f);
    }
}

Test(shapes, dimensions_may_vary_from_job_to_job)
{
    engine_model_t *model;
    engine_t *engine = open_engine(&model);
    run_t *run = calloc(1, sizeof *run);
    const engine_model_info_t *info = ops->info(model);
    cr_assert(info->batchable);
    cr_assert_eq(info->inputs[0].dims[0], -1);
    cr_assert_str_eq(info->inputs[0].symbols[0], "n");
    cr_assert_eq(info->outputs[0].dims[0], -1);
    cr_assert_null(info->outputs[0].symbols[0], "the output declares no shape");
    cr_assert_eq(info->outputs[0].row_bytes, 0);
    for (int64_t width = 1; width <= 40; width++) {
        char says[48];
        engine_job_t job = job_of(run, model, 0, 2, width);
        cr_assert_eq(ticket_run(&run->ticket, ops, engine, job), STATUS_OK, "%s", run->ticket.text);
        check(run);
        run->capacity_bytes--;
        cr_assert_eq(ticket_run(&run->ticket, ops, engine, job), STATUS_TOO_LARGE);
        cr_assert_eq(run->out_shape.dims[1], width, "the shape must be told also when there is no room");
        snprintf(says, sizeof says, "came out as [2,%lld],", (long long)width);
        cr_assert(strstr(run->ticket.text, says), "'%s' is not in '%s'", says, run->ticket.text);
        run->in_shape.dims[0] = 3;
        cr_assert_eq(ticket_run(&run->ticket, ops, engine, job), STATUS_INVALID_ARGUMENT);
    }
    ops->unload(model);
    ops->close(engine);
    free(run);
}

/* Shapes are prepared by one thread, so many that they push each other out, while jobs of one of them run. */
Test(shapes, preparing_leaves_the_running_one_alone)
{
    enum { WIDTHS = 300 };
    engine_model_t *model;
    engine_t *engine = open_engine(&model);
    run_t *run = calloc(1, sizeof *run);
    err_t err;
    for (int64_t width = 1; width <= WIDTHS; width++) {
        engine_shape_t next = {2, {1, width}};
        ticket_start(&run->ticket, ops, engine, job_of(run, model, 0, 1, WIDTHS));
        cr_assert_eq(ops->prepare_shapes(model, 1, &next, &err), STATUS_OK, "%s", err.text);
        cr_assert_eq(ticket_wait(&run->ticket), STATUS_OK, "%s", run->ticket.text);
        check(run);
    }
    engine_shape_t wrong = {2, {2, 4}};
    cr_assert_eq(ops->prepare_shapes(model, 1, &wrong, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ops->prepare_shapes(model, 0, &wrong, &err), STATUS_INVALID_ARGUMENT);
    ops->unload(model);
    ops->close(engine);
    free(run);
}

/* More widths than plans are kept, some of them wanted by several streams at once. */
Test(shapes, streams_run_shapes_side_by_side)
{
    enum { ROUNDS = 500 };
    engine_model_t *model;
    engine_t *engine = open_engine(&model);
    run_t *runs = calloc(STREAMS, sizeof *runs);
    prng_t prng;
    prng_init(&prng, 7);
    for (int round = 0; round < ROUNDS; round++) {
        int64_t shared = 1 + (int64_t)prng_below(&prng, WIDTH_MAX);
        for (uint32_t s = 0; s < STREAMS; s++) {
            int64_t width = prng_below(&prng, 3) ? 1 + (int64_t)prng_below(&prng, WIDTH_MAX) : shared;
            uint32_t rows = 1 + (uint32_t)prng_below(&prng, ROWS);
            ticket_start(&runs[s].ticket, ops, engine, job_of(&runs[s], model, s, rows, width));
        }
        for (uint32_t s = 0; s < STREAMS; s++) {
            cr_assert_eq(ticket_wait(&runs[s].ticket), STATUS_OK, "%s", runs[s].ticket.text);
            check(&runs[s]);
        }
    }
    ops->unload(model);
    ops->close(engine);
    free(runs);
}
