/*
 * What part of a device a query of mode overlap keeps busy, by the duration model: what a scheduler in front
 * plans slots with.
 *
 * While queries that keep the parts o run side by side and their sum S exceeds 1, each is slowed down S
 * times. So a group of queries that take T1 <= T2 <= … <= Tn alone takes, for an equal part o of each,
 *
 *     max(1, n o) T1 + max(1, (n - 1) o) (T2 - T1) + … + max(1, o) (Tn - T(n-1))
 *
 * which is solved for o. Side by side without any loss that gives 1 / n, one after the other 1.
 */
#ifndef EXEC_OVERLAP_SHARE_H
#define EXEC_OVERLAP_SHARE_H

#include "exec/overlap.h"

/*
 * 0 < share <= 1, all models with as many rows. What a pair keeps busy is two such o; of three models and more the pairs
 * say of each by itself which parts add up to theirs, of two each has half. A pair that does not slow each other down tells no
 * less than the whole device, so no share is below 1 / n. 1 when there is no other model. Pure; of config only models, ops and predict count.
 *
 * lengths: of the rows of each model. One share stands for all lengths of a model, so where they vary it is
 * asked for with the longest that was measured: longer rows fill more of a device, and a scheduler that plans
 * by them grants less beside short rows than would fit, but nothing that makes a long row late.
 */
double overlap_share(const overlap_config_t *config, uint32_t model, uint32_t rows, const uint32_t *lengths);

/* The same as a scheduler is told it: a batch of b keeps fixed + b * row of `whole` busy, and all of it where that is more.
 * The line goes through batches of one, and none up to rows_max lies above it: a device that is full with a few rows is no less so
 * with the others. Larger batches do not keep less busy: where the duration model says so, the mean holds for all. */
typedef struct {
    uint32_t fixed, row;
} overlap_busy_t;

overlap_busy_t overlap_busy(const overlap_config_t *config, uint32_t model, uint32_t rows_max,
                            const uint32_t *lengths, uint32_t whole);

#endif
