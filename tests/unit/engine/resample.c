/*
 * Resize on the CPU engine: what the library may do it does, and all of it is as the reference has it.
 */
#include "graph/ir/graph.h"
#include "graph/ops/resize.h"
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 3, CHANNELS = 20, SIDE = 6 };

typedef struct {
    const char *mode, *coordinates, *nearest;
    float scale;
    resize_kind_t kind;
} case_t;

/* 6 x 1.75 is 10 with a rest: the scale is not the ratio of the sizes. */
static const case_t cases[] = {
    {"nearest", "asymmetric", "floor", 2, RESIZE_NEAREST}, /* as PyTorch writes it */
    {"nearest", "asymmetric", "floor", 3, RESIZE_NEAREST},
    {"nearest", "half_pixel", "round_prefer_floor", 2, RESIZE_NEAREST},
    {"nearest", "half_pixel", "round_prefer_ceil", 2.5, RESIZE_NEAREST},
    {"nearest", "asymmetric", "ceil", 2, RESIZE_OTHERWISE},
    {"nearest", "asymmetric", "floor", 1.5, RESIZE_OTHERWISE},
    {"nearest", "asymmetric", "floor", 0.5, RESIZE_OTHERWISE},
    {"linear", "half_pixel", "", 2, RESIZE_LINEAR},
    {"linear", "half_pixel", "", 0.5, RESIZE_LINEAR},
    {"linear", "pytorch_half_pixel", "", 1.5, RESIZE_LINEAR},
    {"linear", "half_pixel", "", 1.75, RESIZE_OTHERWISE},
    {"linear", "align_corners", "", 2, RESIZE_OTHERWISE},
    {"linear", "asymmetric", "", 2, RESIZE_OTHERWISE},
    {"cubic", "half_pixel", "", 2, RESIZE_OTHERWISE},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Behind a convolution, which leaves its result in a layout of its own. */
static maker_t *network(const case_t *c)
{
    maker_t *m = maker_create(17);
    float weights[CHANNELS * 3];
    network_noise(weights, CHANNELS * 3, 1);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 3, SIDE, SIDE});
    maker_floats(m, "w", 4, (int64_t[]){CHANNELS, 3, 1, 1}, weights);
    maker_floats(m, "scales", 1, (int64_t[]){4}, (float[]){1, 1, c->scale, c->scale});
    maker_node(m, "Conv", "x w", "c");
    Onnx__NodeProto *resize = maker_node(m, "Resize", "c  scales", "y");
    maker_attr_string(resize, "mode", c->mode);
    maker_attr_string(resize, "coordinate_transformation_mode", c->coordinates);
    if (*c->nearest)
        maker_attr_string(resize, "nearest_mode", c->nearest);
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

static float *resized(const char *engine_name, const case_t *c, const float *in, size_t *count)
{
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    err_t err;
    ticket_t ticket;
    cr_assert_eq(engine_find(engine_name, &ops, NULL), STATUS_OK);
    cr_assert_eq(ops->open(&(engine_config_t){0}, &engine, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(network_load(network(c), ops, engine, ROWS, ENGINE_FP32, &model, &err), STATUS_OK, "%s",
                 err.text);
    *count = ROWS * ops->info(model)->outputs[0].row_bytes / sizeof(float);
    float *out = malloc(*count * sizeof *out);
    engine_job_t job = {
        .model = model, .batch = ROWS, .inputs = (const void *[]){in}, .outputs = (void *[]){out}};
    cr_assert_eq(ticket_run(&ticket, ops, engine, job), STATUS_OK, "%s", ticket.text);
    ops->unload(model);
    ops->close(engine);
    return out;
}

Test(resample, results_are_those_of_the_reference)
{
    float in[ROWS * 3 * SIDE * SIDE];
    network_noise(in, sizeof in / sizeof *in, 5);
    for (int i = 0; i < CASES; i++) {
        size_t count, wanted;
        float *got = resized("onednn", &cases[i], in, &count),
              *want = resized("reference", &cases[i], in, &wanted);
        cr_assert_eq(count, wanted);
        for (size_t k = 0; k < count; k++)
            cr_assert_float_eq(got[k], want[k], 1e-5f, "case %d, element %zu: %g for %g", i, k,
                               (double)got[k], (double)want[k]);
        free(got);
        free(want);
    }
}

/* What is by centres, of a graph that says sizes and scales in other ways than one. */
static resize_kind_t kind_of(maker_t *m)
{
    onnx_model_t *parsed;
    graph_t *g;
    cr_assert_eq(maker_parse(m, &parsed, NULL), STATUS_OK);
    cr_assert_eq(graph_import(parsed, &g, NULL), STATUS_OK);
    onnx_model_destroy(parsed);
    const node_t *node = &g->nodes[g->node_count - 1];
    const tensor_t *in[4];
    tensor_t x = {.dtype = DTYPE_F32, .rank = 4, .dims = {ROWS, CHANNELS, SIDE, SIDE}}, y;
    err_t err;
    for (uint32_t i = 0; i < node->in_count; i++)
        in[i] = i == 0 ? &x : node->in[i] < 0 ? NULL : &g->values[node->in[i]].t;
    op_ctx_t ctx = {.node = node,
                    .in_count = node->in_count,
                    .out_count = 1,
                    .in = in,
                    .out = (tensor_t *[]){&y},
                    .err = &err};
    resize_kind_t kind = resize_by_centres(&ctx);
    graph_destroy(g);
    return kind;
}

Test(resample, what_may_be_done_by_centres_is_known)
{
    for (int i = 0; i < CASES; i++)
        cr_expect_eq(kind_of(network(&cases[i])), cases[i].kind, "case %d", i);
}
