/*
 * Everything that treats all elements alike. One kernel runs a whole chain of such operations on an accumulator; the
 * result takes over the layout of its first full-sized operand.
 */
#include "engine/cuda/lower/lower.h"

#include <math.h>
#include <string.h>

static double attr_number(const node_t *node, const char *name, double otherwise)
{
    const attr_t *a = node_attr(node, name);
    return a && a->kind == ATTR_FLOAT ? (double)a->f : a && a->kind == ATTR_INT ? (double)a->i : otherwise;
}

/* ---- building a chain ---- */

/* A double holds every scalar but 64-bit integers of more than 53 bits. */
static bool as_immediate(const lower_t *l, int32_t value, double *number)
{
    const tensor_t *t = lower_tensor(l, value);
    if (!t->data || tensor_count(t) != 1 || t->dtype == DTYPE_U64 || t->dtype == DTYPE_STRING)
        return false;
    *number = tensor_get_f64(t, 0);
    return fabs(*number) < 9007199254740992.0 || t->dtype == DTYPE_F32 || t->dtype == DTYPE_F64;
}

/* A binary operation whose other operand is a value; scalars become immediates. */
static bool ew_add_operand(lower_t *l, ew_t *e, ew_op_t op, int32_t value)
{
    double number;
    if (op != EW_SELECT && as_immediate(l, value, &number))
        return ew_add_op(e, op, number, 0);
    view_t view = lower_view(l, value);
    return ew_add_view(e, op, &view);
}

bool ew_add_epilogue(lower_t *l, ew_t *e, const node_t *node, uint32_t from)
{
    for (uint32_t i = from; i < node->epilogue_count; i++) {
        const epilogue_t *tail = &node->epilogue[i];
        const ew_call_t *f = &tail->function;
        if (tail->kind == EPILOGUE_ADD) {
            view_t view = lower_view(l, tail->value);
            if (!ew_add_view(e, EW_ADD, &view))
                return false;
            continue;
        }
        if (!ew_add_op(e, f->op, f->a, f->b))
            return false;
    }
    return true;
}

void ew_bind(lower_t *l, const ew_t *e, const view_t *out, size_t field)
{
    lower_bind(l, field + offsetof(k_elementwise_t, out.base), out);
    for (uint32_t i = 0; i < e->view_count; i++)
        lower_bind(l, field + offsetof(k_elementwise_t, in) + i * sizeof(k_view_t) + offsetof(k_view_t, base),
                   &e->views[i]);
}

/* The layout of the first operand that has the shape of the result and leaves no holes, else row-major. */
static view_t result_like(lower_t *l, int32_t value, const ew_t *e)
{
    view_t out = lower_result(l, value, LAYOUT_PLAIN);
    for (uint32_t i = 0; i < e->view_count; i++) {
        const view_t *v = &e->views[i];
        bool full = v->rank == out.rank && !memcmp(v->dims, out.dims, out.rank * sizeof out.dims[0]);
        if (!full || !view_is_dense(v))
            continue;
        for (uint32_t d = 0; d < out.rank; d++)
            out.strides[d] = v->strides[d];
        break;
    }
    return out;
}

static status_t add_step(lower_t *l, const node_t *node, ew_t *e)
{
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_ELEMENTWISE};
    if (l->status != STATUS_OK || !ew_add_epilogue(l, e, node, 0))
        return l->status != STATUS_OK ? l->status : STATUS_UNSUPPORTED;
    view_t out = result_like(l, node->out[0], e);
    if (l->status != STATUS_OK || !ew_kernel(e, &out, &step.u.elementwise))
        return l->status != STATUS_OK ? l->status : STATUS_UNSUPPORTED;
    lower_add(l, &step);
    ew_bind(l, e, &out, LOWER_FIELD(elementwise));
    lower_define(l, node->out[0], &out);
    return l->status;
}

/* ---- nodes ---- */

static bool is_float(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F16 || dtype == DTYPE_BF16;
}

/* The type to compute in; NONE for those we leave to the CPU. */
static dtype_t compute_type(dtype_t dtype)
{
    if (is_float(dtype))
        return DTYPE_F32;
    if (dtype == DTYPE_F64)
        return DTYPE_F64;
    return dtype == DTYPE_U64 || dtype == DTYPE_STRING ? DTYPE_NONE : DTYPE_I64;
}

static ew_t begin(lower_t *l, int32_t value)
{
    return (ew_t){.views = {lower_view(l, value)},
                  .view_count = 1,
                  .compute = compute_type(lower_tensor(l, value)->dtype)};
}

