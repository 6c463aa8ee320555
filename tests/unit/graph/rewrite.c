#include "graph/ops/op.h"
#include "graph/passes/fuse.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static graph_t *import(maker_t *m)
{
    onnx_model_t *model;
    graph_t *g = NULL;
    err_t err = {.text = ""};
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(graph_import(model, &g, &err), STATUS_OK, "%s", err.text);
    onnx_model_destroy(model);
    return g;
}

/* "Conv+Add+Relu MaxPool" */
static const char *listing(const graph_t *g, char *text)
{
    *text = '\0';
    for (uint32_t n = 0; n < g->node_count; n++) {
        strcat(strcat(text, n ? " " : ""), g->nodes[n].op->name);
        for (uint32_t e = 0; e < g->nodes[n].epilogue_count; e++) {
            const epilogue_t *tail = &g->nodes[n].epilogue[e];
            strcat(strcat(text, "+"), tail->kind == EPILOGUE_ADD ? "Add" : tail->op->name);
        }
    }
    return text;
}

static float *noise(size_t n, unsigned seed)
{
    float *v = malloc(n * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(rand_r(&seed) % 2001) / 1000 - 1;
    return v;
}

static void floats(maker_t *m, const char *name, int rank, const int64_t *dims, unsigned seed)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    float *v = noise(n, seed);
    maker_floats(m, name, rank, dims, v);
    free(v);
}

static float *interpret(const graph_t *g, const tensor_t *in, size_t *count)
{
    graph_t *i;
    err_t err;
    cr_assert_eq(graph_interpret(g, in, &i, &err), STATUS_OK, "%s", err.text);
    const tensor_t *y = &i->values[i->outputs[0].value].t;
    *count = tensor_count(y);
    float *copy = malloc(tensor_bytes(y) + 1);
    memcpy(copy, y->data, tensor_bytes(y));
    graph_destroy(i);
    return copy;
}

/* Both graphs give the same on noise. */
static void expect_same(const graph_t *a, const graph_t *b, tensor_t in)
{
    size_t na, nb;
    in.data = noise(tensor_count(&in), 99);
    float *ya = interpret(a, &in, &na), *yb = interpret(b, &in, &nb);
    cr_assert_eq(na, nb);
    for (size_t i = 0; i < na; i++)
        cr_assert_float_eq(ya[i], yb[i], 1e-4f + 1e-4f * fabsf(ya[i]), "%zu", i);
    free(ya);
    free(yb);
    free(in.data);
}

