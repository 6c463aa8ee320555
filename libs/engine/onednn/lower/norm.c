/*
 * Normalisations and softmax.
 */
#include "engine/onednn/lower/lower.h"

#include <string.h>

static bool is_f32(const lower_t *l, int32_t value)
{
    return value >= 0 && lower_tensor(l, value)->dtype == DTYPE_F32;
}

static bool single_output(const node_t *node)
{
    for (uint32_t i = 1; i < node->out_count; i++)
        if (node->out[i] >= 0)
            return false;
    return node->out[0] >= 0;
}

static float epsilon_of(const node_t *node)
{
    const attr_t *a = node_attr(node, "epsilon");
    return a && a->kind == ATTR_FLOAT ? a->f : 1e-5f;
}

/* With the statistics given; a ReLU behind it is the only epilogue (supports.c). */
status_t lower_batch_norm(lower_t *l, const node_t *node)
{
    const attr_t *training = node_attr(node, "training_mode");
    if (!is_f32(l, node->in[0]) || !single_output(node) || (training && training->i))
        return STATUS_UNSUPPORTED;
    layout_t main = *lower_main(l, node->in[0]);
    unsigned flags = dnnl_use_global_stats | dnnl_use_scale | dnnl_use_shift;
    flags |= node->epilogue_count ? dnnl_fuse_norm_relu : 0;
    dnnl_batch_normalization_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_status_t made = dnnl_batch_normalization_forward_desc_init(&desc, dnnl_forward_inference, &main.md,
                                                                    epsilon_of(node), flags);
    if (made == dnnl_success)
        made = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
    if (made != dnnl_success)
        return lower_status(l, made);
    uint32_t to =
        lower_dies(l, node->in[0]) ? main.buffer : lower_buffer(l, dnnl_memory_desc_get_size(&main.md));
    dnnl_memory_desc_t per_channel = md_strided(1, (int64_t[]){main.md.dims[1]}, NULL);
    lower_arg_t args[] = {{DNNL_ARG_SRC, main.buffer, main.md},
                          {DNNL_ARG_DST, to, main.md},
                          {DNNL_ARG_SCALE, lower_plain(l, node->in[1]), per_channel},
                          {DNNL_ARG_SHIFT, lower_plain(l, node->in[2]), per_channel},
                          {DNNL_ARG_MEAN, lower_plain(l, node->in[3]), per_channel},
                          {DNNL_ARG_VARIANCE, lower_plain(l, node->in[4]), per_channel}};
    status_t status = lower_step(l, node, pd, args, 6);
    return status == STATUS_OK ? lower_define(l, node->out[0], &main.md, to) : status;
}

/* Only over the last dimension, which is what transformers do. */
status_t lower_layer_norm(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    const attr_t *axis = node_attr(node, "axis");
    int64_t at = axis && axis->kind == ATTR_INT ? axis->i : -1;
    bool last = x->rank >= 2 && (at == -1 || at == (int64_t)x->rank - 1);
    if (!is_f32(l, node->in[0]) || !last || !single_output(node) || x->rank > 5)
        return STATUS_UNSUPPORTED;
    int64_t n = x->dims[x->rank - 1], rows = (int64_t)tensor_count(x) / n;
    dnnl_memory_desc_t md = md_strided(2, (int64_t[]){rows, n}, NULL);
    dnnl_memory_desc_t per_column = md_strided(1, (int64_t[]){n}, NULL);
    bool shifted = lower_input(node, 2) >= 0;
    dnnl_layer_normalization_desc_t desc;
    dnnl_primitive_desc_t pd;
    dnnl_status_t made =
        dnnl_layer_normalization_forward_desc_init(&desc, dnnl_forward_inference, &md, NULL, epsilon_of(node),
                                                   dnnl_use_scale | (shifted ? (unsigned)dnnl_use_shift : 0));
    if (made == dnnl_success)
        made = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
    if (made != dnnl_success)
        return lower_status(l, made);
    uint32_t from = lower_plain(l, node->in[0]), to = lower_buffer(l, tensor_bytes(x)), count = 3;
    lower_arg_t args[4] = {{DNNL_ARG_SRC, from, md},
                           {DNNL_ARG_DST, to, md},
                           {DNNL_ARG_SCALE, lower_plain(l, node->in[1]), per_column}};
    if (shifted)
        args[count++] = (lower_arg_t){DNNL_ARG_SHIFT, lower_plain(l, node->in[2]), per_column};
    status_t status = lower_step(l, node, pd, args, count);
    return status == STATUS_OK ? lower_define(l, node->out[0], NULL, to) : status;
}

