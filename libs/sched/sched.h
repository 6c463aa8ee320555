/*
 * The scheduling core of one sub-cluster (DESIGN.md 2.1, 2.2, 6): tasks in, grants and drops out.
 *
 * Pure: no clock, I/O or threads; all memory is allocated by sched_create. The service, the simulator and the
 * tests drive this same object:
 *
 *     sched_submit / sched_batch_done / …   tell what happened at `now_ns`  (never call back)
 *     wake_at = sched_run(now_ns, sink)     decides; every action comes out of here, through the sink
 *
 * After telling what happened, call sched_run with the same now; call it again at wake_at. Several events may
 * be told before one sched_run (a whole message of tasks costs one candidate update per model). Times are
 * nanoseconds on one monotonic clock of the caller; `now_ns` never runs backwards. One thread at a time.
 *
 * Inside it is Symphony's Figure 18 (sched/shard.h, sched/matcher.h): one model shard per model, one matcher,
 * and three messages between them. All GPUs of one sched_t are alike: they share the profiles. GPU ids are
 * chosen by the caller, and among GPUs that are free the lowest id is taken, so low load leaves the high ids
 * idle.
 */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include "base/status.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stdint.h>

#define SCHED_NEVER INT64_MAX

typedef struct sched sched_t;

typedef struct {
    uint32_t models_max; /* model ids are 0 .. models_max - 1 */
    uint32_t gpus_max;   /* GPU ids are 0 .. gpus_max - 1 */
    uint32_t tasks_max;  /* queued and in flight together; 64 bytes each */
    uint32_t batch_max;  /* no batch is larger, whatever a profile says */
    /* Batches granted to one GPU and not reported done. 2 lets the next batch's inputs travel while one runs,
     * and is also what a GPU that went silent can cost. 0: the default, 2. */
    uint32_t gpu_inflight_max;
} sched_limits_t;

/* A task is one row of a batch. The tag is the caller's and comes back in the actions. */
typedef struct {
    uint64_t tag;
    int64_t arrival_ns;
    int64_t deadline_ns; /* the batch must have finished by then (the caller takes off the way back to the
                            client) */
} sched_task_t;

/* Names a task that is in the core, for sched_cancel. A ref of a task that is gone is recognised as such. */
typedef uint64_t sched_ref_t;

typedef enum {
    SCHED_DROP_EXPIRED,       /* could not have made it even alone */
    SCHED_DROP_WINDOW,        /* given up so that those behind it run in a larger batch */
    SCHED_DROP_GPU_LOST,      /* was in flight on a GPU that went away, too late for another try */
    SCHED_DROP_MODEL_REMOVED, /* its model left this core */
    /* Only from libs/shards, which answers later what sched_submit and sched_cancel answer at once. */
    SCHED_DROP_NO_ROOM,   /* tasks_max was reached when it came */
    SCHED_DROP_CANCELLED, /* the caller took it back */
    SCHED_DROP_REASONS,
} sched_drop_t;

typedef enum { SCHED_GRANT, SCHED_DROP, SCHED_PREEMPT } sched_action_kind_t;

typedef struct {
    sched_action_kind_t kind;
    uint32_t model;
    union {
        struct {
            uint32_t gpu;
            uint64_t batch_id; /* unique in this sched_t */
            /* When the batch is expected to begin: the GPU has done what it was granted before, and the way there takes
             * its bound (sched_delays_t). The plan rests on it, the GPU does not wait for it: one that is ready begins
             * before, and one that is not, later. */
            int64_t start_ns;
            int64_t finish_ns;         /* predicted: start + latency of the batch */
            const sched_task_t *tasks; /* valid during the sink call; earliest deadline first */
            uint32_t count;
            /* 0, or the running batch that these rows catch up with and join; see sched_set_gpu_mode */
            uint64_t stretches;
        } grant;
        struct {
            sched_task_t task;
            sched_drop_t reason;
        } drop;
        struct { /* stop this batch: its tasks are back in the queue, a late result of it is unknown here */
            uint32_t gpu;
            uint64_t batch_id;
        } preempt;
    };
} sched_action_t;

/* Called inside sched_run, in the order of the decisions. Must not call into the same sched_t. */
typedef void (*sched_sink_fn)(void *ctx, const sched_action_t *action);

