/*
 * Exporters spell out what older operator sets did not have. Each pattern here is matched from its most
 * telling node; the nodes that become useless are left to graph_clean.
 */
#include "graph/ops/op.h"
#include "graph/passes/fuse.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    graph_t *g;
    int32_t *producer, *reader; /* reader: the only one, -1 = none or the graph itself, -2 = several */
    const op_t *gelu, *swish, *layer_norm, *linear;
} match_t;

static void index_readers(match_t *m)
{
    const graph_t *g = m->g;
    for (uint32_t v = 0; v < g->value_count; v++)
        m->producer[v] = m->reader[v] = -1;
    for (uint32_t n = 0; n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        for (uint32_t i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                m->reader[node->in[i]] = m->reader[node->in[i]] == -1 ? (int32_t)n : -2;
        for (uint32_t i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                m->producer[node->out[i]] = (int32_t)n;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        m->reader[g->outputs[i].value] = -2;
}

static node_t *live_node(const match_t *m, int32_t n)
{
    return n < 0 || m->g->nodes[n].dead ? NULL : &m->g->nodes[n];
}

/* The live node that makes a value, when it is this function of two operands, or of this kind; else NULL. */
static node_t *maker(const match_t *m, int32_t value, ew_op_t function)
{
    node_t *node = live_node(m, value < 0 ? -1 : m->producer[value]);
    return node && op_computes(node, function) ? node : NULL;
}

static node_t *maker_of(const match_t *m, int32_t value, op_kind_t kind)
{
    node_t *node = live_node(m, value < 0 ? -1 : m->producer[value]);
    return node && op_is(node, kind) ? node : NULL;
}

/* The only reader of a value, when it is this function. */
static node_t *only_reader(const match_t *m, int32_t value, ew_op_t function)
{
    node_t *node = live_node(m, m->reader[value]);
    return node && op_computes(node, function) ? node : NULL;
}

static bool is_scalar(const match_t *m, int32_t value, double want)
{
    const tensor_t *t = value < 0 ? NULL : &m->g->values[value].t;
    bool one = t && t->data && tensor_count(t) == 1 && t->dtype == DTYPE_F32;
    return one && fabs(tensor_get_f64(t, 0) - want) <= 1e-3 * fabs(want);
}

/* The other operand of a commutative node, when one is a constant scalar of this value; else -1. */
static int32_t beside_scalar(const match_t *m, const node_t *node, double want)
{
    if (node->in_count != 2)
        return -1;
    return is_scalar(m, node->in[0], want) ? node->in[1] : is_scalar(m, node->in[1], want) ? node->in[0] : -1;
}

static int32_t other_operand(const node_t *node, int32_t one)
{
    return node->in[0] == one ? node->in[1] : node->in[0];
}

/* Turns a node into another one-input operator on x. */
static void become(node_t *node, const op_t *op, int32_t x)
{
    node->op = op;
    node->in[0] = x;
    node->in_count = 1;
    node->attrs = NULL;
    node->attr_count = 0;
}

/* x·(1 + erf(x/√2))·½ in its usual orders. */
static void match_gelu(match_t *m, node_t *erf)
{
    int32_t scaled = erf->in[0], x = -1;
    node_t *div = maker(m, scaled, EW_DIV), *mul = maker(m, scaled, EW_MUL);
    if (div && is_scalar(m, div->in[1], M_SQRT2))
        x = div->in[0];
    else if (mul)
        x = beside_scalar(m, mul, M_SQRT1_2);
    node_t *add = x < 0 ? NULL : only_reader(m, erf->out[0], EW_ADD);
    if (!add || beside_scalar(m, add, 1) != erf->out[0])
        return;
    node_t *product = only_reader(m, add->out[0], EW_MUL);
    if (!product)
        return;
    int32_t other = other_operand(product, add->out[0]);
    node_t *halved = maker(m, other, EW_MUL);
    if (other == x) {
        node_t *last = only_reader(m, product->out[0], EW_MUL);
        if (last && beside_scalar(m, last, 0.5) == product->out[0])
            become(last, m->gelu, x);
    } else if (halved && beside_scalar(m, halved, 0.5) == x) {
        become(product, m->gelu, x);
    } else if (is_scalar(m, other, 0.5)) {
        node_t *last = only_reader(m, product->out[0], EW_MUL);
        if (last && other_operand(last, product->out[0]) == x)
            become(last, m->gelu, x);
    }
}

/* x·sigmoid(x). */
static void match_swish(match_t *m, node_t *sigmoid)
{
    node_t *mul = only_reader(m, sigmoid->out[0], EW_MUL);
    if (mul && other_operand(mul, sigmoid->out[0]) == sigmoid->in[0] && mul->in[0] != mul->in[1])
        become(mul, m->swish, sigmoid->in[0]);
}

static bool over_last_axis(const match_t *m, const node_t *mean)
{
    const attr_t *axes = node_attr(mean, "axes"), *keep = node_attr(mean, "keepdims");
    if (keep && !keep->i)
        return false;
    if (axes)
        return axes->kind == ATTR_INTS && axes->count == 1 && axes->ints[0] == -1;
    const tensor_t *t = mean->in_count > 1 && mean->in[1] >= 0 ? &m->g->values[mean->in[1]].t : NULL;
    return t && t->data && tensor_count(t) == 1 && tensor_get_i64(t, 0) == -1;
}

static const tensor_t *vector_of(const match_t *m, int32_t value)
{
    const tensor_t *t = value < 0 ? NULL : &m->g->values[value].t;
    return t && t->data && t->rank == 1 && t->dtype == DTYPE_F32 ? t : NULL;
}

/* Constant scale or shift of one dimension beside a value; -1 = none. */
static int32_t beside_vector(const match_t *m, const node_t *node, int32_t value)
{
    int32_t other = node ? other_operand(node, value) : -1;
    return other != value && vector_of(m, other) ? other : -1;
}

/* The last node of the chain becomes the normalisation. */
static void become_layer_norm(match_t *m, node_t *last, int32_t x, int32_t scale, int32_t shift,
                              float epsilon)
{
    int32_t *in = graph_alloc(m->g, 3 * sizeof *in);
    attr_t *attr = graph_alloc(m->g, sizeof *attr);
    if (!in || !attr)
        return;
    *attr = (attr_t){.kind = ATTR_FLOAT, .name = "epsilon", .f = epsilon};
    in[0] = x;
    in[1] = scale;
    in[2] = shift;
    last->op = m->layer_norm;
    last->in = in;
    last->in_count = 3;
    last->attrs = attr;
    last->attr_count = 1;
}

/* mean -> x - mean = d -> mean(d²) -> + ε -> √ -> d / √ -> · scale -> + shift, matched from the Sqrt. */
static void match_layer_norm(match_t *m, node_t *root)
{
    node_t *add = maker(m, root->in[0], EW_ADD), *div = only_reader(m, root->out[0], EW_DIV);
    if (!add || !div || div->in[1] != root->out[0])
        return;
    node_t *variance = maker_of(m, add->in[0], OP_REDUCE_MEAN);
    int32_t epsilon = variance ? add->in[1] : add->in[0];
    variance = variance ? variance : maker_of(m, add->in[1], OP_REDUCE_MEAN);
    const tensor_t *e = &m->g->values[epsilon].t;
    if (!variance || !e->data || tensor_count(e) != 1 || e->dtype != DTYPE_F32 ||
        !over_last_axis(m, variance))
        return;
    node_t *square = maker_of(m, variance->in[0], OP_POW), *product = maker(m, variance->in[0], EW_MUL);
    bool squared =
        (square && is_scalar(m, square->in[1], 2)) || (product && product->in[0] == product->in[1]);
    int32_t d = square ? square->in[0] : product ? product->in[0] : -1;
    node_t *sub = squared ? maker(m, d, EW_SUB) : NULL,
           *mean = sub ? maker_of(m, sub->in[1], OP_REDUCE_MEAN) : NULL;
    if (!mean || !over_last_axis(m, mean) || mean->in[0] != sub->in[0])
        return;
    /* Some exporters compute x - mean twice. */
    node_t *again = maker(m, div->in[0], EW_SUB);
    if (!again || again->in[0] != sub->in[0] || !maker_of(m, again->in[1], OP_REDUCE_MEAN) ||
        maker_of(m, again->in[1], OP_REDUCE_MEAN)->in[0] != sub->in[0])
        return;
    node_t *scaled = only_reader(m, div->out[0], EW_MUL);
    int32_t scale = beside_vector(m, scaled, div->out[0]);
    node_t *shifted = scale < 0 ? NULL : only_reader(m, scaled->out[0], EW_ADD);
    int32_t shift = shifted ? beside_vector(m, shifted, scaled->out[0]) : -1;
    if (shift >= 0)
        become_layer_norm(m, shifted, sub->in[0], scale, shift, ((const float *)e->data)[0]);
}

/* MatMul with a constant matrix, and a bias of as many elements as it has columns. */
static void match_linear(match_t *m, node_t *product)
{
    const tensor_t *w = &m->g->values[product->in[1]].t;
    node_t *add = only_reader(m, product->out[0], EW_ADD);
    int32_t bias = add ? beside_vector(m, add, product->out[0]) : -1;
    if (bias < 0 || !w->data || w->rank != 2 || w->dtype != DTYPE_F32 ||
        vector_of(m, bias)->dims[0] != w->dims[1])
        return;
    int32_t *in = graph_alloc(m->g, 3 * sizeof *in);
    if (!in)
        return;
    in[0] = product->in[0];
    in[1] = product->in[1];
    in[2] = bias;
    add->op = m->linear;
    add->in = in;
    add->in_count = 3;
}

static void match(match_t *m, node_t *node)
{
    if (op_computes(node, EW_ERF))
        match_gelu(m, node);
    else if (op_computes(node, EW_SIGMOID))
        match_swish(m, node);
    else if (op_computes(node, EW_SQRT))
        match_layer_norm(m, node);
    else if (op_is(node, OP_MATMUL))
        match_linear(m, node);
}

status_t graph_recognise(graph_t *g, err_t *err)
{
    match_t m = {.g = g,
                 .producer = calloc(g->value_count + 1, sizeof *m.producer),
                 .reader = calloc(g->value_count + 1, sizeof *m.reader),
                 .gelu = op_find("", "Gelu"),
                 .swish = op_find("", "Swish"),
                 .layer_norm = op_find("", "LayerNormalization"),
                 .linear = op_find("fermata", "Linear")};
    if (!m.producer || !m.reader) {
        free(m.producer);
        free(m.reader);
        return err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    }
    index_readers(&m);
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!g->nodes[n].dead)
            match(&m, &g->nodes[n]);
    free(m.producer);
    free(m.reader);
    graph_clean(g);
    return STATUS_OK;
}
