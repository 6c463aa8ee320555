/*
 * A bounded allocator for regions of variable size: the gateway's tensor arena and the worker's batch
 * buffers.
 *
 * One mapping of fixed size, cut by two-level segregated fit: alloc and free are O(1), every region
 * is ARENA_ALIGN_BYTES-aligned, neighbours merge at once. Each region costs one header of ARENA_ALIGN_BYTES and is
 * rounded up by 1/32 at most.
 *
 * Threads: every function may be called from any thread (one short mutex); the bytes of a region belong to
 * whoever holds it. The pages are touched on first use; nothing is zeroed.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGN_BYTES = 64 }; /* a cache line, and what AVX-512 and DMA engines like */

typedef struct arena arena_t;

typedef struct {
    size_t total_bytes;   /* of the mapping, headers included */
    size_t used_bytes;    /* in regions that are out now, headers and rounding included */
    size_t peak_bytes;    /* the most that used_bytes ever was */
    size_t largest_bytes; /* a request of this size would succeed now (a lower bound, to 1/32) */
    size_t regions;       /* out now */
    uint64_t allocs;      /* since creation */
    uint64_t refusals;    /* allocs that found no room */
} arena_stats_t;

/* total_bytes is rounded up to whole pages. STATUS_INVALID_ARGUMENT when 0 or absurd, STATUS_NO_MEMORY. */
status_t arena_create(arena_t **out, size_t total_bytes, err_t *err);

/* Likewise, in memory of the caller's: whole pages, which stay the caller's and outlive the arena. */
status_t arena_create_on(arena_t **out, void *base, size_t total_bytes, err_t *err);

/* Every region must be back (a debug build logs and goes on: the mapping is gone either way). NULL is
 * allowed. */
void arena_destroy(arena_t *arena);

/* NULL when no free range is large enough; len_bytes 0 gives a region of one unit. */
void *arena_alloc(arena_t *arena, size_t len_bytes);

/* region came from arena_alloc of the same arena and is not used again. NULL is allowed. */
void arena_free(arena_t *arena, void *region);

/* Whether p points into the mapping: for assertions and for registering memory with a transport. */
bool arena_contains(const arena_t *arena, const void *p);

/* The whole mapping, for transports that register memory once. */
void *arena_base(const arena_t *arena);
size_t arena_total_bytes(const arena_t *arena);

void arena_stats(arena_t *arena, arena_stats_t *stats);

/* Walks everything; false and a text when an invariant is broken. For tests and debug builds. */
bool arena_validate(arena_t *arena, err_t *err);

#endif
