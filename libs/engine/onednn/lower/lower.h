/*
 * Lowers an instance to a plan: each operator by its function, which adds the steps of one node, or answers UNSUPPORTED, in
 * which case the reference kernel becomes the step.
 *
 * Every value has a main layout, in which it is made, and copies in other layouts where a reader wanted one:
 * a reorder is a step of its own, made once per layout. Constants are reordered at once, through the cache of
 * the model.
 */
#ifndef ENGINE_ONEDNN_LOWER_LOWER_H
#define ENGINE_ONEDNN_LOWER_LOWER_H

#include "engine/onednn/run/md.h"
#include "engine/onednn/run/weights.h"

enum { VALUE_MAX_LAYOUTS = 4, LOWER_MAX_ARGS = 72 };

typedef struct {
    bool plain; /* dense row-major; the only layout of types that oneDNN does not know */
    dnnl_memory_desc_t md;
    uint32_t buffer;
} layout_t;

typedef struct {
    uint32_t reads; /* still to come */
    uint32_t layout_count;
    layout_t layouts[VALUE_MAX_LAYOUTS]; /* [0] is the main one */
} state_t;

typedef struct conv_choices conv_choices_t; /* "engine/onednn/lower/conv_way.h" */

typedef struct {
    graph_t *graph;
    plan_t *plan;
    state_t *states; /* per value */
    weights_t *weights;
    conv_choices_t *choices;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratchpad from the work space, nothing else */
    err_t *err;
} lower_t;

/* Compiles; takes the instance over, also on failure. weights and choices are the model's. */
status_t lower_plan(graph_t *instance, weights_t *weights, conv_choices_t *choices, dnnl_engine_t engine,
                    dnnl_stream_t stream, plan_t **plan, err_t *err);

/* ---- for the functions of operators ---- */

static inline const tensor_t *lower_tensor(const lower_t *l, int32_t value)
{
    return &l->graph->values[value].t;
}

static inline bool lower_is_constant(const lower_t *l, int32_t value)
{
    return l->graph->values[value].t.data;
}

/* The input of a node, -1 when absent. */
static inline int32_t lower_input(const node_t *node, uint32_t i)
{
    return i < node->in_count ? node->in[i] : -1;
}

/* The main layout of a value. */
const layout_t *lower_main(const lower_t *l, int32_t value);

/* The value in this layout (made when it is not there), or row-major. UINT32_MAX = failed, l->err set. */
uint32_t lower_need(lower_t *l, int32_t value, const dnnl_memory_desc_t *md);
uint32_t lower_plain(lower_t *l, int32_t value);

/* A row-major value seen through another descriptor, brought into a layout: weights with groups,
 * transposed matrices. */
uint32_t lower_weights(lower_t *l, int32_t value, const dnnl_memory_desc_t *seen_as,
                       const dnnl_memory_desc_t *want);

/*
 * The result of the current node will be a view of a buffer of its input. A copy in another layout, which
 * others may still read as the input, must then not be overwritten through the view.
 */
void lower_share(lower_t *l, int32_t value, uint32_t buffer);

/* A new buffer: in the work space, or of any kind. UINT32_MAX = failed, l->err set. */
uint32_t lower_buffer(lower_t *l, size_t len_bytes);
uint32_t lower_add_buffer(lower_t *l, buffer_t buffer);
/* The buffer is alive at this step. */
void lower_touch(lower_t *l, uint32_t buffer, uint32_t step);

/* This node is the last reader of the value, and its main buffer may be overwritten. */
bool lower_dies(const lower_t *l, int32_t value);

/* The value now exists in this layout (its first: the main one). */
status_t lower_define(lower_t *l, int32_t value, const dnnl_memory_desc_t *md, uint32_t buffer);

typedef struct {
    int arg;
    uint32_t buffer;
    dnnl_memory_desc_t md;
} lower_arg_t;

