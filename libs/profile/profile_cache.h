/*
 * The measured profile of a model, kept beside the model so that the next start need not measure again.
 * A text file of `key value` lines, `spread`, `noise` and `measured` (how many sizes were) among them, one `batch SIZE MEDIAN_NS`
 * line per size, and `end yes`, without which a file that says how many were measured has been cut short.
 */
#ifndef PROFILE_PROFILE_CACHE_H
#define PROFILE_PROFILE_CACHE_H

#include "profile/profile.h"

enum { PROFILE_CACHE_TEXT_BYTES = 128 };

typedef struct {
    char device[PROFILE_CACHE_TEXT_BYTES];     /* what it was measured on: one line, compared exactly */
    char model_hash[PROFILE_CACHE_TEXT_BYTES]; /* of the model file, compared exactly */
    char date[PROFILE_CACHE_TEXT_BYTES];       /* when: 2026-11-20T17:35:57Z */
} profile_cache_key_t;

/* What was found out for the execution modes (docs/modes/README.md); counts of 0: nothing. Operators are cuts of
 * the engine. */
enum { PROFILE_CACHE_CUTS_MAX = 32, PROFILE_CACHE_WORD_BYTES = 16, PROFILE_CACHE_ENGINE_BYTES = 32 };
#define PROFILE_CACHE_NO_WAIT INT64_MAX /* no T_comp_wait was found: `comp_wait_ns none` */
typedef struct {
    uint32_t stages[PROFILE_CACHE_CUTS_MAX],
        stage_count;                         /* staged: where each stage but the first begins, rising */
    int64_t comp_wait_ns;                    /* staged: T_comp_wait, with the stages; 0: no rows join */
    char schedule[PROFILE_CACHE_WORD_BYTES]; /* staged: what they were tried with; "": not known */
    bool whole_is_faster;                    /* staged: no stages were as fast as none */
    uint32_t exits[PROFILE_CACHE_CUTS_MAX], exit_count; /* preempt: where a batch can be stopped, rising */
    /* It was loaded on trial (model/trial/trial.h), which took so much; 0: it was not. */
    uint64_t loading_bytes;
    char engine[PROFILE_CACHE_ENGINE_BYTES]; /* which of several it was measured on; "": there was one */
} profile_modes_t;

/* STATUS_OK only if the file is well formed and was measured on this device for this very model (hash "": any), no later
 * than the date ("": whenever). NOT_FOUND: there is no file, or it is of another device, model or time (the text says
 * which). INVALID_ARGUMENT: broken or cut short, with FILE:LINE. Whether enough sizes were measured is for the caller to
 * ask (profile_is_whole). */
status_t profile_cache_read(const char *path, const profile_cache_key_t *wanted, profile_t *profile,
                            profile_modes_t *modes, err_t *err);

/* Replaces the file in one step (a temporary file beside it, then rename), so that a reader never sees half
 * of it. */
status_t profile_cache_write(const char *path, const profile_cache_key_t *key, const profile_t *profile,
                             const profile_modes_t *modes, err_t *err);

#endif
