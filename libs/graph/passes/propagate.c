/*
 * Shapes forward through the graph, and everything that can be computed becomes a constant on the way.
 */
#include "graph/ir/graph.h"
#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

/*
 * Folding must not turn a small file into gigabytes, nor into minutes: what it makes is bounded per graph (a
 * template may add the constants of the file several times over: dequantised, transposed), and heavy
 * operators are folded only when small.
 */
#define INSTANCE_FOLD_BYTES ((size_t)64 << 20)
#define HEAVY_FOLD_WORK ((double)(1 << 24))

typedef struct {
    graph_t *graph;
    const tensor_t **in;
    tensor_t **out, *results;
    err_t *err;
} pass_t;

static bool inputs_shaped(const graph_t *g, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !g->values[node->in[i]].shaped)
            return false;
    return true;
}

static bool inputs_constant(const graph_t *g, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !g->values[node->in[i]].t.data && !g->values[node->in[i]].hollow)
            return false;
    return true;
}

static bool reads_hollow(const graph_t *g, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && g->values[node->in[i]].hollow)
            return true;
    return false;
}

static op_ctx_t make_ctx(pass_t *p, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        p->in[i] = node->in[i] < 0 ? NULL : &p->graph->values[node->in[i]].t;
    for (uint32_t i = 0; i < node->out_count; i++) {
        p->results[i] = (tensor_t){0};
        p->out[i] = node->out[i] < 0 ? NULL : &p->results[i];
    }
    return (op_ctx_t){.node = node,
                      .in_count = node->in_count,
                      .out_count = node->out_count,
                      .in = p->in,
                      .out = p->out,
                      .err = p->err};
}

static bool too_heavy(const pass_t *p, const node_t *node)
{
    double largest = 1, product = 1, out = 1;
    for (uint32_t i = 0; i < node->in_count; i++) {
        double count = p->in[i] ? (double)tensor_count(p->in[i]) : 1;
        product *= count > 1 ? count : 1;
        largest = count > largest ? count : largest;
    }
    for (uint32_t i = 0; i < node->out_count; i++)
        out += p->out[i] ? (double)tensor_count(p->out[i]) : 0;
    return node->op->flags & OP_HEAVY && (product > HEAVY_FOLD_WORK || out * largest > HEAVY_FOLD_WORK);
}

static bool worth_folding(const pass_t *p, const node_t *node)
{
    size_t out_bytes = 0;
    if (p->graph->fold_all)
        return true;
    for (uint32_t i = 0; i < node->out_count; i++)
        out_bytes += p->out[i] ? tensor_bytes(p->out[i]) : 0;
    if (out_bytes > p->graph->fold_budget_bytes || too_heavy(p, node))
        return false;
    p->graph->fold_budget_bytes -= out_bytes;
    return true;
}

static void drop_blobs(blob_t **blobs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        blob_unref(blobs[i]);
    free(blobs);
}

static status_t evaluate(pass_t *p, op_ctx_t *c, node_t *node)
{
    blob_t **blobs = calloc(node->out_count + 1, sizeof(blob_t *));
    status_t status = blobs ? STATUS_OK : STATUS_NO_MEMORY;
    for (uint32_t i = 0; status == STATUS_OK && i < node->out_count; i++) {
        if (!p->out[i])
            continue;
        blobs[i] = blob_create(tensor_bytes(p->out[i]));
        if (!blobs[i])
            status = STATUS_NO_MEMORY;
        else
            p->out[i]->data = blob_data(blobs[i]);
    }
    if (status != STATUS_OK)
        err_set(p->err, status, "no memory to compute it");
    else
        status = node->op->eval(c);
    for (uint32_t i = 0; status == STATUS_OK && i < node->out_count; i++) {
        if (!p->out[i])
            continue;
        graph_set_constant(p->graph, node->out[i], p->out[i], blobs[i]);
        blobs[i] = NULL;
    }
    node->dead = status == STATUS_OK;
    if (blobs)
        drop_blobs(blobs, node->out_count);
    return status;
}

/* As evaluate, without contents. */
static void hollow_out(pass_t *p, node_t *node)
{
    for (uint32_t i = 0; i < node->out_count; i++)
        if (p->out[i])
            graph_set_hollow(p->graph, node->out[i], p->out[i]);
    node->dead = true;
}

static status_t compute(pass_t *p, op_ctx_t *c, node_t *node)
{
    if (!reads_hollow(p->graph, node) || node->op->flags & OP_SHAPE_ONLY)
        return evaluate(p, c, node);
    hollow_out(p, node);
    return STATUS_OK;
}

static void note_by_value(pass_t *p, const node_t *node)
{
    graph_t *g = p->graph;
    if (!g->by_value) {
        err_prefix(p->err, "node '%.60s' (%s)", node->name, node->op->name);
        memcpy(g->by_value_text, p->err->text, sizeof g->by_value_text);
    }
    g->open = g->by_value = true;
    g->lacks |= reads_hollow(g, node);
}

static status_t visit(pass_t *p, node_t *node)
{
    graph_t *g = p->graph;
    if (!inputs_shaped(g, node)) {
        g->open = true;
        return STATUS_OK;
    }
    op_ctx_t c = make_ctx(p, node);
    status_t status = node->op->infer(&c);
    if (status != STATUS_OK && c.needs_value) {
        note_by_value(p, node);
        return STATUS_OK;
    }
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < node->out_count; i++) {
        if (node->out[i] < 0)
            continue;
        g->values[node->out[i]].t = p->results[i];
        g->values[node->out[i]].shaped = true;
    }
    bool known = node->op->flags & OP_SHAPE_ONLY ||
                 (inputs_constant(g, node) && (g->fold_all || !(node->op->flags & OP_RANDOM)));
    if (known && worth_folding(p, node))
        status = compute(p, &c, node);
    return status;
}

