/*
 * A set of small integers [0, capacity) whose least member is found in O(1): three levels of 64-bit words, a
 * bit of an upper level says that the word below is not zero. Holds up to BITMAP_CAPACITY_MAX (the scheduler
 * wants 65,536 GPUs).
 *
 * One owner, no locks. No libc call after init.
 */
#ifndef BASE_BITMAP_H
#define BASE_BITMAP_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { BITMAP_CAPACITY_MAX = 64 * 64 * 64, BITMAP_NONE = UINT32_MAX >> 1 };

typedef struct {
    uint64_t top;
    uint64_t *middle;
    uint64_t *bottom;
    uint32_t capacity;
    uint32_t count;
} bitmap_t;

status_t bitmap_init(bitmap_t *set, uint32_t capacity, err_t *err); /* empty; 1 … BITMAP_CAPACITY_MAX */
void bitmap_dispose(bitmap_t *set);

void bitmap_add(bitmap_t *set, uint32_t i);    /* no effect when it is there; i < capacity */
void bitmap_remove(bitmap_t *set, uint32_t i); /* no effect when it is not there */
bool bitmap_has(const bitmap_t *set, uint32_t i);
uint32_t bitmap_first(const bitmap_t *set);               /* least member, or BITMAP_NONE */
uint32_t bitmap_next(const bitmap_t *set, uint32_t from); /* least member >= from, or BITMAP_NONE */

static inline uint32_t bitmap_count(const bitmap_t *set)
{
    return set->count;
}

bool bitmap_validate(const bitmap_t *set, err_t *err);

#endif
