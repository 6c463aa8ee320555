/*
 * Convolutions by cuDNN's graph API, through its C descriptors: conv + residual + bias + activation as one
 * operation graph where an engine has it, else the convolution alone. The engines that the heuristics propose
 * are timed, and the fastest is kept.
 *
 *     x, w -> conv -> (+ residual) -> (+ bias) -> (activation) -> y
 */
#include "base/clock.h"
#include "engine/cuda/device/device_cuda.h"

#include <stdio.h>
#include <string.h>

enum {
    MAX_DIMS = 5,
    MAX_OPS = 4,
    MAX_DESCRIPTORS = 32,
    CANDIDATES =
        6, /* engines tried per graph: the heuristics order them well, and some are compiled when tried */
    MAX_NOTES = 16,
};

/* Models have dozens of shapes of convolutions, times the batch sizes: a search that is never done is no use. */
static const int64_t STEP_NS_MAX = 400 * 1000 * 1000; /* for one shape, once something works */
static const int64_t COMPILE_NS_MAX =
    (int64_t)30 * 1000 * 1000 * 1000; /* on a device, for what is compiled when asked for */

/* Names of the tensors of a graph. */
enum { UID_X = 1, UID_W, UID_Y, UID_RESIDUAL, UID_BIAS, UID_VIRTUAL };

/* Descriptors of one attempt, destroyed together; ok falls with the first failure, and later calls do nothing. */
typedef struct {
    const libraries_t *lib;
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t all[MAX_DESCRIPTORS], ops[MAX_OPS];
    uint32_t count, op_count, virtual_count;
    bool ok;
} builder_t;

static cudnnBackendDescriptor_t make(builder_t *b, cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t d = NULL;
    b->ok = b->ok && b->count < MAX_DESCRIPTORS &&
            b->lib->cudnnBackendCreateDescriptor(type, &d) == CUDNN_STATUS_SUCCESS;
    if (b->ok)
        b->all[b->count++] = d;
    return d;
}

static void set(builder_t *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *values)
{
    b->ok = b->ok && b->lib->cudnnBackendSetAttribute(d, name, type, count, values) == CUDNN_STATUS_SUCCESS;
}

static void set_descriptor(builder_t *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                           cudnnBackendDescriptor_t value)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void set_i64(builder_t *b, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, int64_t value)
{
    set(b, d, name, CUDNN_TYPE_INT64, 1, &value);
}

static void finalize(builder_t *b, cudnnBackendDescriptor_t d)
{
    b->ok = b->ok && b->lib->cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS;
}

static void dispose(builder_t *b)
{
    while (b->count)
        b->lib->cudnnBackendDestroyDescriptor(b->all[--b->count]);
}

/* ---- the operation graph ---- */

static cudnnDataType_t data_type(dtype_t dtype)
{
    return dtype == DTYPE_F16    ? CUDNN_DATA_HALF
           : dtype == DTYPE_BF16 ? CUDNN_DATA_BFLOAT16
                                 : CUDNN_DATA_FLOAT;
}

static int64_t alignment_of(const void *pointer)
{
    uintptr_t p = (uintptr_t)pointer;
    return p % 16 == 0 ? 16 : p % 8 == 0 ? 8 : p % 4 == 0 ? 4 : 2;
}

/* Channels innermost, dense; dims are N, C and `spatial` of the three that a step has. */
static cudnnBackendDescriptor_t tensor(builder_t *b, const int64_t five[5], uint32_t spatial,
                                       cudnnDataType_t type, int64_t uid, const void *pointer)
{
    int64_t dims[MAX_DIMS] = {five[0], five[1]}, strides[MAX_DIMS], stride = five[1], align = 16;
    bool is_virtual = uid >= UID_VIRTUAL;
    for (uint32_t i = 0; i < spatial; i++)
        dims[2 + i] = five[5 - spatial + i];
    strides[1] = 1;
    for (uint32_t i = spatial + 2; i-- > 2;) {
        strides[i] = stride;
        stride *= dims[i];
    }
    strides[0] = stride;
    if (!is_virtual)
        align = alignment_of(pointer);
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 2 + spatial, dims);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 2 + spatial, strides);
    set_i64(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
    set_i64(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, align);
    if (is_virtual)
        set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &(bool){true});
    finalize(b, d);
    return d;
}

