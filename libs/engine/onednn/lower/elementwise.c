/*
 * Activations and arithmetic: in whatever layout the input has, in place where nobody reads it again.
 */
#include "engine/onednn/lower/lower.h"

#include <math.h>

static status_t define_result(lower_t *l, const node_t *node, dnnl_primitive_desc_t pd,
                              const lower_arg_t *args, uint32_t count, const lower_arg_t *dst)
{
    dnnl_memory_desc_t md = dst->md;
    uint32_t buffer = dst->buffer;
    status_t status = lower_step(l, node, pd, args, count);
    return status == STATUS_OK ? lower_define(l, node->out[0], &md, buffer) : status;
}

/* One elementwise primitive from a layout to the same layout. */
static status_t add_eltwise(lower_t *l, const node_t *node, int32_t value, const eltwise_t *e)
{
    layout_t main = *lower_main(l, value);
    uint32_t from = main.buffer, to = lower_dies(l, value) ? from : UINT32_MAX;
    for (uint32_t i = 0; i < e->count; i++) {
        dnnl_eltwise_desc_t desc;
        dnnl_primitive_desc_t pd;
        dnnl_status_t status = dnnl_eltwise_forward_desc_init(&desc, dnnl_forward_inference, e->step[i].alg,
                                                              &main.md, e->step[i].alpha, e->step[i].beta);
        if (status == dnnl_success)
            status = dnnl_primitive_desc_create(&pd, &desc, l->attr, l->engine, NULL);
        if (status != dnnl_success)
            return lower_status(l, status);
        if (to == UINT32_MAX)
            to = lower_buffer(l, dnnl_memory_desc_get_size(&main.md));
        lower_arg_t args[] = {{DNNL_ARG_SRC, from, main.md}, {DNNL_ARG_DST, to, main.md}};
        status_t added = lower_step(l, node, pd, args, 2);
        if (added != STATUS_OK)
            return added;
        from = to;
    }
    return lower_define(l, node->out[0], &main.md, to);
}

static bool is_f32(const lower_t *l, int32_t value)
{
    return value >= 0 && lower_tensor(l, value)->dtype == DTYPE_F32;
}

/* A constant of one element. */
static const float *scalar(const lower_t *l, int32_t value)
{
    const tensor_t *t = lower_tensor(l, value);
    return t->data && t->dtype == DTYPE_F32 && tensor_count(t) == 1 ? t->data : NULL;
}

status_t lower_unary(lower_t *l, const node_t *node)
{
    if (!is_f32(l, node->in[0]))
        return STATUS_UNSUPPORTED;
    ew_call_t function = op_function(node->op, node->attrs, node->attr_count);
    eltwise_t e = lower_eltwise(&function);
    return e.count ? add_eltwise(l, node, node->in[0], &e) : STATUS_UNSUPPORTED;
}

status_t lower_clip(lower_t *l, const node_t *node)
{
    float bounds[2] = {-INFINITY, INFINITY};
    const char *const names[2] = {"min", "max"};
    if (!is_f32(l, node->in[0]))
        return STATUS_UNSUPPORTED;
    for (uint32_t i = 0; i < 2; i++) {
        const attr_t *a = node_attr(node, names[i]);
        int32_t in = lower_input(node, i + 1);
        if (node->opset < 11 && a && a->kind == ATTR_FLOAT)
            bounds[i] = a->f;
        if (node->opset < 11 || in < 0)
            continue;
        if (!scalar(l, in))
            return STATUS_UNSUPPORTED;
        bounds[i] = *scalar(l, in);
    }
    eltwise_t e = lower_eltwise(&(ew_call_t){.op = EW_CLIP, .a = (double)bounds[0], .b = (double)bounds[1]});
    return add_eltwise(l, node, node->in[0], &e);
}

