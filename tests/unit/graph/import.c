#include "graph/ir/graph.h"
#include "graph/ops/op.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <string.h>

static status_t import(maker_t *m, graph_t **graph, err_t *err)
{
    onnx_model_t *model;
    status_t status = maker_parse(m, &model, err);
    if (status != STATUS_OK)
        return status;
    status = graph_import(model, graph, err);
    onnx_model_destroy(model);
    return status;
}

static maker_t *with_input(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    return m;
}

static void expect(maker_t *m, status_t want, const char *text)
{
    graph_t *graph = NULL;
    err_t err = {.text = ""};
    status_t status = import(m, &graph, &err);
    cr_expect_eq(status, want, "%s instead of %s: %s", status_name(status), status_name(want), err.text);
    cr_expect(strstr(err.text, text), "'%s' lacks '%s'", err.text, text);
    if (status == STATUS_OK)
        graph_destroy(graph);
}

Test(import, an_unknown_operator_is_named_with_node_and_opset)
{
    maker_t *m = with_input();
    maker_node(m, "FancyOp", "x", "y")->name = strdup("block3/fancy");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_UNSUPPORTED, "node 'block3/fancy' (FancyOp, opset 17): the operator is not supported");
}

Test(import, an_opset_of_the_future_is_named)
{
    maker_t *m = with_input();
    maker_proto(m)->opset_import[0]->version = 99;
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_UNSUPPORTED, "node 'y' (Relu, opset 99): the operator is supported for opsets");
}

Test(import, names_are_defined_once_and_somewhere)
{
    maker_t *m = with_input();
    maker_node(m, "Relu", "x", "y");
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_INVALID_ARGUMENT, "the tensor 'y' is defined twice");

    m = with_input();
    maker_node(m, "Add", "x ghost", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_INVALID_ARGUMENT, "node 'y' (Add, opset 17): the input 'ghost' is defined nowhere");

    m = with_input();
    maker_node(m, "Relu", "x", "y");
    maker_output(m, "z", DTYPE_F32, -1, NULL);
    expect(m, STATUS_INVALID_ARGUMENT, "the output 'z' is made by no node");
}

Test(import, a_cycle_is_named)
{
    maker_t *m = with_input();
    maker_node(m, "Add", "x b", "a");
    maker_node(m, "Relu", "a", "b");
    maker_output(m, "b", DTYPE_F32, -1, NULL);
    expect(m, STATUS_INVALID_ARGUMENT, "the graph has a cycle through node 'a'");
}

Test(import, counts_and_types_are_checked)
{
    maker_t *m = with_input();
    maker_node(m, "Add", "x", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_INVALID_ARGUMENT, "1 inputs and 1 outputs do not fit the operator");

    m = maker_create(17);
    maker_input(m, "s", DTYPE_STRING, 1, (int64_t[]){3});
    maker_node(m, "Identity", "s", "y");
    maker_output(m, "y", DTYPE_STRING, -1, NULL);
    expect(m, STATUS_UNSUPPORTED, "input 's' has an unsupported element type");
}

Test(import, nodes_may_come_in_any_order)
{
    maker_t *m = with_input();
    graph_t *g;
    err_t err;
    maker_node(m, "Relu", "h", "y");
    maker_node(m, "Neg", "x", "h");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(import(m, &g, &err), STATUS_OK, "%s", err.text);
    cr_assert(op_computes(&g->nodes[0], EW_NEG) && op_computes(&g->nodes[1], EW_RELU));
    cr_assert(graph_validate(g));
    graph_destroy(g);
}

