/*
 * What becomes of a score vector: softmax, and Triton's classification extension.
 * Pure; sizes are checked by the caller through oip_classify_shape.
 */
#ifndef OIP_CLASSIFICATION_H
#define OIP_CLASSIFICATION_H

#include "oip/model_spec.h"

/* In place over each row of `classes` FP32 scores, at any alignment; a row with a NaN becomes NaN. */
void oip_softmax_fp32(void *scores, size_t rows, size_t classes);

/* No client shows more than a few; the bound keeps the working set of a top-k on the stack. */
enum { OIP_MAX_CLASSIFICATION = 1024 };

/* INVALID_ARGUMENT for an output whose datatype is no numbers to compare, and for k out of range. */
status_t oip_classify_check(const oip_tensor_spec_t *output, uint32_t k, err_t *err);

/* The shape of the answer for an output whose rows have the (real) shape `row`: [rows, min(k, classes)], or
 * without rows for models that are not batched. INVALID_ARGUMENT as oip_classify_check, and for a row without
 * elements. */
status_t oip_classify_shape(const oip_model_spec_t *spec, const oip_tensor_spec_t *output,
                            const oip_shape_t *row, uint32_t rows, uint32_t k, oip_shape_t *shape,
                            uint32_t *classes, err_t *err);

/* Upper bound of what oip_classify_row writes. */
size_t oip_classify_row_bytes(const oip_model_spec_t *spec, uint32_t k);

/* Writes the k best of one row as BYTES elements `value:index[:label]`, best first, equal values by index.
 * Returns the bytes written into out (at most oip_classify_row_bytes). */
size_t oip_classify_row(const oip_model_spec_t *spec, oip_datatype_t type, const void *row, uint32_t classes,
                        uint32_t k, uint8_t *out);

#endif
