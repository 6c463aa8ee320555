/*
 * Views: tensors as strides over a buffer. Transpose, Slice, Split, Expand and most Reshapes only make
 * another view, and no kernel runs; a copy is made when a reader needs the elements dense.
 */
#ifndef ENGINE_CUDA_LOWER_VIEW_H
#define ENGINE_CUDA_LOWER_VIEW_H

#include "engine/cuda/device/kernel_args.h"
#include "graph/ir/tensor.h"

typedef struct {
    uint32_t buffer;
    dtype_t dtype; /* of what is stored, which is not always what the graph says (see lower.h) */
    uint32_t rank;
    int64_t offset; /* of element (0, …, 0) in the buffer, in elements */
    int64_t dims[TENSOR_MAX_RANK], strides[TENSOR_MAX_RANK];
} view_t;

/* How a dense tensor lies: row-major, or with the channels (dimension 1) innermost. */
typedef enum { LAYOUT_PLAIN, LAYOUT_CHANNELS_LAST } layout_kind_t;

int64_t view_count(const view_t *v);

/* Sets the strides of a dense tensor. */
void view_set_layout(view_t *v, layout_kind_t layout);
bool view_is(const view_t *v, layout_kind_t layout);
/* Dense in some order of its dimensions: an elementwise result may take over such strides. */
bool view_is_dense(const view_t *v);

/* Numpy's broadcasting: dimensions in front, and of size 1, get stride 0. False when the shapes do not go together. */
bool view_broadcast(const view_t *v, uint32_t rank, const int64_t *dims, view_t *out);

/* The same elements under other dims, when strides can say it. */
bool view_reshape(const view_t *v, uint32_t rank, const int64_t *dims, view_t *out);

/* out dimension d is dimension perm[d]. */
void view_permute(const view_t *v, const uint32_t *perm, view_t *out);

/* Count elements of dimension d from `start` on, every step-th. */
void view_slice(view_t *v, uint32_t d, int64_t start, int64_t count, int64_t step);

/* The lowest and one past the highest element that a view touches stay within 32 bits. */
bool view_fits(const view_t *v);

/*
 * The space of a kernel that treats every element alike: dims of one are dropped, dims are ordered by the strides of
 * views[0] and merged where all views run through them alike. Fills k[i].strides and k[i].dtype.
 */
void view_collapse(const view_t *const *views, uint32_t count, k_space_t *space, k_view_t *const *k);

/* The space as it is, for kernels that look at single dimensions. */
void view_space(const view_t *v, k_space_t *space);
void view_strides(const view_t *v, k_view_t *k);

#endif
