#include "transfer/window.h"

uint32_t window_take(window_t *window, uint64_t len_bytes, uint64_t *offset)
{
    uint64_t at = window->taken % CARRIER_WINDOW_BYTES;
    uint64_t skip = at + len_bytes > CARRIER_WINDOW_BYTES ? CARRIER_WINDOW_BYTES - at : 0;
    uint64_t end = window->taken + skip + len_bytes;

    if (len_bytes > CARRIER_WINDOW_BYTES || end - window->given > CARRIER_WINDOW_BYTES ||
        window->count == WINDOW_SPANS)
        return WINDOW_SPAN_NONE;
    uint32_t span = (window->first + window->count++) % WINDOW_SPANS;
    window->spans[span].end = window->taken = end;
    window->spans[span].free = false;
    *offset = skip ? 0 : at;
    return span;
}

void window_give(window_t *window, uint32_t span)
{
    window->spans[span].free = true;
    while (window->count > 0 && window->spans[window->first].free) {
        window->given = window->spans[window->first].end;
        window->first = (window->first + 1) % WINDOW_SPANS;
        window->count--;
    }
    if (window->count == 0) /* nothing is out: the next one has it all */
        window->taken = window->given = 0;
}
