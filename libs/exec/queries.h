/*
 * Queries that wait for a mode, oldest first: a bounded FIFO from which any of the first ones may be taken.
 */
#ifndef EXEC_QUERIES_H
#define EXEC_QUERIES_H

#include "exec/exec.h"

/* One that waits, and with whom it came. */
typedef struct {
    exec_query_t query;
    uint64_t batch; /* of exec_submit */
    uint32_t count; /* queries of that submit */
    bool goes_back;
} queries_slot_t;

typedef struct {
    queries_slot_t *slots;
    uint32_t mask; /* slots - 1, a power of two */
    uint32_t head, tail;
    uint32_t going_back;
} queries_t;

/* Slots that hold at least `count` queries. */
uint32_t queries_slots(uint32_t count);
void queries_init(queries_t *queries, queries_slot_t *slots, uint32_t slot_count);

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
    return &queries->slots[(queries->head + i) & queries->mask].query;
}

/* All of one submit; there is room. */
void queries_push(queries_t *queries, const exec_query_t *list, uint32_t count, uint64_t batch);

/* Takes the first `count` out of which take[i] is `mark` into `into`; the others of them stay, in order.
 * Returns how many it took. */
uint32_t queries_take(queries_t *queries, uint32_t count, const uint8_t *take, uint8_t mark,
                      exec_query_t *into);

/* All queries of this batch are to be given back. False: some of them wait no more, none ever did, or it
 * was asked before. */
bool queries_give_back(queries_t *queries, uint64_t batch);
/* Takes out the oldest one that is to be given back; false: there is none. */
bool queries_take_back(queries_t *queries, exec_query_t *query, uint64_t *batch);

#endif
