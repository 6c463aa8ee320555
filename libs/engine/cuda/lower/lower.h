/*
 * Graph to program: which step runs each node, on which views. Pure: no GPU is needed, and the same graph
 * gives the same program.
 *
 * Types: what the graph calls float32 is stored in the type of the model's precision (float16, bfloat16 or float32) and
 * computed in float32 inside each kernel. Inputs and outputs cross the border in their declared types.
 *
 * Each file beside this one holds a family of operators. A function of theirs adds the steps of one node, or answers UNSUPPORTED
 * before it has added any; the reference kernel on the CPU becomes the step then.
 */
#ifndef ENGINE_CUDA_LOWER_LOWER_H
#define ENGINE_CUDA_LOWER_LOWER_H

#include "engine/cuda/lower/program.h"

/* Takes the instance over, also on failure. Errors name node and operator. */
status_t lower_program(graph_t *instance, engine_precision_t precision, constants_t *constants,
                       program_t **program, err_t *err);

/* The kernel that copies, and converts, between views of one shape; its pointers are unset. */
void lower_transfer(const view_t *to, const view_t *from, step_t *step);

/* ---- for the functions of operators ---- */

enum { STATE_MAX_COPIES = 4, LOWER_MAX_CTX = 16 };

typedef struct {
    bool defined;
    view_t main;
    uint32_t copy_count;
    view_t copies[STATE_MAX_COPIES]; /* dense ones, made for readers that wanted them */
    uint32_t product; /* 1 + the step that made it, when that is a bare product: a factor may join it */
} state_t;

typedef struct {
    graph_t *graph;
    program_t *program;
    constants_t *constants;
    state_t *states; /* per value */
    uint32_t *readers;
    dtype_t storage; /* of float32 */
    const node_t *node;
    int32_t op; /* the number of that node; -1 before the first */
    err_t *err;
    status_t status; /* the first failure; later calls do nothing */
} lower_t;

const tensor_t *lower_tensor(const lower_t *l, int32_t value);
/* The input of a node, -1 when absent. */
int32_t lower_input(const node_t *node, uint32_t i);
bool lower_is_constant(const lower_t *l, int32_t value);
dtype_t lower_stored_type(const lower_t *l, dtype_t dtype);
bool lower_single_output(const node_t *node);
/* Operands broadcast by an attribute, as before opset 7. */
bool lower_is_old_broadcast(const node_t *node);

/* The value as it is, wherever and however it lies. */
view_t lower_view(lower_t *l, int32_t value);
/* The value dense in this type and layout; copied when it is not. */
view_t lower_dense(lower_t *l, int32_t value, dtype_t dtype, layout_kind_t layout);
view_t lower_plain(lower_t *l, int32_t value); /* row-major, in the type it has */

/* Shape functions and attribute readers of libs/graph want this. False: too many inputs. */
typedef struct {
    const tensor_t *in[LOWER_MAX_CTX];
    tensor_t *out[LOWER_MAX_CTX], results[LOWER_MAX_CTX];
    op_ctx_t ctx;
} lower_ctx_t;
bool lower_ctx(const lower_t *l, const node_t *node, lower_ctx_t *c);

/* A new dense tensor in the work space: of this shape, or of a value's shape and stored type. */
view_t lower_new(lower_t *l, dtype_t dtype, uint32_t rank, const int64_t *dims, layout_kind_t layout);
view_t lower_result(lower_t *l, int32_t value, layout_kind_t layout);
/* A buffer of the program; 0 when there is no memory. A dense view of one. */
uint32_t lower_buffer(lower_t *l, buffer_t buffer);
view_t lower_dense_view(uint32_t buffer, dtype_t dtype, uint32_t rank, const int64_t *dims,
                        layout_kind_t layout);
/* A buffer for a constant that is no value of the graph. */
uint32_t lower_constant_buffer(lower_t *l, uint32_t constant);
void lower_define(lower_t *l, int32_t value, const view_t *view);

/* Appends a step; bind then says what its pointers point to. */
void lower_add(lower_t *l, const step_t *step);
void lower_bind(lower_t *l, size_t field, const view_t *view);
#define LOWER_FIELD(member) offsetof(step_t, u.member)

/* Adds a step that copies (and converts) between views of one shape. */
void lower_copy(lower_t *l, const view_t *to, const view_t *from);
void lower_zero(lower_t *l, const view_t *dense);

status_t lower_fail(lower_t *l, status_t status, const char *text);

/* ---- elementwise, also used as tail of convolutions and products ---- */

typedef struct {
    view_t views[K_MAX_INPUTS];
    uint32_t view_count, op_count;
    k_ew_op_t ops[K_MAX_OPS];
    dtype_t compute;
} ew_t;

bool ew_add_op(ew_t *e, ew_op_t op, double a, double b);
bool ew_add_view(ew_t *e, ew_op_t op, const view_t *view);
/* The epilogue of a node from entry `from` on. */
bool ew_add_epilogue(lower_t *l, ew_t *e, const node_t *node, uint32_t from);
/* Fills the kernel for a result; false when shapes do not broadcast. */
bool ew_kernel(const ew_t *e, const view_t *out, k_elementwise_t *k);
void ew_bind(lower_t *l, const ew_t *e, const view_t *out, size_t kernel_field);

/* ---- the operators, as supports.c lists them ---- */

/* window.c */
status_t lower_conv(lower_t *l, const node_t *node);
status_t lower_conv_transpose(lower_t *l, const node_t *node);
status_t lower_pool(lower_t *l, const node_t *node);
/* product.c */
status_t lower_gemm(lower_t *l, const node_t *node);
status_t lower_matmul(lower_t *l, const node_t *node);
/* elementwise.c */
status_t lower_unary(lower_t *l, const node_t *node);
status_t lower_binary(lower_t *l, const node_t *node);
status_t lower_power(lower_t *l, const node_t *node);
status_t lower_clip(lower_t *l, const node_t *node);
status_t lower_not(lower_t *l, const node_t *node);
status_t lower_is_nan(lower_t *l, const node_t *node);
status_t lower_is_inf(lower_t *l, const node_t *node);
status_t lower_prelu(lower_t *l, const node_t *node);
status_t lower_where(lower_t *l, const node_t *node);
status_t lower_cast(lower_t *l, const node_t *node);
status_t lower_batch_norm(lower_t *l, const node_t *node);
/* rows.c */
status_t lower_arg(lower_t *l, const node_t *node);
status_t lower_global_pool(lower_t *l, const node_t *node);
status_t lower_instance_norm(lower_t *l, const node_t *node);
status_t lower_layer_norm(lower_t *l, const node_t *node);
status_t lower_reduce(lower_t *l, const node_t *node);
status_t lower_softmax(lower_t *l, const node_t *node);
/* move.c */
status_t lower_concat(lower_t *l, const node_t *node);
status_t lower_depth_to_space(lower_t *l, const node_t *node);
status_t lower_expand(lower_t *l, const node_t *node);
status_t lower_reshape(lower_t *l, const node_t *node);
status_t lower_slice(lower_t *l, const node_t *node);
status_t lower_space_to_depth(lower_t *l, const node_t *node);
status_t lower_split(lower_t *l, const node_t *node);
status_t lower_tile(lower_t *l, const node_t *node);
status_t lower_transpose(lower_t *l, const node_t *node);
/* index.c */
status_t lower_gather(lower_t *l, const node_t *node);
status_t lower_gather_elements(lower_t *l, const node_t *node);
status_t lower_pad(lower_t *l, const node_t *node);

#endif
