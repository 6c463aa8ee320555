/*
 * The inside of sched_t, shared by its source files only.
 */
#ifndef SCHED_CORE_H
#define SCHED_CORE_H

#include "sched/batch_table.h"
#include "sched/core_ops.h"
#include "sched/inside.h"
#include "sched/matcher.h"
#include "sched/policy.h"

typedef struct {
    bool present, draining;
    int64_t free_ns;   /* after all that is granted to it; with slots: not before */
    int64_t unsure_ns; /* how much later that may well be, before its worker says more; see shard_unsure_ns */
    sched_gpu_mode_t mode;
    int64_t shared_ns; /* with slots: what its batches have left is of then */
} core_gpu_t;

struct sched {
    core_t core; /* see core_single_create */
    sched_limits_t limits;
    task_pool_t pool;
    batch_table_t batches;
    matcher_t matcher;
    policy_t policy;
    sched_delays_t delays;
    shard_t *shards; /* models first, then lanes */
    uint32_t shards_max;
    profile_t *profiles; /* per model; */
    profile_t *guarded;  /* room for the one that deadlines are judged with, */
    scatter_t *scatter;  /* and what that is made from */
    /* per model: batch granted last to a GPU that stretches, or what joined it last; 0: none */
    uint64_t *latest;
    core_gpu_t *gpus;
    uint32_t stretching;       /* GPUs that stretch: 0 is the fast path */
    uint32_t sharing;          /* GPUs with slots */
    heap_t expiry;             /* when each model's candidate cannot be met any more */
    heap_node_t *expiry_nodes; /* per shard */
    uint32_t dirty;            /* chain of models whose candidates are to be made anew */
    int64_t tick_ns;           /* the policy's slow loop is due */
    sched_task_t *granted;     /* what the sink sees of a grant: batch_max of them */
    sched_sink_fn sink;        /* during sched_run */
    void *sink_ctx;
};

static inline void core_mark_dirty(sched_t *sched, uint32_t index)
{
    shard_mark_dirty(sched->shards, &sched->dirty, index);
}

void core_mark_all_dirty(sched_t *sched);

/* Tells the matcher what it may do with the GPU: grant it from free_ns on, or nothing. */
void core_offer_gpu(sched_t *sched, uint32_t gpu);

/* Lets waiting rows of this model join its running batch if that is right at now_ns; at most once per moment. The batch that they are,
 * to be handed out; BATCH_NONE: it is not right. */
uint32_t core_stretch(sched_t *sched, int64_t now_ns, shard_t *shard);

/* GPUs with slots (share.c). What its batches have left becomes that of now_ns; their ends become those predicted. */
void core_share_advance(sched_t *sched, int64_t now_ns, uint32_t gpu);
void core_share_predict(sched_t *sched, int64_t now_ns, uint32_t gpu);
bool core_share_has_slot(sched_t *sched, uint32_t gpu);
/* Whether the candidate of this shard can run beside them so that none misses (match_fits_fn). */
bool core_share_fits(void *sched, int64_t now_ns, uint32_t shard, uint32_t gpu);

static inline bool core_has_slots(const core_gpu_t *gpu)
{
    return gpu->mode.slots > 1;
}

/* Whether it may be granted one more batch, or rows that join one. */
static inline bool core_takes_more(const sched_t *sched, uint32_t gpu)
{
    uint32_t own = sched->gpus[gpu].mode.inflight;
    return sched->batches.gpu_count[gpu] < (own ? own : sched->limits.gpu_inflight_max);
}

/* Ends a batch: its tasks are queued again (lost: because the GPU went away) or given back to the pool. */
typedef enum { CORE_TASKS_DONE, CORE_TASKS_REQUEUE, CORE_TASKS_LOST } core_tasks_t;
void core_end_batch(sched_t *sched, uint32_t batch, core_tasks_t what);

/* One of this model's lanes, or its own shard when it has none. */
uint32_t core_choose_lane(sched_t *sched, uint32_t model);

/* Where a request of this model goes now: its own shard, or a lane. */
static inline uint32_t core_route(sched_t *sched, uint32_t model)
{
    return sched->policy.lanes ? core_choose_lane(sched, model) : model;
}

/* Closes all lanes; their tasks go back to their models' own shards. */
void core_close_lanes(sched_t *sched, int64_t now_ns);

static inline bool core_has_model(const sched_t *sched, uint32_t model)
{
    return model < sched->limits.models_max && sched->shards[model].present;
}

static inline bool core_has_gpu(const sched_t *sched, uint32_t gpu)
{
    return gpu < sched->limits.gpus_max && sched->gpus[gpu].present;
}

#endif
