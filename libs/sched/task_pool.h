/*
 * Hot path. All tasks of a scheduling core: slots of 56 bytes named by index, allocated once.
 *
 *   slot: | tag | arrival | deadline | order |  what the caller gave, and the order of arrival here
 *         | next | prev | child | model |       place in a model_queue or in the chain of a batch
 *         | generation | state | reason | lost | a ref is generation << 32 | index + 1
 *
 * One owner, no locks, no allocation.
 */
#ifndef SCHED_TASK_POOL_H
#define SCHED_TASK_POOL_H

#include "sched/sched.h"

#define TASK_NONE UINT32_MAX

typedef enum {
    TASK_FREE,
    TASK_IN_ORDER,  /* in the list of its model's queue */
    TASK_IN_HEAP,   /* in the heap of its model's queue */
    TASK_GIVEN_UP,  /* in the drop chain of its shard, until the sink has seen it */
    TASK_IN_FLIGHT, /* in the chain of a granted batch */
} task_state_t;

typedef struct {
    sched_task_t task;
    uint64_t order;
    uint32_t next, prev, child;
    uint32_t model;
    uint32_t generation;
    uint8_t state;  /* task_state_t */
    uint8_t reason; /* sched_drop_t, when GIVEN_UP */
    uint8_t lost;   /* it was in flight on a GPU that went away */
} task_slot_t;

typedef struct {
    task_slot_t *slots;
    uint32_t capacity;
    uint32_t used; /* not FREE */
    uint32_t free; /* chain through next */
    uint64_t order;
} task_pool_t;

/* Over slots that the owner allocated and frees (capacity of them, any content). */
void task_pool_init(task_pool_t *pool, task_slot_t *slots, uint32_t capacity);

/* A slot in state FREE that is counted as used: put it into a queue at once. TASK_NONE when full. */
static inline uint32_t task_pool_take(task_pool_t *pool, uint32_t model, const sched_task_t *task)
{
    uint32_t index = pool->free;
    if (index == TASK_NONE)
        return TASK_NONE;
    task_slot_t *slot = &pool->slots[index];
    pool->free = slot->next;
    pool->used++;
    slot->task = *task;
    slot->order = pool->order++;
    slot->next = slot->prev = slot->child = TASK_NONE;
    slot->model = model;
    slot->lost = 0;
    return index;
}

static inline void task_pool_give(task_pool_t *pool, uint32_t index)
{
    task_slot_t *slot = &pool->slots[index];
    slot->state = TASK_FREE;
    slot->generation++;
    slot->next = pool->free;
    pool->free = index;
    pool->used--;
}

/* Gives back `count` slots that hang together through next; they are taken again in this order. */
void task_pool_give_chain(task_pool_t *pool, uint32_t first, uint32_t count);

/* TASK_NONE for a ref of a task that is gone. */
uint32_t task_pool_find(const task_pool_t *pool, sched_ref_t ref);

static inline sched_ref_t task_pool_ref(const task_pool_t *pool, uint32_t index)
{
    return ((uint64_t)pool->slots[index].generation << 32 | index) + 1;
}

#endif
