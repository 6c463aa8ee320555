#include "base/pool.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { POOL_ALIGN_BYTES = 16 };
#define POOL_LENT (UINT32_MAX - 1)
#define POOL_END UINT32_MAX

status_t pool_init(pool_t *pool, size_t object_bytes, uint32_t capacity, err_t *err)
{
    if (object_bytes == 0 || capacity == 0 || capacity >= POOL_NONE || object_bytes > SIZE_MAX / 2 / capacity)
        return err_set(err, STATUS_INVALID_ARGUMENT, "pool of %u objects of %zu bytes", capacity,
                       object_bytes);
    size_t stride = (object_bytes + POOL_ALIGN_BYTES - 1) & ~(size_t)(POOL_ALIGN_BYTES - 1);
    char *objects = calloc(capacity, stride);
    uint32_t *next_free = malloc(capacity * sizeof *next_free);
    if (!objects || !next_free) {
        free(objects);
        free(next_free);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a pool of %u objects of %zu bytes", capacity,
                       stride);
    }
    for (uint32_t i = 0; i < capacity; i++)
        next_free[i] = i + 1 < capacity ? i + 1 : POOL_END;
    *pool = (pool_t){objects, next_free, stride, capacity, 0, 0};
    return STATUS_OK;
}

void pool_dispose(pool_t *pool)
{
    free(pool->objects);
    free(pool->next_free);
    *pool = (pool_t){.free_head = POOL_END};
}

void *pool_get(pool_t *pool)
{
    uint32_t i = pool->free_head;
    if (i == POOL_END)
        return NULL;
    pool->free_head = pool->next_free[i];
    pool->next_free[i] = POOL_LENT;
    pool->lent++;
    return pool->objects + i * pool->stride_bytes;
}

void pool_put(pool_t *pool, void *object)
{
    uint32_t i = pool_index(pool, object);
    assert(pool->next_free[i] == POOL_LENT);
    pool->next_free[i] = pool->free_head;
    pool->free_head = i;
    pool->lent--;
}

uint32_t pool_index(const pool_t *pool, const void *object)
{
    size_t offset = (size_t)((const char *)object - pool->objects);
    assert(offset % pool->stride_bytes == 0 && offset / pool->stride_bytes < pool->capacity);
    return (uint32_t)(offset / pool->stride_bytes);
}

void *pool_at(const pool_t *pool, uint32_t index)
{
    assert(index < pool->capacity);
    return pool->objects + index * pool->stride_bytes;
}

bool pool_is_lent(const pool_t *pool, uint32_t index)
{
    return index < pool->capacity && pool->next_free[index] == POOL_LENT;
}

bool pool_validate(const pool_t *pool, err_t *err)
{
    uint32_t free_len = 0, lent = 0;
    for (uint32_t i = pool->free_head; i != POOL_END; i = pool->next_free[i]) {
        if (i >= pool->capacity || free_len++ >= pool->capacity) {
            err_set(err, STATUS_INTERNAL, "pool: the free list is broken after %u objects", free_len);
            return false;
        }
    }
    for (uint32_t i = 0; i < pool->capacity; i++)
        lent += pool->next_free[i] == POOL_LENT;
    if (lent != pool->lent || lent + free_len != pool->capacity) {
        err_set(err, STATUS_INTERNAL, "pool: %u lent (counted %u) and %u free of %u", pool->lent, lent,
                free_len, pool->capacity);
        return false;
    }
    return true;
}
