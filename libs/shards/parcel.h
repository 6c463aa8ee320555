/*
 * Tasks that go from one shard to another: a list that takes any number and never makes its sender wait, for two shards
 * that send to each other must not wait for each other. What it holds is bounded by the task pools it comes from.
 */
#ifndef SHARDS_PARCEL_H
#define SHARDS_PARCEL_H

#include "sched/sched.h"

#include <stdatomic.h>

typedef struct {
    sched_task_t task;
    bool lost;   /* was in flight on a GPU that went away */
    bool fresh;  /* no shard has counted it yet */
    bool cancel; /* not a task: the word that the one of this tag is to leave its queue */
} parcel_task_t;

typedef struct parcel {
    struct parcel *next;
    uint32_t model;
    /* The model itself comes: orders worked off so far. Such a parcel holds no tasks and is not to be
     * freed; there is one for each model, so that a move needs no memory. */
    bool with_model;
    uint32_t seen;
    uint32_t count;
    parcel_task_t *tasks; /* behind it in the same block */
} parcel_t;

typedef _Atomic(parcel_t *) parcel_list_t;

parcel_t *parcel_create(uint32_t model, uint32_t count); /* NULL: no memory */
void parcel_send(parcel_list_t *list, parcel_t *parcel);
/* All that have come, in the order of their sending; the caller frees each. */
parcel_t *parcel_take_all(parcel_list_t *list);

#endif
