/*
 * Where a graph can be cut, and what is alive there.
 *
 * A cut lies before a node of an instance, 0 < op < node_count. It is allowed where everything that is alive
 * (made before it and read behind it, inputs included) is *batch-major*: the rows of the batch lie one after
 * the other. Rows can then be put beside each other and taken apart at the cut. That is found out by
 * comparing instances of two batch sizes.
 */
#ifndef GRAPH_PASSES_CUTS_H
#define GRAPH_PASSES_CUTS_H

#include "graph/ir/graph.h"

enum {
    CUTS_MAX_OPS = 20000, /* larger graphs are not looked at: nobody cuts an operator out of so many */
    CUTS_MAX_ALIVE = 64,  /* tensors at a cut; a cut with more would mostly copy */
};

typedef struct {
    uint32_t op;
    const int32_t *values; /* alive, rising */
    uint32_t value_count;
} graph_cut_t;

typedef struct {
    uint32_t ops;
    graph_cut_t *cuts; /* rising */
    uint32_t cut_count;
    int32_t *values;
    uint64_t signature; /* of the instances: see cuts_signature */
} graph_cuts_t;

/*
 * small and large: instances of one template for batches of b and b + 1, with all passes done; both the same
 * when there is no batch (the whole tensor is the one row). UNSUPPORTED says why there is no cut at all. Free
 * with cuts_dispose.
 */
status_t cuts_find(const graph_t *small, const graph_t *large, graph_cuts_t *cuts, err_t *err);
void cuts_dispose(graph_cuts_t *cuts); /* one of all zeros is fine */

/* The same for instances that have the same nodes in the same order on the same values: their cuts are the same. */
uint64_t cuts_signature(const graph_t *instance);

#endif
