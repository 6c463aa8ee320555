/*
 * Boxes in row-major arrays: how a tensor is laid into the corner of a larger one and taken out again.
 */
#ifndef GATEWAY_BOX_H
#define GATEWAY_BOX_H

#include "oip/tensor.h"

/* Copies the corner `box` of `from` into the corner of `to`. All have the same rank; the box fits both.
 * The two may be the same memory when `to` is nowhere larger than `from`. */
void box_copy(uint8_t *to, const oip_shape_t *to_shape, const uint8_t *from, const oip_shape_t *from_shape,
              const oip_shape_t *box, size_t element_bytes);

/* count elements of this value, as near as the type has it. */
void box_fill(uint8_t *to, uint64_t count, oip_datatype_t type, double value);

#endif