static void widen(const int32_t from[3], uint32_t spatial, int64_t *to)
{
    for (uint32_t i = 0; i < spatial; i++)
        to[i] = from[3 - spatial + i];
}

static cudnnBackendDescriptor_t convolution(builder_t *b, const conv_step_t *c)
{
    int64_t dilation[3], stride[3], before[3], after[3], n = c->spatial;
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    widen(c->direct.dilation, c->spatial, dilation);
    widen(c->direct.stride, c->spatial, stride);
    widen(c->direct.before, c->spatial, before);
    for (uint32_t i = 0; i < c->spatial; i++)
        after[i] = c->after[3 - c->spatial + i];
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(b, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    set_i64(b, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, n);
    set(b, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, n, dilation);
    set(b, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, n, stride);
    set(b, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, n, before);
    set(b, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, n, after);
    finalize(b, d);
    return d;
}

static void add_op(builder_t *b, cudnnBackendDescriptor_t d)
{
    finalize(b, d);
    if (b->ok)
        b->ops[b->op_count++] = d;
}

static void add_conv(builder_t *b, const conv_step_t *c, cudnnBackendDescriptor_t x,
                     cudnnBackendDescriptor_t w, cudnnBackendDescriptor_t y)
{
    float one = 1, zero = 0;
    bool t = c->direct.transposed;
    cudnnBackendDescriptor_t conv = convolution(b, c);
    cudnnBackendDescriptor_t d = make(b, t ? CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR
                                           : CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    set_descriptor(b, d,
                   t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC
                     : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                   conv);
    set_descriptor(
        b, d, t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
        x);
    set_descriptor(
        b, d, t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
        w);
    set_descriptor(
        b, d, t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y,
        y);
    set(b, d,
        t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
        CUDNN_TYPE_FLOAT, 1, &one);
    set(b, d,
        t ? CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA : CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA,
        CUDNN_TYPE_FLOAT, 1, &zero);
    add_op(b, d);
}

/* operand NULL: an activation. */
static void add_pointwise(builder_t *b, cudnnBackendDescriptor_t pointwise, cudnnBackendDescriptor_t x,
                          cudnnBackendDescriptor_t operand, cudnnBackendDescriptor_t y)
{
    finalize(b, pointwise);
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pointwise);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (operand)
        set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, operand);
    set_descriptor(b, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    add_op(b, d);
}

static cudnnBackendDescriptor_t pointwise(builder_t *b, cudnnPointwiseMode_t mode)
{
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    set(b, d, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    return d;
}

/* False for activations that cuDNN has not. */
static bool activation_mode(const k_ew_op_t *act, cudnnPointwiseMode_t *mode)
{
    switch (act->op) {
    case EW_RELU:
    case EW_LEAKY_RELU:
        *mode = CUDNN_POINTWISE_RELU_FWD;
        return true;
    case EW_CLIP:
        *mode = CUDNN_POINTWISE_RELU_FWD;
        return act->a == 0;
    case EW_SIGMOID:
        *mode = CUDNN_POINTWISE_SIGMOID_FWD;
        return true;
    case EW_TANH:
        *mode = CUDNN_POINTWISE_TANH_FWD;
        return true;
    case EW_ELU:
        *mode = CUDNN_POINTWISE_ELU_FWD;
        return true;
    case EW_SWISH:
        *mode = CUDNN_POINTWISE_SWISH_FWD;
        return true;
    case EW_GELU_ERF:
        *mode = CUDNN_POINTWISE_GELU_FWD;
        return true;
    case EW_GELU_TANH:
        *mode = CUDNN_POINTWISE_GELU_APPROX_TANH_FWD;
        return true;
    default:
        return false;
    }
}

static cudnnBackendDescriptor_t activation(builder_t *b, const k_ew_op_t *act)
{
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_RELU_FWD;
    b->ok = b->ok && activation_mode(act, &mode);
    cudnnBackendDescriptor_t d = pointwise(b, mode);
    if (act->op == EW_CLIP)
        set(b, d, CUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, CUDNN_TYPE_DOUBLE, 1, &act->b);
    if (act->op == EW_LEAKY_RELU)
        set(b, d, CUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, CUDNN_TYPE_DOUBLE, 1, &act->a);
    if (act->op == EW_ELU)
        set(b, d, CUDNN_ATTR_POINTWISE_ELU_ALPHA, CUDNN_TYPE_DOUBLE, 1, &act->a);
    if (act->op == EW_SWISH)
        set(b, d, CUDNN_ATTR_POINTWISE_SWISH_BETA, CUDNN_TYPE_DOUBLE, 1, &act->a);
    return d;
}

/* The tensor behind the next operation: y itself behind the last one. */
static cudnnBackendDescriptor_t next_tensor(builder_t *b, const conv_step_t *c, uint32_t left)
{
    if (!left)
        return tensor(b, c->y, c->spatial, data_type(c->dtype), UID_Y, c->direct.out.base);
    return tensor(b, c->y, c->spatial, CUDNN_DATA_FLOAT, UID_VIRTUAL + b->virtual_count++, NULL);
}

static cudnnBackendDescriptor_t operation_graph(builder_t *b, const conv_step_t *c, bool fused)
{
    cudnnDataType_t type = data_type(c->dtype);
    uint32_t left = !fused ? 0 : (uint32_t)c->has_residual + c->has_bias + (c->act.op != EW_IDENTITY);
    cudnnBackendDescriptor_t x = tensor(b, c->x, c->spatial, type, UID_X, c->direct.in.base);
    cudnnBackendDescriptor_t w = tensor(b, c->w, c->spatial, type, UID_W, c->direct.weights.base);
    cudnnBackendDescriptor_t at = next_tensor(b, c, left), to;
    add_conv(b, c, x, w, at);
    if (fused && c->has_residual) {
        to = next_tensor(b, c, --left);
        add_pointwise(b, pointwise(b, CUDNN_POINTWISE_ADD), at,
                      tensor(b, c->y, c->spatial, type, UID_RESIDUAL, c->residual.base), to);
        at = to;
    }
    if (fused && c->has_bias) {
        int64_t dims[5] = {1, c->y[1], 1, 1, 1};
        to = next_tensor(b, c, --left);
        add_pointwise(b, pointwise(b, CUDNN_POINTWISE_ADD), at,
                      tensor(b, dims, c->spatial, type, UID_BIAS, c->bias.base), to);
        at = to;
    }
    if (fused && c->act.op != EW_IDENTITY)
        add_pointwise(b, activation(b, &c->act), at, NULL, next_tensor(b, c, 0));
    cudnnBackendDescriptor_t graph = make(b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &b->handle);
    set(b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, b->op_count, b->ops);
    finalize(b, graph);
    return graph;
}

/* ---- choosing ---- */

/* What an engine says of itself. */
typedef struct {
    bool precise;  /* enough for the model's precision */
    bool repeats;  /* gives the same bits again */
    bool compiles; /* its kernel is compiled when a plan is made, which takes long */
} traits_t;

/* fp32 must be fp32: no tensor cores (they round to TF32), and no precision lets inputs be rounded further. */
static bool is_precise(cudnnBackendNumericalNote_t note, engine_precision_t precision)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
    case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13: /* loses digits in any type */
        return false;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return precision != ENGINE_FP32;
    default:
        return true;
    }
}

