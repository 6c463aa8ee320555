#include "engine/onednn/lower/supports.h"

/* What may follow an operator in its own primitive. */
typedef enum {
    TAILS_NONE,
    TAILS_RELU, /* one ReLU alone */
    TAILS_ALL,  /* one addition, and every function that is a post-op */
} tails_t;

static const struct {
    lower_fn lower;
    tails_t tails;
} supported[OP_KINDS] = {
    [OP_AVERAGE_POOL] = {lower_pool, TAILS_NONE},
    [OP_BATCH_NORM] = {lower_batch_norm, TAILS_RELU},
    [OP_BINARY] = {lower_binary, TAILS_NONE},
    [OP_CLIP] = {lower_clip, TAILS_NONE},
    [OP_CONCAT] = {lower_concat, TAILS_NONE},
    [OP_CONV] = {lower_conv, TAILS_ALL},
    [OP_CONV_TRANSPOSE] = {lower_conv_transpose, TAILS_NONE},
    [OP_FOLD] = {lower_binary, TAILS_NONE},
    [OP_GEMM] = {lower_gemm, TAILS_ALL},
    [OP_GLOBAL_AVERAGE_POOL] = {lower_global_pool, TAILS_NONE},
    [OP_GLOBAL_MAX_POOL] = {lower_global_pool, TAILS_NONE},
    [OP_IDENTITY] = {lower_identity, TAILS_NONE},
    [OP_LAYER_NORM] = {lower_layer_norm, TAILS_NONE},
    [OP_LINEAR] = {lower_matmul, TAILS_ALL},
    [OP_LOG_SOFTMAX] = {lower_softmax, TAILS_NONE},
    [OP_MATMUL] = {lower_matmul, TAILS_ALL},
    [OP_MAX_POOL] = {lower_pool, TAILS_NONE},
    [OP_PAD] = {lower_pad, TAILS_NONE},
    [OP_POW] = {lower_power, TAILS_NONE},
    [OP_RESHAPE] = {lower_reshape, TAILS_NONE},
    [OP_RESIZE] = {lower_resize, TAILS_NONE},
    [OP_SOFTMAX] = {lower_softmax, TAILS_NONE},
    [OP_TRANSPOSE] = {lower_transpose, TAILS_NONE},
    [OP_UNARY] = {lower_unary, TAILS_NONE},
};

lower_fn onednn_supports_op(const op_t *op)
{
    return supported[op->kind].lower;
}

static bool has_sum(const node_t *node)
{
    for (uint32_t i = 0; i < node->epilogue_count; i++)
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            return true;
    return false;
}

/* A sum of more than one operand would need the destination twice. */
bool onednn_supports_epilogue(const graph_t *graph, const node_t *host, const epilogue_t *tail)
{
    if (host->out_count != 1 || graph->values[host->out[0]].t.dtype != DTYPE_F32)
        return false;
    switch (supported[host->op->kind].tails) {
    case TAILS_RELU:
        return tail->kind == EPILOGUE_UNARY && tail->function.op == EW_RELU && !host->epilogue_count;
    case TAILS_ALL:
        return tail->kind == EPILOGUE_ADD ? !has_sum(host) && !graph->values[tail->value].t.data
                                          : lower_eltwise(&tail->function).count > 0;
    default:
        return false;
    }
}
