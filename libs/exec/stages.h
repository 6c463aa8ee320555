/*
 * Into which stages a model is cut (papers/dvabatch.txt 7.1): of about equal time, at operators that somebody
 * names, or where the preferred batch size changes. Pure. A model is given as its operators 0..ops - 1 and
 * the cuts where an engine allows one, rising, each before an operator. Results are in at[]: the first
 * operator of each stage but the first.
 */
#ifndef EXEC_STAGES_H
#define EXEC_STAGES_H

#include "exec/staged.h"

typedef struct {
    uint32_t ops;
    const uint32_t *cuts;
    uint32_t cut_count;
} stages_model_t;

/* At most `stages` of about equal time: each ends at the first cut where its share has passed. Returns how
 * many cuts were chosen: one less than the stages, fewer where there are too few cuts. */
uint32_t stages_even(const stages_model_t *model, const int64_t *op_ns, uint32_t stages,
                     uint32_t at[STAGED_STAGES_MAX]);

/* The longest of the stages that at[] makes, in parts of the time of all operators; 1 when they take none. */
double stages_longest(const stages_model_t *model, const int64_t *op_ns, const uint32_t *at, uint32_t count);

/* Of the operators from <= x < to. */
int64_t stages_time_ns(const int64_t *op_ns, uint32_t from, uint32_t to);

/* Exactly there. INVALID_ARGUMENT names the first that is no cut and the cuts beside it, or is not rising. */
status_t stages_named(const stages_model_t *model, const uint32_t *wanted, uint32_t count,
                      uint32_t at[STAGED_STAGES_MAX], err_t *err);

/* The times of operators at several batch sizes: op_ns[size * ops + op]. */
typedef struct {
    const uint32_t *sizes; /* rising */
    uint32_t size_count;
    const int64_t *op_ns;
} stages_profile_t;

/* The smallest size (index into sizes) at which the operators from <= x < to take no more than a tenth
 * longer for a row than at the best size. */
uint32_t stages_preferred_size(const stages_model_t *model, const stages_profile_t *profile, uint32_t from,
                               uint32_t to);

/* Where the preferred size changes. Stages that take less than a twentieth of the time join the one in
 * front of them; of more than `stages` those that take least do. */
uint32_t stages_by_preference(const stages_model_t *model, const stages_profile_t *profile, uint32_t stages,
                              uint32_t at[STAGED_STAGES_MAX]);

#endif
