/*
 * Threads for work that must not block a loop (picture decoding). A work item is embedded in the caller's
 * object, runs on one of the threads, and comes back to the loop: `done` is called there exactly once per
 * accepted item.
 */
#ifndef LOOP_WORKPOOL_H
#define LOOP_WORKPOOL_H

#include "loop/loop.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct workpool workpool_t;
typedef struct work work_t;

struct work {
    mailbox_node_t node;
    void (*run)(work_t *work);                  /* on a pool thread; must end by itself */
    void (*done)(work_t *work, bool cancelled); /* on the loop; cancelled = run was never called */
    bool cancelled;
};

/* threads 1 … 256; queue_capacity bounds what waits (not what runs). */
status_t workpool_create(workpool_t **out, loop_t *loop, uint32_t threads, uint32_t queue_capacity,
                         err_t *err);

/* Loop thread: calls done for what waits, as cancelled; joins the threads (running items finish); calls
 * done for those. */
void workpool_destroy(workpool_t *pool);

/* Any thread. STATUS_UNAVAILABLE when the queue is full: the item is still the caller's. */
status_t workpool_submit(workpool_t *pool, work_t *work);

uint32_t workpool_queued(workpool_t *pool);

#endif
