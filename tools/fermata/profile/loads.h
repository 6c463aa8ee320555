/* `fermata profile --stages --loads`: the mode that was chosen beside the baselines, at several loads. */
#ifndef FERMATA_PROFILE_LOADS_H
#define FERMATA_PROFILE_LOADS_H

#include "fermata/profile/contest.h"

/* ZeroBatch and DelayBatch (2 ms) as Triton has them: the next batch is formed when one has begun. */
extern const profile_try_t profile_baselines[PROFILE_BASELINES];

/* Fills found->loads for found->chosen_try. */
status_t profile_loads(operators_t *o, profile_found_t *found, err_t *err);

/* Nothing where none were played. */
void profile_loads_table(const profile_found_t *found, FILE *out);
json_t *profile_loads_json(const profile_found_t *found); /* an array */

json_t *profile_try_json(const profile_try_t *t);
const char *profile_cut_name(const profile_try_t *t);

#endif
