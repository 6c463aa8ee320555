#include "exec/queries.h"

uint32_t queries_slots(uint32_t count)
{
    uint32_t slots = 1;
    while (slots < count)
        slots *= 2;
    return slots;
}

void queries_init(queries_t *queries, queries_slot_t *slots, uint32_t slot_count)
{
    *queries = (queries_t){.slots = slots, .mask = slot_count - 1};
}

static queries_slot_t *slot_at(const queries_t *queries, uint32_t i)
{
    return &queries->slots[(queries->head + i) & queries->mask];
}

void queries_push(queries_t *queries, const exec_query_t *list, uint32_t count, uint64_t batch)
{
    for (uint32_t i = 0; i < count; i++)
        queries->slots[queries->tail++ & queries->mask] =
            (queries_slot_t){.query = list[i], .batch = batch, .count = count};
}

uint32_t queries_take(queries_t *queries, uint32_t count, const uint8_t *take, uint8_t mark,
                      exec_query_t *into)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < count; i++)
        if (take[i] == mark)
            into[taken++] = *queries_at(queries, i);
    /* Those that stay move to the back of the part looked at, which keeps their order. */
    uint32_t to = count;
    for (uint32_t i = count; i-- > 0;)
        if (take[i] != mark)
            *slot_at(queries, --to) = *slot_at(queries, i);
    queries->head += taken;
    return taken;
}

bool queries_give_back(queries_t *queries, uint64_t batch)
{
    uint32_t waiting = 0, count = 0;
    for (uint32_t i = 0; i < queries_len(queries); i++) {
        const queries_slot_t *slot = slot_at(queries, i);
        if (slot->batch != batch || slot->goes_back)
            continue;
        waiting++;
        count = slot->count;
    }
    if (waiting == 0 || waiting < count)
        return false;
    for (uint32_t i = 0; i < queries_len(queries); i++)
        slot_at(queries, i)->goes_back |= slot_at(queries, i)->batch == batch;
    queries->going_back += waiting;
    return true;
}

bool queries_take_back(queries_t *queries, exec_query_t *query, uint64_t *batch)
{
    uint32_t at = 0;
    if (queries->going_back == 0)
        return false;
    while (!slot_at(queries, at)->goes_back)
        at++;
    *query = slot_at(queries, at)->query;
    *batch = slot_at(queries, at)->batch;
    for (; at > 0; at--)
        *slot_at(queries, at) = *slot_at(queries, at - 1);
    queries->head++;
    queries->going_back--;
    return true;
}
