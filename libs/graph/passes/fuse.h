/*
 * Rewrites that keep the meaning and make graphs cheaper to run.
 */
#ifndef GRAPH_PASSES_FUSE_H
#define GRAPH_PASSES_FUSE_H

#include "graph/ir/graph.h"

/*
 * On a template: batch normalisations, and products, sums and differences with a constant for each channel
 * (what exporters of TensorFlow leave of them), vanish into the convolution before them, and padding with
 * zeros into the one behind it. Needs no shapes.
 */
status_t graph_fold_batch_norms(graph_t *graph, err_t *err);

/*
 * On an instance: padding that was computed from a shape vanishes into the convolution behind it, and a mean
 * over all of a picture becomes the pool that it is.
 */
status_t graph_fold_shaped(graph_t *graph, err_t *err);

/*
 * On a template: spelled-out operators become the operator they spell (GELU, SiLU, LayerNormalization), and a
 * product with constant weights takes up the bias behind it. Needs no shapes but those of constants.
 */
status_t graph_recognise(graph_t *graph, err_t *err);

/*
 * On an instance: an addition or an activation becomes the epilogue of the node that makes its input, when
 * nobody else reads that. `allow` says what the engine can do: whether `tail` may be appended to `host`.
 */
typedef bool (*graph_allow_fn)(const graph_t *graph, const node_t *host, const epilogue_t *tail);
status_t graph_fuse_epilogues(graph_t *graph, graph_allow_fn allow, err_t *err);

#endif
