/*
 * Copies between strided layouts of elements of any size: what Transpose, Slice, Concat, Pad, Expand and Tile
 * are made of.
 */
#ifndef GRAPH_OPS_STRIDED_H
#define GRAPH_OPS_STRIDED_H

#include "graph/ir/tensor.h"

/* to[i·to_strides] = from[i·from_strides] for all i below dims; strides in elements, size = bytes of an element. */
void strided_copy(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides,
                  uint32_t rank, const int64_t *dims, size_t size);

#endif
