/* What a model says of itself, with and without its weights' contents. */
#include "engine/compile/describe.h"
#include "graph/ops/op.h"
#include "networks.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { LARGE = 9000 }; /* of int64: more than DESCRIBE_LARGE_BYTES */

typedef struct {
    uint8_t *bytes;
    engine_load_t what;
} file_t;

static file_t file_of(maker_t *m)
{
    file_t f = {.what = {.name = "m"}};
    f.bytes = maker_pack(m, &f.what.len_bytes);
    f.what.bytes = f.bytes;
    return f;
}

/* Of a template whose contents from large_bytes on were left out; its nodes, too. */
static status_t describe_without(const file_t *f, size_t large_bytes, description_t *d, uint32_t *nodes)
{
    onnx_model_t *model;
    graph_t *graph;
    cr_assert_eq(describe_read(&f->what, &model, NULL), STATUS_OK);
    status_t status = graph_import_shapes(model, large_bytes, &graph, NULL);
    onnx_model_destroy(model);
    if (status != STATUS_OK)
        return status;
    *nodes = graph->node_count;
    cr_expect(graph_validate(graph));
    status = describe_graph(d, graph, &f->what, NULL);
    graph_destroy(graph);
    return status;
}

static void expect_same_tensors(const engine_tensor_t *a, const engine_tensor_t *b, uint32_t count,
                                const char *of)
{
    for (uint32_t i = 0; i < count; i++) {
        cr_expect_str_eq(a[i].name, b[i].name, "%s", of);
        cr_expect_eq(a[i].dtype, b[i].dtype, "%s: %s", of, a[i].name);
        cr_assert_eq(a[i].rank, b[i].rank, "%s: %s", of, a[i].name);
        cr_expect_arr_eq(a[i].dims, b[i].dims, a[i].rank * sizeof a[i].dims[0], "%s: %s", of, a[i].name);
    }
}

static void expect_same(const description_t *a, const description_t *b, const char *of)
{
    cr_expect_eq(a->info.batchable, b->info.batchable, "%s", of);
    cr_expect_str_eq(a->info.alone, b->info.alone, "%s", of);
    cr_assert_eq(a->info.input_count, b->info.input_count, "%s", of);
    cr_assert_eq(a->info.output_count, b->info.output_count, "%s", of);
    expect_same_tensors(a->inputs, b->inputs, a->info.input_count, of);
    expect_same_tensors(a->outputs, b->outputs, a->info.output_count, of);
}

static void compare(maker_t *m, size_t large_bytes, const char *of)
{
    file_t f = file_of(m);
    description_t whole, hollow;
    uint32_t nodes = 0, hollow_nodes = 0;
    status_t status = describe_without(&f, SIZE_MAX, &whole, &nodes);
    cr_assert_eq(describe_without(&f, large_bytes, &hollow, &hollow_nodes), status, "%s", of);
    if (status == STATUS_OK) {
        expect_same(&whole, &hollow, of);
        description_dispose(&whole);
        description_dispose(&hollow);
    }
    if (large_bytes > 64) /* else shapes are left out, and with them what they tell about nodes */
        cr_expect_eq(nodes, hollow_nodes, "%s", of);
    free(f.bytes);
}

Test(describe, contents_change_no_description)
{
    static const size_t large_bytes[] = {1, 65, 1024, DESCRIBE_LARGE_BYTES};
    for (uint32_t i = 0; i < network_count; i++)
        for (size_t k = 0; k < sizeof large_bytes / sizeof large_bytes[0]; k++)
            compare(networks[i].make(), large_bytes[k], networks[i].name);
    for (unsigned seed = 1; seed <= 20; seed++)
        compare(network_random(seed), 65, "random");
    compare(network_of_any_length(), 65, "of any length");
}

/* The shape is two of a long list's numbers. */
static maker_t *shape_from_a_list(void)
{
    static int64_t list[LARGE];
    maker_t *m = maker_create(17);
    list[7] = -1;
    list[8] = 3;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 6});
    maker_ints(m, "list", LARGE, list);
    maker_ints(m, "which", 2, (int64_t[]){7, 8});
    maker_node(m, "Gather", "list which", "shape");
    maker_node(m, "Reshape", "x shape", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    return m;
}

Test(describe, contents_that_decide_a_shape_are_read_after_all)
{
    file_t f = file_of(shape_from_a_list());
    description_t d;
    graph_t *graph;
    err_t err;
    cr_assert_eq(describe_open_shapes(&f.what, &graph, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(describe_graph(&d, graph, &f.what, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(d.outputs[0].rank, 2);
    cr_expect_eq(d.outputs[0].dims[1], 3);
    description_dispose(&d);
    graph_destroy(graph);
    cr_assert_eq(describe(&d, &f.what, &err), STATUS_OK, "%s", err.text);
    cr_expect_eq(d.outputs[0].dims[1], 3);
    description_dispose(&d);
    free(f.bytes);
}
