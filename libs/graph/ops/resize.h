/*
 * What Resize and Upsample do, where it can be said by the centres of pixels: position i of a dimension lies at
 * (i + 1/2)·in/out − 1/2 of the input, whose edges go on. Libraries of kernels mean just that by resampling.
 */
#ifndef GRAPH_OPS_RESIZE_H
#define GRAPH_OPS_RESIZE_H

#include "graph/ops/op.h"

typedef enum {
    RESIZE_OTHERWISE,
    RESIZE_NEAREST, /* the input at that place, rounded as roundf does it in single precision */
    RESIZE_LINEAR,  /* what lies around that place, by distance */
} resize_kind_t;

/* Of a node with valid inputs, whose scales or sizes are known. */
resize_kind_t resize_by_centres(op_ctx_t *c);

#endif