status_t lower_unary(lower_t *l, const node_t *node)
{
    ew_call_t f = op_function(node->op, node->attrs, node->attr_count);
    ew_t e = begin(l, node->in[0]);
    if (!e.compute || !ew_add_op(&e, f.op, f.a, f.b))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

status_t lower_not(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    return e.compute && ew_add_op(&e, EW_NOT, 0, 0) ? add_step(l, node, &e) : STATUS_UNSUPPORTED;
}

status_t lower_is_nan(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    return e.compute == DTYPE_F32 && ew_add_op(&e, EW_IS_NAN, 0, 0) ? add_step(l, node, &e)
                                                                    : STATUS_UNSUPPORTED;
}

status_t lower_is_inf(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    double positive = attr_number(node, "detect_positive", 1);
    double negative = attr_number(node, "detect_negative", 1);
    return e.compute == DTYPE_F32 && ew_add_op(&e, EW_IS_INF, positive, negative) ? add_step(l, node, &e)
                                                                                  : STATUS_UNSUPPORTED;
}

status_t lower_clip(lower_t *l, const node_t *node)
{
    static const char *const names[2] = {"min", "max"};
    double bounds[2] = {-INFINITY, INFINITY};
    ew_t e = begin(l, node->in[0]);
    for (uint32_t i = 0; i < 2; i++) {
        int32_t in = lower_input(node, i + 1);
        if (node->opset < 11)
            bounds[i] = attr_number(node, names[i], bounds[i]);
        else if (in >= 0 && tensor_count(lower_tensor(l, in)) && !as_immediate(l, in, &bounds[i]))
            return STATUS_UNSUPPORTED;
    }
    return e.compute && ew_add_op(&e, EW_CLIP, bounds[0], bounds[1]) ? add_step(l, node, &e)
                                                                     : STATUS_UNSUPPORTED;
}

/* When the accumulator is the second operand. */
static ew_op_t turned_op(ew_op_t op)
{
    switch (op) {
    case EW_SUB:
        return EW_RSUB;
    case EW_DIV:
        return EW_RDIV;
    case EW_LESS:
        return EW_GREATER;
    case EW_LESS_EQUAL:
        return EW_GREATER_EQUAL;
    case EW_GREATER:
        return EW_LESS;
    case EW_GREATER_EQUAL:
        return EW_LESS_EQUAL;
    default:
        return op;
    }
}

/* A product times a constant, as the scores of attention: the factor becomes the product's. */
static bool scale_product(lower_t *l, const node_t *node)
{
    double factor;
    for (uint32_t i = 0; i < 2 && node->in_count == 2; i++) {
        const state_t *s = &l->states[node->in[i]];
        bool divides = op_computes(node, EW_DIV) && i == 0;
        if (!s->product || l->readers[node->in[i]] != 1 || node->epilogue_count ||
            (!divides && !op_computes(node, EW_MUL)) || !as_immediate(l, node->in[!i], &factor) ||
            s->main.rank != lower_tensor(l, node->out[0])->rank)
            continue;
        view_t result = s->main;
        l->program->steps[s->product - 1].u.gemm.direct.alpha *= (float)(divides ? 1 / factor : factor);
        lower_define(l, node->out[0], &result);
        return true;
    }
    return false;
}

/* Two operands, or many that are folded; a scalar constant becomes the operand, whichever side it is on. */
status_t lower_binary(lower_t *l, const node_t *node)
{
    ew_op_t op = op_is(node, OP_MEAN) ? EW_ADD : node->op->function.op;
    double number;
    if (!op)
        return STATUS_UNSUPPORTED;
    if (scale_product(l, node))
        return l->status;
    bool turned = node->in_count == 2 && as_immediate(l, node->in[0], &number);
    ew_t e = begin(l, node->in[turned]);
    if (!e.compute || lower_is_old_broadcast(node))
        return STATUS_UNSUPPORTED;
    if (turned && !ew_add_operand(l, &e, turned_op(op), node->in[0]))
        return STATUS_UNSUPPORTED;
    for (uint32_t n = 1; !turned && n < node->in_count; n++)
        if (!ew_add_operand(l, &e, op, node->in[n]))
            return STATUS_UNSUPPORTED;
    if (op_is(node, OP_MEAN) && !ew_add_op(&e, EW_LINEAR, 1.0 / node->in_count, 0))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

status_t lower_power(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    bool known = e.compute == DTYPE_F32 || e.compute == DTYPE_F64;
    if (!known || lower_is_old_broadcast(node) || !ew_add_operand(l, &e, EW_POW, node->in[1]))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

/* The slope may lack the trailing dimensions: [C] goes with [N, C, H, W]. */
status_t lower_prelu(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    view_t slope = lower_plain(l, node->in[1]), wide;
    const tensor_t *x = lower_tensor(l, node->in[0]);
    if (slope.rank == 1 && x->rank > 2 && slope.dims[0] == x->dims[1] &&
        slope.dims[0] != x->dims[x->rank - 1]) {
        slope.rank = x->rank - 1;
        for (uint32_t d = 1; d < slope.rank; d++) {
            slope.dims[d] = 1;
            slope.strides[d] = 0;
        }
    }
    if (!e.compute || !view_broadcast(&slope, x->rank, x->dims, &wide) || !ew_add_view(&e, EW_PRELU, &slope))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

status_t lower_where(lower_t *l, const node_t *node)
{
    dtype_t dtype = lower_tensor(l, node->in[1])->dtype;
    ew_t e = begin(l, node->in[0]);
    view_t other = lower_view(l, node->in[2]);
    e.compute = compute_type(dtype);
    if (!e.compute || !ew_add_operand(l, &e, EW_SELECT, node->in[1]))
        return STATUS_UNSUPPORTED;
    e.views[e.view_count++] = other;
    return add_step(l, node, &e);
}

/* float16 in a float16 model and float32 are stored alike: nothing to do then. */
status_t lower_cast(lower_t *l, const node_t *node)
{
    view_t from = lower_view(l, node->in[0]);
    const tensor_t *t = lower_tensor(l, node->out[0]);
    dtype_t stored = lower_stored_type(l, t->dtype);
    if (from.dtype == DTYPE_STRING || stored == DTYPE_STRING || node->epilogue_count)
        return STATUS_UNSUPPORTED;
    if (from.dtype == stored || (is_float(from.dtype) && t->dtype == DTYPE_F32)) {
        lower_define(l, node->out[0], &from);
        return l->status;
    }
    ew_t e = {.views = {from}, .view_count = 1};
    view_t to = result_like(l, node->out[0], &e);
    lower_copy(l, &to, &from);
    lower_define(l, node->out[0], &to);
    return l->status;
}

static bool is_constant_float(const lower_t *l, const node_t *node, uint32_t i)
{
    return lower_is_constant(l, node->in[i]) && lower_tensor(l, node->in[i])->dtype == DTYPE_F32;
}

/* A vector over the channels, as an operand. */
static bool add_channels(lower_t *l, ew_t *e, ew_op_t op, blob_t *blob, int64_t channels, uint32_t rank)
{
    value_t value = {.t = {.dtype = DTYPE_F32, .rank = 1, .dims = {channels}, .data = blob_data(blob)},
                     .blob = blob};
    view_t view = {.dtype = DTYPE_F32, .rank = rank - 1, .dims = {channels}, .strides = {1}};
    for (uint32_t d = 1; d + 1 < rank; d++)
        view.dims[d] = 1;
    uint32_t index = constants_add(l->constants, &value, DTYPE_F32, LAYOUT_PLAIN);
    if (index == UINT32_MAX)
        return false;
    view.buffer = lower_constant_buffer(l, index);
    return ew_add_view(e, op, &view);
}

/* With the statistics given: x · factor + shift. */
status_t lower_batch_norm(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    for (uint32_t i = 1; i < 5; i++)
        if (!is_constant_float(l, node, i))
            return STATUS_UNSUPPORTED;
    if (!lower_single_output(node) || x->rank < 2 || attr_number(node, "training_mode", 0) != 0)
        return STATUS_UNSUPPORTED;
    double epsilon = attr_number(node, "epsilon", 1e-5);
    const float *scale = lower_tensor(l, node->in[1])->data, *bias = lower_tensor(l, node->in[2])->data;
    const float *mean = lower_tensor(l, node->in[3])->data, *variance = lower_tensor(l, node->in[4])->data;
    blob_t *factor = blob_create((size_t)channels * sizeof(float)),
           *shift = blob_create((size_t)channels * sizeof(float));
    ew_t e = begin(l, node->in[0]);
    bool ready = factor && shift;
    for (int64_t c = 0; ready && c < channels; c++) {
        float f = (float)((double)scale[c] / sqrt((double)variance[c] + epsilon));
        ((float *)blob_data(factor))[c] = f;
        ((float *)blob_data(shift))[c] = (float)((double)bias[c] - (double)mean[c] * (double)f);
    }
    ready = ready && add_channels(l, &e, EW_MUL, factor, channels, x->rank) &&
            add_channels(l, &e, EW_ADD, shift, channels, x->rank);
    blob_unref(factor);
    blob_unref(shift);
    return ready ? add_step(l, node, &e) : lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
}
