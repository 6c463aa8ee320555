/*
 * Sizes to try a model with whose dimensions vary. One size for all of them does for most; where they depend on one another (words
 * that were and words that come make the length of a mask) some have to be twice as large, one larger, or 1. Which, only trying
 * shows: fit_first, then fit_next as long as the model refuses, and what it takes at one size it takes at another.
 */
#ifndef ENGINE_COMPILE_FIT_H
#define ENGINE_COMPILE_FIT_H

#include "engine/engine.h"

enum { FIT_AXES_MAX = 8 }; /* with more, only one size for all is tried */

typedef enum { FIT_SAME, FIT_DOUBLE, FIT_ONE_MORE, FIT_ONE } fit_kind_t;

/* To see what varies, every axis has to follow the size. To measure, one step of what goes on (one word, behind those that were)
 * comes first: it is what such models are asked most. */
typedef enum { FIT_TO_DESCRIBE, FIT_TO_MEASURE } fit_purpose_t;

typedef struct {
    fit_purpose_t purpose;
    uint32_t axis_count, step;
    fit_kind_t kinds[FIT_AXES_MAX];
} fit_t;

void fit_first(fit_t *fit, fit_purpose_t purpose, uint32_t axis_count);
/* The next pattern, of at most 2 n² + n + 1; false: that was the last, and it is the first again. */
bool fit_next(fit_t *fit);
int64_t fit_size(const fit_t *fit, uint32_t axis, int64_t size);

/* The axes of a list of inputs: dimensions of one name are one. */
typedef struct {
    uint32_t count;
    uint32_t of[ENGINE_MAX_IO][ENGINE_MAX_RANK]; /* 1 + axis; 0: does not vary */
} fit_axes_t;

/* lead: the first dimensions that are left out, 1 where they are the batch. */
void fit_axes(fit_axes_t *axes, const engine_tensor_t *inputs, uint32_t count, uint32_t lead);

#endif
