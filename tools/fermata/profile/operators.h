/*
 * The operators of a loaded model as measured, and the modes made of them: what the searches of modes.c and
 * the comparison of loads.c try on the engine.
 */
#ifndef FERMATA_PROFILE_OPERATORS_H
#define FERMATA_PROFILE_OPERATORS_H

#include "exec/stages.h"
#include "fermata/profile/modes.h"

enum {
    OPERATORS_SIZES = 3,              /* batch sizes at which they are measured: 1, the middle, the largest */
    OPERATORS_QUERIES_MAX = 20000,    /* of one trial */
    OPERATORS_PREFERENCE_STAGES = 12, /* at most, where the preferred batch size changes */
};

typedef struct {
    const profile_how_t *how;
    uint32_t rows_max;
    engine_cuts_t cuts;
    uint32_t *cut_ops;
    int64_t *op_ns; /* [OPERATORS_SIZES][ops] */
    uint32_t sizes[OPERATORS_SIZES], size_count;
    stages_model_t model;
    /* of the try under way */
    uint32_t stages, at[STAGED_STAGES_MAX];
    bool beside; /* batches run side by side, as policy I has it */
} operators_t;

/* UNSUPPORTED: the engine or the model cannot be cut; nothing is to be disposed of then. */
status_t operators_measure(operators_t *o, const profile_how_t *how, err_t *err);
void operators_dispose(operators_t *o);

/* Returns how many cuts were chosen. By preference there are as many as there are. */
uint32_t operators_place(const operators_t *o, const profile_try_t *try, uint32_t at[STAGED_STAGES_MAX]);

/* T_comp_wait as a profile keeps it: PROFILE_CACHE_NO_WAIT where no rows join by that schedule, which says nothing of
 * others. */
int64_t operators_comp_wait_ns(const profile_try_t *try);

/* The queries of a trial. */
typedef struct {
    trial_arrival_t *list; /* heap */
    uint32_t count;
    bool closed; /* one at a time; set by the caller */
} operators_work_t;

/* So many seconds of them; rate_rps 0: as many as full batches serve, no batch less than full, all at once. Free list. */
status_t operators_draw(const operators_t *o, double rate_rps, double seconds, uint64_t seed,
                        operators_work_t *work, err_t *err);

/* Plays them to one mode. latency_ns: of each query. try->stages becomes what there is. */
status_t operators_play(operators_t *o, profile_try_t *try, const operators_work_t *work, int64_t *latency_ns,
                        int64_t *took_ns, err_t *err);

#endif
