/*
 * Which constants are weights and nothing else, so that an engine that has them in a layout of its own needs them in no other.
 */
#ifndef GRAPH_PASSES_WEIGHTS_H
#define GRAPH_PASSES_WEIGHTS_H

#include "graph/ir/graph.h"

/*
 * On a template, with all passes done: weights[v] says of each value that it is a constant that nodes read as operand 1 of a product or
 * a convolution alone, whose operand 0 comes of the inputs' contents. No pass on an instance looks into it, whatever the shapes. The
 * array has value_count elements.
 */
status_t graph_find_weights(const graph_t *graph, bool *weights, err_t *err);

#endif
