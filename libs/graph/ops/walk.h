/*
 * Walks the elements of a result row by row while the operands are broadcast: the strides of an operand are 0 where it
 * repeats. Neighbouring dimensions that all operands run through alike are merged, so rows are as long as can be.
 */
#ifndef GRAPH_OPS_WALK_H
#define GRAPH_OPS_WALK_H

#include "graph/ir/tensor.h"

enum { WALK_MAX_OPERANDS = 3 };

typedef struct {
    uint32_t rank, operands;
    int64_t dims[TENSOR_MAX_RANK + 1];
    int64_t strides[WALK_MAX_OPERANDS][TENSOR_MAX_RANK + 1]; /* in elements */
    int64_t at[TENSOR_MAX_RANK + 1];
    int64_t offset[WALK_MAX_OPERANDS]; /* of the row, in elements */
    size_t out;                        /* first element of the row in the result */
    size_t row;                        /* length of a row */
    int64_t step[WALK_MAX_OPERANDS];   /* within a row */
} walk_t;

/* False when the result is empty. */
bool walk_begin(walk_t *w, const tensor_t *out, const tensor_t *const *operands, uint32_t count);
bool walk_next(walk_t *w);

/* for (bool more = walk_begin(…); more; more = walk_next(&w)) … */

#endif
