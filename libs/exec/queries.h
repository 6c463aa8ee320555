/*
 * Queries that wait for a mode, oldest first: a bounded FIFO from which any of the first ones may be taken.
 */
#ifndef EXEC_QUERIES_H
#define EXEC_QUERIES_H

#include "exec/exec.h"

typedef struct {
    exec_query_t *slots;
    uint32_t mask; /* slots - 1, a power of two */
    uint32_t head, tail;
} queries_t;

/* Slots that hold at least `count` queries. */
uint32_t queries_slots(uint32_t count);
void queries_init(queries_t *queries, exec_query_t *slots, uint32_t slot_count);

static inline uint32_t queries_len(const queries_t *queries)
{
    return queries->tail - queries->head;
}

static inline uint32_t queries_room(const queries_t *queries)
{
    return queries->mask + 1 - queries_len(queries);
}

static inline exec_query_t *queries_at(const queries_t *queries, uint32_t i)
{
    return &queries->slots[(queries->head + i) & queries->mask];
}

void queries_push(queries_t *queries, const exec_query_t *query); /* there is room */

/* Takes the first `count` out of which take[i] is `mark` into `into`; the others of them stay, in order. Returns how many
 * it took. */
uint32_t queries_take(queries_t *queries, uint32_t count, const uint8_t *take, uint8_t mark,
                      exec_query_t *into);

#endif
