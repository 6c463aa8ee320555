/*
 * A sub-cluster: devices of one class, the scheduling core that decides for them under a policy of its own, what was
 * measured on the way to them, and the advice on how many there should be.
 *
 * This is the border behind which the core decides; no other file of the control plane calls it. All rely on what
 * sched/core_ops.h promises of a core of either kind, and no more. Every function says what happened; it decides nothing and
 * calls nobody back. Decisions come out of subcluster_run.
 *
 * Which kind of core there is, is settled when the sub-cluster is made: where the world makes cores on threads, they decide, if
 * the policy can run there, else it is a core of the machine's own, and a note says so (core_not_on_threads). What threads
 * cannot do is refused from then on, with a reason that says what can: policies nexus and shepherd, devices whose mode is not
 * `whole`. Models with exit points run there and are not stopped (note policy_never_stops).
 */
#ifndef CONTROL_CORE_SUBCLUSTER_H
#define CONTROL_CORE_SUBCLUSTER_H

#include "control/cluster/worker.h"
#include "metrics/metrics.h"
#include "profile/profile.h"
#include "sched/autoscale.h"
#include "sched/core_ops.h"
#include "sched/shed.h"

enum {
    SUBCLUSTERS_MAX = 32, /* a core takes some 10 MB, and a partition finer than this plans for nobody */
    SUBCLUSTER_NAME_BYTES = 64,
    DEVICE_CLASS_BYTES = 64,
    POLICY_PARAMS_BYTES = 1024, /* the parameters of a policy, as text */
    DEVICE_INFLIGHT_MOST = 4,   /* of a device that says how many batches it takes: no more than this */
};

/* Upper bounds of what lies between a decision and an answer, from what was observed (control/cluster/delay.h). */
typedef struct {
    sched_delays_t sched; /* what the core plans with */
    fetch_delay_t fetch;
    int64_t usual_ns; /* of a request's way through an idle device: the medians of fetch and push */
    delay_window_t push;
    delay_window_t lateness; /* of decisions that threads make */
    int64_t push_bound_ns;
} subcluster_delays_t;

struct subcluster {
    turn_t *turn;
    uint32_t index;
    char name[SUBCLUSTER_NAME_BYTES];
    char device_class[DEVICE_CLASS_BYTES];
    bool declared; /* by the configuration: it stays */
    /* Found without devices and models by placement_tick; 0: it has some, or was not looked at yet. */
    int64_t idle_since_ns;
    uint32_t share;     /* of the devices of its class, against those of the others */
    device_t **devices; /* [devices_max], by the number that the core knows them by; NULL: free */
    uint32_t devices_max, device_count;
    subcluster_delays_t delays;
    autoscale_sums_t sums; /* counted by the room of tasks */
    shed_t shed;           /* requests of low priority that are refused as they come */
    struct {
        autoscale_t state;
        uint32_t devices; /* taking grants when last looked at */
        uint32_t desired;
        int64_t window_ns;    /* begin of the window that is under way */
        double busy_fraction; /* of the last one; 0 before */
    } autoscale;
    struct {
        metric_t *busy, *idle, *strikes, *delay_ctrl, *delay_data, *delay_wake;
        metric_t *desired, *bad_rate, *idle_fraction, *models;
    } metric;
    core_t *core;            /* subcluster.c's alone, */
    void *threads;           /* that decide, the world's word for them; else NULL */
    uint32_t plain_inflight; /* of a device that says nothing else */
    bool stoppable, hinted;  /* some model could be stopped; it was said that the policy never does it */
    int64_t wake_ns;
    bool dirty; /* something was said since the last run */
};

typedef struct {
    turn_t *turn;
    uint32_t index;
    const char *name, *device_class;
    sched_limits_t limits;
    const char *policy, *policy_params;
    int64_t initial_delay_ns;
    int64_t autoscale_window_ns; /* 0: the default of sched/autoscale.h */
} subcluster_options_t;

status_t subcluster_create(const subcluster_options_t *options, subcluster_t **subcluster, err_t *err);
void subcluster_destroy(subcluster_t *subcluster);

/* Whether subcluster_set_policy would take it. */
status_t subcluster_check_policy(const char *name, const char *params, err_t *err);
/* At run time: what waits goes on waiting, what runs goes on running. INVALID_ARGUMENT, UNSUPPORTED (on threads) leave all
 * as it was. */
status_t subcluster_set_policy(subcluster_t *subcluster, const char *name, const char *params, err_t *err);
const char *subcluster_policy(const subcluster_t *subcluster);

/* ---- Models, by catalogue id. Cold. ---- */

status_t subcluster_add_model(subcluster_t *subcluster, uint32_t model, const profile_t *profile,
                              int64_t slo_ns, err_t *err);
