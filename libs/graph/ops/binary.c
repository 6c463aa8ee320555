/*
 * Two tensors in, with numpy's broadcasting; and the variadic operators that fold over their inputs.
 */
#include "graph/ops/tables.h"
#include "graph/ops/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One row: a and b advance by sa and sb elements (0 = repeated). */
typedef void (*row_fn)(const void *a, int64_t sa, const void *b, int64_t sb, void *out, size_t n);

enum { KINDS = 11 }; /* f32 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool */

typedef struct {
    row_fn row[KINDS];
    bool to_bool;
} binary_t;

static int kind_of(dtype_t dtype)
{
    static const signed char kinds[] = {
        [DTYPE_F32] = 1, [DTYPE_F64] = 2,  [DTYPE_I8] = 3,    [DTYPE_I16] = 4,
        [DTYPE_I32] = 5, [DTYPE_I64] = 6,  [DTYPE_U8] = 7,    [DTYPE_U16] = 8,
        [DTYPE_U32] = 9, [DTYPE_U64] = 10, [DTYPE_BOOL] = 11, [DTYPE_BF16] = 0,
    };
    return (unsigned)dtype < sizeof kinds ? kinds[dtype] - 1 : -1;
}

/* The common strides are written out so that the compiler vectorises them. */
#define ROW(name, T, R, expression)                                                             \
    static void name(const void *a, int64_t sa, const void *b, int64_t sb, void *out, size_t n) \
    {                                                                                           \
        const T *restrict pa = a, *restrict pb = b;                                             \
        R *restrict to = out;                                                                   \
        if (sa == 1 && sb == 1) {                                                               \
            for (size_t i = 0; i < n; i++) {                                                    \
                const T x = pa[i], y = pb[i];                                                   \
                to[i] = (R)(expression);                                                        \
            }                                                                                   \
        } else if (sa == 1 && sb == 0) {                                                        \
            const T y = *pb;                                                                    \
            for (size_t i = 0; i < n; i++) {                                                    \
                const T x = pa[i];                                                              \
                to[i] = (R)(expression);                                                        \
            }                                                                                   \
        } else {                                                                                \
            for (size_t i = 0; i < n; i++) {                                                    \
                const T x = pa[(int64_t)i * sa], y = pb[(int64_t)i * sb];                       \
                to[i] = (R)(expression);                                                        \
            }                                                                                   \
        }                                                                                       \
    }

