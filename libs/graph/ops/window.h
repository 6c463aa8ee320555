/*
 * The geometry that convolutions and pools share: kernel, strides, dilations and padding per spatial dimension.
 */
#ifndef GRAPH_OPS_WINDOW_H
#define GRAPH_OPS_WINDOW_H

#include "graph/ops/op.h"

enum { WINDOW_MAX_DIMS = 3 };

typedef struct {
    uint32_t dims; /* spatial: 1..3 */
    int64_t in[WINDOW_MAX_DIMS], out[WINDOW_MAX_DIMS], kernel[WINDOW_MAX_DIMS];
    int64_t stride[WINDOW_MAX_DIMS], dilation[WINDOW_MAX_DIMS];
    int64_t before[WINDOW_MAX_DIMS]; /* padding; negative padding crops */
    int64_t after[WINDOW_MAX_DIMS];  /* as written; ceil_mode may read further */
} window_t;

/* Reads the attributes (strides, dilations, pads, auto_pad, ceil_mode) and computes the result's size.
 * kernel is set. */
status_t window_read(op_ctx_t *c, window_t *w, const int64_t *kernel);

/* The same for ConvTranspose (output_padding, output_shape). */
status_t window_read_transposed(op_ctx_t *c, window_t *w, const int64_t *kernel);

#endif
