#include "model/measure/profile_memo.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of 2.5 KiB each, and no more than are used. */
enum { MEMO_ENTRIES = 256, SIZES_BYTES = 128 };
static const int64_t MEMO_LIFE_NS = 60 * NS_PER_S;

typedef struct {
    char hash[PROFILE_CACHE_TEXT_BYTES], sizes[SIZES_BYTES];
    uint32_t max_batch;
    int64_t added_ns;
    profile_t profile;
    profile_modes_t modes;
} entry_t;

struct profile_memo {
    entry_t *entries[MEMO_ENTRIES]; /* a ring, one for each key: the place of the oldest key is the next */
    uint32_t next;
};

profile_memo_t *profile_memo_create(void)
{
    return calloc(1, sizeof(profile_memo_t));
}

void profile_memo_destroy(profile_memo_t *memo)
{
    for (uint32_t i = 0; memo && i < MEMO_ENTRIES; i++)
        free(memo->entries[i]);
    free(memo);
}

static bool is_of(const entry_t *entry, const profile_memo_key_t *key)
{
    return entry && entry->max_batch == key->max_batch && strcmp(entry->hash, key->hash) == 0 &&
           strcmp(entry->sizes, key->sizes) == 0;
}

bool profile_memo_find(const profile_memo_t *memo, const profile_memo_key_t *key, int64_t now_ns,
                       profile_t *profile, profile_modes_t *modes)
{
    for (uint32_t i = 0; memo && i < MEMO_ENTRIES; i++) {
        if (!is_of(memo->entries[i], key) || now_ns - memo->entries[i]->added_ns >= MEMO_LIFE_NS)
            continue;
        *profile = memo->entries[i]->profile;
        *modes = memo->entries[i]->modes;
        return true;
    }
    return false;
}

/* Of what is known of it, else of the oldest. */
static entry_t **place_for(profile_memo_t *memo, const profile_memo_key_t *key)
{
    for (uint32_t i = 0; i < MEMO_ENTRIES; i++) {
        if (is_of(memo->entries[i], key))
            return &memo->entries[i];
    }
    uint32_t oldest = memo->next;
    memo->next = (memo->next + 1) % MEMO_ENTRIES;
    return &memo->entries[oldest];
}

void profile_memo_add(profile_memo_t *memo, const profile_memo_key_t *key, int64_t now_ns,
                      const profile_t *profile, const profile_modes_t *modes)
{
    if (!memo || strlen(key->hash) >= PROFILE_CACHE_TEXT_BYTES || strlen(key->sizes) >= SIZES_BYTES)
        return;
    entry_t **place = place_for(memo, key);
    if (!*place)
        *place = malloc(sizeof(**place));
    if (!*place)
        return;
    snprintf((*place)->hash, sizeof((*place)->hash), "%s", key->hash);
    snprintf((*place)->sizes, sizeof((*place)->sizes), "%s", key->sizes);
    (*place)->max_batch = key->max_batch;
    (*place)->added_ns = now_ns;
    (*place)->profile = *profile;
    (*place)->modes = *modes;
}
