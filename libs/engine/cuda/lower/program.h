/*
 * A program: one instance of a model (one batch size or set of shapes) as a list of steps over buffers. The
 * lowering makes it without touching a GPU; a device then chooses the cuDNN and cuBLASLt plans of its steps
 * and runs it.
 */
#ifndef ENGINE_CUDA_LOWER_PROGRAM_H
#define ENGINE_CUDA_LOWER_PROGRAM_H

#include "engine/cuda/device/kernels.h"
#include "engine/cuda/lower/constants.h"
#include "engine/cuda/lower/view.h"
#include "engine/engine.h"
#include "graph/ops/op.h"

enum { PROGRAM_ALIGN_BYTES = 256 };

typedef enum { BUFFER_WORK, BUFFER_CONSTANT, BUFFER_INPUT, BUFFER_OUTPUT } buffer_kind_t;

typedef struct {
    buffer_kind_t kind;
    uint32_t index;       /* CONSTANT: of the table; INPUT, OUTPUT: which one */
    uint32_t first, last; /* steps between which a WORK buffer is alive */
    size_t len_bytes, offset;
} buffer_t;

typedef enum { STEP_KERNEL, STEP_CONV, STEP_GEMM, STEP_HOST } step_kind_t;

/* What follows a convolution or product when the library cannot fuse it: operations on the result, in place. */
typedef struct {
    k_elementwise_t ew; /* op_count = 0: nothing */
} tail_t;

/* result = activation(conv(x, w) + residual + bias) */
typedef struct {
    k_conv_t direct; /* the convolution alone; the kernel of last resort */
    tail_t tail;     /* everything else */
    k_view_t bias, residual;
    bool fusable, has_bias, has_residual; /* fusable: cuDNN may do the tail as well */
    k_ew_op_t act;                        /* EW_IDENTITY = none */
    uint32_t spatial;                     /* dimensions: 2 or 3 (one becomes two) */
    int64_t x[5], y[5], w[5]; /* N, C, D, H, W; the first spatial ones are 1 when there are fewer */
    int64_t after[3];
    dtype_t dtype;
} conv_step_t;

/* result = activation(alpha · a · b + residual + bias), per matrix of a batch */
typedef struct {
    k_gemm_t direct;
    tail_t whole, rest; /* behind `direct`; behind cuBLASLt, which does not know every activation */
    k_view_t bias, residual;
    bool library; /* strides and types are what cuBLASLt takes */
    bool a_transposed, b_transposed, has_bias, has_residual;
    int32_t activation; /* EW_IDENTITY, EW_RELU or EW_GELU_TANH: done by cuBLASLt */
    int64_t m, n, k, batch, lda, ldb, ldc, a_batch, b_batch, c_batch;
    dtype_t dtype;
} gemm_step_t;

/* A reference kernel on the CPU: for operators that no kernel of ours has. */
typedef struct {
    op_ctx_t ctx;
    tensor_t *tensors; /* inputs, then outputs: as the operator wants them */
    void **device;     /* where each is on the device; NULL = absent, or constant */
    dtype_t *stored;   /* type it has there */
    uint32_t count;
} host_step_t;

typedef struct {
    step_kind_t kind;
    kernel_t kernel;
    const node_t *node; /* for messages */
    const char *what;   /* for program_text, when it is not the node's operator */
    union {
        k_elementwise_t elementwise;
        k_copy_t copy;
        k_fill_t fill;
        k_reduce_t reduce;
        k_softmax_t softmax;
        k_norm_t norm;
        k_pool_t pool;
        k_gather_t gather;
        k_gather_elements_t gather_elements;
        k_pad_t pad;
        k_concat_t concat;
        conv_step_t conv;
        gemm_step_t gemm;
        host_step_t host;
    } u;
    void *plan; /* the device's, for CONV and GEMM */
} step_t;

/* A pointer inside a step that is set when the buffers have their places. */
typedef struct {
    uint32_t step, buffer;
    size_t field; /* where the pointer is: from the start of the step, or for HOST the number of the tensor */
    size_t offset_bytes;
} binding_t;

/* A value lies in a view, from the steps of an operator on. */
typedef struct {
    int32_t value;
    int32_t op; /* -1: an input, there from the start */
    view_t view;
} place_t;

typedef struct {
    graph_t *instance; /* owns nodes, attributes and the arrays of host steps */
    buffer_t *buffers;
    step_t *steps;
    binding_t *bindings;
    tensor_t *inputs, *outputs; /* as they cross the border: full shapes and declared types */
    uint32_t buffer_count, buffer_capacity, step_count, step_capacity, binding_count, binding_capacity;
    uint32_t input_count, output_count, host_steps;
    place_t *places; /* of all values but constants, in the order of the operators */
    uint32_t place_count, place_capacity;
    uint32_t *op_steps; /* steps in front of each operator; those behind the last one copy the outputs */
    size_t work_bytes;
    bool *input_used; /* false: no step reads it */
} program_t;

void program_destroy(program_t *program);

/* Gives every WORK buffer its offset: buffers whose lives overlap do not overlap in space. */
status_t program_place(program_t *program, err_t *err);

/* The steps of operators from <= op < to; of the last ones with what copies the outputs. */
uint32_t program_first_step(const program_t *program, uint32_t from);
uint32_t program_end_step(const program_t *program, uint32_t to);

/* A view in the program's memory holds its value between the operators in front of `op` and those behind. */
bool program_is_alive(const program_t *program, const place_t *place, uint32_t op);

/* Where everything is on the device. constants: by index of the table. */
typedef struct {
    void *work, *const *constants, *const *inputs, *const *outputs;
} program_memory_t;

/* Writes the pointers into `steps`: the program's, or a copy of them. */
void program_bind(const program_t *program, step_t *steps, const program_memory_t *memory);

/* A copy of the steps with arrays of their own where pointers are bound; free() it. NULL = no memory. */
step_t *program_copy_steps(const program_t *program);

/* One line per step, for tests and logs; the caller frees it. NULL = no memory. */
char *program_text(const program_t *program);

#endif
