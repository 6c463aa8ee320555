/* The lowering: which steps a graph becomes, as readable text; and that the buffers of a program never meet. */
#include "engine/cuda/lower/supports.h"
#include "graph/passes/fuse.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void zeros(maker_t *m, const char *name, int rank, const int64_t *dims)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    float *v = calloc(n, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(i % 7) - 3;
    maker_floats(m, name, rank, dims, v);
    free(v);
}

typedef struct {
    graph_t *graph;
    constants_t constants;
    program_t *program;
    char *text;
} lowered_t;

static lowered_t lower(maker_t *m, engine_precision_t precision)
{
    lowered_t r = {.graph = NULL};
    onnx_model_t *model;
    graph_t *instance;
    tensor_t inputs[8];
    err_t err;
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(graph_import(model, &r.graph, &err), STATUS_OK, "%s", err.text);
    onnx_model_destroy(model);
    for (uint32_t i = 0; i < r.graph->input_count; i++) {
        inputs[i] = (tensor_t){.dtype = r.graph->inputs[i].dtype, .rank = r.graph->inputs[i].rank};
        memcpy(inputs[i].dims, r.graph->inputs[i].dims, sizeof inputs[i].dims);
    }
    cr_assert_eq(graph_fold_batch_norms(r.graph, &err), STATUS_OK);
    cr_assert_eq(graph_recognise(r.graph, &err), STATUS_OK);
    cr_assert_eq(graph_instantiate(r.graph, inputs, &instance, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(graph_fuse_epilogues(instance, cuda_supports_epilogue, &err), STATUS_OK);
    cr_assert_eq(lower_program(instance, precision, &r.constants, &r.program, &err), STATUS_OK, "%s",
                 err.text);
    r.text = program_text(r.program);
    return r;
}

static void drop(lowered_t *r)
{
    free(r->text);
    program_destroy(r->program);
    constants_dispose(&r->constants);
    graph_destroy(r->graph);
}

static void expect(maker_t *m, engine_precision_t precision, const char *text)
{
    lowered_t r = lower(m, precision);
    cr_assert_str_eq(r.text, text);
    drop(&r);
}

static maker_t *residual_block(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){2, 16, 8, 8});
    zeros(m, "w1", 4, (int64_t[]){16, 16, 3, 3});
    zeros(m, "b1", 1, (int64_t[]){16});
    zeros(m, "w2", 4, (int64_t[]){16, 16, 1, 1});
    Onnx__NodeProto *conv = maker_node(m, "Conv", "x w1 b1", "c1");
    maker_attr_ints(conv, "pads", 4, (int64_t[]){1, 1, 1, 1});
    maker_node(m, "Relu", "c1", "r1");
    maker_node(m, "Conv", "r1 w2", "c2");
    maker_node(m, "Add", "c2 r1", "a");
    maker_node(m, "Relu", "a", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(cuda_lower, a_residual_block_is_two_fused_convolutions)
{
    expect(residual_block(), ENGINE_FP16,
           "convert [2x64x16] 0 ops -> f16\n"
           "conv f16 2x16x1x8x8 -> 2x16x1x8x8 k1x3x3 +bias +relu\n"
           "conv f16 2x16x1x8x8 -> 2x16x1x8x8 k1x1x1 +add +relu\n"
           "convert [2x16x64] 0 ops -> f32\n");
}

Test(cuda_lower, float32_needs_reordering_only)
{
    expect(residual_block(), ENGINE_FP32,
           "copy [2x64x16]\n"
           "conv f32 2x16x1x8x8 -> 2x16x1x8x8 k1x3x3 +bias +relu\n"
           "conv f32 2x16x1x8x8 -> 2x16x1x8x8 k1x1x1 +add +relu\n"
           "copy [2x16x64]\n");
}

/* Self-attention's way through reshapes and transposes, which are views. */
Test(cuda_lower, heads_cost_no_copies_at_batch_1)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){1, 128, 64});
    zeros(m, "wq", 2, (int64_t[]){64, 64});
    zeros(m, "bq", 1, (int64_t[]){64});
    zeros(m, "wk", 2, (int64_t[]){64, 64});
    maker_ints(m, "shape", 4, (int64_t[]){1, 128, 4, 16});
    maker_node(m, "MatMul", "x wq", "q0");
    maker_node(m, "Add", "q0 bq", "q1");
    maker_node(m, "MatMul", "x wk", "k1");
    maker_node(m, "Reshape", "q1 shape", "q2");
    maker_node(m, "Reshape", "k1 shape", "k2");
    maker_attr_ints(maker_node(m, "Transpose", "q2", "q"), "perm", 4, (int64_t[]){0, 2, 1, 3});
    maker_attr_ints(maker_node(m, "Transpose", "k2", "k"), "perm", 4, (int64_t[]){0, 2, 3, 1});
    maker_floats(m, "scale", 0, NULL, (float[]){0.25f});
    maker_node(m, "MatMul", "q k", "s0");
    maker_node(m, "Mul", "s0 scale", "s");
    maker_node(m, "Softmax", "s", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, ENGINE_BF16,
           "convert [8192] 0 ops -> bf16\n"
           "gemm bf16 128x64x64\n"
           "gemm bf16 128x64x64 +bias\n"
           "gemm bf16 128x128x16 batch=4 bt\n"
           "Softmax\n"
           "convert [65536] 0 ops -> f32\n");
}

