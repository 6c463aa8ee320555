/*
 * Compiles an instance into a plan. emit_*.c hold one function per family of operators; each adds the steps of one node
 * or answers UNSUPPORTED, in which case the reference kernel becomes the step.
 *
 * Every value has a main layout, in which it is made, and copies in other layouts where a reader wanted one:
 * a reorder is a step of its own, made once per layout. Constants are reordered at once, through the cache of
 * the model.
 */
#ifndef ENGINE_ONEDNN_BUILD_H
#define ENGINE_ONEDNN_BUILD_H

#include "engine/onednn/plan.h"
#include "engine/onednn/weights.h"

enum { VALUE_MAX_LAYOUTS = 4, BUILD_MAX_ARGS = 72 };

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

typedef struct {
    graph_t *graph;
    plan_t *plan;
    state_t *states; /* per value */
    weights_t *weights;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_attr_t attr; /* scratchpad from the work space, nothing else */
    err_t *err;
} build_t;

/* Compiles; takes the instance over, also on failure. */
status_t build_plan(graph_t *instance, weights_t *weights, dnnl_engine_t engine, dnnl_stream_t stream,
                    plan_t **plan, err_t *err);

/* ---- for emit_*.c ---- */

static inline const tensor_t *build_tensor(const build_t *b, int32_t value)
{
    return &b->graph->values[value].t;
}

static inline bool build_is_constant(const build_t *b, int32_t value)
{
    return b->graph->values[value].t.data != NULL;
}

/* The input of a node, -1 when absent. */
static inline int32_t build_input(const node_t *node, uint32_t i)
{
    return i < node->in_count ? node->in[i] : -1;
}

/* False for types that oneDNN does not know. Rank 0 becomes one dimension of 1. */
bool build_md(const tensor_t *t, dnnl_memory_desc_t *md);
/* How the value lies there. False: row-major, of a type that oneDNN does not know. */
bool build_place_md(const plan_t *plan, const place_t *place, dnnl_memory_desc_t *md);
/* float32 with these dims; strides NULL = row-major. */
dnnl_memory_desc_t build_md_strided(uint32_t rank, const int64_t *dims, const int64_t *strides);
/* float32 with these dims in whatever layout the primitive likes. */
dnnl_memory_desc_t build_md_any(uint32_t rank, const int64_t *dims);

/* The main layout of a value. */
const layout_t *build_main(const build_t *b, int32_t value);

/* The value in this layout (made when it is not there), or row-major. UINT32_MAX = failed, b->err set. */
uint32_t build_need(build_t *b, int32_t value, const dnnl_memory_desc_t *md);
uint32_t build_plain(build_t *b, int32_t value);

/* A row-major value seen through another descriptor, brought into a layout: weights with groups,
 * transposed matrices. */
uint32_t build_weights(build_t *b, int32_t value, const dnnl_memory_desc_t *seen_as,
                       const dnnl_memory_desc_t *want);

/*
 * The result of the current node will be a view of a buffer of its input. A copy in another layout, which
 * others may still read as the input, must then not be overwritten through the view.
 */
void build_share(build_t *b, int32_t value, uint32_t buffer);

uint32_t build_buffer(build_t *b, size_t len_bytes);

/* This node is the last reader of the value, and its main buffer may be overwritten. */
bool build_dies(const build_t *b, int32_t value);

/* The value now exists in this layout (its first: the main one). */
status_t build_define(build_t *b, int32_t value, const dnnl_memory_desc_t *md, uint32_t buffer);

typedef struct {
    int arg;
    uint32_t buffer;
    dnnl_memory_desc_t md;
} build_arg_t;

/* Adds the primitive as a step, scratchpad included; consumes pd. */
status_t build_step(build_t *b, const node_t *node, dnnl_primitive_desc_t pd, const build_arg_t *args,
                    uint32_t count);

/* Adds the reference kernel, epilogue included, as steps. */
status_t build_kernel(build_t *b, const node_t *node);

/* UNSUPPORTED for what oneDNN has no implementation of, else what went wrong. */
status_t build_status(build_t *b, dnnl_status_t status);

/* Shape functions want this; valid until the next call with the same arrays. */
enum { BUILD_MAX_CTX = 16 };
typedef struct {
    const tensor_t *in[BUILD_MAX_CTX];
    tensor_t *out[BUILD_MAX_CTX];
    tensor_t results[BUILD_MAX_CTX];
    op_ctx_t ctx;
} build_ctx_t;
bool build_ctx(const build_t *b, const node_t *node, build_ctx_t *c);

/*
 * Attributes with the epilogue of a node as post-ops. ADD becomes a sum onto the destination when `sum_value` is set to
 * it; the caller then provides a destination buffer that holds it. Destroy with dnnl_primitive_attr_destroy.
 */
status_t build_attr(build_t *b, const node_t *node, dnnl_primitive_attr_t *attr, int32_t *sum_value);

/* A buffer that holds sum_value in layout md and may be overwritten: in place when its last reader is this node. */
uint32_t build_sum_target(build_t *b, const node_t *node, int32_t sum_value, const dnnl_memory_desc_t *md);

/* An activation as oneDNN writes it; count = 0 when it has none. HardSigmoid takes two. */
typedef struct {
    uint32_t count;
    struct {
        dnnl_alg_kind_t alg;
        float alpha, beta;
    } step[2];
} eltwise_t;
eltwise_t build_eltwise(const ew_call_t *function);

/* ---- the operators, as supports.c lists them ---- */

/* emit_conv.c */
status_t lower_conv(build_t *b, const node_t *node);
status_t lower_conv_transpose(build_t *b, const node_t *node);
/* emit_product.c */
status_t lower_gemm(build_t *b, const node_t *node);
status_t lower_matmul(build_t *b, const node_t *node);
/* emit_elementwise.c */
status_t lower_unary(build_t *b, const node_t *node);
status_t lower_binary(build_t *b, const node_t *node);
status_t lower_power(build_t *b, const node_t *node);
status_t lower_clip(build_t *b, const node_t *node);
/* emit_norm.c */
status_t lower_batch_norm(build_t *b, const node_t *node);
status_t lower_layer_norm(build_t *b, const node_t *node);
status_t lower_softmax(build_t *b, const node_t *node);
/* emit_pool.c */
status_t lower_pool(build_t *b, const node_t *node);
status_t lower_global_pool(build_t *b, const node_t *node);
/* emit_layout.c */
status_t lower_concat(build_t *b, const node_t *node);
status_t lower_identity(build_t *b, const node_t *node);
status_t lower_pad(build_t *b, const node_t *node);
status_t lower_reshape(build_t *b, const node_t *node);
status_t lower_transpose(build_t *b, const node_t *node);

#endif