#define ROWS_FLOAT(name, expression)          \
    ROW(name##_f32, float, float, expression) \
    ROW(name##_f64, double, double, expression)
#define ROWS_SIGNED(name, expression)             \
    ROW(name##_i8, int8_t, int8_t, expression)    \
    ROW(name##_i16, int16_t, int16_t, expression) \
    ROW(name##_i32, int32_t, int32_t, expression) \
    ROW(name##_i64, int64_t, int64_t, expression)
#define ROWS_INT(name, expression) \
    ROWS_SIGNED(name, expression)  \
    ROWS_UINT(name, expression)
#define ROWS_UINT(name, expression)                 \
    ROW(name##_u8, uint8_t, uint8_t, expression)    \
    ROW(name##_u16, uint16_t, uint16_t, expression) \
    ROW(name##_u32, uint32_t, uint32_t, expression) \
    ROW(name##_u64, uint64_t, uint64_t, expression)
#define ROWS_COMPARE(name, expression)             \
    ROW(name##_f32, float, uint8_t, expression)    \
    ROW(name##_f64, double, uint8_t, expression)   \
    ROW(name##_i8, int8_t, uint8_t, expression)    \
    ROW(name##_i16, int16_t, uint8_t, expression)  \
    ROW(name##_i32, int32_t, uint8_t, expression)  \
    ROW(name##_i64, int64_t, uint8_t, expression)  \
    ROW(name##_u8, uint8_t, uint8_t, expression)   \
    ROW(name##_u16, uint16_t, uint8_t, expression) \
    ROW(name##_u32, uint32_t, uint8_t, expression) \
    ROW(name##_u64, uint64_t, uint8_t, expression)
#define TABLE_INT(name) \
    name##_i8, name##_i16, name##_i32, name##_i64, name##_u8, name##_u16, name##_u32, name##_u64
#define TABLE_ALL(name) name##_f32, name##_f64, TABLE_INT(name)
#define TABLE_UINT(name) NULL, NULL, NULL, NULL, NULL, NULL, name##_u8, name##_u16, name##_u32, name##_u64

/* Signed overflow wraps: computed unsigned. */
#define WRAP(op) (typeof(x))((uint64_t)x op(uint64_t) y)
/* Division by zero gives 0, and the lowest number over -1 itself, instead of a trap. */

ROWS_FLOAT(add, x + y)
ROWS_INT(add, WRAP(+))
ROWS_FLOAT(sub, x - y)
ROWS_INT(sub, WRAP(-))
ROWS_FLOAT(mul, x *y)
ROWS_INT(mul, WRAP(*))
ROWS_FLOAT(div, x / y)
ROWS_SIGNED(div, y == 0 ? 0 : y == -1 ? (typeof(x))(0 - (uint64_t)x) : (typeof(x))(x / y))
ROWS_UINT(div, y == 0 ? 0 : x / y)
ROWS_FLOAT(max, x != x ? x : y != y ? y : x > y ? x : y)
ROWS_INT(max, x > y ? x : y)
ROWS_FLOAT(min, x != x ? x : y != y ? y : x < y ? x : y)
ROWS_INT(min, x < y ? x : y)
ROWS_FLOAT(fmod, fmod((double)x, (double)y))
ROWS_SIGNED(fmod, y == 0 || y == -1 ? 0 : x % y)
ROWS_UINT(fmod, y == 0 ? 0 : x % y)

/* Python's modulo has the sign of the divisor. */
static int64_t floor_mod(int64_t x, int64_t y)
{
    if (y == 0 || y == -1)
        return 0;
    int64_t r = x % y;
    return r && (r < 0) != (y < 0) ? r + y : r;
}

static double floor_fmod(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

ROWS_FLOAT(mod, floor_fmod((double)x, (double)y))
ROW(mod_i8, int8_t, int8_t, floor_mod(x, y))
ROW(mod_i16, int16_t, int16_t, floor_mod(x, y))
ROW(mod_i32, int32_t, int32_t, floor_mod(x, y))
ROW(mod_i64, int64_t, int64_t, floor_mod(x, y))
ROWS_UINT(mod, y == 0 ? 0 : x % y)
ROWS_COMPARE(equal, x == y)
ROWS_COMPARE(greater, x > y)
ROWS_COMPARE(less, x < y)
ROWS_COMPARE(greater_equal, x >= y)
ROWS_COMPARE(less_equal, x <= y)
ROW(equal_bool, uint8_t, uint8_t, !x == !y)
ROW(and_bool, uint8_t, uint8_t, x &&y)
ROW(or_bool, uint8_t, uint8_t, x || y)
ROW(xor_bool, uint8_t, uint8_t, !x != !y)
ROWS_INT(bitand, x &y)
ROWS_INT(bitor, x | y)
ROWS_INT(bitxor, x ^ y)
ROWS_UINT(shift_left, y < 8 * sizeof x ? (typeof(x))((uint64_t)x << y) : 0)
ROWS_UINT(shift_right, y < 8 * sizeof x ? (typeof(x))(x >> y) : 0)
ROWS_FLOAT(prelu, x < 0 ? x * y : x)
ROWS_SIGNED(prelu, x < 0 ? WRAP(*) : x)
ROWS_UINT(prelu, y == y ? x : y)

static const binary_t add = {{TABLE_ALL(add)}, false}, sub = {{TABLE_ALL(sub)}, false},
                      mul = {{TABLE_ALL(mul)}, false}, division = {{TABLE_ALL(div)}, false},
                      max = {{TABLE_ALL(max)}, false}, min = {{TABLE_ALL(min)}, false},
                      modulo = {{TABLE_ALL(mod)}, false}, c_modulo = {{TABLE_ALL(fmod)}, false},
                      equal = {{TABLE_ALL(equal), equal_bool}, true}, greater = {{TABLE_ALL(greater)}, true},
                      less = {{TABLE_ALL(less)}, true}, greater_equal = {{TABLE_ALL(greater_equal)}, true},
                      less_equal = {{TABLE_ALL(less_equal)}, true}, prelu = {{TABLE_ALL(prelu)}, false},
                      logical_and = {{[10] = and_bool}, true}, logical_or = {{[10] = or_bool}, true},
                      logical_xor = {{[10] = xor_bool}, true},
                      bit_and = {{NULL, NULL, TABLE_INT(bitand)}, false},
                      bit_or = {{NULL, NULL, TABLE_INT(bitor)}, false},
                      bit_xor = {{NULL, NULL, TABLE_INT(bitxor)}, false},
                      shift_left = {{TABLE_UINT(shift_left)}, false},
                      shift_right = {{TABLE_UINT(shift_right)}, false};

static void run_rows(row_fn row, const tensor_t *a, const tensor_t *b, tensor_t *out)
{
    size_t in_size = dtype_size(a->dtype), out_size = dtype_size(out->dtype);
    walk_t w;
    for (bool more = walk_begin(&w, out, (const tensor_t *const[]){a, b}, 2); more; more = walk_next(&w))
        row((const char *)a->data + (size_t)w.offset[0] * in_size, w.step[0],
            (const char *)b->data + (size_t)w.offset[1] * in_size, w.step[1],
            (char *)out->data + w.out * out_size, w.row);
}

/* Until opset 6 the second operand is placed by an axis: trailing ones make it numpy's. */
static status_t align(op_ctx_t *c, tensor_t *b)
{
    const tensor_t *a = c->in[0];
    *b = *c->in[1];
    int64_t axis = op_int(c, "axis", -1);
    if (c->node->opset >= 7 || !op_int(c, "broadcast", 0) || axis < 0)
        return STATUS_OK;
    if (axis + b->rank > a->rank)
        return op_bad(c, "axis %lld is outside the first operand", (long long)axis);
    for (uint32_t d = b->rank; d < a->rank - (uint32_t)axis; d++)
        b->dims[b->rank++] = 1;
    return STATUS_OK;
}

static status_t infer_binary(op_ctx_t *c)
{
    const binary_t *op = c->node->op->aux;
    tensor_t b, out;
    status_t status = align(c, &b);
    if (status == STATUS_OK && c->in[0]->dtype != b.dtype)
        status = op_bad(c, "the operands are %s and %s", dtype_name(c->in[0]->dtype), dtype_name(b.dtype));
    if (status == STATUS_OK)
        status = op_broadcast(c, c->in[0], &b, &out);
    if (status != STATUS_OK)
        return status;
    return op_set(c, 0, op->to_bool ? DTYPE_BOOL : out.dtype, out.rank, out.dims);
}

static status_t run(op_ctx_t *c, const binary_t *op)
{
    int kind = kind_of(c->in[0]->dtype);
    tensor_t b;
    if (kind < 0 || !op->row[kind])
        return op_unsupported(c, "element type %s is not supported", dtype_name(c->in[0]->dtype));
    status_t status = align(c, &b);
    if (status == STATUS_OK)
        run_rows(op->row[kind], c->in[0], &b, c->out[0]);
    return status;
}

static status_t eval_binary(op_ctx_t *c)
{
    return run(c, c->node->op->aux);
}

static status_t eval_mod(op_ctx_t *c)
{
    return run(c, op_int(c, "fmod", 0) ? &c_modulo : &modulo);
}

static status_t eval_shift(op_ctx_t *c)
{
    return run(c, strcmp(op_string(c, "direction", "LEFT"), "RIGHT") ? &shift_left : &shift_right);
}

/* PRelu's slope broadcasts to the input, never the other way. Until opset 6 one dimension means one per channel. */
static tensor_t prelu_slope(const op_ctx_t *c)
{
    tensor_t slope = *c->in[1];
    if (c->node->opset < 7 && slope.rank == 1 && slope.dims[0] > 1)
        for (uint32_t d = 2; d < c->in[0]->rank; d++)
            slope.dims[slope.rank++] = 1;
    return slope;
}

static status_t infer_prelu(op_ctx_t *c)
{
    tensor_t out, slope = prelu_slope(c);
    status_t status = op_broadcast(c, c->in[0], &slope, &out);
    if (status == STATUS_OK && !tensor_same_shape(&out, c->in[0]))
        status = op_bad(c, "the slope is larger than the input");
    return status == STATUS_OK ? op_infer_same(c) : status;
}

static status_t eval_prelu(op_ctx_t *c)
{
    int kind = kind_of(c->in[0]->dtype);
    tensor_t slope = prelu_slope(c);
    if (kind < 0 || !prelu.row[kind] || slope.dtype != c->in[0]->dtype)
        return op_unsupported(c, "element type %s is not supported", dtype_name(c->in[0]->dtype));
    run_rows(prelu.row[kind], c->in[0], &slope, c->out[0]);
    return STATUS_OK;
}

/* The exponent may have a type of its own. */
static status_t infer_pow(op_ctx_t *c)
{
    tensor_t b, out;
    status_t status = align(c, &b);
    if (status == STATUS_OK)
        status = op_broadcast(c, c->in[0], &b, &out);
    return status == STATUS_OK ? op_set_like(c, 0, &out) : status;
}

static int64_t integer_power(int64_t base, int64_t exponent)
{
    if (exponent < 0)
        return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
    uint64_t result = 1, factor = (uint64_t)base;
    for (; exponent; exponent >>= 1, factor *= factor)
        if (exponent & 1)
            result *= factor;
    return (int64_t)result;
}

static void store_i64(tensor_t *t, size_t i, int64_t value)
{
    memcpy((char *)t->data + i * dtype_size(t->dtype), &value, dtype_size(t->dtype));
}

static bool is_float(dtype_t dtype)
{
    return dtype == DTYPE_F32 || dtype == DTYPE_F64;
}

static void power(const tensor_t *a, size_t ia, const tensor_t *b, size_t ib, tensor_t *out, size_t io)
{
    if (out->dtype == DTYPE_F32) {
        float x = ((const float *)a->data)[ia], y = (float)tensor_get_f64(b, ib);
        ((float *)out->data)[io] = y == 2 ? x * x : y == 0.5f ? sqrtf(x) : powf(x, y);
    } else if (out->dtype == DTYPE_F64) {
        ((double *)out->data)[io] = pow(((const double *)a->data)[ia], tensor_get_f64(b, ib));
    } else if (is_float(b->dtype)) {
        store_i64(
            out, io,
            op_saturate(pow((double)tensor_get_i64(a, ia), tensor_get_f64(b, ib)), INT64_MIN, INT64_MAX));
    } else {
        store_i64(out, io, integer_power(tensor_get_i64(a, ia), tensor_get_i64(b, ib)));
    }
}

static status_t eval_pow(op_ctx_t *c)
{
    const tensor_t *a = c->in[0];
    tensor_t b, *out = c->out[0];
    status_t status = align(c, &b);
    if (status != STATUS_OK)
        return status;
    walk_t w;
    for (bool more = walk_begin(&w, out, (const tensor_t *const[]){a, &b}, 2); more; more = walk_next(&w))
        for (size_t i = 0; i < w.row; i++)
            power(a, (size_t)(w.offset[0] + (int64_t)i * w.step[0]), &b,
                  (size_t)(w.offset[1] + (int64_t)i * w.step[1]), out, w.out + i);
    return STATUS_OK;
}

static status_t infer_variadic(op_ctx_t *c)
{
    tensor_t all = *c->in[0];
    for (uint32_t i = 1; i < c->in_count; i++) {
        if (!c->in[i] || c->in[i]->dtype != all.dtype)
            return op_bad(c, "operand %u is missing or of another type", i);
        status_t status = op_broadcast(c, &all, c->in[i], &all);
        if (status != STATUS_OK)
            return status;
    }
    return op_set_like(c, 0, &all);
}

/* The first two operands go to the result, each further one is folded in; the result never aliases an operand. */
static status_t fold(op_ctx_t *c, const binary_t *op)
{
    int kind = kind_of(c->in[0]->dtype);
    if (kind < 0 || !op->row[kind])
        return op_unsupported(c, "element type %s is not supported", dtype_name(c->in[0]->dtype));
    tensor_t *out = c->out[0];
    if (c->in_count == 1) {
        memcpy(out->data, c->in[0]->data, tensor_bytes(out));
        return STATUS_OK;
    }
    run_rows(op->row[kind], c->in[0], c->in[1], out);
    if (c->in_count == 2)
        return STATUS_OK;
    blob_t *copy = blob_create(tensor_bytes(out));
    if (!copy)
        return err_set(c->err, STATUS_NO_MEMORY, "no memory for an intermediate result");
    for (uint32_t i = 2; i < c->in_count; i++) {
        tensor_t so_far = *out;
        so_far.data = memcpy(blob_data(copy), out->data, tensor_bytes(out));
        run_rows(op->row[kind], &so_far, c->in[i], out);
    }
    blob_unref(copy);
    return STATUS_OK;
}

static status_t eval_fold(op_ctx_t *c)
{
    return fold(c, c->node->op->aux);
}

static status_t eval_mean(op_ctx_t *c)
{
    status_t status = fold(c, &add);
    if (status != STATUS_OK || c->in[0]->dtype != DTYPE_F32)
        return status == STATUS_OK ? op_unsupported(c, "only float32 is supported") : status;
    float *out = c->out[0]->data;
    for (size_t i = 0, n = tensor_count(c->out[0]); i < n; i++)
        out[i] /= (float)c->in_count;
    return STATUS_OK;
}

/* Additions alone may follow another operator. */
#define ELEMENTWISE(ew) \
    .rows.kind = ROWS_KEPT, .function.op = ew, .tail = (ew) == EW_ADD ? EPILOGUE_ADD : EPILOGUE_NONE
#define BINARY(name, aux, ew)                                                                             \
    {                                                                                                     \
        name, 2, 2, 1, 1, 0, infer_binary, eval_binary, &aux, NULL, 0, .kind = OP_BINARY, ELEMENTWISE(ew) \
    }
#define FOLD(name, aux, ew)                                                                               \
    {                                                                                                     \
        name, 1, 255, 1, 1, 0, infer_variadic, eval_fold, &aux, NULL, 0, .kind = OP_FOLD, ELEMENTWISE(ew) \
    }

const op_t ops_binary[] = {
    BINARY("Add", add, EW_ADD),
    BINARY("And", logical_and, EW_AND),
    {"BitShift", 2, 2, 1, 1, 0, infer_binary, eval_shift, &shift_left, NULL, 0, .rows.kind = ROWS_KEPT},
    BINARY("BitwiseAnd", bit_and, EW_NONE),
    BINARY("BitwiseOr", bit_or, EW_NONE),
    BINARY("BitwiseXor", bit_xor, EW_NONE),
    BINARY("Div", division, EW_DIV),
    BINARY("Equal", equal, EW_EQUAL),
    BINARY("Greater", greater, EW_GREATER),
    BINARY("GreaterOrEqual", greater_equal, EW_GREATER_EQUAL),
    BINARY("Less", less, EW_LESS),
    BINARY("LessOrEqual", less_equal, EW_LESS_EQUAL),
    FOLD("Max", max, EW_MAX),
    {"Mean", 1, 255, 1, 1, 0, infer_variadic, eval_mean, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_MEAN},
    FOLD("Min", min, EW_MIN),
    {"Mod", 2, 2, 1, 1, 0, infer_binary, eval_mod, &modulo, NULL, 0, .rows.kind = ROWS_KEPT},
    BINARY("Mul", mul, EW_MUL),
    BINARY("Or", logical_or, EW_OR),
    {"PRelu", 2, 2, 1, 1, 0, infer_prelu, eval_prelu, NULL, NULL, 0, .rows.kind = ROWS_KEPT,
     .kind = OP_PRELU},
    {"Pow", 2, 2, 1, 1, 0, infer_pow, eval_pow, NULL, NULL, 0, .rows.kind = ROWS_KEPT, .kind = OP_POW},
    BINARY("Sub", sub, EW_SUB),
    FOLD("Sum", add, EW_ADD),
    BINARY("Xor", logical_xor, EW_XOR),
    {.name = NULL},
};
