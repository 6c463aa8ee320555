/*
 * The ways of a convolution: whichever is chosen here, results are those of the reference, and memory stays within its limit.
 */
#include "engine/onednn/lower/trial.h"
#include "engine/onednn/run/md.h"
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 9, TO = 16 };

typedef struct {
    int64_t from, to, height, width, pads[4];
    const char *tail;
} shape_t;

static void weights(maker_t *m, const char *name, int64_t to, int64_t from, int64_t size)
{
    size_t count = (size_t)(to * from * size * size);
    float *values = malloc(count * sizeof *values), scale = sqrtf(3.0f / (float)(from * size * size));
    network_noise(values, count, (unsigned)(to + from));
    for (size_t i = 0; i < count; i++)
        values[i] *= scale;
    maker_floats(m, name, 4, (int64_t[]){to, from, size, size}, values);
    free(values);
}

/* 'r'elu, the convolution's input + 'a'dded, 's'igmoid as a gate (SiLU). The name of the result. */
static void tail(maker_t *m, const char *kinds, char last[8])
{
    for (const char *t = kinds; *t; t++) {
        char both[24], next[8];
        snprintf(next, sizeof next, "t%d", (int)(t - kinds));
        if (*t == 's')
            maker_node(m, "Sigmoid", last, "gate");
        snprintf(both, sizeof both, "%s %s", last, *t == 'a' ? "c0" : *t == 's' ? "gate" : "");
        maker_node(m, *t == 'r' ? "Relu" : *t == 'a' ? "Add" : "Mul", *t == 'r' ? last : both, next);
        memcpy(last, next, sizeof next);
    }
}

/* What comes in with its channels last, the convolution and its tail, then what takes either layout. */
static maker_t *network(const shape_t *s)
{
    maker_t *m = maker_create(17);
    char last[8] = "c1", inputs[24];
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 3, s->height, s->width});
    weights(m, "w0", s->from, 3, 1);
    weights(m, "w1", s->to, s->from, 3);
    weights(m, "w2", TO, s->to, 1);
    maker_node(m, "Conv", "x w0", "c0");
    maker_attr_ints(maker_node(m, "Conv", "c0 w1", "c1"), "pads", 4, s->pads);
    tail(m, s->tail, last);
    snprintf(inputs, sizeof inputs, "%s w2", last);
    maker_node(m, "Conv", inputs, "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
} loaded_t;

static loaded_t load(const char *name, const shape_t *shape, engine_config_t config)
{
    loaded_t l;
    err_t err;
    cr_assert_eq(engine_find(name, &l.ops, NULL), STATUS_OK);
    cr_assert_eq(l.ops->open(&config, &l.engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(network(shape), l.ops, l.engine, ROWS, ENGINE_FP32, &l.model, &err), STATUS_OK,
                 "%s", err.text);
    return l;
}

static void unload(loaded_t *l)
{
    l->ops->unload(l->model);
    l->ops->close(l->engine);
}

static float *result(loaded_t *l, uint32_t rows, const float *in, size_t *count)
{
    ticket_t ticket;
    *count = rows * l->ops->info(l->model)->outputs[0].row_bytes / sizeof(float);
    float *out = malloc(*count * sizeof *out);
    engine_job_t job = {
        .model = l->model, .batch = rows, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, l->ops, l->engine, job), STATUS_OK, "%s", ticket.text);
    return out;
}

static float largest(const float *values, size_t count)
{
    float most = 0;
    for (size_t k = 0; k < count; k++)
        most = fmaxf(most, fabsf(values[k]));
    return most;
}

/* As far as single precision goes: an error of a few parts in a million of the largest result. */
static void agree(const shape_t *s, const float *in, const float *want, uint32_t threads)
{
    static const uint32_t sizes[] = {1, 2, ROWS};
    loaded_t ours = load("onednn", s, (engine_config_t){.threads = threads});
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t count;
        float *got = result(&ours, sizes[i], in, &count), most = largest(want, count);
        for (size_t k = 0; k < count; k++)
            cr_assert_float_eq(got[k], want[k], 2e-5f * most,
                               "%ld to %ld of %ld x %ld, tail '%s', %u rows, %u threads: %g for %g of %g",
                               (long)s->from, (long)s->to, (long)s->height, (long)s->width, s->tail, sizes[i],
                               threads, (double)got[k], (double)want[k], (double)most);
        free(got);
    }
    unload(&ours);
}