Test(cuda_lower, chains_of_elementwise_operators_are_one_kernel)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){4, 8});
    maker_input(m, "z", DTYPE_F32, 2, (int64_t[]){4, 8});
    zeros(m, "c", 1, (int64_t[]){8});
    maker_node(m, "Mul", "x c", "a");
    maker_node(m, "Add", "a z", "b");
    maker_node(m, "Tanh", "b", "d");
    maker_node(m, "Abs", "d", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, ENGINE_FP32, "Mul [4x8] 4 ops -> f32\ncopy [32]\n");
}

Test(cuda_lower, many_inputs_are_concatenated_at_once)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){2, 3, 4, 4});
    maker_input(m, "z", DTYPE_F32, 4, (int64_t[]){2, 5, 4, 4});
    maker_attr_int(maker_node(m, "Concat", "x z x", "y"), "axis", 1);
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, ENGINE_FP32, "Concat\ncopy [352]\n");
}

Test(cuda_lower, uneven_padding_is_copied_before_the_convolution)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){1, 8, 6, 6});
    zeros(m, "w", 4, (int64_t[]){8, 8, 3, 3});
    Onnx__NodeProto *conv = maker_node(m, "Conv", "x w", "y");
    maker_attr_ints(conv, "pads", 4, (int64_t[]){0, 0, 1, 1});
    maker_attr_ints(conv, "strides", 2, (int64_t[]){2, 2});
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, ENGINE_FP16,
           "convert [36x8] 0 ops -> f16\n"
           "zero\n"
           "copy [6x48]\n"
           "conv f16 1x8x1x7x7 -> 1x8x1x3x3 k1x3x3\n"
           "convert [8x9] 0 ops -> f32\n");
}

Test(cuda_lower, operators_without_a_kernel_run_on_the_cpu)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){2, 9});
    maker_ints(m, "k", 1, (int64_t[]){3});
    maker_node(m, "TopK", "x k", "values indices");
    maker_output(m, "values", DTYPE_F32, -1, NULL);
    maker_output(m, "indices", DTYPE_I64, -1, NULL);
    expect(m, ENGINE_FP32, "host TopK\ncopy [6]\ncopy [6]\n");
}

Test(cuda_lower, too_large_a_tensor_is_refused_by_name)
{
    maker_t *m = maker_create(17);
    onnx_model_t *model;
    graph_t *graph, *instance;
    constants_t constants = {0};
    program_t *program;
    err_t err;
    int64_t n = INT64_C(1) << 16;
    maker_input(m, "x", DTYPE_I8, 2, (int64_t[]){n, 1});
    maker_input(m, "z", DTYPE_I8, 2, (int64_t[]){1, n});
    Onnx__NodeProto *node = maker_node(m, "Add", "x z", "y");
    (void)node;
    maker_output(m, "y", DTYPE_I8, -1, NULL);
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK);
    cr_assert_eq(graph_import(model, &graph, &err), STATUS_OK, "%s", err.text);
    onnx_model_destroy(model);
    tensor_t inputs[2] = {{.dtype = DTYPE_I8, .rank = 2, .dims = {n, 1}},
                          {.dtype = DTYPE_I8, .rank = 2, .dims = {1, n}}};
    cr_assert_eq(graph_instantiate(graph, inputs, &instance, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(lower_program(instance, ENGINE_FP32, &constants, &program, &err), STATUS_UNSUPPORTED);
    cr_assert(strstr(err.text, "Add") && strstr(err.text, "2^31"), "%s", err.text);
    constants_dispose(&constants);
    graph_destroy(graph);
}

/* Of two buffers that are alive at the same step, no byte is shared. */
Test(cuda_lower, live_buffers_do_not_overlap)
{
    lowered_t r = lower(residual_block(), ENGINE_FP16);
    const program_t *p = r.program;
    for (uint32_t i = 0; i < p->buffer_count; i++)
        for (uint32_t k = 0; k < i; k++) {
            const buffer_t *a = &p->buffers[i], *b = &p->buffers[k];
            bool work = a->kind == BUFFER_WORK && b->kind == BUFFER_WORK && a->first != UINT32_MAX &&
                        b->first != UINT32_MAX;
            if (work && a->first <= b->last && b->first <= a->last)
                cr_assert(a->offset + a->len_bytes <= b->offset || b->offset + b->len_bytes <= a->offset);
        }
    cr_assert_gt(p->work_bytes, 0);
    drop(&r);
}

Test(cuda_lower, weights_are_kept_once_per_type_and_layout)
{
    lowered_t r = lower(residual_block(), ENGINE_FP16);
    cr_assert_eq(r.constants.count, 3, "%u constants", r.constants.count);
    for (uint32_t i = 0; i < r.constants.count; i++)
        cr_assert_eq(r.constants.items[i].dtype, DTYPE_F16);
    drop(&r);
}

/* Element (o, i, y, x) of a filter goes to place o · HWI + y · WI + x · I + i, rounded. */
Test(cuda_lower, filters_are_turned_and_rounded_on_the_way)
{
    float from[2 * 3 * 1 * 2];
    uint16_t to[12];
    for (int i = 0; i < 12; i++)
        from[i] = (float)i + 0.5f;
    constant_t c = {.from = {.dtype = DTYPE_F32, .rank = 4, .dims = {2, 3, 1, 2}, .data = from},
                    .dtype = DTYPE_F16,
                    .layout = LAYOUT_CHANNELS_LAST,
                    .len_bytes = sizeof to};
    constant_write(&c, to);
    cr_assert_eq(half_to_float(to[0]), 0.5f);
    cr_assert_eq(half_to_float(to[1]), 2.5f, "the next channel");
    cr_assert_eq(half_to_float(to[3]), 1.5f, "the next column");
    cr_assert_eq(half_to_float(to[6]), 6.5f, "the next filter");
}
