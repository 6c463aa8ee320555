/* The operator tables, one per file of libs/graph/ops, each closed by an empty entry. */
#ifndef GRAPH_OPS_TABLES_H
#define GRAPH_OPS_TABLES_H

#include "graph/ops/op.h"

extern const op_t ops_unary[], ops_binary[], ops_shape[], ops_move[], ops_cast[], ops_gather[], ops_scatter[],
    ops_reduce[], ops_softmax[], ops_conv[], ops_pool[], ops_norm[], ops_matmul[], ops_quant[], ops_resize[],
    ops_loss[], ops_select[], ops_pad[], ops_rnn[], ops_vision[], ops_einsum[], ops_signal[], ops_attention[],
    ops_col2im[];

static const op_t *const op_tables[] = {
    ops_unary,  ops_binary, ops_shape,   ops_move,   ops_cast,   ops_pad,       ops_conv,   ops_pool,
    ops_norm,   ops_matmul, ops_softmax, ops_gather, ops_reduce, ops_select,    ops_quant,  ops_loss,
    ops_resize, ops_einsum, ops_vision,  ops_rnn,    ops_signal, ops_attention, ops_col2im,
};

enum { OP_TABLES = sizeof op_tables / sizeof op_tables[0] };

#endif
