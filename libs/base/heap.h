/*
 * An intrusive 4-ary min-heap: the owner embeds a heap_node_t in its object, the heap knows the place of
 * every node, so removing or re-keying any of them is O(log n). The key is an int64 (a time, mostly); among
 * equal keys the lower tie comes first, so the order of pops never depends on the history of the heap.
 *
 *   slots:  [ key | tie | node* ][ key | tie | node* ] …
 *
 * The keys lie in the array: sifting touches no object but to write its place.
 *
 * One owner, no locks. No libc call after init (heap_reserve may allocate).
 */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include "base/container.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HEAP_CAPACITY_MAX (UINT32_C(1) << 28)

typedef struct {
    uint32_t place; /* 1-based index of its slot; 0 = in no heap, so a zeroed node is valid */
} heap_node_t;

typedef struct {
    int64_t key;
    uint64_t tie;
    heap_node_t *node;
} heap_slot_t;

typedef struct {
    heap_slot_t *slots;
    uint32_t len;
    uint32_t capacity;
} heap_t;

/* capacity may be 0, with heap_reserve later */
status_t heap_init(heap_t *heap, uint32_t capacity, err_t *err);
status_t heap_reserve(heap_t *heap, uint32_t capacity, err_t *err);
void heap_dispose(heap_t *heap);

/* node is in no heap. false when full. */
bool heap_insert(heap_t *heap, heap_node_t *node, int64_t key, uint64_t tie);

/* The least, or NULL. The object is CONTAINER_OF(node, type, member). */
heap_node_t *heap_min(const heap_t *heap);
int64_t heap_min_key(const heap_t *heap); /* INT64_MAX when empty */
heap_node_t *heap_pop(heap_t *heap);      /* NULL when empty */

void heap_remove(heap_t *heap, heap_node_t *node); /* no effect when it is in no heap */
void heap_update(heap_t *heap, heap_node_t *node, int64_t key, uint64_t tie);

static inline bool heap_contains(const heap_node_t *node)
{
    return node->place != 0;
}

bool heap_validate(const heap_t *heap, err_t *err);

#endif
