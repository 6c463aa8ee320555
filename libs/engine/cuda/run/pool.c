#include "engine/cuda/run/pool.h"

#include <stdlib.h>

typedef struct block {
    struct block *next;
    size_t offset, len_bytes;
    bool used;
} block_t;

struct pool_slab {
    pool_slab_t *next;
    char *base;
    size_t len_bytes;
    block_t *blocks;
};

void pool_init(pool_t *pool, uint64_t limit_bytes, void *(*alloc)(void *arg, size_t len_bytes),
               void (*release)(void *arg, void *memory), void *arg)
{
    *pool = (pool_t){.alloc = alloc, .free = release, .arg = arg, .limit_bytes = limit_bytes};
    pthread_mutex_init(&pool->mutex, NULL);
}

static void free_slab(pool_t *pool, pool_slab_t *slab)
{
    for (block_t *next, *b = slab->blocks; b; b = next) {
        next = b->next;
        free(b);
    }
    pool->held_bytes -= slab->len_bytes;
    pool->free(pool->arg, slab->base);
    free(slab);
}

void pool_dispose(pool_t *pool)
{
    for (pool_slab_t *next, *s = pool->slabs; s; s = next) {
        next = s->next;
        free_slab(pool, s);
    }
    pthread_mutex_destroy(&pool->mutex);
}

/* The block becomes used, and what it has too much a free block behind it. */
static bool cut(block_t *b, size_t len)
{
    if (b->len_bytes > len) {
        block_t *rest = malloc(sizeof *rest);
        if (!rest)
            return false;
        *rest = (block_t){.next = b->next, .offset = b->offset + len, .len_bytes = b->len_bytes - len};
        b->next = rest;
        b->len_bytes = len;
    }
    b->used = true;
    return true;
}

/* The smallest free block that is large enough. */
static void *take(pool_t *pool, size_t len)
{
    pool_slab_t *in = NULL;
    block_t *best = NULL;
    for (pool_slab_t *s = pool->slabs; s; s = s->next)
        for (block_t *b = s->blocks; b; b = b->next)
            if (!b->used && b->len_bytes >= len && (!best || b->len_bytes < best->len_bytes)) {
                best = b;
                in = s;
            }
    if (!best || !cut(best, len))
        return NULL;
    pool->used_bytes += len;
    return in->base + best->offset;
}

static bool add_slab(pool_t *pool, size_t len)
{
    uint64_t room = pool->limit_bytes - pool->held_bytes;
    size_t want = len < POOL_SLAB_BYTES && room >= POOL_SLAB_BYTES ? POOL_SLAB_BYTES : len;
    if (want > room)
        return false;
    pool_slab_t *slab = malloc(sizeof *slab);
    block_t *block = malloc(sizeof *block);
    char *base = slab && block ? pool->alloc(pool->arg, want) : NULL;
    if (!base) {
        free(slab);
        free(block);
        return false;
    }
    *block = (block_t){.len_bytes = want};
    *slab = (pool_slab_t){.next = pool->slabs, .base = base, .len_bytes = want, .blocks = block};
    pool->slabs = slab;
    pool->held_bytes += want;
    return true;
}

status_t pool_alloc(pool_t *pool, size_t len_bytes, void **memory, err_t *err)
{
    status_t status = STATUS_OK;
    if (len_bytes > SIZE_MAX / 2)
        return err_set(err, STATUS_NO_MEMORY, "no device has %zu bytes", len_bytes);
    size_t len = pool_room(len_bytes);
    pthread_mutex_lock(&pool->mutex);
    void *got = take(pool, len);
    if (!got && add_slab(pool, len))
        got = take(pool, len);
    if (got)
        *memory = got;
    else
        status = err_set(err, STATUS_NO_MEMORY,
                         "the device has no %zu MiB left (%llu MiB in use, %llu MiB held, limit %llu MiB)",
                         len >> 20, (unsigned long long)(pool->used_bytes >> 20),
                         (unsigned long long)(pool->held_bytes >> 20),
                         (unsigned long long)(pool->limit_bytes >> 20));
    pthread_mutex_unlock(&pool->mutex);
    return status;
}

static void swallow_next(block_t *b)
{
    block_t *next = b->next;
    b->len_bytes += next->len_bytes;
    b->next = next->next;
    free(next);
}

static bool release_in(pool_t *pool, pool_slab_t *slab, size_t offset)
{
    for (block_t *before = NULL, *b = slab->blocks; b; before = b, b = b->next) {
        if (b->offset != offset)
            continue;
        b->used = false;
        pool->used_bytes -= b->len_bytes;
        if (b->next && !b->next->used)
            swallow_next(b);
        if (before && !before->used)
            swallow_next(before);
        return true;
    }
    return false;
}

void pool_free(pool_t *pool, void *memory)
{
    if (!memory)
        return;
    pthread_mutex_lock(&pool->mutex);
    for (pool_slab_t **at = &pool->slabs; *at; at = &(*at)->next) {
        pool_slab_t *s = *at;
        char *m = memory;
        if (m < s->base || m >= s->base + s->len_bytes)
            continue;
        release_in(pool, s, (size_t)(m - s->base));
        if (!s->blocks->used && !s->blocks->next) {
            *at = s->next;
            free_slab(pool, s);
        }
        break;
    }
    pthread_mutex_unlock(&pool->mutex);
}

bool pool_validate(const pool_t *pool)
{
    uint64_t held = 0, used = 0;
    for (const pool_slab_t *s = pool->slabs; s; s = s->next) {
        size_t at = 0;
        for (const block_t *b = s->blocks; b; b = b->next) {
            if (b->offset != at || !b->len_bytes || (!b->used && b->next && !b->next->used))
                return false;
            at += b->len_bytes;
            used += b->used ? b->len_bytes : 0;
        }
        if (at != s->len_bytes)
            return false;
        held += s->len_bytes;
    }
    return held == pool->held_bytes && used == pool->used_bytes && held <= pool->limit_bytes;
}
