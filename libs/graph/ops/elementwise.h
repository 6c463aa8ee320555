/*
 * Functions that go through tensors element by element, named once: for the operator table, the rewrites and both
 * engines. In the common part of C and CUDA; nothing here computes.
 */
#ifndef GRAPH_OPS_ELEMENTWISE_H
#define GRAPH_OPS_ELEMENTWISE_H

/*
 * The operators that are a function of one element x:
 *     X(name of the function, of the operator, its kernel eval_..., expression in x, a and b,
 *       attribute that a is, its default, attribute that b is, its default)
 * An entry is all that the operator table, the reference kernels and oneDNN's plans need to run it; libs/engine/cuda
 * computes what kernel_body.h has a case for. First those that every type has:
 */
#define EW_FUNCTIONS_OF_ANY_TYPE(X)                              \
    X(ABS, "Abs", signed, fabs(x), NULL, 0, NULL, 0)             \
    X(NEG, "Neg", signed, -x, NULL, 0, NULL, 0)                  \
    X(SIGN, "Sign", signed, (x > 0) - (x < 0), NULL, 0, NULL, 0) \
    X(RELU, "Relu", signed, x > 0 ? x : 0 * x, NULL, 0, NULL, 0)

/* And those of floating point. T is the type in which it is computed. */
/* clang-format off */
#define EW_FUNCTIONS_OF_FLOATS(X) \
    X(ACOS, "Acos", float, acos(x), NULL, 0, NULL, 0) \
    X(ACOSH, "Acosh", float, acosh(x), NULL, 0, NULL, 0) \
    X(ASIN, "Asin", float, asin(x), NULL, 0, NULL, 0) \
    X(ASINH, "Asinh", float, asinh(x), NULL, 0, NULL, 0) \
    X(ATAN, "Atan", float, atan(x), NULL, 0, NULL, 0) \
    X(ATANH, "Atanh", float, atanh(x), NULL, 0, NULL, 0) \
    X(CEIL, "Ceil", float, ceil(x), NULL, 0, NULL, 0) \
    X(CELU, "Celu", float, x < 0 ? a * expm1(x / a) : x, "alpha", 1, NULL, 0) \
    X(COS, "Cos", float, cos(x), NULL, 0, NULL, 0) \
    X(COSH, "Cosh", float, cosh(x), NULL, 0, NULL, 0) \
    X(ELU, "Elu", float, x < 0 ? a * expm1(x) : x, "alpha", 1, NULL, 0) \
    X(ERF, "Erf", float, erf(x), NULL, 0, NULL, 0) \
    X(EXP, "Exp", float, exp(x), NULL, 0, NULL, 0) \
    X(FLOOR, "Floor", float, floor(x), NULL, 0, NULL, 0) \
    X(GELU_ERF, "Gelu", float, x * (1 + erf(x * (T)M_SQRT1_2)) / 2, NULL, 0, NULL, 0) \
    X(HARDSIGMOID, "HardSigmoid", float, fmax((T)0, fmin((T)1, a * x + b)), "alpha", 0.2, "beta", 0.5) \
    X(HARDSWISH, "HardSwish", float, x * fmax((T)0, fmin((T)1, x / 6 + (T)0.5)), NULL, 0, NULL, 0) \
    X(LEAKY_RELU, "LeakyRelu", float, x < 0 ? a * x : x, "alpha", 0.01, NULL, 0) \
    X(LOG, "Log", float, log(x), NULL, 0, NULL, 0) \
    X(MISH, "Mish", float, x * tanh(x > 20 ? x : log1p(exp(x))), NULL, 0, NULL, 0) \
    X(RECIPROCAL, "Reciprocal", float, 1 / x, NULL, 0, NULL, 0) \
    X(ROUND, "Round", float, rint(x), NULL, 0, NULL, 0) \
    X(SELU, "Selu", float, b * (x < 0 ? a * expm1(x) : x), "alpha", 1.67326319217681884765625, \
      "gamma", 1.05070102214813232421875) \
    X(SHRINK, "Shrink", float, x < -a ? x + b : x > a ? x - b : 0, "lambd", 0.5, "bias", 0) \
    X(SIGMOID, "Sigmoid", float, 1 / (1 + exp(-x)), NULL, 0, NULL, 0) \
    X(SIN, "Sin", float, sin(x), NULL, 0, NULL, 0) \
    X(SINH, "Sinh", float, sinh(x), NULL, 0, NULL, 0) \
    X(SOFTPLUS, "Softplus", float, x > 20 ? x : log1p(exp(x)), NULL, 0, NULL, 0) \
    X(SOFTSIGN, "Softsign", float, x / (1 + fabs(x)), NULL, 0, NULL, 0) \
    X(SQRT, "Sqrt", float, sqrt(x), NULL, 0, NULL, 0) \
    X(SWISH, "Swish", float, x / (1 + exp(-a * x)), "alpha", 1, NULL, 0) \
    X(TAN, "Tan", float, tan(x), NULL, 0, NULL, 0) \
    X(TANH, "Tanh", float, tanh(x), NULL, 0, NULL, 0) \
    X(THRESHOLDED_RELU, "ThresholdedRelu", float, x > a ? x : 0, "alpha", 1, NULL, 0)
/* clang-format on */

typedef enum {
    EW_NONE, /* not a function that anybody knows by more than its kernel */
    EW_ADD,  /* two operands, from here */
    EW_SUB,
    EW_RSUB, /* the second less the first */
    EW_MUL,
    EW_DIV,
    EW_RDIV,
    EW_MAX,
    EW_MIN,
    EW_EQUAL,
    EW_LESS,
    EW_LESS_EQUAL,
    EW_GREATER,
    EW_GREATER_EQUAL,
    EW_AND,
    EW_OR,
    EW_XOR,
    EW_SELECT, /* the first ? the second : one more */
    EW_PRELU,
    EW_POW, /* the last of two operands; floating point only */
#define EW_NAME(name, ...) EW_##name,
    EW_FUNCTIONS_OF_ANY_TYPE(EW_NAME) /* EW_ABS first */
    EW_NOT,
    EW_CLIP,     /* to [a, b] */
    EW_IDENTITY, /* the last that every type has */
    EW_FUNCTIONS_OF_FLOATS(EW_NAME)
#undef EW_NAME
        EW_GELU_TANH, /* Gelu with approximate = tanh */
    EW_LINEAR,        /* a·x + b */
    EW_IS_NAN,
    EW_IS_INF, /* a: count +inf, b: count -inf */
    EW_COUNT
} ew_op_t;

/* A function of one element with its parameters. */
typedef struct {
    ew_op_t op;
    double a, b;
} ew_call_t;

#endif
