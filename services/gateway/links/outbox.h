/*
 * Tasks and cancellations on their way to the scheduler, gathered until the next message leaves. Bounded:
 * where the stream takes no messages for a while, tasks wait here with their deadlines, and when one more
 * finds no room, those that have missed theirs meanwhile leave; their clients are answered by the timers of
 * their sessions. Loop thread only.
 *
 * Hot path: nothing is allocated per task; what leaves points into the arrays.
 */
#ifndef GATEWAY_OUTBOX_H
#define GATEWAY_OUTBOX_H

#include "base/status.h"
#include "transfer/transfer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct Control__TaskBatch;
struct Control__CancelBatch;

/* Tasks of one message: half a megabyte of arrays. More in one turn make more messages. */
enum { OUTBOX_TASKS_MAX = 8192, OUTBOX_CANCELS_MAX = 8192, OUTBOX_SIZES_MAX = 16384 };

typedef struct {
    uint64_t id;
    uint32_t model;      /* catalogue id of this epoch */
    int64_t deadline_ns; /* of our clock; becomes a budget when it leaves */
    transfer_handle_t handle;
    uint64_t offset_bytes;
    uint32_t len_bytes;
    uint32_t priority;
    bool admitted;         /* by what the scheduler has told ahead */
    const uint32_t *sizes; /* of the model's axes */
    uint32_t size_count;
} gateway_control_task_t;

/* Half a megabyte: not for a stack. */
typedef struct {
    size_t count, cancel_count, missed_count, arrived_count;
    uint64_t id[OUTBOX_TASKS_MAX];
    uint32_t model[OUTBOX_TASKS_MAX];
    int64_t deadline_ns[OUTBOX_TASKS_MAX]; /* turned into budgets in place */
    uint64_t handle_hi[OUTBOX_TASKS_MAX], handle_lo[OUTBOX_TASKS_MAX];
    uint64_t offset_bytes[OUTBOX_TASKS_MAX];
    uint32_t len_bytes[OUTBOX_TASKS_MAX];
    uint32_t priority[OUTBOX_TASKS_MAX];
    uint32_t admitted[OUTBOX_TASKS_MAX];   /* sent when any is */
    uint32_t size_count[OUTBOX_TASKS_MAX]; /* of each task; sent when any has sizes */
    size_t sizes_len;
    uint32_t size[OUTBOX_SIZES_MAX];
    uint64_t cancel[OUTBOX_CANCELS_MAX], missed[OUTBOX_CANCELS_MAX], arrived[OUTBOX_CANCELS_MAX];
    int64_t look_ns; /* before that nothing is looked for that has missed its deadline */
} outbox_t;

void outbox_clear(outbox_t *outbox); /* also what an outbox begins with */
/* UNAVAILABLE: no room. */
status_t outbox_add(outbox_t *outbox, const gateway_control_task_t *task);
/* Best effort: what finds no room is run for nobody. */
void outbox_cancel(outbox_t *outbox, uint64_t id);
/* Cancelled since its answer was due and no result has come. Best effort, too. */
void outbox_miss(outbox_t *outbox, uint64_t id);
/* The scheduler doubted it, and its result is there. Best effort: what finds no room is run once more. */
void outbox_arrive(outbox_t *outbox, uint64_t id);
/* Takes out the tasks whose deadlines have passed; the others keep their order. Returns how many left.
 * O(tasks), and at most once a millisecond: between two looks it returns 0. */
size_t outbox_let_go(outbox_t *outbox, int64_t now_ns);

/* All that waits, into the messages; they point into the outbox and hold until the next call. False: nothing waits. */
bool outbox_take_tasks(outbox_t *outbox, int64_t now_ns, struct Control__TaskBatch *batch);
bool outbox_take_cancels(outbox_t *outbox, struct Control__CancelBatch *batch);
size_t outbox_take_arrived(outbox_t *outbox, uint64_t **ids); /* how many */

#endif