static traits_t traits_of(builder_t *b, cudnnBackendDescriptor_t config, engine_precision_t precision)
{
    cudnnBackendDescriptor_t engine = NULL;
    cudnnBackendNumericalNote_t notes[MAX_NOTES];
    cudnnBackendBehaviorNote_t behaviors[MAX_NOTES];
    int64_t count = 0, behavior_count = 0, got = 0;
    const libraries_t *lib = b->lib;
    traits_t t = {.precise = false};
    if (lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) != CUDNN_STATUS_SUCCESS)
        return t;
    t.precise =
        lib->cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &got, &engine) == CUDNN_STATUS_SUCCESS &&
        lib->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                      MAX_NOTES, &count, notes) == CUDNN_STATUS_SUCCESS;
    t.repeats = true;
    for (int64_t i = 0; t.precise && i < count && i < MAX_NOTES; i++) {
        t.precise = is_precise(notes[i], precision);
        t.repeats = t.repeats && notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    bool told =
        lib->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                      MAX_NOTES, &behavior_count, behaviors) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; told && i < behavior_count && i < MAX_NOTES; i++)
        t.compiles = t.compiles || behaviors[i] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    lib->cudnnBackendDestroyDescriptor(engine);
    return t;
}

static cudnnBackendDescriptor_t make_plan(builder_t *b, cudnnBackendDescriptor_t config, int64_t *workspace)
{
    cudnnBackendDescriptor_t plan = NULL;
    int64_t got = 0;
    const libraries_t *lib = b->lib;
    if (lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan) !=
        CUDNN_STATUS_SUCCESS)
        return NULL;
    bool ok =
        lib->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                                      &b->handle) == CUDNN_STATUS_SUCCESS &&
        lib->cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config) == CUDNN_STATUS_SUCCESS &&
        lib->cudnnBackendFinalize(plan) == CUDNN_STATUS_SUCCESS &&
        lib->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1,
                                      &got, workspace) == CUDNN_STATUS_SUCCESS;
    if (ok)
        return plan;
    lib->cudnnBackendDestroyDescriptor(plan);
    return NULL;
}

