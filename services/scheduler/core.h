/*
 * One scheduling core behind backend.c, of either kind: told, asked and run through a table of operations. A
 * kind is one file that ends in its table. All functions are for the loop's thread.
 *
 * None of the operations is optional; what a kind has no use for does nothing there. Those that return nothing are of
 * models, GPUs and batches that the caller knows to be there.
 */
#ifndef SCHEDULER_CORE_H
#define SCHEDULER_CORE_H

#include "scheduler/backend.h"

typedef struct core core_t;

typedef struct {
    const char *where; /* it decides, for the log: on "threads", on "the loop" */
    status_t (*create)(const backend_options_t *options, core_t **core, err_t *err);
    void (*destroy)(core_t *core);
    status_t (*set_policy)(core_t *core, const char *name, const char *params, err_t *err);
    void (*set_delays)(core_t *core, const sched_delays_t *delays);

    status_t (*add_model)(core_t *core, uint32_t model, const profile_t *profile,
                          const sched_model_opts_t *opts, err_t *err);
    void (*remove_model)(core_t *core, uint32_t model);
    void (*update_profile)(core_t *core, uint32_t model, const profile_t *profile);
    void (*set_exit_points)(core_t *core, uint32_t model, uint32_t exit_points);
    status_t (*set_inside)(core_t *core, uint32_t model, const sched_inside_t *inside, err_t *err);
    void (*allow)(core_t *core, uint32_t model, uint32_t gpu, bool allowed);
    bool (*model_stats)(const core_t *core, uint32_t model, sched_model_stats_t *stats);
    double (*needed)(const core_t *core);
    bool (*model_scatter)(const core_t *core, uint32_t model, sched_scatter_t *scatter);

    status_t (*add_gpu)(core_t *core, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns);
    void (*drain_gpu)(core_t *core, uint32_t gpu);
    void (*remove_gpu)(core_t *core, uint32_t gpu);
    void (*gpu_free)(core_t *core, uint32_t gpu, int64_t free_at_ns);

    status_t (*submit)(core_t *core, uint32_t model, const sched_task_t *task, sched_ref_t *ref);
    bool (*cancel)(core_t *core, sched_ref_t ref); /* false: it comes out all the same */
    void (*batch_ran)(core_t *core, uint64_t batch, int64_t started_ns, int64_t ended_ns);
    void (*batch_ended)(core_t *core, uint64_t batch, int64_t free_at_ns);
    int64_t (*run)(core_t *core, sched_sink_fn sink, void *ctx);
    bool (*take_lateness)(core_t *core, int64_t *lateness_ns); /* false: none to tell */
} core_ops_t;

/* First member of either kind. */
struct core {
    const core_ops_t *ops;
};

extern const core_ops_t core_on_loop;    /* a sched_t: every policy, every mode of a GPU */
extern const core_ops_t core_on_threads; /* a front_t: see core_can_thread */

/* Whether a policy can be run on threads: it routes nothing by itself and stops nothing. stoppable: some model has exit
 * points. params: as sched_set_policy takes them; what is wrong with them it will say. */
bool core_can_thread(const char *policy, const char *params, bool stoppable);

#endif
