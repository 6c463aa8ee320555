#include "sim/events.h"

#include <stdlib.h>

enum { EVENTS_FIRST = 1024, EVENTS_MOST = 1 << 26 };

status_t events_init(events_t *events, err_t *err)
{
    *events = (events_t){.slots = malloc(EVENTS_FIRST * sizeof(event_t)), .capacity = EVENTS_FIRST};
    return events->slots ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for events");
}

void events_dispose(events_t *events)
{
    free(events->slots);
    *events = (events_t){0};
}

static bool comes_before(const event_t *a, const event_t *b)
{
    return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->order < b->order);
}

static bool grow(events_t *events)
{
    uint32_t capacity = events->capacity * 2;
    event_t *slots = capacity <= EVENTS_MOST ? realloc(events->slots, capacity * sizeof(*slots)) : NULL;
    if (!slots) {
        events->exhausted = true;
        return false;
    }
    events->slots = slots;
    events->capacity = capacity;
    return true;
}

void events_add(events_t *events, int64_t at_ns, uint32_t kind, uint32_t index, int64_t payload)
{
    if (events->len == events->capacity && !grow(events))
        return;
    event_t event = {
        .at_ns = at_ns, .order = events->order++, .kind = kind, .index = index, .payload = payload};
    uint32_t i = events->len++;
    while (i > 0 && comes_before(&event, &events->slots[(i - 1) / 2])) {
        events->slots[i] = events->slots[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    events->slots[i] = event;
}

event_t events_pop(events_t *events)
{
    event_t first = events->slots[0];
    event_t last = events->slots[--events->len];
    uint32_t i = 0;
    for (;;) {
        uint32_t child = 2 * i + 1;
        if (child >= events->len)
            break;
        if (child + 1 < events->len && comes_before(&events->slots[child + 1], &events->slots[child]))
            child++;
        if (!comes_before(&events->slots[child], &last))
            break;
        events->slots[i] = events->slots[child];
        i = child;
    }
    events->slots[i] = last;
    return first;
}
