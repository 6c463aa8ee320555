/* Parts of models, as models of their own. */
#include "onnx/extract.h"

#include "maker.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* x -> a -> b -> c -> y, where b takes weights of its own and y looks at x's shape. */
static onnx_model_t *chain(void)
{
    onnx_model_t *model;
    err_t err;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 2});
    maker_floats(m, "w", 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    maker_floats(m, "v", 1, (int64_t[]){2}, (float[]){5, 6});
    maker_node(m, "Relu", "x", "a");
    maker_node(m, "MatMul", "a w", "b");
    maker_node(m, "Add", "b v", "c");
    maker_node(m, "Shape", "x", "s");
    maker_node(m, "Reshape", "c s", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, 2});
    maker_output(m, "c", DTYPE_F32, 2, (int64_t[]){-1, 2});
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK, "%s", err.text);
    return model;
}

static onnx_edge_t edge(const char *name)
{
    return (onnx_edge_t){.name = name, .dtype = DTYPE_F32, .rank = 2, .dims = {-1, 2}};
}

/* "Relu MatMul; w; x > c" */
static void describe(const onnx_model_t *model, char *text, size_t size)
{
    const Onnx__GraphProto *g = onnx_model_proto(model)->graph;
    size_t len = 0;
    for (size_t i = 0; i < g->n_node; i++)
        len += (size_t)snprintf(text + len, size - len, "%s%s", i ? " " : "", g->node[i]->op_type);
    len += (size_t)snprintf(text + len, size - len, ";");
    for (size_t i = 0; i < g->n_initializer; i++)
        len += (size_t)snprintf(text + len, size - len, " %s", g->initializer[i]->name);
    len += (size_t)snprintf(text + len, size - len, ";");
    for (size_t i = 0; i < g->n_input; i++)
        len += (size_t)snprintf(text + len, size - len, " %s", g->input[i]->name);
    len += (size_t)snprintf(text + len, size - len, " >");
    for (size_t i = 0; i < g->n_output; i++)
        len += (size_t)snprintf(text + len, size - len, " %s", g->output[i]->name);
}

static void expect_part(onnx_model_t *model, const char *from, const char *to, const char *wanted)
{
    onnx_extract_t *x;
    onnx_model_t *part;
    void *bytes;
    size_t len;
    char text[200];
    err_t err;
    onnx_edge_t in = edge(from), out = edge(to);
    const onnx_part_t what = {.inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};
    cr_assert_eq(onnx_extract_create(model, &x, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(onnx_extract_pack(x, &what, &bytes, &len, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(onnx_model_parse(bytes, len, NULL, &part, &err), STATUS_OK, "%s", err.text);
    describe(part, text, sizeof text);
    cr_expect_str_eq(text, wanted);
    cr_expect_eq(onnx_model_opset(part, ""), 17);
    cr_expect_eq(onnx_model_proto(part)->graph->input[0]->type->tensor_type->shape->dim[1]->dim_value, 2);
    onnx_model_destroy(part);
    free(bytes);
    onnx_extract_destroy(x);
}

Test(extract, a_part_has_the_nodes_and_weights_that_it_needs)
{
    onnx_model_t *model = chain();
    expect_part(model, "x", "a", "Relu;; x > a");
    expect_part(model, "a", "b", "MatMul; w; a > b");
    expect_part(model, "b", "c", "Add; v; b > c");
    expect_part(model, "x", "c", "Relu MatMul Add; w v; x > c");
    expect_part(model, "a", "a", ";; a > a");
    expect_part(model, "x", "y", "Relu MatMul Add Shape Reshape; w v; x > y");
    onnx_model_destroy(model);
}

static void expect_refused(onnx_model_t *model, const char *from, const char *to, const char *why)
{
    onnx_extract_t *x;
    err_t err;
    onnx_edge_t in = edge(from), out = edge(to);
    const onnx_part_t what = {.inputs = &in, .outputs = &out, .input_count = 1, .output_count = 1};
    cr_assert_eq(onnx_extract_create(model, &x, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(onnx_extract_check(x, &what, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, why), "%s", err.text);
    onnx_extract_destroy(x);
}

Test(extract, what_a_part_lacks_is_named)
{
    onnx_model_t *model = chain();
    expect_refused(model, "c", "y", "'x'"); /* by way of its shape */
    expect_refused(model, "b", "a", "'x'");
    expect_refused(model, "nothing", "y", "'nothing'");
    expect_refused(model, "x", "nowhere", "'nowhere'");
    onnx_model_destroy(model);
}

/* A loop whose body reads `w` and `a` of the graph around it. */
Test(extract, what_a_graph_inside_a_node_reads_belongs_to_it)
{
    maker_t *m = maker_create(17), *body = maker_create(17);
    onnx_model_t *model;
    size_t len;
    err_t err;
    maker_node(body, "MatMul", "a w", "inner");
    maker_output(body, "inner", DTYPE_F32, -1, NULL);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 2});
    maker_floats(m, "w", 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
    maker_floats(m, "unused", 1, (int64_t[]){2}, (float[]){5, 6});
    maker_node(m, "Relu", "x", "a");
    maker_node(m, "Sigmoid", "a", "b");
    Onnx__NodeProto *branch = maker_node(m, "If", "b", "y");
    maker_attr_int(branch, "then_branch", 0);
    branch->attribute[0]->type = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH;
    branch->attribute[0]->g = maker_proto(body)->graph;
    maker_proto(body)->graph = NULL;
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK, "%s", err.text);
    expect_refused(model, "b", "y", "'x'");
    expect_part(model, "x", "y", "Relu Sigmoid If; w; x > y");
    onnx_model_destroy(model);
    free(maker_pack(body, &len));
}

Test(extract, a_tensor_that_is_made_twice_is_refused)
{
    maker_t *m = maker_create(17);
    onnx_model_t *model;
    onnx_extract_t *x;
    err_t err;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 2});
    maker_node(m, "Relu", "x", "y");
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(maker_parse(m, &model, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(onnx_extract_create(model, &x, &err), STATUS_INVALID_ARGUMENT);
    cr_expect(strstr(err.text, "'y'"), "%s", err.text);
    onnx_model_destroy(model);
}
