/*
 * What this engine has primitives for. Everything else runs by the kernel of the operator table, as a step of the plan.
 */
#ifndef ENGINE_ONEDNN_LOWER_SUPPORTS_H
#define ENGINE_ONEDNN_LOWER_SUPPORTS_H

#include "engine/onednn/lower/lower.h"

/* Adds the steps of one node, or answers UNSUPPORTED before it has added any. */
typedef status_t (*lower_fn)(lower_t *l, const node_t *node);

/* NULL: the engine does not take the operator. One that it takes may still refuse a node for its types or attributes. */
lower_fn onednn_supports_op(const op_t *op);

/* Whether what follows can be part of the host's primitive: for graph_fuse_epilogues. */
bool onednn_supports_epilogue(const graph_t *graph, const node_t *host, const epilogue_t *tail);

#endif
