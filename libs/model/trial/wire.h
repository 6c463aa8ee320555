/*
 * What a worker and fermata-loader say to each other, over the two pipes of base/companion.h, as structs: both are of one build.
 *
 *   worker                                   loader
 *   trial_request_t ───────────────────────▶
 *                    ◀─────────────── TRIAL_FILES   they are regular, and could be read in time: their hash
 *   trial_go_t      ───────────────────────▶        (closes instead, if a model of that hash was tried before)
 *                    ◀────────────── TRIAL_ENGINE   each engine, before it is tried
 *                    ◀────────────── TRIAL_PASSED   one that stood it, if a worker would begin with it and others are still to come
 *   trial_loaded_t  ───────────────────────▶        as it chooses: whatever the worker did of that, it has done
 *                    ◀──────────────── TRIAL_DONE   how it went
 *
 * A loader that chooses measures the engines, too. It says that one has passed when it is the fastest so far, and measures the next once the worker
 * has loaded that; what it found is in TRIAL_DONE.
 *
 * An answer of another status than OK is the last one, whichever it is.
 */
#ifndef MODEL_TRIAL_WIRE_H
#define MODEL_TRIAL_WIRE_H

#include "model/model.h"

enum { TRIAL_ENGINE_BYTES = MODEL_ENGINE_NAME_BYTES };

static const uint64_t TRIAL_MAGIC = 0x6665726d6c6f6164; /* "fermload" */

typedef struct {
    uint64_t magic;
    int64_t version, timeout_ns;
    uint64_t memory_limit_bytes; /* engine_config_t */
    int32_t parent;              /* its process */
    uint32_t threads;
    uint32_t max_batch; /* of a bare file, which has no config */
    bool graph_only;    /* what runs it is not here, or only takes time: the file and its graph alone */
    bool use_cache;     /* a kept profile names the engine */
    char engine[TRIAL_ENGINE_BYTES];
    char without[MODEL_WITHOUT_BYTES], providers[MODEL_PROVIDERS_BYTES];
    char name[MODEL_NAME_BYTES], dir[PATH_MAX], file[PATH_MAX];
} trial_request_t;

typedef struct {
    uint64_t magic;
    uint64_t budget_bytes; /* what it may take */
    uint64_t memory_bytes,
        used_bytes; /* of the device (model_devices_t), so that a refusal reads as that of a load */
    int64_t profile_budget_ns; /* that of the load, if it chooses the engine; 0: it does not */
} trial_go_t;

typedef struct {
    uint64_t magic;
} trial_loaded_t;

typedef enum { TRIAL_FILES = 1, TRIAL_ENGINE, TRIAL_PASSED, TRIAL_DONE } trial_kind_t;

typedef struct {
    uint64_t magic;
    uint32_t kind, status;
    uint64_t peak_bytes;             /* TRIAL_PASSED, TRIAL_DONE: more than before it was loaded, at most */
    uint64_t lacked_bytes;           /* not OK: of an allocation that failed; 0: none did */
    bool unfiltered;                 /* this kernel filters no system calls */
    char engine[TRIAL_ENGINE_BYTES]; /* TRIAL_ENGINE, TRIAL_PASSED; TRIAL_DONE and not OK: which */
    char without
        [MODEL_WITHOUT_BYTES]; /* TRIAL_DONE: engines that ran out of memory, those of the request among them */
    char hash[PROFILE_CACHE_TEXT_BYTES]; /* TRIAL_FILES */
    char text[ERR_TEXT_BYTES];           /* not OK */
    char fastest[TRIAL_ENGINE_BYTES];    /* TRIAL_DONE: of `engines`; "": it has not chosen */
    uint32_t engine_count;
    model_engine_t engines[MODEL_ENGINES_MAX];
} trial_answer_t;

/*
 * What engines take for themselves whatever the model (stacks of threads, compiled code, tables): a loader may have so much more than
 * its budget, and so much of its peak is not the model's.
 */
static const uint64_t TRIAL_OWN_BYTES = UINT64_C(96) << 20;

#endif
