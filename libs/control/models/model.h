/* The models of the cluster, as data: each as every worker has it, and what that amounts to. */
#ifndef CONTROL_MODELS_MODEL_H
#define CONTROL_MODELS_MODEL_H

#include "control/cluster/roster.h"
#include "control/cluster/standing.h"
#include "control/core/subclusters.h"
#include "profile/family.h"
#include "profile/profile.h"

typedef struct shape shape_t;

enum { REASON_BYTES = ERR_TEXT_BYTES };

/* A model as one worker has it. */
struct instance {
    struct instance *next;
    worker_t *worker;
    Control__ModelState state;
    bool conflict; /* another worker serves a model of this name with another interface */
    bool released; /* UNLOADING, and told that nothing waits for it */
    uint64_t signature;
    uint64_t devices[DEVICES_PER_WORKER_MAX / 64]; /* bit i: device i of the worker holds it */
    char reason[REASON_BYTES];
    Control__ModelReport *report;
    profile_t profile;
    int64_t shunned_until_ns; /* a batch failed here, and is to be tried elsewhere; 0: no */
    standing_t standing;
    bool outlier;       /* its profile is beyond all that its like report: it counts for nothing */
    int64_t measure_ns; /* not asked before then to measure it anew */
    uint32_t measures;  /* times that it was asked to */
    family_t *family;   /* NULL: none of its dimensions varies but the batch */
};

/* Of those who name no version it gets as many as it can (the highest), a share, or none while there is another (versions.h). */
typedef enum { VERSION_TRUSTED, VERSION_TRIED, VERSION_REFUSED } version_state_t;

enum { MODEL_NAME_BYTES = 256 };

typedef struct model {
    uint32_t id;
    char name[MODEL_NAME_BYTES]; /* in it: a place stays, and a name by itself would keep a page */
    int64_t version;
    instance_t *instances;
    instance_t *canonical; /* whose description gateways see; NULL when no worker has it */
    bool ready;
    bool forgotten;        /* nobody has had it for long, and it is not listed (catalogue.h) */
    bool rising;           /* some worker is loading it */
    bool staying;          /* some worker is loading another version: UNLOADING ones serve until then */
    subcluster_t *home;    /* where its tasks go; NULL: nowhere */
    subcluster_t *planned; /* where the last plan that moved it wants it */
    struct {
        version_state_t state;
        bool ready;         /* when last looked at */
        uint64_t good, bad; /* rows since it is tried: in time; missed, late, or of a batch that failed */
    } trial;
    uint32_t ready_workers;
    uint32_t tasks; /* of it that are known, queued or granted */
    int64_t unready_since_ns;
    uint64_t unready_version; /* of the catalogue that said so */
    char reason[REASON_BYTES];
    profile_t *profile; /* at its home: the slowest of those that are ready there; NULL: forgotten */
    int64_t slo_ns;
    /* What a row takes lately in parts of its profile, 1 at most; 0: nothing was looked at yet. */
    double quicker;
    shape_t *shapes;
    uint32_t shape_count;
    sched_model_stats_t past; /* of shapes that are no more */
    uint64_t done, dropped;
    uint64_t infeasible; /* refused for it (tasks/deadline.h), and in no other count */
    struct { /* foretell.h: counts when last looked at, and until when they count as those of now */
        uint64_t infeasible, requests;
        int64_t least_until_ns, parts_until_ns;
        bool waits;
        sched_backlog_t backlog; /* where it waits */
    } foretold;
    int64_t granted_ns; /* when a batch of it was granted last, or one tried that looked infeasible */
    struct {
        uint64_t requests, rows; /* that came; that ran */
        uint64_t busy_ns;        /* of devices, for those rows; wraps as in sched.h */
    } ran, planned_from;         /* since the start; at the last plan that was carried out */
    struct {
        metric_t *granted, *dropped, *cancelled, *retried, *infeasible, *queue, *queue_seconds, *batches,
            *batch_size;
        metric_t *stretches, *revoked_stopped, *revoked_late, *wasted, *took_mean, *took_guard;
        metric_t *shunned, *strikes[ILL_KINDS], *proven, *unproven;
    } metrics;
} model_t;

typedef struct {
    turn_t *turn;
    const roster_t *roster;
    subclusters_t *subclusters;
    model_t **all; /* by id, [models_max]; the first count of them */
    uint32_t count;
    uint64_t version;   /* of the catalogue */
    bool changed, full; /* gateways have not got this version; some description found no room in it */
    bool tried;         /* a trial was granted (standing.h): no other there before that is judged */
    shape_t *shapes, *free_shapes; /* shapes.h */
    uint64_t shapes_used;
} models_t;

/* NULL: no such id. */
static inline model_t *models_get(const models_t *models, uint32_t id)
{
    return id < models->count ? models->all[id] : NULL;
}

#endif
