/*
 * Everything that treats all elements alike. One kernel runs a whole chain of such operations on an accumulator; the
 * result takes over the layout of its first full-sized operand.
 */
#include "engine/cuda/lower.h"

#include <math.h>
#include <string.h>

/* ---- the table of activations ---- */

static const struct {
    const char *name;
    ew_op_t op;
    const char *name_a;
    double a;
    const char *name_b;
    double b;
} unary_table[] = {
    {"Abs", EW_ABS, NULL, 0, NULL, 0},
    {"Acos", EW_ACOS, NULL, 0, NULL, 0},
    {"Acosh", EW_ACOSH, NULL, 0, NULL, 0},
    {"Asin", EW_ASIN, NULL, 0, NULL, 0},
    {"Asinh", EW_ASINH, NULL, 0, NULL, 0},
    {"Atan", EW_ATAN, NULL, 0, NULL, 0},
    {"Atanh", EW_ATANH, NULL, 0, NULL, 0},
    {"Ceil", EW_CEIL, NULL, 0, NULL, 0},
    {"Celu", EW_CELU, "alpha", 1, NULL, 0},
    {"Cos", EW_COS, NULL, 0, NULL, 0},
    {"Cosh", EW_COSH, NULL, 0, NULL, 0},
    {"Elu", EW_ELU, "alpha", 1, NULL, 0},
    {"Erf", EW_ERF, NULL, 0, NULL, 0},
    {"Exp", EW_EXP, NULL, 0, NULL, 0},
    {"Floor", EW_FLOOR, NULL, 0, NULL, 0},
    {"HardSigmoid", EW_HARDSIGMOID, "alpha", 0.2, "beta", 0.5},
    {"HardSwish", EW_HARDSWISH, NULL, 0, NULL, 0},
    {"LeakyRelu", EW_LEAKY_RELU, "alpha", 0.01, NULL, 0},
    {"Log", EW_LOG, NULL, 0, NULL, 0},
    {"Mish", EW_MISH, NULL, 0, NULL, 0},
    {"Neg", EW_NEG, NULL, 0, NULL, 0},
    {"Reciprocal", EW_RECIPROCAL, NULL, 0, NULL, 0},
    {"Relu", EW_RELU, NULL, 0, NULL, 0},
    {"Round", EW_ROUND, NULL, 0, NULL, 0},
    {"Selu", EW_SELU, "alpha", 1.67326319217681884765625, "gamma", 1.05070102214813232421875},
    {"Shrink", EW_SHRINK, "lambd", 0.5, "bias", 0},
    {"Sigmoid", EW_SIGMOID, NULL, 0, NULL, 0},
    {"Sign", EW_SIGN, NULL, 0, NULL, 0},
    {"Sin", EW_SIN, NULL, 0, NULL, 0},
    {"Sinh", EW_SINH, NULL, 0, NULL, 0},
    {"Softplus", EW_SOFTPLUS, NULL, 0, NULL, 0},
    {"Softsign", EW_SOFTSIGN, NULL, 0, NULL, 0},
    {"Sqrt", EW_SQRT, NULL, 0, NULL, 0},
    {"Swish", EW_SWISH, "alpha", 1, NULL, 0},
    {"Tan", EW_TAN, NULL, 0, NULL, 0},
    {"Tanh", EW_TANH, NULL, 0, NULL, 0},
    {"ThresholdedRelu", EW_THRESHOLDED_RELU, "alpha", 1, NULL, 0},
};

static const attr_t *find_attr(const attr_t *attrs, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (!strcmp(attrs[i].name, name))
            return &attrs[i];
    return NULL;
}

static double attr_number(const attr_t *attrs, uint32_t count, const char *name, double otherwise)
{
    const attr_t *a = name ? find_attr(attrs, count, name) : NULL;
    return a && a->kind == ATTR_FLOAT ? (double)a->f : a && a->kind == ATTR_INT ? (double)a->i : otherwise;
}

bool ew_activation(const op_t *op, const attr_t *attrs, uint32_t n, float low, float high, k_ew_op_t *out)
{
    if (!strcmp(op->name, "Clip")) {
        *out = (k_ew_op_t){.op = EW_CLIP, .a = (double)low, .b = (double)high};
        return true;
    }
    if (!strcmp(op->name, "Gelu")) {
        const attr_t *kind = find_attr(attrs, n, "approximate");
        bool tanh = kind && kind->kind == ATTR_STRING && !strcmp(kind->s, "tanh");
        *out = (k_ew_op_t){.op = tanh ? EW_GELU_TANH : EW_GELU_ERF};
        return true;
    }
    for (size_t i = 0; i < sizeof unary_table / sizeof unary_table[0]; i++) {
        if (strcmp(unary_table[i].name, op->name) != 0)
            continue;
        *out = (k_ew_op_t){.op = (int32_t)unary_table[i].op,
                           .a = attr_number(attrs, n, unary_table[i].name_a, unary_table[i].a),
                           .b = attr_number(attrs, n, unary_table[i].name_b, unary_table[i].b)};
        return true;
    }
    return false;
}

