/*
 * What mode overlap needs to know of models that share a device: the duration model of their groups of
 * operators, and for which models and device it was trained.
 *
 * The file is text; `fermata profile --overlap` writes it, the worker reads it: REPOSITORY/overlap.ENGINE.txt, or what
 * --overlap-plan names:
 *
 *   fermata-overlap 3
 *   device onednn; AMD EPYC 9R14; 1 threads
 *   rows_max 16
 *   model digits 1 5 fnv1a:8d2f…          name, version, segments between its cuts, hash of the file
 *   lengths 1 1 -                         ("-": it has none); its rows are all alike
 *   model words 3 12 fnv1a:07c1…
 *   lengths 32 256 128                    of the rows that were measured, the shortest and the longest; sizes
 *                                         of that one, of two axes as 224x320
 *   places time                           or index: without the next lines
 *   passed 0.08 0.31 0.52 0.97            of each model: part of its time before each segment but the first
 *   passed 0.02 …
 *   weights 0.125 -1.5 …                  of predictor.h: layer by layer, each unit's weights and then its bias
 */
#ifndef MODEL_OVERLAP_PLAN_H
#define MODEL_OVERLAP_PLAN_H

#include "exec/predictor.h"
#include "model/parts/axes.h"
#include "profile/profile_cache.h"

enum { OVERLAP_NAME_BYTES = 128 };

typedef struct {
    char device[PROFILE_CACHE_TEXT_BYTES];
    struct {
        char name[OVERLAP_NAME_BYTES];
        int64_t version;
        char hash[PROFILE_CACHE_TEXT_BYTES];
        /* The length of a row is how many elements its inputs have, as latencies go by them (profile/family.h); 1
         * where nothing but the batch varies. */
        uint32_t length_min, length_max;
        /* Of each axis, in the longest row that was measured; none is larger in another that was. */
        uint32_t sizes[AXES_MAX], size_count;
    } models[OVERLAP_MODELS_MAX]; /* in the order of the predictor's services */
    predictor_t predictor;
} overlap_plan_t;

/* NOT_FOUND, IO; INVALID_ARGUMENT names the line that is wrong. */
status_t overlap_plan_read(const char *path, overlap_plan_t *plan, err_t *err);
status_t overlap_plan_write(const char *path, const overlap_plan_t *plan, err_t *err);

/* Where it lies when nobody says, beside the folders of the models. False: it does not fit. */
bool overlap_plan_path(const char *repository, const char *engine, char *path, size_t path_bytes);

/* The part of exec/overlap.h's configuration that the plan knows: models, operators and durations. It
 * refers to the plan. */
overlap_config_t overlap_plan_config(const overlap_plan_t *plan);

/* Number of that model in the plan, or UINT32_MAX and why not: another file, not in it, not measured with batches
 * of rows_max. */
uint32_t overlap_plan_find(const overlap_plan_t *plan, const char *name, int64_t version, const char *hash,
                           uint32_t rows_max, err_t *err);

/* Whether its lengths are of a model with these axes, NULL: without any; else why not. */
bool overlap_plan_fits(const overlap_plan_t *plan, uint32_t model, const axes_t *axes, err_t *err);

/* The length that its duration is foretold with: rows shorter than any that was measured count as those. */
uint32_t overlap_plan_length(const overlap_plan_t *plan, uint32_t model, uint64_t elements);

#endif
