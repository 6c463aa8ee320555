#include "control/cluster/gateway.h"

#include <stdlib.h>

/* The arrays of drops grow to the largest turn ever and stay; tasks_max bounds them. */
static bool drops_grow(drops_t *drops)
{
    uint32_t capacity = drops->capacity == 0 ? 64 : drops->capacity * 2;
    uint64_t *id = realloc(drops->id, capacity * sizeof *id);
    drops->id = id ? id : drops->id;
    uint32_t **columns[] = {&drops->status, &drops->stage, &drops->retry_after_ms};
    bool ok = id;
    for (size_t i = 0; i < 3; i++) {
        uint32_t *column = realloc(*columns[i], capacity * sizeof *column);
        *columns[i] = column ? column : *columns[i];
        ok = ok && column;
    }
    if (ok)
        drops->capacity = capacity;
    return ok;
}

void gateway_drop(gateway_t *gateway, uint64_t id, status_t status, Control__Stage stage,
                  uint32_t retry_after_ms)
{
    drops_t *drops = &gateway->drops;
    if (drops->count == drops->capacity && !drops_grow(drops))
        return; /* without memory the gateway's own deadline timer answers */
    drops->id[drops->count] = id;
    drops->status[drops->count] = (uint32_t)status;
    drops->stage[drops->count] = (uint32_t)stage;
    drops->retry_after_ms[drops->count] = retry_after_ms;
    drops->count++;
    turn_touch(gateway->peer.turn);
}

void gateway_doubt(gateway_t *gateway, uint64_t id)
{
    if (gateway->doubt_count == gateway->doubt_capacity) {
        uint32_t capacity = gateway->doubt_capacity == 0 ? 64 : gateway->doubt_capacity * 2;
        uint64_t *doubts = realloc(gateway->doubts, capacity * sizeof *doubts);
        if (!doubts)
            return; /* without memory it counts as one that it has not */
        gateway->doubts = doubts;
        gateway->doubt_capacity = capacity;
    }
    gateway->doubts[gateway->doubt_count++] = id;
    turn_touch(gateway->peer.turn);
}

void gateway_dispose_words(gateway_t *gateway)
{
    free(gateway->doubts);
    free(gateway->drops.id);
    free(gateway->drops.status);
    free(gateway->drops.stage);
    free(gateway->drops.retry_after_ms);
}
