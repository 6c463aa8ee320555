/*
 * What mode overlap needs to know of models that share a device: the duration model of their groups of
 * operators, and for which models and device it was trained.
 *
 * The file is text; `fermata profile --overlap` writes it, the worker reads it (--overlap-plan):
 *
 *   fermata-overlap 2
 *   device onednn; AMD EPYC 9R14; 1 threads
 *   rows_max 16
 *   length_max 1
 *   model digits 1 5 fnv1a:8d2f…          name, version, segments between its cuts, hash of the file
 *   model faces 3 12 fnv1a:07c1…          ("-": it has none)
 *   places time                           or index: without the next lines
 *   passed 0.08 0.31 0.52 0.97            of each model: part of its time before each segment but the first
 *   passed 0.02 …
 *   weights 0.125 -1.5 …                  of predictor.h: layer by layer, each unit's weights and then its bias
 */
#ifndef WORKER_OVERLAP_PLAN_H
#define WORKER_OVERLAP_PLAN_H

#include "exec/predictor.h"
#include "profile/profile_cache.h"

enum { OVERLAP_NAME_BYTES = 128 };

typedef struct {
    char device[PROFILE_CACHE_TEXT_BYTES];
    struct {
        char name[OVERLAP_NAME_BYTES];
        int64_t version;
        char hash[PROFILE_CACHE_TEXT_BYTES];
    } models[OVERLAP_MODELS_MAX]; /* in the order of the predictor's services */
    predictor_t predictor;
} overlap_plan_t;

/* NOT_FOUND, IO; INVALID_ARGUMENT names the line that is wrong. */
status_t overlap_plan_read(const char *path, overlap_plan_t *plan, err_t *err);
status_t overlap_plan_write(const char *path, const overlap_plan_t *plan, err_t *err);

/* The part of exec/overlap.h's configuration that the plan knows: models, operators and durations. It
 * refers to the plan. */
overlap_config_t overlap_plan_config(const overlap_plan_t *plan);

/* Number of that model in the plan, or UINT32_MAX and why not: another file, another number of segments, not in it. */
uint32_t overlap_plan_find(const overlap_plan_t *plan, const char *name, int64_t version, const char *hash,
                           uint32_t segments, err_t *err);

#endif
