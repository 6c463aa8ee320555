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

/* For model_queue_push: one that does not belong behind the list. */
void model_queue_push_heap(model_queue_t *queue, task_pool_t *pool, uint32_t index);

static inline bool task_comes_before(const task_slot_t *a, const task_slot_t *b)
{
    if (a->task.deadline_ns != b->task.deadline_ns)
        return a->task.deadline_ns < b->task.deadline_ns;
    return a->order < b->order;
}

/* index is in no queue. */
static inline void model_queue_push(model_queue_t *queue, task_pool_t *pool, uint32_t index)
{
    task_slot_t *slot = &pool->slots[index];
    if (queue->tail == TASK_NONE) {
        queue->head = index;
    } else if (task_comes_before(slot, &pool->slots[queue->tail])) {
        model_queue_push_heap(queue, pool, index);
        return;
    } else {
        pool->slots[queue->tail].next = index;
    }
    slot->state = TASK_IN_ORDER;
    slot->prev = queue->tail;
    queue->tail = index;
    queue->len++;
}

/* Takes a task of this queue out, wherever it stands. */
void model_queue_remove(model_queue_t *queue, task_pool_t *pool, uint32_t index);

/* TASK_NONE when empty. */
static inline uint32_t model_queue_head(const model_queue_t *queue, const task_pool_t *pool)
{
    if (queue->root == TASK_NONE)
        return queue->head;
    if (queue->head == TASK_NONE || task_comes_before(&pool->slots[queue->root], &pool->slots[queue->head]))
        return queue->root;
    return queue->head;
}

uint32_t model_queue_pop(model_queue_t *queue, task_pool_t *pool);
/* The first `count`, at most as many as there are, as a chain through next and in this state; returns the first. */
uint32_t model_queue_pop_chain(model_queue_t *queue, task_pool_t *pool, uint32_t count, task_state_t state);

/* All tasks into the list, so that next leads from each to the one behind it in the queue. O(len), O(1) when deadlines
 * came in order. */
void model_queue_line_up(model_queue_t *queue, task_pool_t *pool);

/* To look at each task once, in no order: any one, and behind each another one, TASK_NONE behind the last. */
static inline uint32_t model_queue_any(const model_queue_t *queue)
{
    return queue->head != TASK_NONE ? queue->head : queue->root;
}
uint32_t model_queue_another(const model_queue_t *queue, const task_pool_t *pool, uint32_t index);

const char *model_queue_validate(const model_queue_t *queue, const task_pool_t *pool, uint32_t model);

#endif
