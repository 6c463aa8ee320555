#include "engine/cuda/lower/supports.h"

enum { ANY = 255 };

static const struct {
    lower_fn lower;
    uint8_t hosts; /* an epilogue, where it has at most so many operands */
} supported[OP_KINDS] = {
    [OP_ARG_MAX] = {lower_arg, 0},
    [OP_ARG_MIN] = {lower_arg, 0},
    [OP_AVERAGE_POOL] = {lower_pool, 0},
    [OP_BATCH_NORM] = {lower_batch_norm, ANY},
    [OP_BINARY] = {lower_binary, 2},
    [OP_CAST] = {lower_cast, 0},
    [OP_CLIP] = {lower_clip, 1},
    [OP_CONCAT] = {lower_concat, 0},
    [OP_CONV] = {lower_conv, ANY},
    [OP_CONV_TRANSPOSE] = {lower_conv_transpose, ANY},
    [OP_DEPTH_TO_SPACE] = {lower_depth_to_space, 0},
    [OP_EXPAND] = {lower_expand, 0},
    [OP_FOLD] = {lower_binary, 2},
    [OP_GATHER] = {lower_gather, 0},
    [OP_GATHER_ELEMENTS] = {lower_gather_elements, 0},
    [OP_GEMM] = {lower_gemm, ANY},
    [OP_GLOBAL_AVERAGE_POOL] = {lower_global_pool, 0},
    [OP_GLOBAL_MAX_POOL] = {lower_global_pool, 0},
    [OP_IDENTITY] = {lower_reshape, 0},
    [OP_INSTANCE_NORM] = {lower_instance_norm, 0},
    [OP_IS_INF] = {lower_is_inf, 0},
    [OP_IS_NAN] = {lower_is_nan, 0},
    [OP_LAYER_NORM] = {lower_layer_norm, 0},
    [OP_LINEAR] = {lower_matmul, ANY}, /* a MatMul with a bias, see libs/graph/passes/recognise.c */
    [OP_LOG_SOFTMAX] = {lower_softmax, 0},
    [OP_LP_POOL] = {lower_pool, 0},
    [OP_MATMUL] = {lower_matmul, ANY},
    [OP_MAX_POOL] = {lower_pool, 0},
    [OP_MEAN] = {lower_binary, 0},
    [OP_NOT] = {lower_not, 0},
    [OP_PAD] = {lower_pad, 0},
    [OP_POW] = {lower_power, 0},
    [OP_PRELU] = {lower_prelu, 0},
    [OP_REDUCE_L1] = {lower_reduce, 0},
    [OP_REDUCE_L2] = {lower_reduce, 0},
    [OP_REDUCE_LOG_SUM] = {lower_reduce, 0},
    [OP_REDUCE_LOG_SUM_EXP] = {lower_reduce, 0},
    [OP_REDUCE_MAX] = {lower_reduce, 0},
    [OP_REDUCE_MEAN] = {lower_reduce, 0},
    [OP_REDUCE_MIN] = {lower_reduce, 0},
    [OP_REDUCE_PROD] = {lower_reduce, 0},
    [OP_REDUCE_SUM] = {lower_reduce, 0},
    [OP_REDUCE_SUM_SQUARE] = {lower_reduce, 0},
    [OP_RESHAPE] = {lower_reshape, 0},
    [OP_SLICE] = {lower_slice, 0},
    [OP_SOFTMAX] = {lower_softmax, 0},
    [OP_SPACE_TO_DEPTH] = {lower_space_to_depth, 0},
    [OP_SPLIT] = {lower_split, 0},
    [OP_TILE] = {lower_tile, 0},
    [OP_TRANSPOSE] = {lower_transpose, 0},
    [OP_UNARY] = {lower_unary, 1},
    [OP_WHERE] = {lower_where, 0},
};

lower_fn cuda_supports_op(const op_t *op)
{
    return supported[op->kind].lower;
}

static bool is_float(const graph_t *graph, int32_t value)
{
    return value < 0 || graph->values[value].t.dtype == DTYPE_F32;
}

/* A node that its kernel on the GPU refuses runs on the CPU, where nothing can follow it. */
static bool is_refused(const graph_t *graph, const node_t *host)
{
    const attr_t *training = node_attr(host, "training_mode");
    bool refused = lower_is_old_broadcast(host) || (training && training->i);
    for (uint32_t i = 1; op_is(host, OP_BATCH_NORM) && i < 5; i++)
        refused |= !graph->values[host->in[i]].t.data;
    bool function = op_is(host, OP_UNARY) || op_is(host, OP_BINARY) || op_is(host, OP_FOLD);
    return refused || (function && !host->op->function.op);
}

/* Any addition and every function of one element can follow; it is the host that can or cannot. */
bool cuda_supports_epilogue(const graph_t *graph, const node_t *host, const epilogue_t *tail)
{
    uint8_t operands = supported[host->op->kind].hosts;
    (void)tail;
    if (!operands || host->in_count > operands || host->out_count != 1 || !is_float(graph, host->out[0]) ||
        is_refused(graph, host))
        return false;
    for (uint32_t i = 0; i < host->in_count; i++)
        if (!is_float(graph, host->in[i]))
            return false;
    return true;
}
