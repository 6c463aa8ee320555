/*
 * Activations in oneDNN's words, and epilogues as post-ops.
 */
#include "engine/onednn/lower/lower.h"

#include <math.h>
#include <string.h>

static eltwise_t one(dnnl_alg_kind_t alg, double alpha, double beta)
{
    return (eltwise_t){.count = 1, .step = {{alg, (float)alpha, (float)beta}}};
}

/* Those without parameters. */
static const dnnl_alg_kind_t simple[EW_COUNT] = {
    [EW_ABS] = dnnl_eltwise_abs,
    [EW_EXP] = dnnl_eltwise_exp,
    [EW_GELU_ERF] = dnnl_eltwise_gelu_erf,
    [EW_GELU_TANH] = dnnl_eltwise_gelu_tanh,
    [EW_HARDSWISH] = dnnl_eltwise_hardswish,
    [EW_LOG] = dnnl_eltwise_log,
    [EW_MISH] = dnnl_eltwise_mish,
    [EW_RELU] = dnnl_eltwise_relu,
    [EW_ROUND] = dnnl_eltwise_round,
    [EW_SIGMOID] = dnnl_eltwise_logistic,
    [EW_SOFTPLUS] = dnnl_eltwise_soft_relu,
    [EW_SQRT] = dnnl_eltwise_sqrt,
    [EW_TANH] = dnnl_eltwise_tanh,
};

eltwise_t lower_eltwise(const ew_call_t *f)
{
    const double most = 3.402823466e38;
    switch (f->op) {
    case EW_CLIP:
        return one(dnnl_eltwise_clip, fmax(f->a, -most), fmin(f->b, most));
    case EW_ELU:
        return one(dnnl_eltwise_elu, f->a, 0);
    case EW_HARDSIGMOID:
        return (eltwise_t){
            .count = 2, .step = {{dnnl_eltwise_linear, (float)f->a, (float)f->b}, {dnnl_eltwise_clip, 0, 1}}};
    case EW_LEAKY_RELU:
        return one(dnnl_eltwise_relu, f->a, 0);
    case EW_NEG:
        return one(dnnl_eltwise_linear, -1, 0);
    case EW_SWISH:
        return one(dnnl_eltwise_swish, f->a, 0);
    default:
        return simple[f->op] ? one(simple[f->op], 0, 0) : (eltwise_t){.count = 0};
    }
}

static dnnl_status_t append(dnnl_post_ops_t ops, const epilogue_t *tail)
{
    if (tail->kind == EPILOGUE_ADD)
        return dnnl_post_ops_append_sum(ops, 1);
    eltwise_t e = lower_eltwise(&tail->function);
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; status == dnnl_success && i < e.count; i++)
        status = dnnl_post_ops_append_eltwise(ops, 1, e.step[i].alg, e.step[i].alpha, e.step[i].beta);
    return status;
}

status_t lower_attr(lower_t *l, const node_t *node, dnnl_primitive_attr_t *out, int32_t *sum_value)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    *sum_value = -1;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&ops);
    for (uint32_t i = 0; status == dnnl_success && i < node->epilogue_count; i++) {
        status = append(ops, &node->epilogue[i]);
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            *sum_value = node->epilogue[i].value;
    }
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (status != dnnl_success) {
        if (attr)
            dnnl_primitive_attr_destroy(attr);
        return lower_status(l, status);
    }
    *out = attr;
    return STATUS_OK;
}

/* A copy by a reorder from a layout to itself. */
static uint32_t copy_of(lower_t *l, const node_t *node, uint32_t from, const dnnl_memory_desc_t *md)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, md, l->engine, md, l->engine, l->attr);
    if (status != dnnl_success) {
        lower_status(l, status);
        return UINT32_MAX;
    }
    lower_arg_t args[] = {{DNNL_ARG_FROM, from, *md},
                          {DNNL_ARG_TO, lower_buffer(l, dnnl_memory_desc_get_size(md)), *md}};
    uint32_t to = args[1].buffer;
    return lower_step(l, node, pd, args, 2) == STATUS_OK ? to : UINT32_MAX;
}

uint32_t lower_sum_target(lower_t *l, const node_t *node, int32_t sum_value, const dnnl_memory_desc_t *md)
{
    const layout_t *main = lower_main(l, sum_value);
    if (dnnl_memory_desc_equal(&main->md, md) && lower_dies(l, sum_value))
        return main->buffer;
    uint32_t held = lower_need(l, sum_value, md);
    return held == UINT32_MAX ? held : copy_of(l, node, held, md);
}

const char *lower_impl(const_dnnl_primitive_desc_t pd)
{
    const char *info = NULL;
    dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &info);
    return info ? info : "";
}

bool lower_is_reference(const_dnnl_primitive_desc_t pd)
{
    return !strncmp(lower_impl(pd), "ref", 3);
}

static status_t rest_add(lower_t *l, const node_t *node, int32_t value, const dnnl_memory_desc_t *md,
                         uint32_t buffer)
{
    dnnl_binary_desc_t desc;
    dnnl_primitive_desc_t pd;
    lower_arg_t args[] = {{DNNL_ARG_SRC_0, buffer, *md},
                          {DNNL_ARG_SRC_1, lower_need(l, value, md), *md},
                          {DNNL_ARG_DST, buffer, *md}};
    dnnl_status_t made = dnnl_binary_desc_init(&desc, dnnl_binary_add, md, md, md);
    if (made == dnnl_success)
        made = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
    return made == dnnl_success ? lower_step(l, node, pd, args, 3) : lower_status(l, made);
}

static status_t rest_function(lower_t *l, const node_t *node, const ew_call_t *function,
                              const dnnl_memory_desc_t *md, uint32_t buffer)
{
    eltwise_t e = lower_eltwise(function);
    lower_arg_t args[] = {{DNNL_ARG_SRC, buffer, *md}, {DNNL_ARG_DST, buffer, *md}};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < e.count; i++) {
        dnnl_eltwise_desc_t desc;
        dnnl_primitive_desc_t pd;
        dnnl_status_t made = dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, e.step[i].alg, md,
                                                            e.step[i].alpha, e.step[i].beta);
        if (made == dnnl_success)
            made = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
        status = made == dnnl_success ? lower_step(l, node, pd, args, 2) : lower_status(l, made);
    }
    return status;
}

status_t lower_rest(lower_t *l, const node_t *node, uint32_t first, const dnnl_memory_desc_t *md,
                    uint32_t buffer)
{
    status_t status = STATUS_OK;
    for (uint32_t i = first; status == STATUS_OK && i < node->epilogue_count; i++) {
        const epilogue_t *tail = &node->epilogue[i];
        status = tail->kind == EPILOGUE_ADD ? rest_add(l, node, tail->value, md, buffer)
                                            : rest_function(l, node, &tail->function, md, buffer);
    }
    return status;
}
