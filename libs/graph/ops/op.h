/*
 * Operators: one table of what each means, with a shape function and a reference kernel. Constant folding,
 * the tests and every engine for what it has no faster kernel use them.
 *
 * Both functions are pure and run on any thread. Shapes are concrete when infer is called; contents may be
 * missing.
 */
#ifndef GRAPH_OPS_OP_H
#define GRAPH_OPS_OP_H

#include "graph/ir/graph.h"

typedef struct {
    const node_t *node;
    uint32_t in_count, out_count;
    const tensor_t *const *in; /* NULL = absent; in infer, data may be NULL */
    tensor_t *const *out;      /* NULL = not wanted; in eval, data has room */
    bool needs_value;          /* set by infer: the result's shape depends on contents that are not there */
    err_t *err;
} op_ctx_t;

/*
 * Where the rows of the operands, their dimension 0, lie in the results. It is asked only where that dimension, and no
 * other, grows with the batch: by as much in the result as in each operand that is not constant. So a Transpose that
 * is asked has left dimension 0 where it was, and a reduction has not reduced it.
 */
typedef enum {
    ROWS_UNSAID,      /* of a table that is not complete; the tests find it */
    ROWS_KEPT,        /* row r of each result comes from the rows r of the operands */
    ROWS_KEPT_FIRST,  /* so do those of result 0; the others count across rows */
    ROWS_KEPT_UNLESS, /* kept where an integer attribute is 0 */
    ROWS_ALONG_AXIS,  /* kept where an attribute names another dimension of operand 0 */
    ROWS_AS_BYTES,    /* result 0 is the bytes of operand 0 in their order: a view */
    ROWS_MIXED,       /* nothing is promised */
} op_rows_kind_t;

typedef struct {
    op_rows_kind_t kind;
    const char *attr;  /* of ROWS_KEPT_UNLESS and ROWS_ALONG_AXIS, */
    int64_t otherwise; /* and its value when it is absent */
} op_rows_t;

/*
 * What rewrites and engines tell apart, in place of names. Operators of one kind differ in their function, or in their
 * kernels alone.
 */
typedef enum {
    OP_OTHER,  /* nobody knows more of it than its kernel */
    OP_UNARY,  /* a function of one element */
    OP_BINARY, /* of two, which broadcast */
    OP_FOLD,   /* a binary function over any number of operands */
    OP_MEAN,
    OP_CLIP,
    OP_POW,
    OP_PRELU,
    OP_WHERE,
    OP_NOT,
    OP_IS_NAN,
    OP_IS_INF,
    OP_CAST,
    OP_CONV,
    OP_CONV_TRANSPOSE,
    OP_GEMM,
    OP_LINEAR,
    OP_MATMUL,
    OP_BATCH_NORM,
    OP_INSTANCE_NORM,
    OP_LAYER_NORM,
    OP_SOFTMAX,
    OP_LOG_SOFTMAX,
    OP_AVERAGE_POOL,
    OP_LP_POOL,
    OP_MAX_POOL,
    OP_GLOBAL_AVERAGE_POOL,
    OP_GLOBAL_MAX_POOL,
    OP_ARG_MAX,
    OP_ARG_MIN,
    OP_REDUCE_L1,
    OP_REDUCE_L2,
    OP_REDUCE_LOG_SUM,
    OP_REDUCE_LOG_SUM_EXP,
    OP_REDUCE_MAX,
    OP_REDUCE_MEAN,
    OP_REDUCE_MIN,
    OP_REDUCE_PROD,
    OP_REDUCE_SUM,
    OP_REDUCE_SUM_SQUARE,
    OP_CONCAT,
    OP_DEPTH_TO_SPACE,
    OP_EXPAND,
    OP_GATHER,
    OP_GATHER_ELEMENTS,
    OP_IDENTITY,
    OP_PAD,
    OP_RESIZE,
    OP_RESHAPE, /* the same bytes under another shape, whatever says it */
    OP_SLICE,
    OP_SPACE_TO_DEPTH,
    OP_SPLIT,
    OP_TILE,
    OP_TRANSPOSE,
    OP_KINDS
} op_kind_t;

/* The function of an elementwise operator, and the attributes that are its parameters. */
typedef struct {
    ew_op_t op;
    const char *name_a;
    double a; /* when the attribute is absent */
    const char *name_b;
    double b;
} op_function_t;