/* Rows of the axis, one behind the other, of outer × n × inner: oneDNN has kernels for that only. */
static uint32_t softmax_rows(lower_t *l, int32_t value, const int64_t dims[3])
{
    int64_t turned[3] = {dims[1] * dims[2], 1, dims[1]};
    dnnl_memory_desc_t plain = md_strided(3, dims, NULL), rows = md_strided(3, dims, turned);
    return dims[2] == 1 ? lower_plain(l, value) : lower_weights(l, value, &plain, &rows);
}

/* The result as it lies then, under its own dimensions. */
static dnnl_memory_desc_t softmax_result(const tensor_t *x, uint32_t cut, int64_t inner)
{
    int64_t strides[TENSOR_MAX_RANK];
    tensor_strides(x, strides);
    for (uint32_t d = cut + 1; inner > 1 && d < x->rank; d++)
        strides[d] *= x->dims[cut];
    if (inner > 1)
        strides[cut] = 1;
    return md_strided(x->rank, x->dims, strides);
}

static dnnl_status_t softmax_describe(const lower_t *l, bool logarithm, const dnnl_memory_desc_t *md,
                                      dnnl_primitive_desc_t *pd)
{
    dnnl_softmax_v2_desc_t desc;
    dnnl_status_t made = dnnl_softmax_v2_forward_desc_init(
        &desc, dnnl_forward_inference, logarithm ? dnnl_softmax_log : dnnl_softmax_accurate, md, md, 1);
    return made == dnnl_success ? dnnl_primitive_desc_create(pd, &desc, l->attr, l->engine, NULL) : made;
}

/* Before opset 13 the input is a matrix cut at the axis. */
status_t lower_softmax(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    const attr_t *axis = node_attr(node, "axis");
    bool old = node->opset < 13;
    int64_t at = axis && axis->kind == ATTR_INT ? axis->i : old ? 1 : -1;
    at = at < 0 ? at + x->rank : at;
    if (!is_f32(l, node->in[0]) || !x->rank || x->rank > DNNL_MAX_NDIMS || at >= x->rank)
        return STATUS_UNSUPPORTED;
    uint32_t cut = (uint32_t)at;
    int64_t dims[3] = {(int64_t)tensor_count_range(x, 0, cut),
                       old ? (int64_t)tensor_count_range(x, cut, x->rank) : x->dims[cut],
                       old ? 1 : (int64_t)tensor_count_range(x, cut + 1, x->rank)};
    dnnl_memory_desc_t md = md_strided(2, (int64_t[]){dims[0] * dims[2], dims[1]}, NULL);
    dnnl_primitive_desc_t pd;
    dnnl_status_t made = softmax_describe(l, op_is(node, OP_LOG_SOFTMAX), &md, &pd);
    if (made != dnnl_success)
        return lower_status(l, made);
    const layout_t *main = lower_main(l, node->in[0]);
    uint32_t from = softmax_rows(l, node->in[0], dims);
    uint32_t to =
        from == main->buffer && lower_dies(l, node->in[0]) ? from : lower_buffer(l, tensor_bytes(x));
    lower_arg_t args[] = {{DNNL_ARG_SRC, from, md}, {DNNL_ARG_DST, to, md}};
    dnnl_memory_desc_t result = softmax_result(x, cut, dims[2]);
    status_t status = lower_step(l, node, pd, args, 2);
    return status == STATUS_OK ? lower_define(l, node->out[0], dims[2] > 1 ? &result : NULL, to) : status;
}
