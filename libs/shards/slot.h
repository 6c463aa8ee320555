/*
 * Hot path. A mailbox for one value of which only the latest counts: one writer, one reader, no waiting, nothing torn.
 * The writer and the reader each own one of three cells, and exchange it for the one in the middle.
 */
#ifndef SHARDS_SLOT_H
#define SHARDS_SLOT_H

#include "base/ring.h"
#include "sched/candidate.h"

typedef struct {
    candidate_t candidate;
    uint32_t seen; /* orders about the model that its shard had worked off */
} slot_value_t;

typedef struct {
    slot_value_t cells[3];
    _Alignas(RING_CACHE_LINE) _Atomic uint32_t middle; /* index, and SLOT_FRESH */
    uint32_t back;                                     /* the writer's */
    _Alignas(RING_CACHE_LINE) uint32_t front;          /* the reader's */
} slot_t;

void slot_init(slot_t *slot);
/* True: the value before it had been taken (or there was none), so the reader must be told. */
bool slot_put(slot_t *slot, const slot_value_t *value);
/* NULL: nothing new. The value stays until the next slot_take. */
const slot_value_t *slot_take(slot_t *slot);

#endif
