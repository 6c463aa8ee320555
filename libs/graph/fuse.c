#include "graph/fuse.h"

#include "graph/op.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    graph_t *graph;
    int32_t *producer;
    uint32_t *readers;
} uses_t;

static status_t uses_init(uses_t *u, graph_t *g, err_t *err)
{
    u->graph = g;
    u->producer = calloc(g->value_count + 1, sizeof *u->producer);
    u->readers = calloc(g->value_count + 1, sizeof *u->readers);
    if (!u->producer || !u->readers) {
        free(u->producer);
        free(u->readers);
        return err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    }
    graph_uses(g, u->producer, u->readers);
    return STATUS_OK;
}

static void uses_dispose(uses_t *u)
{
    free(u->producer);
    free(u->readers);
}

static const float *constant_f32(const graph_t *g, int32_t value, size_t count)
{
    const tensor_t *t = value < 0 ? NULL : &g->values[value].t;
    return t && t->data && t->dtype == DTYPE_F32 && tensor_count(t) == count ? t->data : NULL;
}

typedef struct {
    const float *scale, *shift, *mean, *variance;
    double epsilon;
} norm_t;

static bool read_norm(const graph_t *g, const node_t *bn, size_t channels, norm_t *norm)
{
    const attr_t *epsilon = node_attr(bn, "epsilon"), *training = node_attr(bn, "training_mode");
    if (training && training->i)
        return false;
    for (uint32_t i = 1; i < bn->out_count; i++)
        if (bn->out[i] >= 0)
            return false;
    *norm = (norm_t){constant_f32(g, bn->in[1], channels), constant_f32(g, bn->in[2], channels),
                     constant_f32(g, bn->in[3], channels), constant_f32(g, bn->in[4], channels),
                     epsilon && epsilon->kind == ATTR_FLOAT ? (double)epsilon->f : 1e-5};
    return norm->scale && norm->shift && norm->mean && norm->variance;
}

/* w'[f] = w[f]·k, b'[f] = (b[f] - mean)·k + shift with k = scale / sqrt(variance + ε). */
static void scale_filters(const norm_t *n, const float *w, const float *b, float *to_w, float *to_b,
                          size_t filters, size_t per_filter)
{
    for (size_t f = 0; f < filters; f++) {
        double k = (double)n->scale[f] / sqrt((double)n->variance[f] + n->epsilon);
        for (size_t i = 0; i < per_filter; i++)
            to_w[f * per_filter + i] = (float)((double)w[f * per_filter + i] * k);
        to_b[f] = (float)(((b ? (double)b[f] : 0) - (double)n->mean[f]) * k + (double)n->shift[f]);
    }
}

static bool ensure_bias_slot(graph_t *g, node_t *conv)
{
    if (conv->in_count >= 3)
        return true;
    int32_t *in = graph_alloc(g, 3 * sizeof *in);
    if (!in)
        return false;
    in[0] = conv->in[0];
    in[1] = conv->in[1];
    in[2] = -1;
    conv->in = in;
    conv->in_count = 3;
    return true;
}

/* False when it does not apply. */
static bool fold_norm(uses_t *u, node_t *bn, status_t *status, err_t *err)
{
    graph_t *g = u->graph;
    int32_t x = bn->in[0], at = u->producer[x];
    if (at < 0 || u->readers[x] != 1 || !op_is(&g->nodes[at], "Conv") || g->nodes[at].dead)
        return false;
    node_t *conv = &g->nodes[at];
    const tensor_t *w = &g->values[conv->in[1]].t;
    if (!w->data || w->dtype != DTYPE_F32 || w->rank < 3)
        return false;
    size_t filters = (size_t)w->dims[0], per_filter = tensor_count_range(w, 1, w->rank);
    bool has_bias = conv->in_count > 2 && conv->in[2] >= 0;
    const float *bias = has_bias ? constant_f32(g, conv->in[2], filters) : NULL;
    norm_t norm;
    if ((has_bias && !bias) || !read_norm(g, bn, filters, &norm))
        return false;
    tensor_t new_w = *w, new_b = {.dtype = DTYPE_F32, .rank = 1, .dims = {(int64_t)filters}};
    blob_t *w_blob = blob_create(tensor_bytes(&new_w)), *b_blob = blob_create(tensor_bytes(&new_b));
    if (!w_blob || !b_blob || !ensure_bias_slot(g, conv)) {
        blob_unref(w_blob);
        blob_unref(b_blob);
        *status = err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
        return false;
    }
    scale_filters(&norm, w->data, bias, blob_data(w_blob), blob_data(b_blob), filters, per_filter);
    const char *w_name = g->values[conv->in[1]].name;
    conv->in[1] = graph_add_constant(g, w_name, &new_w, w_blob);
    conv->in[2] = graph_add_constant(g, bn->name, &new_b, b_blob);
    conv->out[0] = bn->out[0];
    bn->dead = true;
    if (conv->in[1] < 0 || conv->in[2] < 0)
        *status = err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    else
        u->producer[bn->out[0]] = at;
    return true;
}

