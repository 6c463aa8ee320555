/*
 * Rows of different sizes in one batch: each input row is padded to the sizes of the batch, and each output row cut back
 * to its own. Of axes that can be padded on the worker (axes_can_pad); `sizes` nest in `wide` (axes_nest). Pure.
 */
#ifndef WORKER_PADS_H
#define WORKER_PADS_H

#include "model/parts/axes.h"

/* Copies a row of `sizes` of an input to where one of `wide` is to lie; what is beyond it has the input's pad value. */
void pads_lay(const axes_t *axes, uint32_t input, const uint32_t *sizes, const uint32_t *wide,
              const void *from, void *to);

/* In *cut the shape that an output would have had of rows of `sizes` when it came out in `shape` of rows of `wide`.
 * INTERNAL: it has another size where it should follow an axis, so what is padding is not known. An output that is not the
 * model's at all stays as it is: that is for axes_output_fits to say. */
status_t pads_cut_shape(const axes_t *axes, uint32_t output, const uint32_t *sizes, const uint32_t *wide,
                        const engine_shape_t *shape, engine_shape_t *cut, err_t *err);

/* Copies such a row of an output, without the padding. */
void pads_cut(const axes_t *axes, uint32_t output, const uint32_t *sizes, const uint32_t *wide,
              const void *from, void *to);

#endif
