/*
 * Makes a measured profile one to plan with: a batch that is granted should be a deadline kept, so what
 * counts is not what a batch takes as a rule but what it hardly ever exceeds. And keeps it true while it is
 * in use: durations of real batches move it, slowly and within bounds, so that a machine that has become
 * slower (or was disturbed when it was measured) is planned with as it is, and no single hiccup counts.
 *
 * Each class of sizes (1, 2-3, 4-7, 8-15, …) has a factor on the latencies of the profile as it was measured.
 * It begins at the profile's spread and follows the CORRECTION_PERCENTILE of measured / predicted:
 *
 *   - a batch beyond it moves it up by up to PERCENTILE/MEMORY of itself, one below it down by up to (1 -
 *     PERCENTILE)/MEMORY, so that it rests where just that share of the batches is below;
 *   - that alone falls nineteen times as slowly as it rises. But the last CORRECTION_RUN batches, all of them far below, say
 *     that the machine is faster by now: it falls to the slowest of them at once.
 *
 *   planned(b) = base(b) · factor(class of b), made monotone
 *
 * A plain value; pure; no heap, clock or lock.
 */
#ifndef PROFILE_CORRECTION_H
#define PROFILE_CORRECTION_H

#include "profile/profile.h"

enum {
    CORRECTION_CLASSES = 17, /* the last is that of PROFILE_BATCH_MAX */
    CORRECTION_MEMORY = 64,  /* one batch, however late, moves a factor by less than 1/64 */
    /* As many as a rise by a third takes: by the percentile one of twenty lies above. */
    CORRECTION_RUN = 16,
};
#define CORRECTION_PERCENTILE 0.95
/* No factor leaves these bounds: beyond them the machine is broken or the profile is, and neither is a
 * matter of scheduling. */
#define CORRECTION_LEAST 0.5
#define CORRECTION_MOST 2.0
/* A corrected profile is worth telling others of when some class has moved so far since the last time. */
#define CORRECTION_STEP 0.02
/* Far below is below this much of the factor. */
#define CORRECTION_FAR 0.9

typedef struct {
    double factor[CORRECTION_CLASSES];
    double told[CORRECTION_CLASSES];                  /* as of the last correction_apply */
    float recent[CORRECTION_CLASSES][CORRECTION_RUN]; /* measured / predicted, a ring */
    uint32_t seen[CORRECTION_CLASSES];
} correction_t;

/* All factors are the spread of the measured profile, within bounds. */
void correction_init(correction_t *correction, double spread);

/* One batch of the size took measured_ns where the profile as measured at load, base, says what it says.
 * What is not above 0 is passed over. */
void correction_add(correction_t *correction, const profile_t *base, uint32_t batch, int64_t measured_ns);

/* Whether correction_apply would give something that differs by CORRECTION_STEP from what it gave last. */
bool correction_is_due(const correction_t *correction);

/* base times its factors; never falling, its line fitted anew. Sizes beyond PROFILE_TABLE_MAX follow the
 * line. into must not be base. */
void correction_apply(correction_t *correction, const profile_t *base, profile_t *into);

#endif