static bool pass_init(pass_t *p, graph_t *g, err_t *err)
{
    uint32_t in = 1, out = 1;
    for (uint32_t n = 0; n < g->node_count; n++) {
        in = g->nodes[n].in_count > in ? g->nodes[n].in_count : in;
        out = g->nodes[n].out_count > out ? g->nodes[n].out_count : out;
    }
    *p = (pass_t){.graph = g,
                  .in = calloc(in, sizeof *p->in),
                  .out = calloc(out, sizeof *p->out),
                  .results = calloc(out, sizeof *p->results),
                  .err = err};
    return p->in && p->out && p->results;
}

static void pass_dispose(pass_t *p)
{
    free(p->in);
    free(p->out);
    free(p->results);
}

status_t graph_propagate(graph_t *g, err_t *err)
{
    pass_t p;
    err_t own;
    err = err ? err : &own;
    status_t status =
        pass_init(&p, g, err) ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the graph");
    g->open = g->by_value = g->lacks = false;
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++) {
        node_t *node = &g->nodes[n];
        if (node->dead)
            continue;
        status = visit(&p, node);
        if (status != STATUS_OK)
            err_prefix(err, "node '%.60s' (%s, opset %d)", node->name, node->op->name, node->opset);
    }
    pass_dispose(&p);
    return status;
}

static status_t set_inputs(graph_t *g, const tensor_t *inputs, err_t *err)
{
    for (uint32_t i = 0; i < g->input_count; i++) {
        value_t *value = &g->values[g->inputs[i].value];
        status_t status = tensor_check(&inputs[i], err);
        if (status != STATUS_OK)
            return err_prefix(err, "input '%.80s'", g->inputs[i].name);
        value->t = inputs[i];
        value->t.data = NULL;
        value->shaped = true;
        if (!inputs[i].data)
            continue;
        blob_t *blob = blob_create(tensor_bytes(&inputs[i]));
        if (!blob)
            return err_set(err, STATUS_NO_MEMORY, "no memory for input '%.80s'", g->inputs[i].name);
        memcpy(blob_data(blob), inputs[i].data, tensor_bytes(&inputs[i]));
        graph_set_constant(g, g->inputs[i].value, &inputs[i], blob);
    }
    return STATUS_OK;
}

/* Nodes are copied with their links, which passes rewrite; names and attributes stay with the template. */
static status_t copy_nodes(graph_t *to, const graph_t *from)
{
    if (from->node_count)
        memcpy(to->nodes, from->nodes, from->node_count * sizeof *to->nodes);
    to->node_count = from->node_count;
    for (uint32_t n = 0; n < to->node_count; n++) {
        node_t *node = &to->nodes[n];
        uint32_t links = node->in_count + node->out_count;
        int32_t *copy = graph_alloc(to, links * sizeof *copy);
        if (!copy)
            return STATUS_NO_MEMORY;
        if (node->in_count)
            memcpy(copy, node->in, node->in_count * sizeof *copy);
        if (node->out_count)
            memcpy(copy + node->in_count, node->out, node->out_count * sizeof *copy);
        node->in = copy;
        node->out = copy + node->in_count;
    }
    return STATUS_OK;
}

static graph_t *clone(const graph_t *from)
{
    graph_t *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    *g = *from;
    g->chunks = NULL;
    g->value_count = g->node_count = 0;
    g->value_capacity = from->value_count + 16;
    g->node_capacity = from->node_count + 16;
    g->values = calloc(g->value_capacity, sizeof *g->values);
    g->nodes = calloc(g->node_capacity, sizeof *g->nodes);
    if (!g->values || !g->nodes || copy_nodes(g, from) != STATUS_OK) {
        graph_destroy(g);
        return NULL;
    }
    for (; g->value_count < from->value_count; g->value_count++) {
        value_t *value = &g->values[g->value_count];
        *value = from->values[g->value_count];
        if (value->blob)
            blob_ref(value->blob);
    }
    return g;
}

static status_t instantiate(const graph_t *from, const tensor_t *inputs, bool fold_all, graph_t **out,
                            err_t *err)
{
    graph_t *g = clone(from);
    if (!g)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an instance of the graph");
    g->fold_all = fold_all;
    g->fold_budget_bytes = INSTANCE_FOLD_BYTES;
    status_t status = set_inputs(g, inputs, err);
    if (status == STATUS_OK)
        status = graph_propagate(g, err);
    if (status != STATUS_OK) {
        graph_destroy(g);
        return status;
    }
    graph_clean(g);
    *out = g;
    return STATUS_OK;
}

status_t graph_instantiate(const graph_t *from, const tensor_t *inputs, graph_t **out, err_t *err)
{
    return instantiate(from, inputs, false, out, err);
}

status_t graph_interpret(const graph_t *from, const tensor_t *inputs, graph_t **out, err_t *err)
{
    graph_t *g;
    status_t status = instantiate(from, inputs, true, &g, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < g->output_count; i++) {
        if (g->values[g->outputs[i].value].t.data)
            continue;
        status = err_set(err, STATUS_INTERNAL, "output '%.80s' could not be computed", g->outputs[i].name);
        graph_destroy(g);
        return status;
    }
    *out = g;
    return STATUS_OK;
}
