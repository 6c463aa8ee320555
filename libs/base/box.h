/*
 * Boxes in row-major arrays: how a tensor is laid into the corner of a larger one and taken out again. Pure.
 */
#ifndef BASE_BOX_H
#define BASE_BOX_H

#include <stddef.h>
#include <stdint.h>

/* BFLOAT: the upper half of an IEEE single. */
typedef enum { BOX_BOOL, BOX_UNSIGNED, BOX_SIGNED, BOX_FLOAT, BOX_BFLOAT } box_kind_t;

typedef struct {
    box_kind_t kind;
    size_t bytes; /* 1, 2, 4 or 8; of a float not 1 */
} box_element_t;

/* Copies the corner `box` of `from` into the corner of `to`; each has `rank` dims, and the box fits both. The two may be
 * the same memory when `to` is nowhere larger than `from`. */
void box_copy(void *to, const int64_t *to_dims, const void *from, const int64_t *from_dims,
              const int64_t *box, uint32_t rank, size_t element_bytes);

/* count elements of this value, as near as the type has it. */
void box_fill(void *to, uint64_t count, box_element_t type, double value);

#endif