static maker_t *conv_bn(void)
{
    maker_t *m = maker_create(17);
    float variance[3] = {0.5f, 1, 2};
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, 5, 5});
    floats(m, "w", 4, (int64_t[]){3, 2, 3, 3}, 1);
    floats(m, "b", 1, (int64_t[]){3}, 2);
    floats(m, "scale", 1, (int64_t[]){3}, 3);
    floats(m, "shift", 1, (int64_t[]){3}, 4);
    floats(m, "mean", 1, (int64_t[]){3}, 5);
    maker_floats(m, "variance", 1, (int64_t[]){3}, variance);
    maker_node(m, "Conv", "x w b", "c");
    maker_node(m, "BatchNormalization", "c scale shift mean variance", "n");
    maker_node(m, "Relu", "n", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(fold, a_batch_norm_vanishes_into_its_convolution)
{
    char text[256];
    graph_t *plain = import(conv_bn()), *folded = import(conv_bn());
    cr_assert_eq(graph_fold_batch_norms(folded, NULL), STATUS_OK);
    cr_assert_str_eq(listing(folded, text), "Conv Relu");
    cr_assert(graph_validate(folded));
    expect_same(plain, folded, (tensor_t){.dtype = DTYPE_F32, .rank = 4, .dims = {2, 2, 5, 5}});
    graph_destroy(plain);
    graph_destroy(folded);
}

Test(fold, a_convolution_that_others_read_is_left_alone)
{
    char text[256];
    maker_t *m = conv_bn();
    maker_output(m, "c", DTYPE_F32, -1, NULL);
    graph_t *g = import(m);
    cr_assert_eq(graph_fold_batch_norms(g, NULL), STATUS_OK);
    cr_assert_str_eq(listing(g, text), "Conv BatchNormalization Relu");
    graph_destroy(g);
}

/* As an exporter of TensorFlow writes it: padding of its own, and a normalisation that is spelled out. */
static maker_t *pad_conv_affine(int channel_dims, const char *add)
{
    maker_t *m = maker_create(17);
    const int64_t *dims = channel_dims == 4 ? (int64_t[]){1, 3, 1, 1} : (int64_t[]){3, 1, 1};
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, 5, 5});
    maker_ints(m, "pads", 8, (int64_t[]){0, 0, 0, 1, 0, 0, 1, 2});
    floats(m, "w", 4, (int64_t[]){3, 2, 3, 3}, 1);
    floats(m, "scale", channel_dims, dims, 3);
    floats(m, "shift", channel_dims, dims, 4);
    maker_node(m, "Pad", "x pads", "p");
    maker_node(m, "Conv", "p w", "c");
    maker_node(m, "Mul", "scale c", "n");
    maker_node(m, add, "n shift", "a");
    maker_node(m, "Relu", "a", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(fold, padding_and_a_spelled_out_normalisation_vanish_too)
{
    const char *const adds[] = {"Add", "Sub"};
    for (int i = 0; i < 4; i++) {
        char text[256];
        graph_t *plain = import(pad_conv_affine(3 + i % 2, adds[i / 2]));
        graph_t *folded = import(pad_conv_affine(3 + i % 2, adds[i / 2]));
        cr_assert_eq(graph_fold_batch_norms(folded, NULL), STATUS_OK);
        cr_assert_str_eq(listing(folded, text), "Conv Relu");
        cr_assert(graph_validate(folded));
        expect_same(plain, folded, (tensor_t){.dtype = DTYPE_F32, .rank = 4, .dims = {2, 2, 5, 5}});
        graph_destroy(plain);
        graph_destroy(folded);
    }
}

Test(fold, what_only_shapes_show)
{
    char text[256];
    tensor_t in = {.dtype = DTYPE_F32, .rank = 4, .dims = {2, 2, 5, 5}};
    maker_t *m = maker_create(18);
    graph_t *instance, *plain;
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, -2, -3});
    maker_ints(m, "axes", 2, (int64_t[]){-1, 2});
    maker_ints(m, "five", 4, (int64_t[]){2, 2, 3, 4});
    floats(m, "w", 4, (int64_t[]){3, 2, 3, 3}, 1);
    maker_node(m, "Shape", "x", "s");
    maker_node(m, "Sub", "s five", "p"); /* 0 0 2 1 */
    maker_attr_int(maker_node(m, "Concat", "p p", "pads"), "axis", 0);
    maker_node(m, "Pad", "x pads", "wide");
    maker_node(m, "Conv", "wide w", "c");
    maker_node(m, "ReduceMean", "c axes", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    graph_t *g = import(m);
    cr_assert_eq(graph_instantiate(g, &in, &instance, NULL), STATUS_OK);
    cr_assert_eq(graph_instantiate(g, &in, &plain, NULL), STATUS_OK);
    cr_assert_eq(graph_fold_shaped(instance, NULL), STATUS_OK);
    cr_assert_str_eq(listing(instance, text), "Conv GlobalAveragePool");
    cr_assert(graph_validate(instance));
    expect_same(plain, instance, in);
    graph_destroy(plain);
    graph_destroy(instance);
    graph_destroy(g);
}

Test(fold, what_is_no_constant_for_each_channel_stays)
{
    char text[256];
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, 3, 3});
    maker_ints(m, "channels", 8, (int64_t[]){0, 1, 0, 0, 0, 0, 0, 0});
    floats(m, "w", 4, (int64_t[]){3, 3, 1, 1}, 1);
    floats(m, "columns", 1, (int64_t[]){3}, 3);
    floats(m, "wide", 5, (int64_t[]){2, 1, 3, 1, 1}, 3);
    maker_node(m, "Pad", "x channels", "p");
    maker_node(m, "Conv", "p w", "c");
    maker_node(m, "Mul", "c columns", "n");
    maker_node(m, "Conv", "n w", "d");
    maker_node(m, "Add", "d wide", "e");
    maker_node(m, "Conv", "n w", "f");
    maker_node(m, "Sub", "columns f", "g");
    maker_output(m, "e", DTYPE_F32, -1, NULL);
    maker_output(m, "g", DTYPE_F32, -1, NULL);
    graph_t *g = import(m);
    cr_assert_eq(graph_fold_batch_norms(g, NULL), STATUS_OK);
    cr_assert_str_eq(listing(g, text), "Pad Conv Mul Conv Conv Add Sub");
    graph_destroy(g);
}

static void scalar(maker_t *m, const char *name, float value)
{
    maker_floats(m, name, 0, NULL, &value);
}

static maker_t *gelu(int order)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 8});
    scalar(m, "root", order == 1 ? 0.70710678f : 1.41421356f);
    scalar(m, "one", 1);
    scalar(m, "half", 0.5f);
    maker_node(m, order == 1 ? "Mul" : "Div", "x root", "s");
    maker_node(m, "Erf", "s", "e");
    maker_node(m, "Add", order == 2 ? "one e" : "e one", "a");
    if (order == 1) {
        maker_node(m, "Mul", "x half", "h");
        maker_node(m, "Mul", "h a", "y");
    } else if (order == 2) {
        maker_node(m, "Mul", "half a", "h");
        maker_node(m, "Mul", "h x", "y");
    } else {
        maker_node(m, "Mul", "x a", "h");
        maker_node(m, "Mul", "h half", "y");
    }
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(recognise, gelu_in_every_order)
{
    for (int order = 0; order < 3; order++) {
        char text[256];
        graph_t *plain = import(gelu(order)), *short_form = import(gelu(order));
        cr_assert_eq(graph_recognise(short_form, NULL), STATUS_OK);
        cr_assert_str_eq(listing(short_form, text), "Gelu", "order %d: %s", order, text);
        expect_same(plain, short_form, (tensor_t){.dtype = DTYPE_F32, .rank = 2, .dims = {3, 8}});
        graph_destroy(plain);
        graph_destroy(short_form);
    }
}

