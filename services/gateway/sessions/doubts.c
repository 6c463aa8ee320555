#include "gateway/sessions/doubts.h"

void doubts_add(doubts_t *doubts, uint64_t id)
{
    if (doubts->count < DOUBTS_MAX) {
        doubts->ids[doubts->count++] = id;
        return;
    }
    doubts->ids[doubts->oldest] = id;
    doubts->oldest = (doubts->oldest + 1) % DOUBTS_MAX;
}

bool doubts_take(doubts_t *doubts, uint64_t id)
{
    for (uint32_t i = 0; i < doubts->count; i++) {
        if (doubts->ids[i] != id)
            continue;
        doubts->ids[i] = doubts->ids[--doubts->count];
        return true;
    }
    return false;
}
