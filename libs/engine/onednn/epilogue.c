/*
 * Activations in oneDNN's words, and epilogues as post-ops.
 */
#include "engine/onednn/build.h"

#include <math.h>
#include <string.h>

static float attr_float(const attr_t *attrs, uint32_t count, const char *name, float otherwise)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(attrs[i].name, name) && attrs[i].kind == ATTR_FLOAT)
            return attrs[i].f;
    return otherwise;
}

static bool gelu_is_tanh(const attr_t *attrs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(attrs[i].name, "approximate") && attrs[i].kind == ATTR_STRING)
            return !strcmp(attrs[i].s, "tanh");
    return false;
}

static eltwise_t one(dnnl_alg_kind_t alg, float alpha, float beta)
{
    return (eltwise_t){.count = 1, .step = {{alg, alpha, beta}}};
}

/* Those without parameters. */
static const struct {
    const char *name;
    dnnl_alg_kind_t alg;
} simple[] = {
    {"Abs", dnnl_eltwise_abs},
    {"Exp", dnnl_eltwise_exp},
    {"HardSwish", dnnl_eltwise_hardswish},
    {"Log", dnnl_eltwise_log},
    {"Mish", dnnl_eltwise_mish},
    {"Round", dnnl_eltwise_round},
    {"Sigmoid", dnnl_eltwise_logistic},
    {"Softplus", dnnl_eltwise_soft_relu},
    {"Sqrt", dnnl_eltwise_sqrt},
    {"Tanh", dnnl_eltwise_tanh},
    {"Relu", dnnl_eltwise_relu},
};

eltwise_t build_eltwise(const op_t *op, const attr_t *attrs, uint32_t n, float low, float high)
{
    const char *name = op->name;
    for (size_t i = 0; i < sizeof simple / sizeof simple[0]; i++)
        if (!strcmp(simple[i].name, name))
            return one(simple[i].alg, 0, 0);
    if (!strcmp(name, "Clip"))
        return one(dnnl_eltwise_clip, fmaxf(low, -3.402823466e38f), fminf(high, 3.402823466e38f));
    if (!strcmp(name, "LeakyRelu"))
        return one(dnnl_eltwise_relu, attr_float(attrs, n, "alpha", 0.01f), 0);
    if (!strcmp(name, "Elu"))
        return one(dnnl_eltwise_elu, attr_float(attrs, n, "alpha", 1), 0);
    if (!strcmp(name, "Gelu"))
        return one(gelu_is_tanh(attrs, n) ? dnnl_eltwise_gelu_tanh : dnnl_eltwise_gelu_erf, 0, 0);
    if (!strcmp(name, "Swish"))
        return one(dnnl_eltwise_swish, attr_float(attrs, n, "alpha", 1), 0);
    if (!strcmp(name, "Neg"))
        return one(dnnl_eltwise_linear, -1, 0);
    if (!strcmp(name, "HardSigmoid"))
        return (eltwise_t){.count = 2,
                           .step = {{dnnl_eltwise_linear, attr_float(attrs, n, "alpha", 0.2f),
                                     attr_float(attrs, n, "beta", 0.5f)},
                                    {dnnl_eltwise_clip, 0, 1}}};
    return (eltwise_t){0};
}

static bool is_one_of(const node_t *node, const char *const *names)
{
    for (; *names; names++)
        if (op_is(node, *names))
            return true;
    return false;
}

static bool has_sum(const node_t *node)
{
    for (uint32_t i = 0; i < node->epilogue_count; i++)
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            return true;
    return false;
}

/* A sum of more than one operand would need the destination twice. */
bool build_allows(const graph_t *graph, const node_t *host, const epilogue_t *tail)
{
    static const char *const hosts[] = {"Conv", "Gemm", "Linear", "MatMul", NULL};
    static const char *const normed[] = {"BatchNormalization", NULL};
    const tensor_t *result = &graph->values[host->out[0]].t;
    if (host->out_count != 1 || result->dtype != DTYPE_F32)
        return false;
    if (is_one_of(host, normed))
        return tail->kind == EPILOGUE_UNARY && !strcmp(tail->op->name, "Relu") && !host->epilogue_count;
    if (!is_one_of(host, hosts))
        return false;
    if (tail->kind == EPILOGUE_ADD)
        return !has_sum(host) && !graph->values[tail->value].t.data;
    return build_eltwise(tail->op, tail->attrs, tail->attr_count, tail->low, tail->high).count > 0;
}

static dnnl_status_t append(dnnl_post_ops_t ops, const epilogue_t *tail)
{
    if (tail->kind == EPILOGUE_ADD)
        return dnnl_post_ops_append_sum(ops, 1);
    eltwise_t e = build_eltwise(tail->op, tail->attrs, tail->attr_count, tail->low, tail->high);
    dnnl_status_t status = dnnl_success;
    for (uint32_t i = 0; status == dnnl_success && i < e.count; i++)
        status = dnnl_post_ops_append_eltwise(ops, 1, e.step[i].alg, e.step[i].alpha, e.step[i].beta);
    return status;
}

status_t build_attr(build_t *b, const node_t *node, dnnl_primitive_attr_t *out, int32_t *sum_value)
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
        return build_status(b, status);
    }
    *out = attr;
    return STATUS_OK;
}

/* A copy by a reorder from a layout to itself. */
static uint32_t copy_of(build_t *b, const node_t *node, uint32_t from, const dnnl_memory_desc_t *md)
{
    dnnl_primitive_desc_t pd;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(&pd, md, b->engine, md, b->engine, b->attr);
    if (status != dnnl_success) {
        build_status(b, status);
        return UINT32_MAX;
    }
    build_arg_t args[] = {{DNNL_ARG_FROM, from, *md},
                          {DNNL_ARG_TO, build_buffer(b, dnnl_memory_desc_get_size(md)), *md}};
    uint32_t to = args[1].buffer;
    return build_step(b, node, pd, args, 2) == STATUS_OK ? to : UINT32_MAX;
}

uint32_t build_sum_target(build_t *b, const node_t *node, int32_t sum_value, const dnnl_memory_desc_t *md)
{
    const layout_t *main = build_main(b, sum_value);
    if (dnnl_memory_desc_equal(&main->md, md) && build_dies(b, sum_value))
        return main->buffer;
    uint32_t held = build_need(b, sum_value, md);
    return held == UINT32_MAX ? held : copy_of(b, node, held, md);
}
