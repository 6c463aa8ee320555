/*
 * Room in the window of a connection, where a pool's outputs land: a ring of spans, taken in order and given back in any order.
 */
#ifndef TRANSFER_WINDOW_H
#define TRANSFER_WINDOW_H

#include "transfer/carrier.h"

enum { WINDOW_SPANS = 256, WINDOW_SPAN_NONE = UINT32_MAX };

typedef struct {
    uint64_t taken,
        given; /* bytes, those skipped at the end included; positions modulo CARRIER_WINDOW_BYTES */
    uint32_t first, count; /* spans out */
    struct {
        uint64_t end;
        bool free; /* waits for those before it */
    } spans[WINDOW_SPANS];
} window_t;

/* len_bytes in one piece at *offset; WINDOW_SPAN_NONE: there is no room now. */
uint32_t window_take(window_t *window, uint64_t len_bytes, uint64_t *offset);
void window_give(window_t *window, uint32_t span);

#endif
