/*
 * Hot path. The waiting tasks of one model, earliest deadline first (ties: first come).
 *
 * Deadlines that come in order go to the tail of a list: O(1). One that is earlier than the tail's goes to a
 * pairing heap: O(log n) amortised. The head of the queue is the earlier of the two heads. Links live in the
 * pool's slots, so a queue has no capacity of its own.
 */
#ifndef SCHED_MODEL_QUEUE_H
#define SCHED_MODEL_QUEUE_H

#include "sched/task_pool.h"

typedef struct {
    uint32_t head, tail; /* list */
    uint32_t root;       /* heap */
    uint32_t len;
} model_queue_t;

void model_queue_init(model_queue_t *queue);

/* index is in no queue. */
void model_queue_push(model_queue_t *queue, task_pool_t *pool, uint32_t index);

/* Takes a task of this queue out, wherever it stands. */
void model_queue_remove(model_queue_t *queue, task_pool_t *pool, uint32_t index);

/* TASK_NONE when empty. */
uint32_t model_queue_head(const model_queue_t *queue, const task_pool_t *pool);
uint32_t model_queue_pop(model_queue_t *queue, task_pool_t *pool);

/* All tasks into the list, so that next leads from each to the one behind it in the queue. O(len), O(1) when deadlines
 * came in order. */
void model_queue_line_up(model_queue_t *queue, task_pool_t *pool);

const char *model_queue_validate(const model_queue_t *queue, const task_pool_t *pool, uint32_t model);

#endif
