/* Hot path: no allocation after init. */
#include "base/heap.h"

#include <assert.h>
#include <stdlib.h>

/* Four children share a cache line and a half, and the tree is half as deep as a binary one. */
enum { ARITY = 4 };

status_t heap_init(heap_t *heap, uint32_t capacity, err_t *err)
{
    *heap = (heap_t){0};
    return capacity == 0 ? STATUS_OK : heap_reserve(heap, capacity, err);
}

status_t heap_reserve(heap_t *heap, uint32_t capacity, err_t *err)
{
    if (capacity > HEAP_CAPACITY_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "heap of %u nodes", capacity);
    if (capacity <= heap->capacity)
        return STATUS_OK;
    heap_slot_t *slots = realloc(heap->slots, capacity * sizeof *slots);
    if (!slots)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a heap of %u nodes", capacity);
    heap->slots = slots;
    heap->capacity = capacity;
    return STATUS_OK;
}

void heap_dispose(heap_t *heap)
{
    free(heap->slots);
    *heap = (heap_t){0};
}

static bool before(const heap_slot_t *a, const heap_slot_t *b)
{
    return a->key != b->key ? a->key < b->key : a->tie < b->tie;
}

static void put(heap_t *heap, uint32_t i, heap_slot_t slot)
{
    heap->slots[i] = slot;
    slot.node->place = i + 1;
}

static void sift_up(heap_t *heap, uint32_t i, heap_slot_t slot)
{
    while (i > 0) {
        uint32_t parent = (i - 1) / ARITY;
        if (!before(&slot, &heap->slots[parent]))
            break;
        put(heap, i, heap->slots[parent]);
        i = parent;
    }
    put(heap, i, slot);
}

static uint32_t least_child(const heap_t *heap, uint32_t i)
{
    uint32_t first = i * ARITY + 1;
    uint32_t end = first + ARITY < heap->len ? first + ARITY : heap->len;
    uint32_t least = first;
    for (uint32_t c = first + 1; c < end; c++)
        if (before(&heap->slots[c], &heap->slots[least]))
            least = c;
    return least;
}

static void sift_down(heap_t *heap, uint32_t i, heap_slot_t slot)
{
    while (i * ARITY + 1 < heap->len) {
        uint32_t child = least_child(heap, i);
        if (!before(&heap->slots[child], &slot))
            break;
        put(heap, i, heap->slots[child]);
        i = child;
    }
    put(heap, i, slot);
}

/* Whatever was in place i before: puts slot where it belongs, starting there. */
static void settle(heap_t *heap, uint32_t i, heap_slot_t slot)
{
    if (i > 0 && before(&slot, &heap->slots[(i - 1) / ARITY]))
        sift_up(heap, i, slot);
    else
        sift_down(heap, i, slot);
}

bool heap_insert(heap_t *heap, heap_node_t *node, int64_t key, uint64_t tie)
{
    assert(node->place == 0);
    if (heap->len == heap->capacity)
        return false;
    heap->len++;
    sift_up(heap, heap->len - 1, (heap_slot_t){key, tie, node});
    return true;
}

heap_node_t *heap_min(const heap_t *heap)
{
    return heap->len > 0 ? heap->slots[0].node : NULL;
}

int64_t heap_min_key(const heap_t *heap)
{
    return heap->len > 0 ? heap->slots[0].key : INT64_MAX;
}

heap_node_t *heap_pop(heap_t *heap)
{
    heap_node_t *node = heap_min(heap);
    if (node)
        heap_remove(heap, node);
    return node;
}

void heap_remove(heap_t *heap, heap_node_t *node)
{
    if (node->place == 0)
        return;
    uint32_t i = node->place - 1;
    assert(i < heap->len && heap->slots[i].node == node);
    node->place = 0;
    heap->len--;
    if (i < heap->len)
        settle(heap, i, heap->slots[heap->len]);
}

void heap_update(heap_t *heap, heap_node_t *node, int64_t key, uint64_t tie)
{
    assert(node->place != 0 && heap->slots[node->place - 1].node == node);
    uint32_t i = node->place - 1;
    heap_slot_t slot = {key, tie, node};
    if (before(&slot, &heap->slots[i]))
        sift_up(heap, i, slot);
    else
        sift_down(heap, i, slot);
}

bool heap_validate(const heap_t *heap, err_t *err)
{
    for (uint32_t i = 0; i < heap->len; i++) {
        const heap_slot_t *slot = &heap->slots[i];
        if (slot->node->place != i + 1) {
            err_set(err, STATUS_INTERNAL, "heap: slot %u holds a node that says %u", i, slot->node->place);
            return false;
        }
        if (i > 0 && before(slot, &heap->slots[(i - 1) / ARITY])) {
            err_set(err, STATUS_INTERNAL, "heap: slot %u is before its parent", i);
            return false;
        }
    }
    return true;
}
