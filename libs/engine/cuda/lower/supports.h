/*
 * What this engine has kernels for. Everything else runs on the CPU, by the kernel of the operator table.
 */
#ifndef ENGINE_CUDA_LOWER_SUPPORTS_H
#define ENGINE_CUDA_LOWER_SUPPORTS_H

#include "engine/cuda/lower/lower.h"

/* Adds the steps of one node, or answers UNSUPPORTED before it has added any. */
typedef status_t (*lower_fn)(lower_t *l, const node_t *node);

/* NULL: the engine does not take the operator. One that it takes may still refuse a node for its types or attributes. */
lower_fn cuda_supports_op(const op_t *op);

/* Whether the steps of the host can do what follows: for graph_fuse_epilogues. */
bool cuda_supports_epilogue(const graph_t *graph, const node_t *host, const epilogue_t *tail);

#endif