status_t graph_fold_batch_norms(graph_t *g, err_t *err)
{
    uses_t u;
    status_t status = uses_init(&u, g, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++)
        if (!g->nodes[n].dead && op_is(&g->nodes[n], "BatchNormalization"))
            fold_norm(&u, &g->nodes[n], &status, err);
    uses_dispose(&u);
    graph_clean(g);
    return status;
}

/* The later producer of the two operands is the host: the other one is complete when it runs. */
static bool as_addition(const uses_t *u, const node_t *add, epilogue_t *tail, int32_t *joint)
{
    const graph_t *g = u->graph;
    bool adds = op_is(add, "Add") || (op_is(add, "Sum") && add->in_count == 2);
    if (!adds || add->in[0] == add->in[1])
        return false;
    const tensor_t *a = &g->values[add->in[0]].t, *b = &g->values[add->in[1]].t;
    if (a->dtype != DTYPE_F32 || b->dtype != DTYPE_F32 || !tensor_same_shape(a, b))
        return false;
    int32_t pa = u->producer[add->in[0]], pb = u->producer[add->in[1]];
    uint32_t host = pa >= pb ? 0 : 1;
    *joint = add->in[host];
    *tail = (epilogue_t){.kind = EPILOGUE_ADD, .value = add->in[!host]};
    return true;
}

static float scalar_or(const graph_t *g, const node_t *node, uint32_t i, float otherwise, bool *ok)
{
    if (i >= node->in_count || node->in[i] < 0)
        return otherwise;
    const float *value = constant_f32(g, node->in[i], 1);
    *ok &= value != NULL;
    return value ? *value : otherwise;
}

static bool as_unary(const graph_t *g, const node_t *node, epilogue_t *tail, int32_t *joint)
{
    bool ok = true, clip = op_is(node, "Clip");
    *joint = node->in_count ? node->in[0] : -1;
    if (node->out_count != 1 || *joint < 0 || (node->in_count != 1 && !clip))
        return false;
    *tail = (epilogue_t){
        .kind = EPILOGUE_UNARY, .op = node->op, .attrs = node->attrs, .attr_count = node->attr_count};
    if (clip) {
        const attr_t *low = node_attr(node, "min"), *high = node_attr(node, "max");
        tail->low = node->opset < 11 && low ? low->f : scalar_or(g, node, 1, -INFINITY, &ok);
        tail->high = node->opset < 11 && high ? high->f : scalar_or(g, node, 2, INFINITY, &ok);
    }
    return ok && g->values[*joint].t.dtype == DTYPE_F32;
}

static void fuse(uses_t *u, node_t *node, graph_allow_fn allow)
{
    graph_t *g = u->graph;
    epilogue_t tail;
    int32_t joint;
    if (!as_addition(u, node, &tail, &joint) && !as_unary(g, node, &tail, &joint))
        return;
    int32_t at = u->producer[joint];
    if (at < 0 || u->readers[joint] != 1)
        return;
    node_t *host = &g->nodes[at];
    if (host->dead || host->epilogue_count == NODE_MAX_EPILOGUE || host->out[0] != joint ||
        !allow(g, host, &tail))
        return;
    host->epilogue[host->epilogue_count++] = tail;
    host->out[0] = node->out[0];
    u->producer[node->out[0]] = at;
    node->dead = true;
}

status_t graph_fuse_epilogues(graph_t *g, graph_allow_fn allow, err_t *err)
{
    uses_t u;
    status_t status = uses_init(&u, g, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!g->nodes[n].dead)
            fuse(&u, &g->nodes[n], allow);
    uses_dispose(&u);
    graph_clean(g);
    return STATUS_OK;
}
