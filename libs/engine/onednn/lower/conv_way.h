/*
 * By which kernel, and from which layout, a convolution is computed.
 *
 *   direct     the layout in hand where that is in blocks of channels and oneDNN has a kernel for it, else what oneDNN likes best
 *              (channels last): what is in blocks stays so, as a reorder costs as much as a small convolution
 *   Winograd   3x3, stride 1: a fourth of the products (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015,
 *              section 4), in blocks of channels, with weights of up to four times the size
 *
 * Where there is more than one, they are tried once for each shape (trial.h), with the reorder in front and the rest of the epilogue
 * behind. Large batches are as small ones: what is tried is at most TRIED_OPS operations, and eight rows.
 */
#ifndef ENGINE_ONEDNN_LOWER_CONV_WAY_H
#define ENGINE_ONEDNN_LOWER_CONV_WAY_H

#include "engine/onednn/lower/lower.h"
#include "graph/ops/window.h"

typedef struct {
    window_t w;
    int64_t groups;
    uint32_t rank;
    dnnl_dims_t weight_dims, strides, dilates, before, after;
    uint32_t weight_rank;
    bool transposed;
} conv_t;

typedef struct {
    dnnl_primitive_desc_t pd;
    uint32_t fused; /* entries of the epilogue that are in it */
    int32_t sum;    /* the value onto which it adds; -1: none */
} conv_made_t;

/* UNSUPPORTED: oneDNN has none. The caller's: made->pd. */
status_t conv_make(lower_t *l, const node_t *node, const conv_t *c, conv_made_t *made);

/* What has been chosen for a model: of all its plans. */
typedef struct conv_choice conv_choice_t;

struct conv_choices {
    pthread_mutex_t choosing; /* held while ways are tried */
    conv_choice_t *first;
};

void conv_choices_init(conv_choices_t *choices);
void conv_choices_dispose(conv_choices_t *choices);

#endif