/* How one step is tried, and the best so far. */
typedef struct {
    device_t *device;
    const conv_step_t *conv;
    void *scratch;
    size_t scratch_bytes;
    int64_t begin_ns;
    bool any_engine; /* also such as one would rather not have: nothing else works */
    choice_t choice; /* the one that is tried */
    choice_t *best;
} trial_t;

static bool run_trial(void *arg)
{
    trial_t *t = arg;
    err_t err;
    return conv_run(t->device, STREAM_PREPARE, t->conv, &t->choice, t->scratch, &err) == STATUS_OK &&
           (t->choice.fused || !t->conv->tail.ew.op_count ||
            !kernel_launch(KERNEL_ELEMENTWISE, &t->conv->tail.ew, t->device->streams[STREAM_PREPARE]));
}

/* A new plan, if this engine may be tried; counts the time that compiling takes. */
static cudnnBackendDescriptor_t plan_of(builder_t *b, trial_t *t, cudnnBackendDescriptor_t config,
                                        int64_t *workspace)
{
    traits_t traits = traits_of(b, config, t->best->precision);
    bool welcome = traits.repeats && !(traits.compiles && t->device->compile_ns > COMPILE_NS_MAX);
    if (!traits.precise || !(welcome || t->any_engine))
        return NULL;
    int64_t before_ns = clock_now_ns();
    cudnnBackendDescriptor_t plan = make_plan(b, config, workspace);
    if (traits.compiles)
        t->device->compile_ns += clock_now_ns() - before_ns;
    return plan;
}