/* ---- building a chain ---- */

static bool type_has_op(dtype_t compute, ew_op_t op)
{
    if (compute == DTYPE_F32)
        return true;
    if (compute == DTYPE_F64 && (op == EW_POW || op == EW_SQRT || op == EW_FLOOR || op == EW_CEIL))
        return true;
    return op < EW_POW || (op >= EW_ABS && op <= EW_IDENTITY);
}

bool ew_add_op(ew_t *e, ew_op_t op, double a, double b)
{
    if (e->op_count == K_MAX_OPS || !type_has_op(e->compute, op))
        return false;
    e->ops[e->op_count++] = (k_ew_op_t){.op = (int32_t)op, .input = K_IMMEDIATE, .a = a, .b = b};
    return true;
}

bool ew_add_view(ew_t *e, ew_op_t op, const view_t *view)
{
    if (e->view_count == K_MAX_INPUTS || !ew_add_op(e, op, 0, 0))
        return false;
    e->ops[e->op_count - 1].input = (int32_t)e->view_count;
    e->views[e->view_count++] = *view;
    return true;
}

/* A double holds every scalar but 64-bit integers of more than 53 bits. */
static bool as_immediate(const lower_t *l, int32_t value, double *number)
{
    const tensor_t *t = lower_tensor(l, value);
    if (!t->data || tensor_count(t) != 1 || t->dtype == DTYPE_U64 || t->dtype == DTYPE_STRING)
        return false;
    *number = tensor_get_f64(t, 0);
    return fabs(*number) < 9007199254740992.0 || t->dtype == DTYPE_F32 || t->dtype == DTYPE_F64;
}

bool ew_add_operand(lower_t *l, ew_t *e, ew_op_t op, int32_t value)
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
        k_ew_op_t op;
        if (tail->kind == EPILOGUE_ADD) {
            view_t view = lower_view(l, tail->value);
            if (!ew_add_view(e, EW_ADD, &view))
                return false;
            continue;
        }
        if (!ew_activation(tail->op, tail->attrs, tail->attr_count, tail->low, tail->high, &op) ||
            !ew_add_op(e, (ew_op_t)op.op, op.a, op.b))
            return false;
    }
    return true;
}

