#include "transfer/ucx/window.h"

#include "base/clock.h"
#include "transfer/carrier.h"

#include <stdlib.h>
#include <sys/mman.h>

static const int64_t QUARANTINE_NS = 10 * NS_PER_S;

void window_store_init(window_store_t *store)
{
    store->oldest = NULL;
    store->newest = &store->oldest;
}

void window_store_dispose(window_store_t *store)
{
    window_memory_t *window;

    while ((window = store->oldest)) {
        store->oldest = window->next;
        munmap(window->base, CARRIER_WINDOW_BYTES);
        free(window);
    }
}

window_memory_t *window_make(window_store_t *store)
{
    window_memory_t *window = store->oldest;

    if (window && clock_now_ns() - window->given_up_ns >= QUARANTINE_NS) {
        store->oldest = window->next;
        if (!store->oldest)
            store->newest = &store->oldest;
        return window;
    }
    window = calloc(1, sizeof(*window));
    void *base =
        window ? mmap(NULL, CARRIER_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
               : MAP_FAILED;
    if (base == MAP_FAILED) {
        free(window);
        return NULL;
    }
    window->base = base;
    return window;
}

void window_retire(window_store_t *store, window_memory_t *window)
{
    window->next = NULL;
    window->given_up_ns = clock_now_ns();
    *store->newest = window;
    store->newest = &window->next;
}
