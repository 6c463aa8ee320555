/*
 * The scheduling core behind a sub-cluster's border: a sched_t on the loop's thread, or with `shards` a
 * front_t (shards/front.h), whose threads decide. Policies that cannot run on threads (nexus, shepherd, and
 * fermata where a model can be stopped, unless with preempt=0) run on a sched_t all the same, and so does what has a GPU whose mode
 * is not `whole`; a change that needs the other kind makes that one, and moves everything over.
 *
 * All functions are for the loop's thread. They keep the promises of subcluster.h.
 */
#ifndef SCHEDULER_BACKEND_H
#define SCHEDULER_BACKEND_H

#include "loop/loop.h"
#include "sched/sched.h"

enum { BACKEND_PARAMS_BYTES = 1024 }; /* the parameters of a policy, as text */

typedef struct backend backend_t;

typedef struct {
    sched_limits_t limits;
    uint32_t shards; /* threads that hold queues, beside one matcher; 0: all on the loop's thread */
    const char *policy, *params;
    sched_delays_t delays;
    loop_t *loop;
    void (*on_news)(void *arg); /* on the loop: backend_run is due; only with shards */
    void *arg;
} backend_options_t;

status_t backend_create(const backend_options_t *options, backend_t **backend, err_t *err);
void backend_destroy(backend_t *backend); /* NULL is allowed */

/* When the kind of core changes, here or with a GPU, what waits comes out in drops of reason
 * MODEL_REMOVED: submit it again. */
status_t backend_set_policy(backend_t *backend, const char *name, const char *params, err_t *err);
const char *backend_policy(const backend_t *backend);
bool backend_is_threaded(const backend_t *backend);

status_t backend_add_model(backend_t *backend, uint32_t model, const profile_t *profile,
                           const sched_model_opts_t *opts, err_t *err);
void backend_remove_model(backend_t *backend, uint32_t model);
void backend_update_profile(backend_t *backend, uint32_t model, const profile_t *profile);
void backend_set_exit_points(backend_t *backend, uint32_t model, uint32_t exit_points);
status_t backend_set_inside(backend_t *backend, uint32_t model, const sched_inside_t *inside, err_t *err);
void backend_allow(backend_t *backend, uint32_t model, uint32_t gpu, bool allowed);
bool backend_model_stats(const backend_t *backend, uint32_t model, sched_model_stats_t *stats);
/* See sched_needed. */
double backend_needed(const backend_t *backend);
bool backend_model_scatter(const backend_t *backend, uint32_t model, sched_scatter_t *scatter);

status_t backend_add_gpu(backend_t *backend, uint32_t gpu, const sched_gpu_mode_t *mode, int64_t free_at_ns);
void backend_drain_gpu(backend_t *backend, uint32_t gpu);
void backend_remove_gpu(backend_t *backend, uint32_t gpu);
void backend_gpu_free(backend_t *backend, uint32_t gpu, int64_t free_at_ns);
void backend_set_delays(backend_t *backend, const sched_delays_t *delays);

/* The low half of a tag is below limits.tasks_max, and no two tasks that are here at a time share one. */
status_t backend_submit(backend_t *backend, uint32_t model, const sched_task_t *task, sched_ref_t *ref);
bool backend_cancel(backend_t *backend, sched_ref_t ref);
/* Optional, before its end is told; see sched_batch_ran. */
void backend_batch_ran(backend_t *backend, uint64_t batch, int64_t started_ns, int64_t ended_ns);
void backend_batch_ended(backend_t *backend, uint64_t batch, int64_t free_at_ns);

/* Returns when to be called again at the latest. The sink may call backend_submit for what was dropped for a change of
 * policy. */
int64_t backend_run(backend_t *backend, sched_sink_fn sink, void *ctx);
/* See front_take_lateness; always false on the loop's thread. */
bool backend_take_lateness(backend_t *backend, int64_t *lateness_ns);

/* Of a device that says how many batches it takes: no more than this. */
enum { BACKEND_INFLIGHT_MOST = 4 };

/* Batches that any device may be granted and not have done. */
static inline uint32_t backend_inflight_most(const sched_limits_t *limits)
{
    return limits->gpu_inflight_max > BACKEND_INFLIGHT_MOST ? limits->gpu_inflight_max
                                                            : BACKEND_INFLIGHT_MOST;
}

#endif