/* x + c, x - c, c - x, x * c, x / c as one linear function; false for the rest. */
static bool as_linear(const node_t *node, float c, bool constant_first, eltwise_t *e)
{
    float alpha = 1, beta = 0;
    if (op_computes(node, EW_ADD))
        beta = c;
    else if (op_computes(node, EW_MUL))
        alpha = c;
    else if (op_computes(node, EW_SUB) && constant_first)
        alpha = -1, beta = c;
    else if (op_computes(node, EW_SUB))
        beta = -c;
    else if (op_computes(node, EW_DIV) && !constant_first)
        alpha = 1 / c;
    else
        return false;
    *e = (eltwise_t){.count = 1, .step = {{dnnl_eltwise_linear, alpha, beta}}};
    return true;
}

static status_t with_scalar(lower_t *l, const node_t *node)
{
    const tensor_t *out = lower_tensor(l, node->out[0]);
    for (uint32_t i = 0; i < 2; i++) {
        const float *c = scalar(l, node->in[i]);
        eltwise_t e;
        if (c && tensor_same_shape(lower_tensor(l, node->in[!i]), out) && as_linear(node, *c, i == 0, &e))
            return add_eltwise(l, node, node->in[!i], &e);
    }
    return STATUS_UNSUPPORTED;
}

/* The dims of a value with ones in front, as many as the result has. */
static bool padded_dims(const tensor_t *t, uint32_t rank, int64_t *dims)
{
    if (rank > DNNL_MAX_NDIMS || t->rank > rank || !rank)
        return false;
    for (uint32_t d = 0; d < rank; d++)
        dims[d] = d < rank - t->rank ? 1 : t->dims[d - (rank - t->rank)];
    return true;
}

/* What the second operand may look like: as it is, or small ones rearranged to the layouts that convolutions like. */
enum { MAX_LOOKS = 6 };

static uint32_t looks_of(const lower_t *l, int32_t value, const tensor_t *out,
                         const dnnl_memory_desc_t *first, dnnl_memory_desc_t *looks)
{
    static const dnnl_format_tag_t tags[6][3] = {[3] = {dnnl_aBc16b, dnnl_aBc8b, dnnl_acb},
                                                 [4] = {dnnl_aBcd16b, dnnl_aBcd8b, dnnl_acdb},
                                                 [5] = {dnnl_aBcde16b, dnnl_aBcde8b, dnnl_acdeb}};
    const tensor_t *t = lower_tensor(l, value);
    dnnl_dims_t dims = {0};
    uint32_t count = 0, rank = out->rank;
    if (!padded_dims(t, rank, dims))
        return 0;
    if (t->rank == rank && tensor_same_shape(t, out)) {
        looks[0] = *first;
        return 1;
    }
    if (t->rank == rank && !lower_is_constant(l, value))
        looks[count++] = lower_main(l, value)->md;
    looks[count++] = md_strided(rank, dims, NULL);
    bool small = tensor_count(t) * 16 <= tensor_count(out);
    for (uint32_t i = 0; small && rank >= 3 && rank <= 5 && i < 3; i++)
        if (dnnl_memory_desc_init_by_tag(&looks[count], (int)rank, dims, dnnl_f32, tags[rank][i]) ==
            dnnl_success)
            count++;
    return count;
}

/* The buffer for a look. A value of lower rank is seen with ones in front. */
static uint32_t operand_as(lower_t *l, int32_t value, uint32_t rank, const dnnl_memory_desc_t *look)
{
    const tensor_t *t = lower_tensor(l, value);
    int64_t dims[DNNL_MAX_NDIMS];
    if (t->rank == rank)
        return lower_need(l, value, look);
    padded_dims(t, rank, dims);
    dnnl_memory_desc_t seen = md_strided(rank, dims, NULL);
    return lower_weights(l, value, &seen, look);
}

static dnnl_alg_kind_t binary_alg(const node_t *node)
{
    static const dnnl_alg_kind_t algs[EW_COUNT] = {
        [EW_ADD] = dnnl_binary_add, [EW_SUB] = dnnl_binary_sub, [EW_MUL] = dnnl_binary_mul,
        [EW_DIV] = dnnl_binary_div, [EW_MAX] = dnnl_binary_max, [EW_MIN] = dnnl_binary_min,
    };
    return algs[node->op->function.op];
}

