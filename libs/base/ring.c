/* Hot path: no allocation and no system call after init. */
#include "base/ring.h"

#include <stdlib.h>
#include <string.h>

static uint32_t round_up_pow2(uint32_t n)
{
    uint32_t p = 1;
    while (p < n)
        p <<= 1;
    return p;
}

static status_t alloc_cells(char **cells, size_t stride_bytes, uint32_t *capacity, err_t *err)
{
    if (stride_bytes == 0 || *capacity == 0 || *capacity > RING_CAPACITY_MAX ||
        stride_bytes > SIZE_MAX / 2 / *capacity)
        return err_set(err, STATUS_INVALID_ARGUMENT, "ring of %u elements of %zu bytes", *capacity,
                       stride_bytes);
    *capacity = round_up_pow2(*capacity);
    *cells = calloc(*capacity, stride_bytes);
    if (!*cells)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a ring of %u elements of %zu bytes", *capacity,
                       stride_bytes);
    return STATUS_OK;
}

status_t ring_init(ring_t *ring, size_t element_bytes, uint32_t capacity, err_t *err)
{
    char *cells;
    status_t st = alloc_cells(&cells, element_bytes, &capacity, err);
    if (st != STATUS_OK)
        return st;
    *ring = (ring_t){.cells = cells, .element_bytes = element_bytes, .mask = capacity - 1};
    return STATUS_OK;
}

void ring_dispose(ring_t *ring)
{
    free(ring->cells);
    *ring = (ring_t){0};
}

static char *ring_cell(const ring_t *ring, uint32_t position)
{
    return ring->cells + (position & ring->mask) * ring->element_bytes;
}

bool ring_push(ring_t *ring, const void *element)
{
    if (ring_len(ring) > ring->mask)
        return false;
    memcpy(ring_cell(ring, ring->tail), element, ring->element_bytes);
    ring->tail++;
    return true;
}

bool ring_pop(ring_t *ring, void *element)
{
    if (ring_len(ring) == 0)
        return false;
    if (element)
        memcpy(element, ring_cell(ring, ring->head), ring->element_bytes);
    ring->head++;
    return true;
}

void *ring_at(const ring_t *ring, uint32_t i)
{
    return i < ring_len(ring) ? ring_cell(ring, ring->head + i) : NULL;
}

status_t spsc_init(spsc_t *ring, size_t element_bytes, uint32_t capacity, err_t *err)
{
    char *cells;
    status_t st = alloc_cells(&cells, element_bytes, &capacity, err);
    if (st != STATUS_OK)
        return st;
    ring->cells = cells;
    ring->element_bytes = element_bytes;
    ring->mask = capacity - 1;
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head, 0);
    ring->head_seen = 0;
    ring->tail_seen = 0;
    return STATUS_OK;
}

void spsc_dispose(spsc_t *ring)
{
    free(ring->cells);
    ring->cells = NULL;
}

/* Each side keeps what it last saw of the other's index, so that the lines are shared only when it looks full
 * or empty. */
bool spsc_push(spsc_t *ring, const void *element)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    if (tail - ring->head_seen > ring->mask) {
        ring->head_seen = atomic_load_explicit(&ring->head, memory_order_acquire);
        if (tail - ring->head_seen > ring->mask)
            return false;
    }
    memcpy(ring->cells + (tail & ring->mask) * ring->element_bytes, element, ring->element_bytes);
    atomic_store_explicit(&ring->tail, tail + 1, memory_order_release);
    return true;
}

bool spsc_pop(spsc_t *ring, void *element)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head == ring->tail_seen) {
        ring->tail_seen = atomic_load_explicit(&ring->tail, memory_order_acquire);
        if (head == ring->tail_seen)
            return false;
    }
    memcpy(element, ring->cells + (head & ring->mask) * ring->element_bytes, ring->element_bytes);
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
    return true;
}

void *spsc_at(const spsc_t *ring, uint32_t i)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    return i < spsc_len(ring) ? ring->cells + ((head + i) & ring->mask) * ring->element_bytes : NULL;
}

/*
 * Cell i of an mpsc_t has sequence i when it is free for position i, i + 1 when position i has been written.
 * A producer claims a position by moving tail; the sequence then tells the consumer that the copy is
 * complete.
 */
enum { SEQUENCE_BYTES = 8 }; /* the element after it is 8-byte aligned */

static _Atomic uint32_t *cell_sequence(const mpsc_t *ring, uint32_t position)
{
    return (_Atomic uint32_t *)(void *)(ring->cells + (position & ring->mask) * ring->stride_bytes);
}

status_t mpsc_init(mpsc_t *ring, size_t element_bytes, uint32_t capacity, err_t *err)
{
    if (element_bytes == 0 || element_bytes > SIZE_MAX / 4)
        return err_set(err, STATUS_INVALID_ARGUMENT, "ring of elements of %zu bytes", element_bytes);
    size_t stride = SEQUENCE_BYTES + ((element_bytes + 7) & ~(size_t)7);
    char *cells;
    if (capacity == 1)
        capacity = 2; /* with one cell, "written" and "free for the next" would be the same sequence */
    status_t st = alloc_cells(&cells, stride, &capacity, err);
    if (st != STATUS_OK)
        return st;
    ring->cells = cells;
    ring->element_bytes = element_bytes;
    ring->stride_bytes = stride;
    ring->mask = capacity - 1;
    atomic_init(&ring->tail, 0);
    ring->head = 0;
    for (uint32_t i = 0; i < capacity; i++)
        atomic_init(cell_sequence(ring, i), i);
    return STATUS_OK;
}

void mpsc_dispose(mpsc_t *ring)
{
    free(ring->cells);
    ring->cells = NULL;
}

bool mpsc_push(mpsc_t *ring, const void *element)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        _Atomic uint32_t *sequence = cell_sequence(ring, tail);
        int32_t ahead = (int32_t)(atomic_load_explicit(sequence, memory_order_acquire) - tail);
        if (ahead < 0)
            return false;
        if (ahead > 0) {
            tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            continue;
        }
        if (atomic_compare_exchange_weak_explicit(&ring->tail, &tail, tail + 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
            memcpy((char *)sequence + SEQUENCE_BYTES, element, ring->element_bytes);
            atomic_store_explicit(sequence, tail + 1, memory_order_release);
            return true;
        }
    }
}

bool mpsc_pop(mpsc_t *ring, void *element)
{
    _Atomic uint32_t *sequence = cell_sequence(ring, ring->head);
    if (atomic_load_explicit(sequence, memory_order_acquire) != ring->head + 1)
        return false;
    memcpy(element, (char *)sequence + SEQUENCE_BYTES, ring->element_bytes);
    atomic_store_explicit(sequence, ring->head + ring->mask + 1, memory_order_release);
    ring->head++;
    return true;
}
