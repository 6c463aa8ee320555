/* Sums of float32 over axes, by runs of what lies together; in double, as ops/reduce.c has them of other types. */
#ifndef GRAPH_OPS_SUM_H
#define GRAPH_OPS_SUM_H

#include "graph/ir/tensor.h"

/* y, with all its elements, of x over the axes in `mask` (a bit each), divided by `count`. */
void sum_f32(const tensor_t *x, unsigned mask, double count, float *y);

#endif
