/*
 * Keeps a measured profile true while it is in use: durations of real batches move it, slowly and within bounds, so that
 * a machine that has become slower (or was disturbed when it was measured) is planned with as it is, and no single hiccup counts.
 *
 * Each class of sizes (1, 2-3, 4-7, 8-15, …) has a factor on the latencies of the profile as it was measured: an exponential
 * mean of measured / predicted that begins at 1 and forgets slowly.
 *
 *   corrected(b) = base(b) · factor(class of b), made monotone
 *
 * A plain value; pure; no heap, clock or lock.
 */
#ifndef PROFILE_CORRECTION_H
#define PROFILE_CORRECTION_H

#include "profile/profile.h"

enum {
    CORRECTION_CLASSES = 17, /* the last is that of PROFILE_BATCH_MAX */
    CORRECTION_MEMORY = 64,  /* batches that a factor remembers: one of twice the time moves it by 1/64 */
};
/* No factor leaves these bounds: beyond them the machine is broken or the profile is, and neither is a matter of scheduling. */
#define CORRECTION_LEAST 0.5
#define CORRECTION_MOST 2.0
/* A corrected profile is worth telling others of when some class has moved so far since the last time. */
#define CORRECTION_STEP 0.02

typedef struct {
    double factor[CORRECTION_CLASSES];
    double told[CORRECTION_CLASSES]; /* as of the last correction_apply */
} correction_t;

void correction_init(correction_t *correction);

/* One batch of the size took measured_ns where the profile as measured at load, base, says what it says. What is not above 0
 * is passed over. */
void correction_add(correction_t *correction, const profile_t *base, uint32_t batch, int64_t measured_ns);

/* Whether correction_apply would give something that differs by CORRECTION_STEP from what it gave last. */
bool correction_is_due(const correction_t *correction);

/* base corrected; never falling, its line fitted anew. Sizes beyond PROFILE_TABLE_MAX follow the line. into must not be base. */
void correction_apply(correction_t *correction, const profile_t *base, profile_t *into);

#endif