/* How a GPU runs what it is granted (libs/exec). Zero: `whole`, one batch after the other. */
typedef struct {
    bool stretches; /* `staged`: rows may be granted to a batch that runs */
    /* `overlap`, or `staged` with several pairs for new batches: up to so many batches side by side. 0 and 1: one. */
    uint32_t slots;
    /* With slots: per mille of the GPU that may be granted beyond what fills it. Where batches run in
     * groups, what comes while one runs is the next group. */
    uint32_t ahead;
    uint32_t inflight; /* batches granted and not done, with what has joined them; 0: gpu_inflight_max */
} sched_gpu_mode_t;

enum {
    SCHED_STAGES_MAX = 32, /* as exec/staged.h */
    SCHED_SLOTS_MAX = 8,   /* as exec/exec.h's parts */
    SCHED_WHOLE = 1000,
};

/* What a model's batches do inside a GPU, as profiled; parts are per mille. Zero: no stages, each keeps
 * its GPU busy. */
typedef struct {
    uint32_t stages; /* up to SCHED_STAGES_MAX; 0 and 1: it is never stretched */
    uint16_t until
        [SCHED_STAGES_MAX]; /* part of its latency that has passed at the end of each; the last is all of it */
    /* T_comp_wait (DVABatch 7.2): no rows for a batch that has run longer; 0: no such limit */
    int64_t comp_wait_ns;
    /* A batch of b keeps the part busy_fixed + b·busy_row of its GPU busy, at most all; both 0: all of it. */
    uint32_t busy_fixed, busy_row;
} sched_inside_t;

/* What the scheduler is told about a model, besides its profile. Zero means: none, derive it. */
typedef struct {
    int64_t slo_ns; /* the usual budget of a request; policies plan with it, deadlines come with the tasks */
    uint32_t max_batch; /* 0: the profile's */
    int64_t timeout_ns; /* policy `timeout`: wait of the first request; 0: the policy's k */
    uint64_t preferred; /* policy `timeout`: bit b-1 set: dispatch at once when b requests wait (Triton) */
    /* Places inside the model where a running batch can stop; n of them cut its latency into n + 1 equal parts. 0: it
     * cannot be preempted (Shepherd 6). */
    uint32_t exit_points;
    double rate_hint; /* requests/s expected, before anything was measured (policy `nexus`) */
} sched_model_opts_t;

/* Of the delays so large a part takes no longer than what is counted on: where a late batch costs most, and least. */
#define SCHED_DELAYS_MOST 0.99
#define SCHED_DELAYS_MANY 0.84

/* Upper bounds of the way scheduler -> worker (ctrl) and of fetching one input (data), as measured by the caller: SCHED_DELAYS_MOST of
 * them take no longer. A batch of b is granted ctrl_ns + fixed_ns + b·data_ns before it is to start; or less for a model that loses
 * little by late ones, whose scatter then tells how late its batches begin (sched/scatter.h). */
typedef struct {
    int64_t ctrl_ns;
    int64_t fixed_ns;
    int64_t data_ns;
    /* Of these two, so much is there for those beyond SCHED_DELAYS_MANY only. 0: they do not scatter, or nobody knows. */
    int64_t ctrl_rare_ns, fixed_rare_ns;
    /* How late sched_run may come after the wake_at it asked for (timers, a busy host). A batch is ready this much
     * before its last moment, so that lateness costs a little batching and never the deadline. 0 in simulations. */
    int64_t wake_ns;
} sched_delays_t;

/* The policy is "fermata" until sched_set_policy. NULL and *err on bad limits or no memory. */
sched_t *sched_create(const sched_limits_t *limits, err_t *err);
void sched_destroy(sched_t *sched);

/* Switches the policy at run time; nothing is dropped, running batches go on. params: "key=value,key=value",
 * or NULL. INVALID_ARGUMENT names an unknown policy, key or a bad value and leaves all as it was. */
status_t sched_set_policy(sched_t *sched, int64_t now_ns, const char *name, const char *params, err_t *err);
/* Name of the i-th policy, NULL behind the last: for --help and error texts. */
const char *sched_policy_name(uint32_t index);
/* What that one does, in a line; of one that there is, as is the next. */
const char *sched_policy_help(uint32_t index);

