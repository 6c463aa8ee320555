/*
 * Tasks are pool slots; libs/sched refers to one by a tag that holds its slot and generation, so that a tag of a slot
 * that was given back is recognised. Hot.
 *
 *   task:   queued in the core --grant--> in a batch --done--> free
 *               |  ^                        |
 *               |  +------ worker lost -----+--done, and to be shown--> is asked for (prove.h) --> free
 *               +--dropped or cancelled--> free
 */
#ifndef CONTROL_TASKS_TASK_H
#define CONTROL_TASKS_TASK_H

#include "base/heap.h"
#include "base/pool.h"
#include "control/models/model.h"

/* What a client is told to wait before it tries again. */
enum {
    RETRY_AFTER_SHED_MS = SHED_RETRY_AFTER_MS,
    RETRY_AFTER_FULL_MS = 100,
    RETRY_AFTER_LOST_MS = 1000,
};

struct task {
    gateway_t *gateway;       /* NULL: nobody waits for it any more */
    struct task *prev, *next; /* of the same gateway */
    struct task *next_row;    /* of the same batch */
    batch_t *batch;           /* NULL while it is queued */
    subcluster_t *queue;      /* where it was submitted last */
    uint64_t id;
    uint64_t handle_hi, handle_lo, offset_bytes;
    sched_ref_t ref;
    int64_t arrival_ns;
    int64_t queued_ns; /* when the core was given it last */
    /* When the answer must leave the gateway, on our clock, for the farthest the gateway may be. */
    int64_t answer_ns;
    uint32_t model;
    shape_t *shape; /* of a model whose dimensions vary; else NULL */
    uint32_t len_bytes;
    uint32_t generation;
    bool patient; /* held until its client's own deadline */
    bool trial;   /* it looks infeasible, and is not counted (tasks/deadline.h) */
    bool shown;   /* its result is there, whoever sent it (prove.h); nobody waits for it any more */
    uint8_t retries;
    /* Where it is tried again: how its last try ended, which is what its gateway is told if no other succeeds. */
    uint8_t failed_status, failed_stage;
    uint8_t failed_as;  /* and what it comes to for who failed it, if another succeeds: ill_t */
    uint8_t row_failed; /* while its batch ends: the status that the worker reported for it alone */
    uint32_t proof;     /* 1 + its place among those that are asked for (proofs.h); 0: it is not */
    uint64_t failed_by; /* the worker process that its last try failed at; 0: no one's fault */
    int64_t again_ns;   /* when it was first granted anew since a try failed; 0: it has not been */
};

typedef struct handed handed_t;

typedef struct {
    turn_t *turn;
    const roster_t *roster;
    subclusters_t *subclusters;
    models_t *models;
    pool_t pool, batches; /* of task_t, of batch_t */
    idmap_t batches_by_id;
    uint64_t batches_made;
    handed_t *handed; /* handed.h */
    pool_t proofs;    /* proofs.h */
    heap_t proofs_by_time;
    struct {            /* foretell.h */
        uint32_t count; /* models to be told of, as of the last tick */
        bool due;       /* gateways have not been told of them */
        struct {
            uint32_t level;
            int64_t until_ns;
        } lowest[SUBCLUSTERS_MAX]; /* priority that requests had lately */
    } foretold;
} tasks_t;

status_t tasks_init(tasks_t *tasks, turn_t *turn, const roster_t *roster, models_t *models, err_t *err);
void tasks_dispose(tasks_t *tasks);

task_t *task_take(tasks_t *tasks, gateway_t *gateway, uint64_t id); /* NULL: no room */
void task_give(tasks_t *tasks, task_t *task);
void task_orphan(task_t *task); /* nobody waits for it any more */
uint64_t task_tag(const tasks_t *tasks, const task_t *task);
task_t *task_of_tag(const tasks_t *tasks, uint64_t tag); /* NULL: given back meanwhile */
void task_drop(tasks_t *tasks, task_t *task, status_t status, Control__Stage stage, uint32_t retry_after_ms);

#endif
