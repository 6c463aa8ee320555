/* The memory of windows. One that was given up is not used again for a while, as UCX's shared memory lets nobody take its key away. */
#ifndef TRANSFER_UCX_WINDOW_H
#define TRANSFER_UCX_WINDOW_H

#include <stdint.h>

typedef struct window_memory {
    struct window_memory *next;
    int64_t given_up_ns;
    void *base; /* CARRIER_WINDOW_BYTES */
} window_memory_t;

typedef struct {
    window_memory_t *oldest, **newest; /* that were given up, by time */
} window_store_t;

void window_store_init(window_store_t *store);
void window_store_dispose(window_store_t *store);
window_memory_t *window_make(window_store_t *store); /* NULL: no memory */
void window_retire(window_store_t *store, window_memory_t *window);

#endif