/* What waits comes back in drops of reason MODEL_REMOVED; running batches end as usual. */
void subcluster_remove_model(subcluster_t *subcluster, uint32_t model);
void subcluster_update_profile(subcluster_t *subcluster, uint32_t model, const profile_t *profile);
/* Places at which a running batch of it can stop; 0, as at first: it is never stopped. */
void subcluster_set_exit_points(subcluster_t *subcluster, uint32_t model, uint32_t exit_points);
/* What its batches do inside a device whose mode is not whole. False: it makes no sense, and nothing changes. */
bool subcluster_set_inside(subcluster_t *subcluster, uint32_t model, const sched_inside_t *inside,
                           err_t *err);
/* At first a model may run on every device. */
void subcluster_allow(subcluster_t *subcluster, uint32_t model, uint32_t gpu, bool allowed);
/* All zero for a model that is not here. */
void subcluster_model_stats(const subcluster_t *subcluster, uint32_t model, sched_model_stats_t *stats);
/* 1 and 1 for a model that is not here. Of a core on threads it is as of the model's last grant. */
void subcluster_model_scatter(const subcluster_t *subcluster, uint32_t model, sched_scatter_t *scatter);

/* False: nothing can be said, as always of a core on threads. */
bool subcluster_backlog(const subcluster_t *subcluster, uint32_t model, sched_backlog_t *backlog);
/* Tasks that were turned away for it before they came here. */
void subcluster_note_refused(subcluster_t *subcluster, uint32_t model, uint32_t count);

/* ---- Devices, by the number of their seat. Cold. ---- */

/* The lowest free seat, for among free devices the core prefers low numbers; UINT32_MAX: none. */
uint32_t subcluster_seat(subcluster_t *subcluster, device_t *device);
void subcluster_unseat(subcluster_t *subcluster, uint32_t gpu);
/* Grants begin. INVALID_ARGUMENT: they had. UNSUPPORTED: a mode that threads cannot drive. */
status_t subcluster_open(subcluster_t *subcluster, uint32_t gpu, const sched_gpu_mode_t *mode,
                         int64_t free_at_ns, err_t *err);
/* No further grants; what runs goes on. */
void subcluster_drain(subcluster_t *subcluster, uint32_t gpu);
/* After its batches have been said to have ended. */
void subcluster_close(subcluster_t *subcluster, uint32_t gpu);
void subcluster_free_at(subcluster_t *subcluster, uint32_t gpu, int64_t free_at_ns);

/* Batches that any device may be granted and not have done; given: what a device takes that says nothing else. */
static inline uint32_t subcluster_inflight_most(uint32_t given)
{
    return given > DEVICE_INFLIGHT_MOST ? given : DEVICE_INFLIGHT_MOST;
}

/* ---- Tasks and batches. Hot. ---- */

/* NOT_FOUND: the model is not here; UNAVAILABLE: full. */
status_t subcluster_submit(subcluster_t *subcluster, uint32_t model, const sched_task_t *task,
                           sched_ref_t *ref);
/* True: nothing more is heard of it. False: it has come out, or still will, in a batch or in a drop. */
bool subcluster_cancel(subcluster_t *subcluster, sched_ref_t ref);
/* When the batch ran, as measured: the core learns from it how long batches take. Optional, before its end is told. */
void subcluster_batch_ran(subcluster_t *subcluster, uint64_t batch, int64_t started_ns, int64_t ended_ns);
/* The id is the core's; free_at_ns: when the device takes the next one. */
void subcluster_batch_ended(subcluster_t *subcluster, uint64_t batch, int64_t free_at_ns);

/* Whether its last run asked for one by now, or threads may have decided something since. */
bool subcluster_is_due(const subcluster_t *subcluster, int64_t now_ns);
/* Decides what is due and hands out what was decided. Afterwards wake_ns is when to come again at the latest. */
void subcluster_run(subcluster_t *subcluster, sched_sink_fn sink, void *ctx);

/* One that was admitted was dropped, or late. */
static inline void subcluster_note_bad(subcluster_t *subcluster)
{
    subcluster->sums.bad++;
    shed_note_bad(&subcluster->shed);
}

/* A device was busy for so long. For the advice only what the load needs of that counts (sched_needed). */
void subcluster_note_busy(subcluster_t *subcluster, int64_t device_ns);

/* ---- Delays ---- */

/* Makes the bounds anew from what was measured, and has the core plan with them. ctrl: the slowest way to one of its
 * workers; wake_ns: how late the loop's timers come; shortest_slo_ns: of its models, INT64_MAX without any. */
void subcluster_update_delays(subcluster_t *subcluster, int64_t now_ns, delay_bounds_t ctrl, int64_t wake_ns,
                              int64_t shortest_slo_ns, int64_t fallback_ns);

/* ---- Size (Symphony §3.5) ---- */

/* Looks at what was counted; to be called often. devices: those that take grants. Afterwards
 * autoscale.desired is how many there should be: it rises with the first window of too many bad requests,
 * and falls only after many quiet ones. */
void subcluster_autoscale(subcluster_t *subcluster, uint32_t devices);

#endif
