/*
 * Where graphs can be cut, as text: "1:a 2:a,b" = before node 1 value a is alive, before node 2 a and b.
 */
#include "graph/passes/cuts.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
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

static graph_t *instance(const graph_t *g, int64_t batch)
{
    tensor_t inputs[4];
    graph_t *made = NULL;
    err_t err;
    for (uint32_t i = 0; i < g->input_count; i++) {
        inputs[i] = (tensor_t){.dtype = g->inputs[i].dtype, .rank = g->inputs[i].rank};
        memcpy(inputs[i].dims, g->inputs[i].dims, sizeof inputs[i].dims);
        inputs[i].dims[0] = batch;
    }
    cr_assert_eq(graph_instantiate(g, inputs, &made, &err), STATUS_OK, "%s", err.text);
    return made;
}

static void expect(maker_t *m, bool batched, const char *want)
{
    char text[1024] = "";
    size_t len = 0;
    err_t err;
    graph_cuts_t cuts = {0};
    graph_t *g = import(m), *small = instance(g, 2), *large = batched ? instance(g, 3) : small;
    if (cuts_find(small, large, &cuts, &err) != STATUS_OK)
        len = (size_t)snprintf(text, sizeof text, "%s", err.text);
    for (uint32_t c = 0; c < cuts.cut_count; c++)
        for (uint32_t v = 0; v < cuts.cuts[c].value_count; v++) {
            const char *name = small->values[cuts.cuts[c].values[v]].name;
            if (v)
                len += (size_t)snprintf(text + len, sizeof text - len, ",%s", name);
            else
                len += (size_t)snprintf(text + len, sizeof text - len, "%s%u:%s", c ? " " : "",
                                        cuts.cuts[c].op, name);
        }
    cr_assert_str_eq(text, want);
    cuts_dispose(&cuts);
    if (large != small)
        graph_destroy(large);
    graph_destroy(small);
    graph_destroy(g);
}

Test(cuts, a_skip_connection_is_alive_beside_the_chain)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_node(m, "Relu", "x", "a");
    maker_node(m, "Tanh", "a", "b");
    maker_node(m, "Sigmoid", "b", "c");
    maker_node(m, "Add", "c a", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, "1:a 2:a,b 3:a,c");
}

Test(cuts, an_input_that_is_read_late_and_an_output_that_is_made_early_are_alive)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_input(m, "mask", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_node(m, "Relu", "x", "early");
    maker_node(m, "Tanh", "early", "b");
    maker_node(m, "Mul", "b mask", "y");
    maker_output(m, "early", DTYPE_F32, -1, NULL);
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, "1:mask,early 2:mask,early,b");
}

Test(cuts, rows_are_followed_through_reshapes)
{
    maker_t *m = maker_create(17);
    const float w[9] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, 4, 3});
    maker_floats(m, "w", 2, (int64_t[]){3, 3}, w);
    maker_ints(m, "flat", 2, (int64_t[]){-1, 3});
    maker_ints(m, "deep", 3, (int64_t[]){-1, 4, 3});
    maker_node(m, "Reshape", "x flat", "a");
    maker_node(m, "Gemm", "a w", "b");
    maker_node(m, "Relu", "b", "c");
    maker_node(m, "Reshape", "c deep", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, "1:a 2:b 3:c");
}

/* [batch, time, x] -> [time, batch, x] -> [time * batch, x]: dimension 0 grows with the batch, and yet no
 * row is in one piece. */
Test(cuts, not_where_the_rows_are_interleaved)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, 4, 3});
    maker_ints(m, "flat", 2, (int64_t[]){-1, 3});
    maker_ints(m, "deep", 3, (int64_t[]){4, -1, 3});
    maker_node(m, "Relu", "x", "a");
    maker_attr_ints(maker_node(m, "Transpose", "a", "b"), "perm", 3, (int64_t[]){1, 0, 2});
    maker_node(m, "Reshape", "b flat", "c");
    maker_node(m, "Tanh", "c", "d");
    maker_node(m, "Reshape", "d deep", "e");
    maker_attr_ints(maker_node(m, "Transpose", "e", "f"), "perm", 3, (int64_t[]){1, 0, 2});
    maker_node(m, "Sigmoid", "f", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, "1:a 6:f");
}

/* [batch, 4, 3] seen as [batch * 4, 3], then one node, then back. */
static void expect_on_rows(const char *op, const char *attr, int64_t value, const char *want)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, 4, 3});
    maker_ints(m, "flat", 2, (int64_t[]){-1, 3});
    maker_ints(m, "deep", 3, (int64_t[]){-1, 4, 3});
    maker_node(m, "Reshape", "x flat", "a");
    Onnx__NodeProto *node = maker_node(m, op, "a", "b");
    if (attr)
        maker_attr_int(node, attr, value);
    maker_node(m, "Relu", "b", "c");
    maker_node(m, "Reshape", "c deep", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, want);
}

Test(cuts, a_function_of_each_element_keeps_the_rows_whatever_its_name)
{
    const char *const names[] = {"Abs", "Softsign", "Cosh", "Selu", "Round", "Mish"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        expect_on_rows(names[i], NULL, 0, "1:a 2:b 3:c");
}

Test(cuts, an_axis_decides_whether_rows_are_kept)
{
    expect_on_rows("Softmax", NULL, 0, "1:a 2:b 3:c");
    expect_on_rows("Softmax", "axis", 1, "1:a 2:b 3:c");
    expect_on_rows("LogSoftmax", "axis", -1, "1:a 2:b 3:c");
    expect_on_rows("Softmax", "axis", 0, "1:a");
    expect_on_rows("LpNormalization", "axis", -2, "1:a");
    expect_on_rows("Trilu", NULL, 0, "1:a");
}

/* The places of the largest elements count through all rows: a cut must not part them. */
Test(cuts, rows_of_the_first_result_alone_are_kept)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 2, 3, 4});
    maker_ints(m, "flat", 3, (int64_t[]){-1, 3, 4});
    maker_node(m, "Reshape", "x flat", "a");
    maker_attr_ints(maker_node(m, "MaxPool", "a", "b at"), "kernel_shape", 1, (int64_t[]){2});
    maker_node(m, "Abs", "b", "c");
    maker_node(m, "Add", "at at", "z");
    maker_node(m, "Abs", "c", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    maker_output(m, "z", DTYPE_I64, -1, NULL);
    expect(m, true, "1:a");
}

Test(cuts, without_a_batch_every_place_will_do)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_attr_ints(maker_node(m, "Transpose", "x", "a"), "perm", 2, (int64_t[]){1, 0});
    maker_node(m, "Relu", "a", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, false, "1:a");
}

Test(cuts, says_why_there_are_none)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true, "the model is a single operator: there is nothing to cut");
    m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_attr_ints(maker_node(m, "Transpose", "x", "a"), "perm", 2, (int64_t[]){1, 0});
    maker_attr_ints(maker_node(m, "Transpose", "a", "y"), "perm", 2, (int64_t[]){1, 0});
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, true,
           "at every operator of the model something is alive whose rows do not lie one after the other");
}
