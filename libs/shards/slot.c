#include "shards/slot.h"

enum { SLOT_FRESH = 4, SLOT_INDEX = 3 };

void slot_init(slot_t *slot)
{
    *slot = (slot_t){.back = 1, .front = 2};
}

bool slot_put(slot_t *slot, const slot_value_t *value)
{
    slot->cells[slot->back] = *value;
    uint32_t old = atomic_exchange_explicit(&slot->middle, slot->back | SLOT_FRESH, memory_order_acq_rel);
    slot->back = old & SLOT_INDEX;
    return !(old & SLOT_FRESH);
}

const slot_value_t *slot_take(slot_t *slot)
{
    if (!(atomic_load_explicit(&slot->middle, memory_order_relaxed) & SLOT_FRESH))
        return NULL;
    uint32_t old = atomic_exchange_explicit(&slot->middle, slot->front, memory_order_acq_rel);
    slot->front = old & SLOT_INDEX;
    return &slot->cells[slot->front];
}
