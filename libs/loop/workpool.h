/*
 * Threads for work that must not block a loop (picture decoding). A work item is embedded in the caller's
 * object, runs on one of the threads, and comes back to the loop: `done` is called there exactly once per
 * accepted item.
 *
 * Items of one client run in the order in which they were submitted, clients take turns by what their work has cost (base/turns.h). An
 * item may be done in steps, between which others have their turns, and may be long: only so many of those run at
 * once, so that the other threads are there for short ones.
 */
#ifndef LOOP_WORKPOOL_H
#define LOOP_WORKPOOL_H

#include "base/turns.h"
#include "loop/loop.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct workpool workpool_t;
typedef struct work work_t;

struct work {
    mailbox_node_t node; /* of workpool.c, as is the turn */
    turns_item_t turn;
    uint64_t client;                            /* whose it is */
    uint64_t cost;                              /* of the step, in any unit, the same for all: set by run */
    turns_lane_t lane;                          /* of the next step: set by run; at first TURNS_SHORT */
    bool again;                                 /* it has more steps: set by run */
    void (*run)(work_t *work);                  /* on a pool thread; must end by itself */
    void (*done)(work_t *work, bool cancelled); /* on the loop; cancelled = some of its steps were not run */
    bool cancelled;
    atomic_bool unwanted; /* nobody waits for it any more: run may end early */
};

typedef struct {
    uint32_t threads;         /* 1 … 256 */
    uint32_t long_max;        /* threads that may do long work at once; 0: all of them */
    uint32_t capacity;        /* of what waits (not what runs) */
    uint32_t capacity_of_one; /* … of one client; 0: all of it */
} workpool_options_t;

status_t workpool_create(const workpool_options_t *options, loop_t *loop, workpool_t **pool, err_t *err);

/* Loop thread: calls done for what waits, as cancelled; joins the threads (running steps finish); calls
 * done for those. */
void workpool_destroy(workpool_t *pool);

/* Any thread; run, done and client are set, the rest is done here. STATUS_UNAVAILABLE when the queue is full, STATUS_LIMITED when the client has his part of it: the item is still the caller's. */
status_t workpool_submit(workpool_t *pool, work_t *work);

/* Loop thread, for an accepted item that is not done: nobody waits for it any more. If it waits, done is called from within; if it runs,
 * it does not go on after this step. */
void workpool_cancel(workpool_t *pool, work_t *work);

uint32_t workpool_queued(workpool_t *pool);

#endif
