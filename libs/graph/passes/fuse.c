#include "graph/passes/fuse.h"

#include "graph/ops/op.h"

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

/* NULL: as if it were not there. */
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

/* A constant for each channel of a result with `rank` dimensions, as broadcasting places it; NULL: it is none. */
static const float *per_channel(const graph_t *g, int32_t value, size_t channels, uint32_t rank)
{
    const float *data = constant_f32(g, value, channels);
    const tensor_t *t = data ? &g->values[value].t : NULL;
    return t && t->rank <= rank && t->rank >= rank - 1 && (size_t)t->dims[t->rank - (rank - 1)] == channels
               ? data
               : NULL;
}

/* What is left of a normalisation when an exporter spells it out; x is the convolution's result. */
static bool read_affine(const graph_t *g, const node_t *node, int32_t x, size_t channels, uint32_t rank,
                        norm_t *norm)
{
    if (node->in_count != 2 || node->in[0] == node->in[1])
        return false;
    const float *other = per_channel(g, node->in[node->in[0] == x], channels, rank);
    *norm = (norm_t){0};
    if (op_computes(node, EW_MUL))
        norm->scale = other;
    else if (op_computes(node, EW_ADD))
        norm->shift = other;
    else if (op_computes(node, EW_SUB) && node->in[0] == x)
        norm->mean = other;
    else
        return false;
    return other;
}

static double at_or(const float *values, size_t i, double otherwise)
{
    return values ? (double)values[i] : otherwise;
}

