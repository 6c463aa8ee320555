/*
 * `fermata profile --overlap`: Abacus's offline part (papers/abacus.txt 5) on a real engine. Groups of operators of the
 * models are drawn and measured, the duration model is trained on them and written beside the models.
 */
#ifndef FERMATA_PROFILE_OVERLAP_H
#define FERMATA_PROFILE_OVERLAP_H

#include "exec/trainer.h"
#include "fermata/profile/mix.h"
#include "model/model.h"

#include <jansson.h>
#include <stdio.h>

enum { PROFILE_PAIRS_MAX = OVERLAP_MODELS_MAX * (OVERLAP_MODELS_MAX - 1) / 2 };

/* Mean absolute percentage errors, cross-validated. */
typedef struct {
    uint32_t groups;
    double mlp, linear, svr;
    /* Of groups that were measured twice, how far off the second time was. Both times err, so a perfect model, judged by
     * one of them, would be off by less: profile_overlap_least. */
    uint32_t again_groups;
    double again;
} profile_overlap_error_t;

/* About what the error of a perfect model would be: the floor of the others, if noise is independent and normal. */
double profile_overlap_least(const profile_overlap_error_t *error);

typedef struct {
    profile_overlap_error_t all;
    struct {
        uint32_t a, b; /* models */
        profile_overlap_error_t error;
    } pairs[PROFILE_PAIRS_MAX];
    uint32_t pair_count;
    int64_t predict_ns, predict4_ns; /* of one group, of four at once */
} profile_overlap_t;

typedef struct {
    model_t *const
        *models; /* loaded on device 0, which has a stream for each; in the order of the features */
    uint32_t count;
    /* Of each model, the shapes in which its rows come; NULL: nothing but its batch varies. Those with which it
     * has other operators than with the largest are taken out. */
    profile_mix_t *const *mixes;
    const model_devices_t *devices;
    uint32_t samples; /* groups; each is run three to nine times, the median counts */
    uint64_t seed;
    const _Atomic(int) *stop;
} profile_overlap_how_t;

/* The trained model is that of all groups; the errors are of models trained without the groups they are
 * of. CANCELLED when *stop was set. */
status_t profile_overlap(const profile_overlap_how_t *how, predictor_t *predictor, profile_overlap_t *found,
                         err_t *err);

void profile_overlap_table(const profile_overlap_how_t *how, const profile_overlap_t *found, FILE *out);
json_t *profile_overlap_json(const profile_overlap_how_t *how, const profile_overlap_t *found);

#endif
