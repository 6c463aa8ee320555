/*
 * Hot path. The GPU half of the core: it sees one candidate per model and the time each GPU is free, and
 * binds them. It sees no queue. Messages in: candidate, GPU free-at. Message out: GPU granted.
 *
 * A candidate waits in a timer heap until its grant may leave (ready - lead), then stands in the ready heap
 * by key. One that may go before that while enough GPUs are free stands in the early heap by key meanwhile, and has its turn when no
 * ready one has. A GPU stands in the busy heap by the time it is free, and in the free set from `horizon` on, which
 * is now plus the largest lead among the ready candidates: a grant may leave while the GPU is still busy
 * (Figure 18, set_gpu_timer). Of the free set the lowest id is taken.
 *
 *   candidate:  NONE ──▶ WAITING ──▶ READY ──▶ granted (NONE)         GPU:  CLOSED ──▶ BUSY ──▶ FREE
 *                 ▲      └▶ EARLY ─┘   └─────▶ STALE: too late,                ▲          granted  │
 *                 └──── a new candidate ◀────── its shard will make a new one  └──────────────────┘
 *
 * O(log M + log G) per message. All memory comes from matcher_init.
 */
#ifndef SCHED_MATCHER_H
#define SCHED_MATCHER_H

#include "base/bitmap.h"
#include "base/heap.h"
#include "sched/candidate.h"

typedef enum { MATCH_NONE, MATCH_WAITING, MATCH_EARLY, MATCH_READY, MATCH_STALE } match_state_t;
typedef enum { GPU_CLOSED, GPU_BUSY, GPU_FREE } gpu_state_t;

typedef struct {
    candidate_t candidate;
    heap_node_t node;       /* in `waiting`, also while it is EARLY, or in `ready` */
    heap_node_t early_node; /* in `early` */
    match_state_t state;
    uint32_t denied; /* GPUs that it may not use */
    uint32_t pinned; /* the only GPU that it may use, or BITMAP_NONE */
} match_model_t;

/* Whether the candidate of this model may run beside what runs on a shared GPU. */
typedef bool (*match_fits_fn)(void *ctx, int64_t now_ns, uint32_t model, uint32_t gpu);

typedef struct {
    int64_t free_ns;
    heap_node_t node; /* in `busy` */
    gpu_state_t state;
    bool shared; /* something runs on it: a candidate must fit beside that */
} match_gpu_t;

typedef struct {
    match_model_t *models;
    match_gpu_t *gpus;
    uint32_t models_max, gpus_max;
    heap_t waiting, early, ready, busy;
    bitmap_t free;
    int64_t lead_ns;  /* at least the largest lead among the ready; 0 when none is */
    uint64_t *denied; /* bit model · gpus_max + gpu */
    uint32_t pins;    /* models that are pinned */
    uint32_t denials; /* bits set: 0 is the fast path */
    uint32_t shared;  /* GPUs that are not closed, and are shared: likewise */
    match_fits_fn fits;
    void *fits_ctx;
} matcher_t;

typedef struct {
    uint32_t model, gpu;
    int64_t gpu_free_ns;
    uint32_t gpus; /* free for it, with this one; 1 where that does not matter to it */
    bool vague;    /* nothing is bound: the model's candidate is to be made anew for this GPU */
} match_grant_t;

status_t matcher_init(matcher_t *matcher, uint32_t models_max, uint32_t gpus_max, err_t *err);
void matcher_dispose(matcher_t *matcher);

/* The model's candidate is now this one (batch 0: none). */
void matcher_on_candidate(matcher_t *matcher, int64_t now_ns, uint32_t model, const candidate_t *candidate);

/* The GPU may be granted again, and is free from free_ns on. */
void matcher_on_gpu_free(matcher_t *matcher, uint32_t gpu, int64_t free_ns);
/* Likewise, to candidates that fit (fits, set by the owner). */
void matcher_on_gpu_shared(matcher_t *matcher, uint32_t gpu, int64_t free_ns);
/* The GPU may not be granted until the next matcher_on_gpu_free. */
void matcher_close_gpu(matcher_t *matcher, uint32_t gpu);

void matcher_allow(matcher_t *matcher, uint32_t model, uint32_t gpu, bool allowed);
/* gpu: the only one for this model, or BITMAP_NONE. */
void matcher_pin(matcher_t *matcher, uint32_t model, uint32_t gpu);
bool matcher_may_use(const matcher_t *matcher, uint32_t model, uint32_t gpu);

/* The next binding that is due. The model is left without a candidate, the GPU closed, until their messages
 * come. Or, all left as it is, the next vague candidate that stands in its way. */
bool matcher_next(matcher_t *matcher, int64_t now_ns, match_grant_t *grant);

/* The first ready model by key, or UINT32_MAX: for policies that may make room for it. */
uint32_t matcher_first_ready(const matcher_t *matcher);

/* Whether a GPU was free when the last binding was looked for. */
static inline bool matcher_has_free(const matcher_t *matcher)
{
    return bitmap_count(&matcher->free) > 0;
}

/* When matcher_next must be asked again if no message comes. */
int64_t matcher_wake_ns(const matcher_t *matcher);

const char *matcher_validate(const matcher_t *matcher);

#endif