/* w'[f] = w[f]·k, b'[f] = (b[f] - mean)·k + shift with k = scale / sqrt(variance + ε). */
static void scale_filters(const norm_t *n, const float *w, const float *b, float *to_w, float *to_b,
                          size_t filters, size_t per_filter)
{
    for (size_t f = 0; f < filters; f++) {
        double k = at_or(n->scale, f, 1) / sqrt(at_or(n->variance, f, 1) + n->epsilon);
        for (size_t i = 0; i < per_filter; i++)
            to_w[f * per_filter + i] = (float)((double)w[f * per_filter + i] * k);
        to_b[f] = (float)((at_or(b, f, 0) - at_or(n->mean, f, 0)) * k + at_or(n->shift, f, 0));
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

/* New weights and a new bias for conv; `after` is gone then. */
static status_t take_up(uses_t *u, int32_t at, node_t *after, const norm_t *norm, err_t *err)
{
    graph_t *g = u->graph;
    node_t *conv = &g->nodes[at];
    const tensor_t *w = &g->values[conv->in[1]].t;
    size_t filters = (size_t)w->dims[0], per_filter = tensor_count_range(w, 1, w->rank);
    const float *bias = conv->in_count > 2 && conv->in[2] >= 0 ? constant_f32(g, conv->in[2], filters) : NULL;
    tensor_t new_w = *w, new_b = {.dtype = DTYPE_F32, .rank = 1, .dims = {(int64_t)filters}};
    blob_t *w_blob = blob_create(tensor_bytes(&new_w)), *b_blob = blob_create(tensor_bytes(&new_b));
    if (!w_blob || !b_blob || !ensure_bias_slot(g, conv)) {
        blob_unref(w_blob);
        blob_unref(b_blob);
        return err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    }
    scale_filters(norm, w->data, bias, blob_data(w_blob), blob_data(b_blob), filters, per_filter);
    const char *w_name = g->values[conv->in[1]].name;
    conv->in[1] = graph_add_constant(g, w_name, &new_w, w_blob);
    conv->in[2] = graph_add_constant(g, after->name, &new_b, b_blob);
    conv->out[0] = after->out[0];
    after->dead = true;
    if (conv->in[1] < 0 || conv->in[2] < 0)
        return err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    u->producer[after->out[0]] = at;
    return STATUS_OK;
}

/* The convolution that makes x for one reader alone, from constants; -1: something else does. */
static int32_t foldable_conv(const uses_t *u, int32_t x)
{
    const graph_t *g = u->graph;
    int32_t at = x < 0 ? -1 : u->producer[x];
    if (at < 0 || u->readers[x] != 1 || !op_is(&g->nodes[at], OP_CONV) || g->nodes[at].dead)
        return -1;
    const node_t *conv = &g->nodes[at];
    if (conv->in[1] < 0)
        return -1;
    const tensor_t *w = &g->values[conv->in[1]].t;
    if (!w->data || w->dtype != DTYPE_F32 || w->rank < 3)
        return -1;
    bool has_bias = conv->in_count > 2 && conv->in[2] >= 0;
    return has_bias && !constant_f32(g, conv->in[2], (size_t)w->dims[0]) ? -1 : at;
}

static status_t fold_into_conv(uses_t *u, node_t *node, err_t *err)
{
    const graph_t *g = u->graph;
    bool batch_norm = op_is(node, OP_BATCH_NORM);
    if (!batch_norm && !op_computes(node, EW_MUL) && !op_computes(node, EW_ADD) && !op_computes(node, EW_SUB))
        return STATUS_OK;
    for (uint32_t i = 0; i < (batch_norm ? 1 : node->in_count); i++) {
        int32_t at = foldable_conv(u, node->in[i]);
        if (at < 0)
            continue;
        const tensor_t *w = &g->values[g->nodes[at].in[1]].t;
        size_t filters = (size_t)w->dims[0];
        norm_t norm;
        if (batch_norm ? read_norm(g, node, filters, &norm)
                       : read_affine(g, node, node->in[i], filters, w->rank, &norm))
            return take_up(u, at, node, &norm, err);
    }
    return STATUS_OK;
}

/* False when an attribute of another kind, or with another text, is there. */
static bool attr_is(const node_t *node, const char *name, const char *text)
{
    const attr_t *attr = node_attr(node, name);
    return !attr || (attr->kind == ATTR_STRING && !strcmp(attr->s, text));
}

/* What a Pad with zeros adds to each spatial dimension, before and behind; false: it is another kind. */
static bool read_zero_pads(const graph_t *g, const node_t *pad, uint32_t rank, int64_t *pads)
{
    const attr_t *attr = node_attr(pad, "pads"), *value = node_attr(pad, "value");
    bool more = pad->in_count > 3 && pad->in[3] >= 0; /* axes */
    if (!attr_is(pad, "mode", "constant") || (value && (value->kind != ATTR_FLOAT || value->f != 0)) || more)
        return false;
    if (pad->in_count > 2 && pad->in[2] >= 0) {
        const float *zero = constant_f32(g, pad->in[2], 1);
        if (!zero || *zero != 0)
            return false;
    }
    const int64_t *all = attr && attr->kind == ATTR_INTS && attr->count == 2 * rank ? attr->ints : NULL;
    if (!attr && pad->in_count > 1 && pad->in[1] >= 0) {
        const tensor_t *t = &g->values[pad->in[1]].t;
        all = t->data && t->dtype == DTYPE_I64 && tensor_count(t) == 2 * rank ? t->data : NULL;
    }
    for (uint32_t d = 0; all && d < 2 * rank; d++) {
        bool spatial = d % rank >= 2;
        if (all[d] < 0 || all[d] > INT32_MAX || (!spatial && all[d]))
            return false;
        if (spatial)
            pads[d < rank ? d - 2 : d - 4] = all[d];
    }
    return all;
}

/* Its attributes with these pads in place of what it says of padding. */
static bool set_pads(graph_t *g, node_t *conv, const int64_t *pads, uint32_t count)
{
    attr_t *attrs = graph_alloc(g, (conv->attr_count + 1) * sizeof *attrs);
    int64_t *ints = graph_alloc(g, count * sizeof *ints);
    uint32_t kept = 0;
    if (!attrs || !ints)
        return false;
    for (uint32_t i = 0; i < conv->attr_count; i++)
        if (strcmp(conv->attrs[i].name, "pads") != 0 && strcmp(conv->attrs[i].name, "auto_pad") != 0)
            attrs[kept++] = conv->attrs[i];
    memcpy(ints, pads, count * sizeof *ints);
    attrs[kept++] = (attr_t){.kind = ATTR_INTS, .name = "pads", .count = count, .ints = ints};
    conv->attrs = attrs;
    conv->attr_count = kept;
    return true;
}

/* A convolution pads for itself what a Pad before it does. */
static status_t fold_pad(uses_t *u, node_t *conv, err_t *err)
{
    graph_t *g = u->graph;
    bool has_inputs = op_is(conv, OP_CONV) && conv->in[0] >= 0 && conv->in[1] >= 0;
    int32_t at = has_inputs ? u->producer[conv->in[0]] : -1;
    if (at < 0 || u->readers[conv->in[0]] != 1 || !op_is(&g->nodes[at], OP_PAD) || g->nodes[at].dead)
        return STATUS_OK;
    const attr_t *own = node_attr(conv, "pads");
    bool valid = node_attr(conv, "auto_pad") && attr_is(conv, "auto_pad", "VALID");
    uint32_t rank = g->values[conv->in[1]].t.rank, count = 2 * (rank - 2);
    int64_t pads[2 * TENSOR_MAX_RANK] = {0};
    if ((!valid && !attr_is(conv, "auto_pad", "NOTSET")) || !g->values[conv->in[1]].t.data || rank < 3 ||
        (own && (own->kind != ATTR_INTS || own->count != count)) ||
        !read_zero_pads(g, &g->nodes[at], rank, pads))
        return STATUS_OK;
    for (uint32_t i = 0; own && !valid && i < count; i++)
        if (__builtin_add_overflow(pads[i], own->ints[i], &pads[i]))
            return STATUS_OK;
    if (!set_pads(g, conv, pads, count))
        return err_set(err, STATUS_NO_MEMORY, "no memory to rewrite the graph");
    conv->in[0] = g->nodes[at].in[0];
    g->nodes[at].dead = true;
    return STATUS_OK;
}

/* What a pass does at one node. */
typedef status_t (*rewrite_t)(uses_t *u, node_t *node, err_t *err);

static status_t rewrite_each(graph_t *g, rewrite_t rewrite, err_t *err)
{
    uses_t u;
    status_t status = uses_init(&u, g, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++)
        if (!g->nodes[n].dead)
            status = rewrite(&u, &g->nodes[n], err);
    uses_dispose(&u);
    graph_clean(g);
    return status;
}

static status_t fold_template(uses_t *u, node_t *node, err_t *err)
{
    status_t status = fold_into_conv(u, node, err);
    return status == STATUS_OK ? fold_pad(u, node, err) : status;
}

status_t graph_fold_batch_norms(graph_t *g, err_t *err)
{
    return rewrite_each(g, fold_template, err);
}

/* The mean over all of a picture, or over a volume, is a pool, for which engines have more than a loop. */
static void mean_to_pool(graph_t *g, node_t *node)
{
    if (!op_is(node, OP_REDUCE_MEAN) || node->in[0] < 0)
        return;
    const attr_t *keep = node_attr(node, "keepdims"), *attr = node_attr(node, "axes");
    const tensor_t *x = &g->values[node->in[0]].t;
    const tensor_t *in = node->in_count > 1 && node->in[1] >= 0 ? &g->values[node->in[1]].t : NULL;
    const int64_t *axes = attr && attr->kind == ATTR_INTS ? attr->ints : NULL;
    size_t count = axes ? attr->count : 0;
    unsigned mask = 0;
    if (!axes && in && in->data && in->dtype == DTYPE_I64) {
        axes = in->data;
        count = tensor_count(in);
    }
    for (size_t i = 0; axes && i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + (int64_t)x->rank : axes[i];
        mask |= axis >= 0 && axis < (int64_t)x->rank ? 1u << axis : 0;
    }
    if ((keep && keep->i != 1) || x->dtype != DTYPE_F32 || x->rank < 4 || x->rank > 5 ||
        mask != (1u << x->rank) - 4)
        return;
    node->op = op_find("", "GlobalAveragePool");
    node->in_count = 1;
    node->attr_count = 0;
}

static status_t fold_instance(uses_t *u, node_t *node, err_t *err)
{
    mean_to_pool(u->graph, node);
    return fold_pad(u, node, err);
}

status_t graph_fold_shaped(graph_t *g, err_t *err)
{
    return rewrite_each(g, fold_instance, err);
}

/* The later producer of the two operands is the host: the other one is complete when it runs. */
static bool as_addition(const uses_t *u, const node_t *add, epilogue_t *tail, int32_t *joint)
{
    const graph_t *g = u->graph;
    if (add->op->tail != EPILOGUE_ADD || add->in_count != 2 || add->in[0] == add->in[1])
        return false;
    const tensor_t *a = &g->values[add->in[0]].t, *b = &g->values[add->in[1]].t;
    if (a->dtype != DTYPE_F32 || b->dtype != DTYPE_F32 || !tensor_same_shape(a, b))
        return false;
    int32_t pa = u->producer[add->in[0]], pb = u->producer[add->in[1]];
    uint32_t host = pa >= pb ? 0 : 1;
    *joint = add->in[host];
    *tail = (epilogue_t){.kind = EPILOGUE_ADD, .value = add->in[!host], .op = add->op};
    return true;
}

static float scalar_or(const graph_t *g, const node_t *node, uint32_t i, float otherwise, bool *ok)
{
    if (i >= node->in_count || node->in[i] < 0)
        return otherwise;
    const float *value = constant_f32(g, node->in[i], 1);
    *ok = *ok && value;
    return value ? *value : otherwise;
}

/* False: its bounds are not constant. */
static bool read_clip(const graph_t *g, const node_t *node, ew_call_t *clip)
{
    const attr_t *low = node_attr(node, "min"), *high = node_attr(node, "max");
    bool ok = true;
    clip->op = EW_CLIP;
    clip->a = (double)(node->opset < 11 && low ? low->f : scalar_or(g, node, 1, -INFINITY, &ok));
    clip->b = (double)(node->opset < 11 && high ? high->f : scalar_or(g, node, 2, INFINITY, &ok));
    return ok;
}

static bool as_unary(const graph_t *g, const node_t *node, epilogue_t *tail, int32_t *joint)
{
    *joint = node->in_count ? node->in[0] : -1;
    if (node->op->tail != EPILOGUE_UNARY || *joint < 0 || g->values[*joint].t.dtype != DTYPE_F32)
        return false;
    *tail = (epilogue_t){.kind = EPILOGUE_UNARY,
                         .function = op_function(node->op, node->attrs, node->attr_count),
                         .op = node->op,
                         .attrs = node->attrs,
                         .attr_count = node->attr_count};
    return !op_is(node, OP_CLIP) || read_clip(g, node, &tail->function);
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
