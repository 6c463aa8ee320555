/*
 * The memory pool of one device: takes slabs from it, hands out blocks, and never holds more than its limit.
 * Weights come and go with models; a free block is merged with its free neighbours, and an empty slab goes
 * back to the device.
 *
 *   slab   |  block 3 MiB used  |  block 1 MiB free  |  block 60 MiB used  |
 */
#ifndef ENGINE_CUDA_RUN_POOL_H
#define ENGINE_CUDA_RUN_POOL_H

#include "base/status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    POOL_ALIGN_BYTES = 256,     /* what cuDNN and cuBLASLt like best */
    POOL_SLAB_BYTES = 64 << 20, /* smaller requests share a slab of this size; larger ones have their own */
};

/* What so many bytes take: never nothing. */
static inline size_t pool_room(size_t len_bytes)
{
    return (len_bytes + POOL_ALIGN_BYTES) / POOL_ALIGN_BYTES * POOL_ALIGN_BYTES;
}

typedef struct pool_slab pool_slab_t;

typedef struct {
    void *(*alloc)(void *arg, size_t len_bytes);
    void (*free)(void *arg, void *memory);
    void *arg;
    uint64_t limit_bytes;
    pthread_mutex_t mutex;
    pool_slab_t *slabs;
    uint64_t held_bytes, used_bytes; /* taken from the device; handed out */
} pool_t;

void pool_init(pool_t *pool, uint64_t limit_bytes, void *(*alloc)(void *arg, size_t len_bytes),
               void (*free)(void *arg, void *memory), void *arg);
void pool_dispose(pool_t *pool); /* everything must have been freed; what has not is freed with its slab */

/* NO_MEMORY says how much is in use, of what limit. Any thread. */
status_t pool_alloc(pool_t *pool, size_t len_bytes, void **memory, err_t *err);
void pool_free(pool_t *pool, void *memory); /* NULL is fine */

/* Blocks are in order, touch each other and fill their slab; no two free ones are neighbours. For tests. */
bool pool_validate(const pool_t *pool);

#endif