static maker_t *layer_norm(bool linear)
{
    maker_t *m = maker_create(13);
    maker_input(m, "in", DTYPE_F32, 3, (int64_t[]){-1, 4, 8});
    scalar(m, "two", 2);
    scalar(m, "epsilon", 1e-5f);
    floats(m, "gamma", 1, (int64_t[]){8}, 1);
    floats(m, "beta", 1, (int64_t[]){8}, 2);
    floats(m, "w", 2, (int64_t[]){8, 8}, 3);
    floats(m, "b", 1, (int64_t[]){8}, 4);
    if (linear) {
        maker_node(m, "MatMul", "in w", "p");
        maker_node(m, "Add", "b p", "x");
    } else {
        maker_node(m, "Relu", "in", "x");
    }
    maker_attr_ints(maker_node(m, "ReduceMean", "x", "mean"), "axes", 1, (int64_t[]){-1});
    maker_node(m, "Sub", "x mean", "d");
    maker_node(m, "Pow", "d two", "d2");
    maker_attr_ints(maker_node(m, "ReduceMean", "d2", "var"), "axes", 1, (int64_t[]){-1});
    maker_node(m, "Add", "var epsilon", "ve");
    maker_node(m, "Sqrt", "ve", "root");
    maker_node(m, "Div", "d root", "n");
    maker_node(m, "Mul", "n gamma", "g");
    maker_node(m, "Add", "g beta", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(recognise, layer_norm_and_linear)
{
    char text[256];
    graph_t *plain = import(layer_norm(true)), *short_form = import(layer_norm(true));
    cr_assert_eq(graph_recognise(short_form, NULL), STATUS_OK);
    cr_assert_str_eq(listing(short_form, text), "Linear LayerNormalization");
    cr_assert(graph_validate(short_form));
    expect_same(plain, short_form, (tensor_t){.dtype = DTYPE_F32, .rank = 3, .dims = {2, 4, 8}});
    graph_destroy(plain);
    graph_destroy(short_form);
}

Test(recognise, a_variance_along_another_axis_is_no_layer_norm)
{
    char text[256];
    maker_t *m = layer_norm(false);
    Onnx__GraphProto *g = maker_proto(m)->graph;
    for (size_t n = 0; n < g->n_node; n++)
        if (!strcmp(g->node[n]->op_type, "ReduceMean"))
            g->node[n]->attribute[0]->ints[0] = 1;
    graph_t *graph = import(m);
    cr_assert_eq(graph_recognise(graph, NULL), STATUS_OK);
    cr_assert(strstr(listing(graph, text), "Sqrt"));
    graph_destroy(graph);
}

static bool allow_all(const graph_t *g, const node_t *host, const epilogue_t *tail)
{
    (void)g;
    (void)tail;
    return op_is(host, OP_CONV);
}

/* A residual block: y = relu(conv2(relu(conv1(x))) + x). */
static maker_t *residual(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, 4, 4});
    floats(m, "w1", 4, (int64_t[]){2, 2, 1, 1}, 1);
    floats(m, "w2", 4, (int64_t[]){2, 2, 1, 1}, 2);
    maker_node(m, "Conv", "x w1", "a");
    maker_node(m, "Relu", "a", "b");
    maker_node(m, "Conv", "b w2", "c");
    maker_node(m, "Add", "x c", "d");
    maker_node(m, "Relu", "d", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(fuse, a_residual_block_becomes_two_convolutions)
{
    char text[256];
    graph_t *g = import(residual()), *i;
    tensor_t in = {.dtype = DTYPE_F32, .rank = 4, .dims = {1, 2, 4, 4}};
    cr_assert_eq(graph_instantiate(g, &in, &i, NULL), STATUS_OK);
    cr_assert_eq(graph_fuse_epilogues(i, allow_all, NULL), STATUS_OK);
    cr_assert_str_eq(listing(i, text), "Conv+Relu Conv+Add+Relu");
    graph_destroy(i);
    graph_destroy(g);
}

Test(fuse, what_others_read_stays)
{
    char text[256];
    maker_t *m = residual();
    maker_output(m, "c", DTYPE_F32, -1, NULL);
    graph_t *g = import(m), *i;
    tensor_t in = {.dtype = DTYPE_F32, .rank = 4, .dims = {1, 2, 4, 4}};
    cr_assert_eq(graph_instantiate(g, &in, &i, NULL), STATUS_OK);
    cr_assert_eq(graph_fuse_epilogues(i, allow_all, NULL), STATUS_OK);
    cr_assert_str_eq(listing(i, text), "Conv+Relu Conv Add Relu");
    graph_destroy(i);
    graph_destroy(g);
}
