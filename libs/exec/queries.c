#include "exec/queries.h"

uint32_t queries_slots(uint32_t count)
{
    uint32_t slots = 1;
    while (slots < count)
        slots *= 2;
    return slots;
}

void queries_init(queries_t *queries, exec_query_t *slots, uint32_t slot_count)
{
    *queries = (queries_t){.slots = slots, .mask = slot_count - 1};
}

void queries_push(queries_t *queries, const exec_query_t *query)
{
    queries->slots[queries->tail++ & queries->mask] = *query;
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
            *queries_at(queries, --to) = *queries_at(queries, i);
    queries->head += taken;
    return taken;
}