bool ew_kernel(const ew_t *e, const view_t *out, k_elementwise_t *k)
{
    view_t wide[K_MAX_INPUTS];
    const view_t *views[K_MAX_INPUTS + 1] = {out};
    k_view_t *to[K_MAX_INPUTS + 1] = {&k->out};
    for (uint32_t i = 0; i < e->view_count; i++) {
        if (!view_broadcast(&e->views[i], out->rank, out->dims, &wide[i]))
            return false;
        views[i + 1] = &wide[i];
        to[i + 1] = &k->in[i];
    }
    view_collapse(views, e->view_count + 1, &k->space, to);
    k->compute = (int32_t)e->compute;
    k->op_count = (int32_t)e->op_count;
    memcpy(k->ops, e->ops, sizeof k->ops);
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

static status_t unary(lower_t *l, const node_t *node)
{
    k_ew_op_t op;
    ew_t e = begin(l, node->in[0]);
    if (!e.compute || !ew_activation(node->op, node->attrs, node->attr_count, -INFINITY, INFINITY, &op) ||
        !ew_add_op(&e, (ew_op_t)op.op, op.a, op.b))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

static status_t not(lower_t * l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    return e.compute && ew_add_op(&e, EW_NOT, 0, 0) ? add_step(l, node, &e) : STATUS_UNSUPPORTED;
}

static status_t is_nan(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    return e.compute == DTYPE_F32 && ew_add_op(&e, EW_IS_NAN, 0, 0) ? add_step(l, node, &e)
                                                                    : STATUS_UNSUPPORTED;
}

static status_t is_inf(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    double positive = attr_number(node->attrs, node->attr_count, "detect_positive", 1);
    double negative = attr_number(node->attrs, node->attr_count, "detect_negative", 1);
    return e.compute == DTYPE_F32 && ew_add_op(&e, EW_IS_INF, positive, negative) ? add_step(l, node, &e)
                                                                                  : STATUS_UNSUPPORTED;
}

static status_t clip(lower_t *l, const node_t *node)
{
    static const char *const names[2] = {"min", "max"};
    double bounds[2] = {-INFINITY, INFINITY};
    ew_t e = begin(l, node->in[0]);
    for (uint32_t i = 0; i < 2; i++) {
        int32_t in = lower_input(node, i + 1);
        if (node->opset < 11)
            bounds[i] = attr_number(node->attrs, node->attr_count, names[i], bounds[i]);
        else if (in >= 0 && tensor_count(lower_tensor(l, in)) && !as_immediate(l, in, &bounds[i]))
            return STATUS_UNSUPPORTED;
    }
    return e.compute && ew_add_op(&e, EW_CLIP, bounds[0], bounds[1]) ? add_step(l, node, &e)
                                                                     : STATUS_UNSUPPORTED;
}

static const struct {
    const char *name;
    ew_op_t op, reversed; /* reversed: when the accumulator is the second operand */
} binary_table[] = {
    {"Add", EW_ADD, EW_ADD},
    {"And", EW_AND, EW_AND},
    {"Div", EW_DIV, EW_RDIV},
    {"Equal", EW_EQUAL, EW_EQUAL},
    {"Greater", EW_GREATER, EW_LESS},
    {"GreaterOrEqual", EW_GREATER_EQUAL, EW_LESS_EQUAL},
    {"Less", EW_LESS, EW_GREATER},
    {"LessOrEqual", EW_LESS_EQUAL, EW_GREATER_EQUAL},
    {"Max", EW_MAX, EW_MAX},
    {"Mean", EW_ADD, EW_ADD},
    {"Min", EW_MIN, EW_MIN},
    {"Mul", EW_MUL, EW_MUL},
    {"Or", EW_OR, EW_OR},
    {"Sub", EW_SUB, EW_RSUB},
    {"Sum", EW_ADD, EW_ADD},
    {"Xor", EW_XOR, EW_XOR},
};

/* A product times a constant, as the scores of attention: the factor becomes the product's. */
static bool scale_product(lower_t *l, const node_t *node)
{
    double factor;
    for (uint32_t i = 0; i < 2 && node->in_count == 2; i++) {
        const state_t *s = &l->states[node->in[i]];
        bool divides = op_is(node, "Div") && i == 0;
        if (!s->product || l->readers[node->in[i]] != 1 || node->epilogue_count ||
            (!divides && !op_is(node, "Mul")) || !as_immediate(l, node->in[!i], &factor) ||
            s->main.rank != lower_tensor(l, node->out[0])->rank)
            continue;
        view_t result = s->main;
        l->program->steps[s->product - 1].u.gemm.direct.alpha *= (float)(divides ? 1 / factor : factor);
        lower_define(l, node->out[0], &result);
        return true;
    }
    return false;
}

static bool old_broadcast(const node_t *node)
{
    return node->opset < 7 && (node_attr(node, "axis") || node_attr(node, "broadcast"));
}

/* Two operands, or many that are folded; a scalar constant becomes the operand, whichever side it is on. */
static status_t binary(lower_t *l, const node_t *node)
{
    size_t i = 0;
    double number;
    while (strcmp(binary_table[i].name, node->op->name) != 0)
        i++;
    if (scale_product(l, node))
        return l->status;
    bool turned = node->in_count == 2 && as_immediate(l, node->in[0], &number);
    ew_t e = begin(l, node->in[turned]);
    if (!e.compute || old_broadcast(node))
        return STATUS_UNSUPPORTED;
    if (turned && !ew_add_operand(l, &e, binary_table[i].reversed, node->in[0]))
        return STATUS_UNSUPPORTED;
    for (uint32_t n = 1; !turned && n < node->in_count; n++)
        if (!ew_add_operand(l, &e, binary_table[i].op, node->in[n]))
            return STATUS_UNSUPPORTED;
    if (op_is(node, "Mean") && !ew_add_op(&e, EW_LINEAR, 1.0 / node->in_count, 0))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

static status_t power(lower_t *l, const node_t *node)
{
    ew_t e = begin(l, node->in[0]);
    bool known = e.compute == DTYPE_F32 || e.compute == DTYPE_F64;
    if (!known || old_broadcast(node) || !ew_add_operand(l, &e, EW_POW, node->in[1]))
        return STATUS_UNSUPPORTED;
    return add_step(l, node, &e);
}

/* The slope may lack the trailing dimensions: [C] goes with [N, C, H, W]. */
static status_t prelu(lower_t *l, const node_t *node)
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

static status_t where(lower_t *l, const node_t *node)
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
static status_t cast(lower_t *l, const node_t *node)
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
static status_t batch_norm(lower_t *l, const node_t *node)
{
    const tensor_t *x = lower_tensor(l, node->in[0]);
    int64_t channels = x->rank > 1 ? x->dims[1] : 1;
    for (uint32_t i = 1; i < 5; i++)
        if (!is_constant_float(l, node, i))
            return STATUS_UNSUPPORTED;
    if (!lower_single_output(node) || x->rank < 2 ||
        attr_number(node->attrs, node->attr_count, "training_mode", 0) != 0)
        return STATUS_UNSUPPORTED;
    double epsilon = attr_number(node->attrs, node->attr_count, "epsilon", 1e-5);
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

/* ---- what graph_fuse_epilogues may append ---- */

static bool is_chain(const node_t *node)
{
    k_ew_op_t op;
    static const char *const hosts[] = {"Add", "Div", "Max", "Min", "Mul", "Sub", "BatchNormalization", NULL};
    for (const char *const *h = hosts; *h; h++)
        if (op_is(node, *h))
            return node->in_count <= 2 || op_is(node, "BatchNormalization");
    return node->in_count == 1 && ew_activation(node->op, node->attrs, node->attr_count, 0, 0, &op);
}

bool lower_allows(const graph_t *graph, const node_t *host, const epilogue_t *tail)
{
    k_ew_op_t op;
    const attr_t *training = node_attr(host, "training_mode");
    bool product = op_is(host, "Conv") || op_is(host, "ConvTranspose") || op_is(host, "Gemm") ||
                   op_is(host, "MatMul") || op_is(host, "Linear");
    if (host->out_count != 1 || graph->values[host->out[0]].t.dtype != DTYPE_F32 || old_broadcast(host) ||
        (training && training->i))
        return false;
    if (op_is(host, "BatchNormalization")) /* else it has no kernel on the GPU */
        for (uint32_t i = 1; i < 5; i++)
            if (!graph->values[host->in[i]].t.data)
                return false;
    for (uint32_t i = 0; i < host->in_count; i++)
        if (host->in[i] >= 0 && graph->values[host->in[i]].t.dtype != DTYPE_F32)
            return false;
    if (!product && !is_chain(host))
        return false;
    return tail->kind == EPILOGUE_ADD ||
           ew_activation(tail->op, tail->attrs, tail->attr_count, tail->low, tail->high, &op);
}

const emit_t emit_elementwise[] = {
    {"Abs", unary},
    {"Acos", unary},
    {"Acosh", unary},
    {"Add", binary},
    {"And", binary},
    {"Asin", unary},
    {"Asinh", unary},
    {"Atan", unary},
    {"Atanh", unary},
    {"BatchNormalization", batch_norm},
    {"Cast", cast},
    {"CastLike", cast},
    {"Ceil", unary},
    {"Celu", unary},
    {"Clip", clip},
    {"Cos", unary},
    {"Cosh", unary},
    {"Div", binary},
    {"Elu", unary},
    {"Equal", binary},
    {"Erf", unary},
    {"Exp", unary},
    {"Floor", unary},
    {"Gelu", unary},
    {"Greater", binary},
    {"GreaterOrEqual", binary},
    {"HardSigmoid", unary},
    {"HardSwish", unary},
    {"IsInf", is_inf},
    {"IsNaN", is_nan},
    {"LeakyRelu", unary},
    {"Less", binary},
    {"LessOrEqual", binary},
    {"Log", unary},
    {"Max", binary},
    {"Mean", binary},
    {"Min", binary},
    {"Mish", unary},
    {"Mul", binary},
    {"Neg", unary},
    {"Not", not },
    {"Or", binary},
    {"PRelu", prelu},
    {"Pow", power},
    {"Reciprocal", unary},
    {"Relu", unary},
    {"Round", unary},
    {"Selu", unary},
    {"Shrink", unary},
    {"Sigmoid", unary},
    {"Sign", unary},
    {"Sin", unary},
    {"Sinh", unary},
    {"Softplus", unary},
    {"Softsign", unary},
    {"Sqrt", unary},
    {"Sub", binary},
    {"Sum", binary},
    {"Swish", unary},
    {"Tan", unary},
    {"Tanh", unary},
    {"ThresholdedRelu", unary},
    {"Where", where},
    {"Xor", binary},
    {NULL, NULL},
};
