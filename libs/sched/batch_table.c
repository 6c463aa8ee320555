#include "sched/batch_table.h"

#include <stddef.h>

void batch_table_init(batch_table_t *table, batch_slot_t *slots, uint32_t capacity, uint32_t *gpu_first,
                      uint32_t *gpu_count, uint32_t gpus_max)
{
    *table = (batch_table_t){.slots = slots,
                             .gpu_first = gpu_first,
                             .gpu_count = gpu_count,
                             .capacity = capacity,
                             .gpus_max = gpus_max,
                             .free = 0};
    for (uint32_t i = 0; i < capacity; i++)
        slots[i] = (batch_slot_t){.next = i + 1 < capacity ? i + 1 : BATCH_NONE};
    for (uint32_t g = 0; g < gpus_max; g++) {
        gpu_first[g] = BATCH_NONE;
        gpu_count[g] = 0;
    }
}

static uint32_t *chain_end(batch_table_t *table, uint32_t gpu)
{
    uint32_t *link = &table->gpu_first[gpu];
    while (*link != BATCH_NONE)
        link = &table->slots[*link].next;
    return link;
}

uint32_t batch_table_take(batch_table_t *table, uint32_t gpu)
{
    uint32_t index = table->free;
    batch_slot_t *slot = &table->slots[index];
    table->free = slot->next;
    *chain_end(table, gpu) = index;
    slot->next = BATCH_NONE;
    slot->gpu = gpu;
    slot->generation++;
    table->gpu_count[gpu]++;
    return index;
}

void batch_table_give(batch_table_t *table, uint32_t index)
{
    batch_slot_t *slot = &table->slots[index];
    uint32_t *link = &table->gpu_first[slot->gpu];
    while (*link != index)
        link = &table->slots[*link].next;
    *link = slot->next;
    table->gpu_count[slot->gpu]--;
    slot->generation++;
    slot->next = table->free;
    table->free = index;
}

uint64_t batch_table_id(const batch_table_t *table, uint32_t index)
{
    return (uint64_t)table->slots[index].generation << 32 | index;
}

uint32_t batch_table_find(const batch_table_t *table, uint64_t id)
{
    uint32_t index = (uint32_t)id, generation = (uint32_t)(id >> 32);
    if (index >= table->capacity || generation % 2 == 0 || table->slots[index].generation != generation)
        return BATCH_NONE;
    return index;
}

const char *batch_table_validate(const batch_table_t *table, uint32_t gpu_inflight_max)
{
    for (uint32_t g = 0; g < table->gpus_max; g++) {
        uint32_t count = 0;
        const batch_slot_t *before = NULL;
        for (uint32_t i = table->gpu_first[g]; i != BATCH_NONE; i = table->slots[i].next) {
            const batch_slot_t *slot = &table->slots[i];
            if (slot->gpu != g || slot->generation % 2 == 0 || ++count > gpu_inflight_max)
                return "the chain of a GPU's batches";
            if (before && !slot->beside && !batch_table_together(before, slot) &&
                slot->start_ns < before->finish_ns)
                return "two batches overlap on a GPU";
            before = slot;
        }
        if (count != table->gpu_count[g])
            return "the count of a GPU's batches";
    }
    return NULL;
}