struct op {
    const char *name;
    uint8_t min_in, max_in, min_out, max_out; /* 255 = any number */
    uint8_t flags;
    status_t (*infer)(op_ctx_t *c); /* sets dtype, rank and dims of the outputs */
    status_t (*eval)(op_ctx_t *c);  /* computes them */
    const void *aux;                /* for operators that share functions */
    const char *domain;             /* NULL = the standard one */
    int32_t since;                  /* lowest opset whose meaning is implemented */
    op_rows_t rows;
    op_kind_t kind;
    op_function_t function;
    epilogue_kind_t tail; /* what it may become behind another operator */
};

enum {
    OP_SHAPE_ONLY = 1, /* the result depends on the shapes of the inputs alone */
    OP_RANDOM = 2,     /* never folded */
    OP_HEAVY = 8,      /* may do far more work than its inputs and outputs have elements */
};

/* NULL = we lack it. */
const op_t *op_find(const char *domain, const char *name);

/* The whole list, for documentation: calls back for each. */
void op_each(void (*fn)(void *arg, const op_t *op), void *arg);

static inline bool op_is(const node_t *node, op_kind_t kind)
{
    return node->op->kind == kind;
}

/* An operator of one or of two operands that is this function. */
static inline bool op_computes(const node_t *node, ew_op_t function)
{
    return (op_is(node, OP_UNARY) || op_is(node, OP_BINARY)) && node->op->function.op == function;
}

/* The function of one element that the operator is with these attributes; EW_NONE: it is none. */
ew_call_t op_function(const op_t *op, const attr_t *attrs, uint32_t attr_count);

/* By its row order: rows of the operands are the same rows of result `out`. rank: of operand 0. */
bool op_keeps_rows(const node_t *node, uint32_t out, uint32_t rank);

/* Attributes with defaults. A wrong kind counts as absent. */
int64_t op_int(const op_ctx_t *c, const char *name, int64_t otherwise);
double op_float(const op_ctx_t *c, const char *name, double otherwise);
const char *op_string(const op_ctx_t *c, const char *name, const char *otherwise);
const attr_t *op_ints(const op_ctx_t *c, const char *name); /* NULL = absent */

/* The input, or NULL when it is absent. */
const tensor_t *op_in(const op_ctx_t *c, uint32_t i);
tensor_t *op_out(const op_ctx_t *c, uint32_t i);

/* Sets the shape of an output, which may be absent, and checks it. */
status_t op_set(op_ctx_t *c, uint32_t i, dtype_t dtype, uint32_t rank, const int64_t *dims);
status_t op_set_like(op_ctx_t *c, uint32_t i, const tensor_t *t);

/* INVALID_ARGUMENT with a message; err_prefix adds the node. */
status_t op_bad(op_ctx_t *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
status_t op_unsupported(op_ctx_t *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * A list of integers from input i. UNAVAILABLE with needs_value set when the contents are not known; count =
 * 0 when the input is absent.
 */
enum { OP_MAX_INTS = 64 };
typedef struct {
    uint32_t count;
    int64_t v[OP_MAX_INTS];
} ints_t;
status_t op_read_ints(op_ctx_t *c, uint32_t i, ints_t *ints);
/* From the attribute when it is there, else from input i (operators that moved the list from one to the
 * other). */
status_t op_read_ints_either(op_ctx_t *c, const char *attr, uint32_t i, ints_t *ints);

/* axis in [-rank, rank) -> [0, rank). */
status_t op_axis(op_ctx_t *c, int64_t axis, uint32_t rank, uint32_t *out);

/* Numpy's broadcasting of a and b (any rank). */
status_t op_broadcast(op_ctx_t *c, const tensor_t *a, const tensor_t *b, tensor_t *out);

/* A scalar input as a number, or the default when absent. Its data must be there (eval). */
double op_scalar_f64(const op_ctx_t *c, uint32_t i, double otherwise);

/* The same for whole numbers. */
int64_t op_scalar_i64(const op_ctx_t *c, uint32_t i, int64_t otherwise);

/* A double as an integer: saturates, and NaN is 0. */
int64_t op_saturate(double value, int64_t low, int64_t high);

/* infer of many: output 0 is like input 0. */
status_t op_infer_same(op_ctx_t *c);

#endif
