/*
 * Latencies of a model whose rows differ in size (sequences of any length, pictures of any size): profiles
 * measured at a few reference sizes, and what lies between them.
 *
 * The size of a row is the number of its input elements. At each batch size the latency is interpolated along
 * it: below the smallest reference that of the smallest holds (it is no less safe, and small rows cost
 * little); beyond the largest the line through the last two goes on, and a single reference is scaled in
 * proportion.
 *
 * A plain value; pure; no heap, clock or lock.
 */
#ifndef PROFILE_FAMILY_H
#define PROFILE_FAMILY_H

#include "profile/profile.h"

enum { FAMILY_MAX = 8 }; /* references of one model: each costs seconds to measure */

typedef struct {
    uint64_t elements; /* of one row */
    profile_t profile;
} family_member_t;

typedef struct {
    uint32_t count;
    family_member_t members[FAMILY_MAX]; /* by elements, rising */
} family_t;

/* Of two profiles of one size the slower is kept at each batch. TOO_LARGE: FAMILY_MAX are there. */
status_t family_add(family_t *family, uint64_t elements, const profile_t *profile, err_t *err);

/* At least one member must be there. */
int64_t family_latency_ns(const family_t *family, uint64_t elements, uint32_t batch);
/* The same for all batch sizes, up to the smallest max_batch of the members. */
void family_profile(const family_t *family, uint64_t elements, profile_t *profile);
/* The member whose size is the closest: what a measurement at this size says most about. */
uint32_t family_nearest(const family_t *family, uint64_t elements);

#endif