static void try_shape(const shape_t *s)
{
    size_t count, floats = (size_t)(ROWS * 3 * s->height * s->width);
    loaded_t reference = load("reference", s, (engine_config_t){0});
    float *in = malloc(floats * sizeof *in);
    network_noise(in, floats, 5);
    float *want = result(&reference, ROWS, in, &count);
    agree(s, in, want, 1);
    agree(s, in, want, 2);
    unload(&reference);
    free(want);
    free(in);
}

/* Small and larger than what is tried, with and without whole blocks of channels and whole tiles, padded evenly and not. */
Test(conv_ways, whichever_is_chosen_the_result_is_right)
{
    static const shape_t shapes[] = {
        {32, 32, 28, 28, {1, 1, 1, 1}, ""},   {32, 32, 28, 28, {1, 1, 1, 1}, "r"},
        {64, 64, 17, 21, {1, 1, 1, 1}, "ar"}, {64, 64, 16, 16, {1, 1, 1, 1}, "s"},
        {64, 64, 15, 30, {1, 1, 1, 1}, "sa"}, {48, 64, 14, 14, {0, 0, 0, 0}, "r"},
        {72, 56, 13, 19, {1, 1, 1, 1}, "r"},  {64, 32, 20, 20, {0, 1, 1, 0}, ""},
        {64, 96, 3, 40, {1, 1, 1, 1}, "r"},   {128, 128, 7, 7, {1, 1, 1, 1}, "ra"},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        try_shape(&shapes[i]);
}

/* The weights of a Winograd convolution are up to four times as large. */
Test(conv_ways, speed_takes_a_part_of_the_memory_that_is_left)
{
    enum { LIMIT = 8 << 20, WEIGHTS = 256 * 256 * 9 * 4 };
    static const shape_t shape = {256, 256, 14, 14, {1, 1, 1, 1}, "r"};
    loaded_t l = load("onednn", &shape, (engine_config_t){.memory_limit_bytes = LIMIT});
    err_t err;
    for (uint32_t rows = 1; rows <= 4; rows++)
        cr_assert_eq(l.ops->prepare(l.model, rows, &err), STATUS_OK, "%u rows: %s", rows, err.text);
    cr_expect_gt(l.ops->info(l.model)->memory_bytes, WEIGHTS);
    unload(&l);
}

/* The work space of a Winograd convolution is larger than all that a small model has: of those there are many. */
Test(conv_ways, small_models_stay_small)
{
    static const shape_t shape = {48, 48, 10, 10, {1, 1, 1, 1}, "ar"};
    loaded_t l = load("onednn", &shape, (engine_config_t){0});
    err_t err;
    cr_assert_eq(l.ops->prepare(l.model, ROWS, &err), STATUS_OK, "%s", err.text);
    cr_expect_lt(l.ops->info(l.model)->memory_bytes, 2 << 20);
    unload(&l);
}

/* ---- Trials ---- */

static dnnl_primitive_desc_t exponentials(dnnl_engine_t engine, int64_t count)
{
    dnnl_memory_desc_t md = md_strided(1, &count, NULL);
    dnnl_eltwise_desc_t desc;
    dnnl_primitive_desc_t pd;
    cr_assert_eq(dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, dnnl_eltwise_exp, &md, 0, 0),
                 dnnl_success);
    cr_assert_eq(dnnl_primitive_desc_create(&pd, &desc, NULL, engine, NULL), dnnl_success);
    return pd;
}

/* Of one step, and of two: a thousandth of the work is less on any machine. */
Test(conv_ways, what_takes_less_is_found)
{
    enum { MANY = 1 << 20, FEW = 1 << 10 };
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    cr_assert_eq(dnnl_engine_create(&engine, dnnl_cpu, 0), dnnl_success);
    cr_assert_eq(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), dnnl_success);
    trial_way_t much = {.steps = {exponentials(engine, MANY), exponentials(engine, MANY)}, .count = 2};
    trial_way_t little = {.steps = {exponentials(engine, FEW)}, .count = 1};
    cr_expect_eq(trial_fastest((trial_way_t[]){much, little, much}, 3, engine, stream), 1);
    cr_expect_eq(trial_fastest((trial_way_t[]){little, much}, 2, engine, stream), 0);
    dnnl_primitive_desc_destroy(much.steps[0]);
    dnnl_primitive_desc_destroy(much.steps[1]);
    dnnl_primitive_desc_destroy(little.steps[0]);
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
}