/* x[n, 4] -> Shape -> Gather -> Concat with -1 -> Reshape: what torch writes for x.view(x.size(0), -1). */
static maker_t *shape_arithmetic(void)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 3, (int64_t[]){-1, 2, 2});
    maker_ints(m, "zero", 1, (int64_t[]){0});
    maker_ints(m, "rest", 1, (int64_t[]){-1});
    maker_node(m, "Shape", "x", "s");
    maker_node(m, "Gather", "s zero", "n");
    maker_attr_int(maker_node(m, "Concat", "n rest", "to"), "axis", 0);
    maker_node(m, "Reshape", "x to", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(instance, shape_arithmetic_is_folded)
{
    graph_t *g, *i;
    err_t err;
    cr_assert_eq(import(shape_arithmetic(), &g, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(g->node_count, 4);
    tensor_t in = {.dtype = DTYPE_F32, .rank = 3, .dims = {5, 2, 2}};
    cr_assert_eq(graph_instantiate(g, &in, &i, &err), STATUS_OK, "%s", err.text);
    cr_assert(!i->open);
    cr_assert_eq(i->node_count, 1, "only the Reshape is left");
    const tensor_t *y = &i->values[i->outputs[0].value].t;
    char text[TENSOR_TEXT_BYTES];
    cr_assert_str_eq(tensor_text(y, text), "f32[5,4]");
    graph_destroy(i);
    graph_destroy(g);
}

Test(instance, a_shape_that_depends_on_contents_is_said_so)
{
    maker_t *m = maker_create(17);
    graph_t *g, *i;
    err_t err;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){2, 3});
    maker_input(m, "to", DTYPE_I64, 1, (int64_t[]){1});
    maker_node(m, "Reshape", "x to", "y")->name = strdup("r");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(import(m, &g, &err), STATUS_OK, "%s", err.text);
    float x[6] = {1, 2, 3, 4, 5, 6};
    int64_t to = 6;
    tensor_t in[2] = {{.dtype = DTYPE_F32, .rank = 2, .dims = {2, 3}},
                      {.dtype = DTYPE_I64, .rank = 1, .dims = {1}}};
    cr_assert_eq(graph_instantiate(g, in, &i, &err), STATUS_OK);
    cr_assert(i->open && i->by_value);
    cr_assert(strstr(i->by_value_text, "node 'r' (Reshape)"), "%s", i->by_value_text);
    graph_destroy(i);
    in[0].data = x;
    in[1].data = &to;
    cr_assert_eq(graph_interpret(g, in, &i, &err), STATUS_OK, "%s", err.text);
    const tensor_t *y = &i->values[i->outputs[0].value].t;
    cr_assert_eq(y->rank, 1);
    cr_assert(!memcmp(y->data, x, sizeof x));
    graph_destroy(i);
    graph_destroy(g);
}

Test(instance, a_bomb_of_constants_is_refused)
{
    maker_t *m = maker_create(17);
    maker_ints(m, "dims", 3, (int64_t[]){1 << 20, 1 << 20, 1 << 20});
    maker_node(m, "ConstantOfShape", "dims", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    expect(m, STATUS_TOO_LARGE, "node 'y' (ConstantOfShape, opset 17): a tensor is larger than");
}

Test(instance, large_constants_stay_nodes)
{
    maker_t *m = maker_create(17);
    graph_t *g;
    err_t err;
    maker_ints(m, "dims", 1, (int64_t[]){INT64_C(1) << 30});
    maker_node(m, "ConstantOfShape", "dims", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(import(m, &g, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(g->node_count, 1, "4 GiB are not spent at load");
    graph_destroy(g);
}

Test(instance, wrong_shapes_name_the_node)
{
    maker_t *m = with_input();
    graph_t *g, *i;
    err_t err;
    maker_floats(m, "w", 2, (int64_t[]){3, 2}, (float[6]){0});
    maker_node(m, "MatMul", "x w", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(import(m, &g, &err), STATUS_OK);
    tensor_t in = {.dtype = DTYPE_F32, .rank = 2, .dims = {1, 4}};
    cr_assert_eq(graph_instantiate(g, &in, &i, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "node 'y' (MatMul, opset 17): f32[1,4] and f32[3,2] do not multiply");
    graph_destroy(g);
}

static void in_bounds(void *arg, const op_t *op)
{
    (void)arg;
    cr_expect(op->infer && op->eval, "%s lacks a function", op->name);
    cr_expect(op->min_in <= op->max_in && op->min_out <= op->max_out, "%s", op->name);
    cr_expect(op_find(op->domain, op->name) == op, "%s is listed twice", op->name);
    cr_expect(op->rows.kind != ROWS_UNSAID, "%s does not say where its rows go", op->name);
    bool asks = op->rows.kind == ROWS_KEPT_UNLESS || op->rows.kind == ROWS_ALONG_AXIS;
    bool function = op->kind == OP_UNARY || op->kind == OP_FOLD;
    cr_expect(!function || op->function.op != EW_NONE, "%s does not say its function", op->name);
    cr_expect(op->kind != OP_UNARY || op->tail == EPILOGUE_UNARY, "%s could follow another", op->name);
    cr_expect(op->tail != EPILOGUE_ADD || op->function.op == EW_ADD, "%s is no addition", op->name);
    cr_expect(asks == (op->rows.attr != NULL), "%s: an attribute that its row order does not ask for",
              op->name);
}

Test(op, the_tables_are_complete)
{
    op_each(in_bounds, NULL);
}
