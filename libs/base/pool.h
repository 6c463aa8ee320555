/*
 * Objects of one size, allocated once and lent out from a free list (last back, first out: it is still in the
 * cache).
 *
 * One owner, no locks. Objects have stable addresses and dense indices [0, capacity), so that tables beside
 * the pool can be plain arrays. No libc call after init.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { POOL_NONE = UINT32_MAX >> 1 }; /* no index; also the largest capacity */

typedef struct {
    char *objects;
    uint32_t *next_free; /* per object: the next free index, or POOL_LENT while it is out */
    size_t stride_bytes;
    uint32_t capacity;
    uint32_t free_head;
    uint32_t lent;
} pool_t;

/* Allocates capacity objects of object_bytes each, 16-byte aligned and zeroed. Capacity 1 … POOL_NONE - 1. */
status_t pool_init(pool_t *pool, size_t object_bytes, uint32_t capacity, err_t *err);
void pool_dispose(pool_t *pool);

/* NULL when all are out. The bytes are as the last owner left them. */
void *pool_get(pool_t *pool);

/* object came from pool_get of this pool and is out (asserted). */
void pool_put(pool_t *pool, void *object);

uint32_t pool_index(const pool_t *pool, const void *object);
void *pool_at(const pool_t *pool, uint32_t index); /* lent or not; index < capacity */
bool pool_is_lent(const pool_t *pool, uint32_t index);
bool pool_validate(const pool_t *pool, err_t *err);

#endif