/* Times one engine. True: it is the fastest so far and keeps its configuration. The tail, when it is apart, counts. */
static bool try_config(builder_t *b, trial_t *t, cudnnBackendDescriptor_t config)
{
    int64_t workspace = 0;
    choice_t *best = t->best;
    cudnnBackendDescriptor_t plan = plan_of(b, t, config, &workspace);
    if (!plan)
        return false;
    t->choice.plan = plan;
    t->choice.kind = CHOICE_CONV;
    double time_ns = workspace < 0 || (size_t)workspace > t->scratch_bytes
                         ? -1
                         : device_time(t->device, best->effort, run_trial, t);
    if (time_ns < 0 || (best->kind == CHOICE_CONV && time_ns >= best->time_ns)) {
        b->lib->cudnnBackendDestroyDescriptor(plan);
        return false;
    }
    conv_dispose(b->lib, best);
    best->kind = CHOICE_CONV;
    best->fused = t->choice.fused;
    best->plan = plan;
    best->config = config;
    best->scratch_bytes = (size_t)workspace;
    best->time_ns = time_ns;
    return true;
}

/* Something works already, and no more time should go into finding better. */
static bool is_enough(const trial_t *t)
{
    return t->best->kind != CHOICE_DIRECT &&
           (t->best->effort != EFFORT_FASTEST || clock_now_ns() - t->begin_ns > STEP_NS_MAX);
}

static cudnnBackendDescriptor_t heuristics_of(builder_t *b, cudnnBackendDescriptor_t graph,
                                              cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t d = make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_descriptor(b, d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set(b, d, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(b, d);
    return d;
}

/* The engines that the heuristics propose, in their order; at least one of each graph is tried. */
static void try_mode(builder_t *b, trial_t *t, cudnnBackendDescriptor_t graph, cudnnBackendHeurMode_t mode)
{
    cudnnBackendDescriptor_t configs[CANDIDATES] = {NULL};
    int64_t count = 0;
    cudnnBackendDescriptor_t heuristics = heuristics_of(b, graph, mode);
    for (uint32_t i = 0; i < CANDIDATES; i++)
        b->ok = b->ok && b->lib->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                                              &configs[i]) == CUDNN_STATUS_SUCCESS;
    b->ok = b->ok && b->lib->cudnnBackendGetAttribute(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                      CUDNN_TYPE_BACKEND_DESCRIPTOR, CANDIDATES, &count,
                                                      configs) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; b->ok && i < count && i < CANDIDATES && !(i > 0 && is_enough(t)); i++)
        if (try_config(b, t, configs[i]))
            configs[i] = NULL;
    for (uint32_t i = 0; i < CANDIDATES; i++)
        if (configs[i])
            b->lib->cudnnBackendDestroyDescriptor(configs[i]);
    b->ok = true;
}

static void try_graph(trial_t *t, bool fused)
{
    builder_t b = {.lib = t->device->lib, .handle = t->device->cudnn[STREAM_PREPARE], .ok = true};
    cudnnBackendDescriptor_t graph = operation_graph(&b, t->conv, fused);
    t->choice = (choice_t){.fused = fused};
    if (b.ok) {
        try_mode(&b, t, graph, CUDNN_HEUR_MODE_A);
        if (t->best->kind == CHOICE_DIRECT)
            try_mode(&b, t, graph, CUDNN_HEUR_MODE_FALLBACK);
    }
    dispose(&b);
}

void conv_dispose(const libraries_t *lib, choice_t *choice)
{
    if (choice->plan)
        lib->cudnnBackendDestroyDescriptor(choice->plan);
    if (choice->config)
        lib->cudnnBackendDestroyDescriptor(choice->config);
    choice->plan = choice->config = NULL;
}

static bool has_negative_padding(const conv_step_t *c)
{
    for (uint32_t i = 0; i < 3; i++)
        if (c->direct.before[i] < 0 || c->after[i] < 0)
            return true;
    return false;
}

