/*
 * What this process has measured in the last minute, by what it was measured of: copies of a model in one repository
 * are measured once. Later the machine may be another. Bounded; the oldest goes. One thread.
 */
#ifndef MODEL_PROFILE_MEMO_H
#define MODEL_PROFILE_MEMO_H

#include "profile/profile_cache.h"

#include <stdbool.h>

typedef struct profile_memo profile_memo_t;

typedef struct {
    const char *hash;  /* of model_hash */
    const char *sizes; /* of its axes, as shapes_text says them; "": it has none */
    uint32_t max_batch;
} profile_memo_key_t;

profile_memo_t *profile_memo_create(void); /* NULL: no memory */
void profile_memo_destroy(profile_memo_t *memo);

/* False: nothing is known of it. memo may be NULL. */
bool profile_memo_find(const profile_memo_t *memo, const profile_memo_key_t *key, int64_t now_ns,
                       profile_t *profile, profile_modes_t *modes);
/* Takes copies, in place of what was known of it; without memory it is forgotten. memo may be NULL. */
void profile_memo_add(profile_memo_t *memo, const profile_memo_key_t *key, int64_t now_ns,
                      const profile_t *profile, const profile_modes_t *modes);

#endif
