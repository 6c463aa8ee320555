#include "graph/passes/weights.h"

#include "maker.h"

#include <criterion/criterion.h>
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

static void square(maker_t *m, const char *name)
{
    maker_floats(m, name, 2, (int64_t[]){2, 2}, (float[]){1, 2, 3, 4});
}

/* The names of those that are found, sorted as they are in the graph, which is gone. */
static const char *found(maker_t *m, char *text)
{
    graph_t *g = import(m);
    bool *weights = calloc(g->value_count, sizeof *weights);
    cr_assert_eq(graph_find_weights(g, weights, NULL), STATUS_OK);
    *text = '\0';
    for (uint32_t v = 0; v < g->value_count; v++)
        if (weights[v])
            strcat(strcat(text, *text ? " " : ""), g->values[v].name);
    free(weights);
    graph_destroy(g);
    return text;
}

static maker_t *maker_of_rows(void)
{
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 2});
    square(m, "w");
    return m;
}

Test(weights, operands_of_products_and_convolutions)
{
    char text[100];
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 1, 3, 3});
    maker_floats(m, "filter", 4, (int64_t[]){2, 1, 2, 2}, (float[8]){1});
    maker_floats(m, "bias", 1, (int64_t[]){2}, (float[2]){1});
    square(m, "right");
    square(m, "left");
    square(m, "both");
    maker_node(m, "Conv", "x filter bias", "c");
    maker_node(m, "MatMul", "c right", "r");
    maker_node(m, "MatMul", "left r", "l");
    maker_node(m, "MatMul", "l both", "b");
    maker_node(m, "MatMul", "b both", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_expect_str_eq(found(m, text), "filter right both");
}

Test(weights, what_somebody_else_reads_too_is_none)
{
    char text[100];
    maker_t *m = maker_of_rows();
    maker_node(m, "MatMul", "x w", "h");
    maker_node(m, "Add", "h w", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_expect_str_eq(found(m, text), "");
    m = maker_of_rows();
    maker_node(m, "MatMul", "x w", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    maker_output(m, "w", DTYPE_F32, -1, NULL);
    cr_expect_str_eq(found(m, text), "", "who asks for the results reads it");
}

/* Once the batch is known so is the product, and it is computed then and there. */
Test(weights, a_product_that_an_instance_computes_reads_them)
{
    char text[100];
    maker_t *m = maker_of_rows();
    square(m, "v");
    maker_node(m, "Shape", "x", "shape");
    maker_node(m, "ConstantOfShape", "shape", "zeros");
    maker_node(m, "MatMul", "zeros w", "known");
    maker_node(m, "MatMul", "x v", "h");
    maker_node(m, "Add", "h known", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_expect_str_eq(found(m, text), "v");
}