static bool describe_binary(lower_t *l, const node_t *node, const dnnl_memory_desc_t *first,
                            const dnnl_memory_desc_t *second, dnnl_primitive_desc_t *pd)
{
    dnnl_binary_desc_t desc;
    if (dnnl_binary_desc_init(&desc, binary_alg(node), first, second, first) != dnnl_success ||
        dnnl_primitive_desc_create(pd, &desc, l->attr, l->engine, NULL) != dnnl_success)
        return false;
    if (!lower_is_reference(*pd))
        return true;
    dnnl_primitive_desc_destroy(*pd);
    return false;
}

static status_t add_binary(lower_t *l, const node_t *node, int32_t first, int32_t second)
{
    const tensor_t *out = lower_tensor(l, node->out[0]);
    layout_t main = *lower_main(l, first);
    dnnl_memory_desc_t looks[MAX_LOOKS];
    dnnl_primitive_desc_t pd;
    uint32_t count = out->rank ? looks_of(l, second, out, &main.md, looks) : 0, look = 0;
    while (look < count && !describe_binary(l, node, &main.md, &looks[look], &pd))
        look++;
    if (look == count)
        return STATUS_UNSUPPORTED;
    lower_arg_t args[3] = {{DNNL_ARG_SRC_0, main.buffer, main.md},
                           {DNNL_ARG_SRC_1, operand_as(l, second, out->rank, &looks[look]), looks[look]}};
    bool in_place = lower_dies(l, first) && args[1].buffer != main.buffer;
    args[2] = (lower_arg_t){
        DNNL_ARG_DST, in_place ? main.buffer : lower_buffer(l, dnnl_memory_desc_get_size(&main.md)), main.md};
    return define_result(l, node, pd, args, 3, &args[2]);
}

static bool commutes(const node_t *node)
{
    return !op_computes(node, EW_SUB) && !op_computes(node, EW_DIV);
}

/* oneDNN broadcasts the second operand only. Axis attributes (opset < 7) are left to the reference kernel. */
status_t lower_binary(lower_t *l, const node_t *node)
{
    if (!binary_alg(node) || node->in_count != 2 || !is_f32(l, node->in[0]) || !is_f32(l, node->in[1]))
        return STATUS_UNSUPPORTED;
    if (node->opset < 7 && node_attr(node, "axis"))
        return STATUS_UNSUPPORTED;
    status_t status = with_scalar(l, node);
    if (status != STATUS_UNSUPPORTED)
        return status;
    const tensor_t *out = lower_tensor(l, node->out[0]);
    if (tensor_same_shape(lower_tensor(l, node->in[0]), out))
        return add_binary(l, node, node->in[0], node->in[1]);
    if (commutes(node) && tensor_same_shape(lower_tensor(l, node->in[1]), out))
        return add_binary(l, node, node->in[1], node->in[0]);
    return STATUS_UNSUPPORTED;
}

/* Sqrt, square and general powers with a constant exponent. */
status_t lower_power(lower_t *l, const node_t *node)
{
    const float *exponent = scalar(l, node->in[1]);
    if (!is_f32(l, node->in[0]) || !exponent ||
        !tensor_same_shape(lower_tensor(l, node->in[0]), lower_tensor(l, node->out[0])))
        return STATUS_UNSUPPORTED;
    eltwise_t e = {.count = 1, .step = {{dnnl_eltwise_pow, 1, *exponent}}};
    if (*exponent == 2)
        e.step[0].alg = dnnl_eltwise_square;
    else if (*exponent == 0.5f)
        e.step[0].alg = dnnl_eltwise_sqrt;
    else
        return STATUS_UNSUPPORTED;
    return add_eltwise(l, node, node->in[0], &e);
}
