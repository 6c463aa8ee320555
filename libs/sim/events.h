/*
 * The future: a binary heap of small events by time, those of one moment in the order in which they were added.
 */
#ifndef SIM_EVENTS_H
#define SIM_EVENTS_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    int64_t at_ns;
    uint64_t order;
    uint32_t kind;
    uint32_t index;
    int64_t payload;
} event_t;

typedef struct {
    event_t *slots;
    uint32_t len, capacity;
    uint64_t order;
    bool exhausted; /* no memory for an event: the simulation must end with an error */
} events_t;

status_t events_init(events_t *events, err_t *err);
void events_dispose(events_t *events);

void events_add(events_t *events, int64_t at_ns, uint32_t kind, uint32_t index, int64_t payload);
event_t events_pop(events_t *events); /* len > 0 */

static inline int64_t events_next_ns(const events_t *events)
{
    return events->len ? events->slots[0].at_ns : INT64_MAX;
}

#endif