/* A parameter of a policy: a number within least and most, or one of the choices (ends with NULL), of which `preset` is then the index. */
typedef struct {
    const char *name, *help;
    const char *const *choices; /* NULL: a number */
    double least, most, preset;
    /* It means something only with this choice of another parameter (NULL: always): given with another one it is refused. */
    const char *only_with, *only_with_choice;
    size_t offset; /* of its value, a double, in the policy's state */
} sched_param_t;

/* Those of the i-th policy, for --help: ends with a name of NULL. NULL: it has none. */
const sched_param_t *sched_policy_params(uint32_t index);

status_t sched_add_model(sched_t *sched, int64_t now_ns, uint32_t model, const profile_t *profile,
                         const sched_model_opts_t *opts, err_t *err);
/* Queued tasks are dropped (MODEL_REMOVED) by the next sched_run; running batches go on. */
status_t sched_remove_model(sched_t *sched, int64_t now_ns, uint32_t model);
/* In place of those it was added with. */
status_t sched_set_exit_points(sched_t *sched, uint32_t model, uint32_t exit_points);
status_t sched_update_profile(sched_t *sched, int64_t now_ns, uint32_t model, const profile_t *profile);

/* The GPU is free from free_at_ns on, and may run every model until sched_allow says otherwise. */
status_t sched_add_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu, int64_t free_at_ns);
/*
 * The mode of a GPU, told while nothing is in flight on it (else UNAVAILABLE; NOT_FOUND: no such GPU; INVALID_ARGUMENT:
 * more than SCHED_SLOTS_MAX, or than gpu_inflight_max).
 *
 * stretches: besides grants of batches there are grants of rows that join one: grant.stretches names a batch of the same
 * model, granted to the same GPU and still running. The rows are a batch of their own to this interface (own id, own
 * sched_batch_done), and finish_ns is when the two are predicted to end, together. That prediction holds for a GPU on
 * which the rows go through the stages that are behind the batch while that waits at the border of the stage it is in, and
 * which does at most one such catching-up at a time. A stretch is granted when
 *   - both meet all their deadlines by that prediction, and nothing is granted behind them;
 *   - the rows are as many as pay for the launch: at least the part of the batch that has passed;
 *   - no other model's ready batch waits for a GPU;
 *   - T_comp_wait has not passed.
 * `inflight` bounds the batches with what has joined them: 4 is a good value.
 *
 * slots: the GPU is granted further batches while by prediction none of them misses a deadline for it, the
 * new one included. Batches side by side are each slowed by the sum of the parts of the GPU that they keep
 * busy, where that is more than all of it; a sixteenth of what is predicted is kept back. The slack of what
 * runs is the GPU's headroom, and the matcher sees it. None goes beside what keeps 3/4 of the GPU busy, nor
 * where they would keep more than 5/4 busy together (`ahead` allows more). Rows join a batch there only while
 * it runs alone.
 *
 * Policies that hold batches back (deferred, fermata) let them go earlier before such GPUs, while they have the
 * slack to be stretched or slowed (sched/inside.h). They do so when any GPU has the mode.
 *
 * Only batches that run by themselves are ever preempted.
 */
status_t sched_set_gpu_mode(sched_t *sched, int64_t now_ns, uint32_t gpu, const sched_gpu_mode_t *mode);
/* NOT_FOUND: no such model. INVALID_ARGUMENT names a part that falls or is beyond all. Holds until the model leaves. */
status_t sched_set_inside(sched_t *sched, int64_t now_ns, uint32_t model, const sched_inside_t *inside,
                          err_t *err);
/* The tasks of its batches go back to their queues (see SCHED_DROP_GPU_LOST). */
status_t sched_remove_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu);
/* No further grants; the batches in flight end as usual, then sched_gpu_inflight is 0 and it may be removed.
 */
status_t sched_drain_gpu(sched_t *sched, int64_t now_ns, uint32_t gpu);
uint32_t sched_gpu_inflight(const sched_t *sched, uint32_t gpu);
/* Whether a model is loaded on a GPU. All pairs are allowed at first (sub-clusters are uniform). */
status_t sched_allow(sched_t *sched, int64_t now_ns, uint32_t model, uint32_t gpu, bool allowed);

void sched_set_delays(sched_t *sched, int64_t now_ns, const sched_delays_t *delays);