void conv_choose(device_t *d, const conv_step_t *c, void *scratch, size_t scratch_bytes, choice_t *choice)
{
    cudnnPointwiseMode_t mode;
    bool whole =
        c->fusable && c->tail.ew.op_count && (c->act.op == EW_IDENTITY || activation_mode(&c->act, &mode));
    trial_t t = {.device = d,
                 .conv = c,
                 .scratch = scratch,
                 .scratch_bytes = scratch_bytes,
                 .begin_ns = clock_now_ns(),
                 .best = choice};
    if (has_negative_padding(c))
        return;
    for (uint32_t round = 0; round < 2 && choice->kind == CHOICE_DIRECT; round++) {
        t.any_engine = round > 0;
        if (whole)
            try_graph(&t, true);
        if (!(whole && choice->effort != EFFORT_FASTEST && choice->kind != CHOICE_DIRECT))
            try_graph(&t, false);
    }
}

void conv_key(const conv_step_t *c, engine_precision_t precision, char to[CHOICE_KEY_BYTES])
{
    const k_conv_t *k = &c->direct;
    snprintf(to, CHOICE_KEY_BYTES,
             "conv %d t%d x%lld,%lld,%lld,%lld,%lld y%lld,%lld,%lld,%lld,%lld w%lld,%lld,%lld,%lld,%lld "
             "s%d,%d,%d d%d,%d,%d "
             "p%d,%d,%d a%lld,%lld,%lld f%d b%d r%d act%d,%g,%g tail%d al%d,%d,%d,%d",
             (int)precision, k->transposed, (long long)c->x[0], (long long)c->x[1], (long long)c->x[2],
             (long long)c->x[3], (long long)c->x[4], (long long)c->y[0], (long long)c->y[1],
             (long long)c->y[2], (long long)c->y[3], (long long)c->y[4], (long long)c->w[0],
             (long long)c->w[1], (long long)c->w[2], (long long)c->w[3], (long long)c->w[4], k->stride[0],
             k->stride[1], k->stride[2], k->dilation[0], k->dilation[1], k->dilation[2], k->before[0],
             k->before[1], k->before[2], (long long)c->after[0], (long long)c->after[1],
             (long long)c->after[2], c->fusable, c->has_bias, c->has_residual, c->act.op, c->act.a, c->act.b,
             c->tail.ew.op_count, (int)alignment_of(k->in.base), (int)alignment_of(k->out.base),
             (int)alignment_of(c->bias.base), (int)alignment_of(c->residual.base));
}

/* ---- running ---- */

status_t conv_run(device_t *d, stream_t stream, const conv_step_t *c, const choice_t *choice, void *scratch,
                  err_t *err)
{
    builder_t b = {.lib = d->lib, .handle = device_cudnn(d, stream), .ok = true};
    int64_t ids[5] = {UID_X, UID_W, UID_Y}, count = 3;
    void *pointers[5] = {c->direct.in.base, c->direct.weights.base, c->direct.out.base};
    if (choice->fused && c->has_residual) {
        ids[count] = UID_RESIDUAL;
        pointers[count++] = c->residual.base;
    }
    if (choice->fused && c->has_bias) {
        ids[count] = UID_BIAS;
        pointers[count++] = c->bias.base;
    }
    cudnnBackendDescriptor_t pack = make(&b, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, pointers);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, ids);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &scratch);
    finalize(&b, pack);
    cudnnStatus_t status = CUDNN_STATUS_INTERNAL_ERROR;
    pthread_mutex_lock(&d->executing);
    if (b.ok && b.handle)
        status = d->lib->cudnnBackendExecute(b.handle, choice->plan, pack);
    pthread_mutex_unlock(&d->executing);
    dispose(&b);
    if (status == CUDNN_STATUS_SUCCESS)
        return STATUS_OK;
    status_t lost = device_check(d, cudaGetLastError(), "cuDNN", err);
    return lost != STATUS_OK
               ? lost
               : err_set(err, STATUS_INTERNAL, "cuDNN: %s", d->lib->cudnnGetErrorString(status));
}
