#include "sched/task_pool.h"

void task_pool_init(task_pool_t *pool, task_slot_t *slots, uint32_t capacity)
{
    *pool = (task_pool_t){.slots = slots, .capacity = capacity, .free = capacity ? 0 : TASK_NONE};
    for (uint32_t i = 0; i < capacity; i++)
        slots[i] = (task_slot_t){.next = i + 1 < capacity ? i + 1 : TASK_NONE, .state = TASK_FREE};
}

void task_pool_give_chain(task_pool_t *pool, uint32_t first, uint32_t count)
{
    uint32_t free = pool->free, *link = &pool->free;
    *link = first;
    for (uint32_t i = 0; i < count; i++) {
        task_slot_t *slot = &pool->slots[*link];
        slot->state = TASK_FREE;
        slot->generation++;
        link = &slot->next;
    }
    *link = free;
    pool->used -= count;
}

uint32_t task_pool_find(const task_pool_t *pool, sched_ref_t ref)
{
    uint64_t place = ref - 1;
    uint32_t index = (uint32_t)place;
    if (ref == 0 || index >= pool->capacity)
        return TASK_NONE;
    const task_slot_t *slot = &pool->slots[index];
    return slot->state != TASK_FREE && slot->generation == (uint32_t)(place >> 32) ? index : TASK_NONE;
}
