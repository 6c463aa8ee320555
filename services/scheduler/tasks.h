/*
 * Tasks are pool slots; libs/sched refers to one by a tag that holds its slot and generation, so that a tag of a slot
 * that was given back is recognised. Hot.
 *
 *   task:   queued in the core --grant--> in a batch --done--> free
 *               |  ^                        |
 *               |  +------ worker lost -----+
 *               +--dropped or cancelled--> free
 */
#ifndef SCHEDULER_TASKS_H
#define SCHEDULER_TASKS_H

#include "base/status.h"
#include "control.pb-c.h"
#include "sched/sched.h"

#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct gateway gateway_t;
typedef struct subcluster subcluster_t;
typedef struct batch batch_t;
typedef struct shape shape_t;

/* What a client is told to wait before it tries again. */
enum {
    RETRY_AFTER_SHED_MS = 50,
    RETRY_AFTER_FULL_MS = 100,
    RETRY_AFTER_LOST_MS = 1000,
};

typedef struct task {
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
    int64_t
        answer_ns; /* when the answer must leave the gateway, on our clock, for the farthest the gateway may be */
    uint32_t model;
    shape_t *shape; /* of a model whose dimensions vary; else NULL */
    uint32_t len_bytes;
    uint32_t generation;
    bool patient; /* held until its client's own deadline */
    bool trial;   /* it looks infeasible, and is not counted (scheduler/deadline.h) */
    uint8_t retries;
    /* Where it is tried again: how its last try ended, which is what its gateway is told if no other succeeds. */
    uint8_t failed_status, failed_stage;
} task_t;

task_t *task_take(scheduler_t *s, gateway_t *gateway, uint64_t id); /* NULL: no room */
void task_give(scheduler_t *s, task_t *task);
void task_orphan(task_t *task); /* nobody waits for it any more */
uint64_t task_tag(const scheduler_t *s, const task_t *task);
task_t *task_of_tag(const scheduler_t *s, uint64_t tag); /* NULL: given back meanwhile */
/* Counts the task as dropped and tells its gateway, if it still has one; task_drop gives the task back as well. */
void task_tell(scheduler_t *s, const task_t *task, status_t status, Control__Stage stage,
               uint32_t retry_after_ms);
void task_drop(scheduler_t *s, task_t *task, status_t status, Control__Stage stage, uint32_t retry_after_ms);

#endif
