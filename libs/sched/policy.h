/*
 * The seam between the core and the policies: one file policy_NAME.c each, ending in one table, and one line
 * in policy.c. What is too much for one file has others beside it (squishy.h, fermata.h).
 *
 * A policy answers one question on the fast path: the candidate of a model (which heads to give up, how large
 * a batch, when it is ready, how urgent). What it needs to know of other models or GPUs it works out in its
 * slow loop, and leaves in the shards' plans. It keeps its own numbers in `state` (one block) and
 * `model_state` (one block per model), which are zeroed when it starts; it allocates nothing.
 */
#ifndef SCHED_POLICY_H
#define SCHED_POLICY_H

#include "base/prng.h"
#include "sched/shard.h"

typedef struct policy policy_t;

/* A running batch that may be stopped for a candidate. */
typedef struct {
    uint32_t gpu;
    uint32_t model;
    uint32_t count;
    int64_t start_ns, finish_ns;
    int64_t otherwise_ns;    /* when a GPU is free for the candidate if nothing is stopped */
    const task_pool_t *pool; /* of its tasks: a chain, earliest deadline first */
    uint32_t first_task;
} policy_running_t;

/* When it stops if its worker is told at told_ns: at the next of its model's exit points
 * (sched_model_opts_t), or at its end when it is past the last one. */
int64_t policy_exit_ns(const policy_running_t *running, int64_t exits, int64_t told_ns);
/* Its rows that are late unless they have ended by then. */
uint32_t policy_rows_due(const policy_running_t *running, int64_t end_ns);
/* The batch that meets its head's deadline on a GPU that is free from free_ns on. */
uint32_t policy_batch_at(const shard_t *shard, int64_t now_ns, int64_t free_ns);

typedef struct {
    const char *name;
    const char *help;
    const sched_param_t *params; /* ends with a name of NULL; may be NULL */
    size_t state_bytes, model_bytes, gpu_bytes;
    /* The batch this model would run next. It gives up (shard_give_up) what it will not serve, and leaves no
     * candidate only if the queue is then empty. Vague ones only for SHARD_LATER_GPU. */
    void (*candidate)(policy_t *policy, shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                      candidate_t *candidate);
    /* Optional: the slow loop. Returns when it is next due. All candidates are made anew afterwards. */
    int64_t (*tick)(policy_t *policy, int64_t now_ns);
    /* Optional: routes every request of a model to one of its lanes when it comes (see policy_open_lane). */
    bool routes;
    /* Optional: whether this ready candidate, for which no GPU is free, is worth stopping that batch; if
     * so, *free_ns is when the GPU can start it: then the candidate is made anew for that. Of those it
     * agrees to, the smallest batch is stopped. Asked only while some model has exit points, or always
     * with stops_all; and never while the parameter stop_param (may be NULL) is 0. */
    bool stops_all;
    const char *stop_param;
    bool (*preempts)(policy_t *policy, const shard_t *shard, const shard_t *running_shard,
                     const policy_running_t *running, int64_t now_ns, int64_t *free_ns);
} policy_ops_t;

struct policy {
    const policy_ops_t *ops;
    shard_t *shards; /* models_max models, then lanes: shards_max in all; look at `present` */
    uint32_t models_max, shards_max, gpus_max;
    uint32_t lanes;     /* open */
    uint32_t gpus;      /* that may be granted */
    bool stops;         /* see policy_stops */
    uint32_t stoppable; /* models with exit points */
    bool stopping;      /* there may be batches to stop */
    double needed;      /* of the GPU time that it takes, the part that the load needs (sched_needed) */
    uint32_t frontends; /* that route, each for itself; 0 or 1: one for all */
    prng_t dealer;      /* which of them a request comes to */
    void *state;
    char *model_state; /* models_max blocks of ops->model_bytes */
    char *gpu_state;   /* gpus_max blocks of ops->gpu_bytes, for the slow loop */
};

static inline void *policy_model(const policy_t *policy, uint32_t model)
{
    return policy->model_state + (size_t)model * policy->ops->model_bytes;
}

/* Sizes that hold the state of any policy. */
size_t policy_state_bytes(void);
size_t policy_model_bytes(void);
size_t policy_gpu_bytes(void);

/* For the slow loop of a policy that routes. There is room for one lane per model and one per GPU; false: no
 * more, or the model may not use the GPU. */
bool policy_open_lane(policy_t *policy, uint32_t model, uint32_t gpu, uint32_t batch, double rate,
                      int64_t duty_ns);
void policy_close_lanes(policy_t *policy, int64_t now_ns);
/* Moves what waits in the models' own shards into the lanes. */
void policy_fill_lanes(policy_t *policy);
/* The usable GPUs, lowest first; returns how many (at most `most`). */
uint32_t policy_gpu_ids(const policy_t *policy, uint32_t *ids, uint32_t most);

const policy_ops_t *policy_find(const char *name);                            /* NULL: unknown */
const policy_ops_t *policy_at(uint32_t index);                                /* NULL behind the last */
const sched_param_t *policy_param(const policy_ops_t *ops, const char *name); /* NULL: unknown */

/* Reads "key=value,key=value" over the presets. *values holds one double per parameter. INVALID_ARGUMENT names what is unknown,
 * out of range, given twice, or of another setting than the one chosen. */
enum { POLICY_PARAMS_MAX = 20 };
status_t policy_parse(const policy_ops_t *ops, const char *text, double values[POLICY_PARAMS_MAX],
                      err_t *err);

/* Zeroes the state and sets the parameters. */
void policy_start(policy_t *policy, const policy_ops_t *ops, const double values[POLICY_PARAMS_MAX]);

#endif