/* Adds the primitive as a step, scratchpad included; consumes pd. */
status_t lower_step(lower_t *l, const node_t *node, dnnl_primitive_desc_t pd, const lower_arg_t *args,
                    uint32_t count);

/* Adds one that reads the main layout of the node's first input and makes its first output; consumes pd. */
status_t lower_from_main(lower_t *l, const node_t *node, dnnl_primitive_desc_t pd);

/* What oneDNN calls the kernel. */
const char *lower_impl(const_dnnl_primitive_desc_t pd);

/* oneDNN has no kernel for this processor but its reference, which is far slower than ours on rows. */
bool lower_is_reference(const_dnnl_primitive_desc_t pd);

/* Adds the reference kernel, epilogue included, as steps. */
status_t lower_kernel(lower_t *l, const node_t *node);

status_t lower_no_memory(lower_t *l);
/* UNSUPPORTED for what oneDNN has no implementation of, else what went wrong. */
status_t lower_status(lower_t *l, dnnl_status_t status);

/* Shape functions want this; valid until the next call with the same arrays. */
enum { LOWER_MAX_CTX = 16 };
typedef struct {
    const tensor_t *in[LOWER_MAX_CTX];
    tensor_t *out[LOWER_MAX_CTX];
    tensor_t results[LOWER_MAX_CTX];
    op_ctx_t ctx;
} lower_ctx_t;
bool lower_ctx(const lower_t *l, const node_t *node, lower_ctx_t *c);

/*
 * Attributes with the epilogue of a node as post-ops. ADD becomes a sum onto the destination when `sum_value` is set to
 * it; the caller then provides a destination buffer that holds it. Destroy with dnnl_primitive_attr_destroy.
 */
status_t lower_attr(lower_t *l, const node_t *node, dnnl_primitive_attr_t *attr, int32_t *sum_value);

/* The epilogue from entry `first` on as primitives of their own, in place on the result, which lies in the buffer in layout md. */
status_t lower_rest(lower_t *l, const node_t *node, uint32_t first, const dnnl_memory_desc_t *md,
                    uint32_t buffer);

/* A buffer that holds sum_value in layout md and may be overwritten: in place when its last reader is this node. */
uint32_t lower_sum_target(lower_t *l, const node_t *node, int32_t sum_value, const dnnl_memory_desc_t *md);

/* An activation as oneDNN writes it; count = 0 when it has none. HardSigmoid takes two. */
typedef struct {
    uint32_t count;
    struct {
        dnnl_alg_kind_t alg;
        float alpha, beta;
    } step[2];
} eltwise_t;
eltwise_t lower_eltwise(const ew_call_t *function);

/* ---- the operators, as supports.c lists them ---- */

/* conv.c */
status_t lower_conv(lower_t *l, const node_t *node);
status_t lower_conv_transpose(lower_t *l, const node_t *node);
/* product.c */
status_t lower_gemm(lower_t *l, const node_t *node);
status_t lower_matmul(lower_t *l, const node_t *node);
/* elementwise.c */
status_t lower_unary(lower_t *l, const node_t *node);
status_t lower_binary(lower_t *l, const node_t *node);
status_t lower_power(lower_t *l, const node_t *node);
status_t lower_clip(lower_t *l, const node_t *node);
/* norm.c */
status_t lower_batch_norm(lower_t *l, const node_t *node);
status_t lower_layer_norm(lower_t *l, const node_t *node);
status_t lower_softmax(lower_t *l, const node_t *node);
/* pool.c */
status_t lower_pool(lower_t *l, const node_t *node);
status_t lower_global_pool(lower_t *l, const node_t *node);
/* resample.c */
status_t lower_resize(lower_t *l, const node_t *node);
/* layout.c */
status_t lower_concat(lower_t *l, const node_t *node);
status_t lower_identity(lower_t *l, const node_t *node);
status_t lower_pad(lower_t *l, const node_t *node);
status_t lower_reshape(lower_t *l, const node_t *node);
status_t lower_transpose(lower_t *l, const node_t *node);

#endif