/* NOT_FOUND: no such model. UNAVAILABLE: tasks_max reached. *ref (may be NULL) is set on success. O(1) when
 * the deadlines of a model come in order, else O(log n) amortised. */
status_t sched_submit(sched_t *sched, int64_t now_ns, uint32_t model, const sched_task_t *task,
                      sched_ref_t *ref);
/* Takes a waiting task out, with no action. False: it is unknown, or already in a granted batch. */
bool sched_cancel(sched_t *sched, int64_t now_ns, sched_ref_t ref);

/* Optional, before sched_batch_done: from when until when the batch really ran, as measured. The core learns from it how what a
 * model's batches take lies around its profile (sched/scatter.h): deadlines are judged with a quantile of that, and
 * plans made with its mean. False: no such batch, or times that make no sense. */
bool sched_batch_ran(sched_t *sched, int64_t now_ns, uint64_t batch_id, int64_t started_ns, int64_t ended_ns);
/* The worker says that a batch has ended, well or not: its tasks are the caller's, who may submit them again. free_at_ns,
 * measured, replaces the prediction for the next grant. False: no such batch (preempted, of a removed GPU): harmless. */
bool sched_batch_done(sched_t *sched, int64_t now_ns, uint64_t batch_id, int64_t free_at_ns);
/* Something outside says when a GPU will be free (a worker that joins while it is busy). */
status_t sched_gpu_free(sched_t *sched, int64_t now_ns, uint32_t gpu, int64_t free_at_ns);

/* Decides all that is due at now_ns and returns when to be called again at the latest (SCHED_NEVER: on the
 * next event). */
int64_t sched_run(sched_t *sched, int64_t now_ns, sched_sink_fn sink, void *ctx);

typedef struct {
    uint64_t submitted, granted, cancelled; /* tasks; granted counts a task once per grant */
    uint64_t dropped[SCHED_DROP_REASONS];
    uint64_t batches, preempted_batches;
    uint64_t stretches; /* of the batches, those that joined a running one */
    uint32_t queued, in_flight;
    /* Predicted execution time of the granted batches; with slots, of the part that they keep busy. Of a thousand
     * GPUs it wraps within the year: only differences mean anything. */
    uint64_t busy_ns;
} sched_model_stats_t;
/* What batches of a model take in parts of its profile: in the mean, and at most but for the few that may be late (1 and 1
 * where nothing else was seen). */
typedef struct {
    double mean, guard;
} sched_scatter_t;
/* False: no such model. */
bool sched_model_scatter(const sched_t *sched, uint32_t model, sched_scatter_t *scatter);
/* False: no such model. */
bool sched_model_stats(const sched_t *sched, uint32_t model, sched_model_stats_t *stats);

/* What a task of a model has to wait for at least if it comes now with a deadline not before deadline_ns, that of the last that waits: its GPUs are
 * done with all that waits at ends_ns at the earliest, and with it row_ns later. Counted is only what can still make it, and every
 * row as one of a batch whose rows take least. Such a task can be served before only if one that waits is given up for it. */
typedef struct {
    int64_t ends_ns, row_ns;
    int64_t deadline_ns;
} sched_backlog_t;
/* False: nothing is to be said. There is no such model, too little of it waits (less than some good batches for each GPU: there a task more makes batches larger), no GPU
 * may run it, it takes no time, GPUs do more than run whole batches, or the policy routes. Looks at all that waits, up to some thousands: for ten times a
 * second. */
bool sched_backlog(const sched_t *sched, int64_t now_ns, uint32_t model, sched_backlog_t *backlog);
/* So many tasks that would have come were turned away for it: they count as submitted and given up, so that policies plan for all that is asked for.
 * Nothing comes out of it; no such model: nothing happens. */
void sched_note_refused(sched_t *sched, uint32_t model, uint32_t count);

/* Of the GPU time that batches take, the part that the load needs, above 0 up to 1. The rest was idle and is spent on answering
 * early, as long as nobody else wants it (policy `fermata`, spare=latency; 1 for every other). For advice on GPUs. */
double sched_needed(const sched_t *sched);

/* NULL when every invariant of the core holds, else the one that is broken. O(everything): for tests. */
const char *sched_validate(const sched_t *sched);

#endif
