/* Whether engines compute the same: two rows of random inputs, and what the first of them made of these. */
#ifndef MODEL_AGREEMENT_H
#define MODEL_AGREEMENT_H

#include "model/measure/profiler_bench.h"

/* All zeros before the first check. */
typedef struct {
    bool made;  /* the first has run */
    bool zeros; /* it did not take random inputs */
    uint32_t rows;
    void *outputs[ENGINE_MAX_IO];
    size_t output_bytes[ENGINE_MAX_IO];
} agreement_t;

/* The first keeps its outputs; each that follows is held against them: UNSUPPORTED says where it differs. Where the first does not
 * take random inputs (indices, say), zeros are what they have to agree on. */
status_t agreement_check(agreement_t *a, const profiler_t *profiler, err_t *err);
void agreement_dispose(agreement_t *a);

#endif
