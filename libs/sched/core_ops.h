/*
 * A scheduling core of either kind behind one table of operations: told what happened, asked to run, it gives grants,
 * drops and stops to a sink. This is all that a service relies on; which kind it has it says once, when it makes it:
 *
 *   core_single_create  (here)            a sched_t, which decides on the caller's thread when it is run: every policy,
 *                                         every mode of a GPU
 *   front_create        (shards/front.h)  threads decide: no policy that routes or stops all, GPUs of mode `whole` only
 *
 * What both promise, beyond sched.h:
 *
 *   - All operations are for one thread. They never call back but from `run`.
 *   - What was said may take effect later than the next run. What is decided meanwhile for a GPU that is drained or
 *     removed, or for a model that is removed, does not come out.
 *   - The core holds a task from `submit` until `cancel` has said true, it comes out in a drop, or the batch that holds
 *     it has ended, well or badly. To try it again is to submit it again.
 *   - The low half of a task's tag is below limits.tasks_max, and no two tasks that are here at a time share one.
 *   - now_ns is of the caller's clock, for all operations the same one, and never runs backwards. Threads read the
 *     monotonic clock by themselves, so for them it is that one.
 *
 * None of the operations is optional; what a kind has no use for does nothing there. Those that return nothing are of
 * models, GPUs and batches that the caller knows to be there.
 */
#ifndef SCHED_CORE_OPS_H
#define SCHED_CORE_OPS_H

#include "sched/sched.h"

typedef struct core core_t;

typedef struct {
    bool threads; /* that decide at any time, not only in `run` */
    void (*destroy)(core_t *core);

    /* UNSUPPORTED, INVALID_ARGUMENT: all is as it was. */
    status_t (*set_policy)(core_t *core, int64_t now_ns, const char *name, const char *params, err_t *err);
    const char *(*policy)(const core_t *core);
    /* Whether batches are stopped where they can be and the policy's parameters do not forbid it. False: *why tells. */
    bool (*stops)(const core_t *core, err_t *why);
    void (*set_delays)(core_t *core, int64_t now_ns, const sched_delays_t *delays);

    status_t (*add_model)(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err);
    void (*remove_model)(core_t *core, int64_t now_ns, uint32_t model);
    void (*update_profile)(core_t *core, int64_t now_ns, uint32_t model, const profile_t *profile);
    void (*set_exit_points)(core_t *core, uint32_t model, uint32_t exit_points); /* in vain unless `stops` */
    status_t (*set_inside)(core_t *core, int64_t now_ns, uint32_t model, const sched_inside_t *inside,
                           err_t *err);
    void (*allow)(core_t *core, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed);
    bool (*model_stats)(const core_t *core, uint32_t model, sched_model_stats_t *stats);
    bool (*model_scatter)(const core_t *core, uint32_t model, sched_scatter_t *scatter);
    bool (*backlog)(const core_t *core, int64_t now_ns, uint32_t model, sched_backlog_t *backlog);
    void (*note_refused)(core_t *core, uint32_t model, uint32_t count);
    double (*needed)(const core_t *core);

    /* UNSUPPORTED: a mode that this kind cannot drive. */
    status_t (*add_gpu)(core_t *core, int64_t now_ns, uint32_t gpu, const sched_gpu_mode_t *mode,
                        int64_t free_at_ns, err_t *err);
    void (*drain_gpu)(core_t *core, int64_t now_ns, uint32_t gpu);
    void (*remove_gpu)(core_t *core, int64_t now_ns, uint32_t gpu); /* its batches were said to have ended */
    void (*gpu_free)(core_t *core, int64_t now_ns, uint32_t gpu, int64_t free_at_ns);

    status_t (*submit)(core_t *core, int64_t now_ns, uint32_t model, const sched_task_t *task,
                       sched_ref_t *ref);
    bool (*cancel)(core_t *core, int64_t now_ns, sched_ref_t ref); /* false: it comes out all the same */
    /* At its best, before the end is told: what finds no room is lost. */
    void (*batch_ran)(core_t *core, int64_t now_ns, uint64_t batch, int64_t started_ns, int64_t ended_ns);
    void (*batch_ended)(core_t *core, int64_t now_ns, uint64_t batch, int64_t free_at_ns);
    /* Returns when to come again at the latest. The sink may call the five above, for other batches than its own. */
    int64_t (*run)(core_t *core, int64_t now_ns, sched_sink_fn sink, void *ctx);
    /* How late at most a grant came out of threads after it could have been given, since the last call; what
     * sched_delays_t.wake_ns is to cover. False: none did, or the caller itself is what comes late. */
    bool (*take_lateness)(core_t *core, int64_t *lateness_ns);
} core_ops_t;

/* First member of either kind. */
struct core {
    const core_ops_t *ops;
};

/* INVALID_ARGUMENT, NO_MEMORY. */
status_t core_single_create(const sched_limits_t *limits, int64_t now_ns, const char *policy,
                            const char *params, const sched_delays_t *delays, core_t **core, err_t *err);

#endif
