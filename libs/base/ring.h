/*
 * Bounded queues of elements of one size, copied in and out. No libc call but memcpy after init.
 *
 *   ring_t  one owner: FIFO with access to the i-th element from the front
 *   spsc_t  one producer thread, one consumer thread; wait-free
 *   mpsc_t  many producer threads, one consumer thread; lock-free, with a sequence number per cell
 *
 * Capacities are rounded up to a power of two (at most RING_CAPACITY_MAX).
 */
#ifndef BASE_RING_H
#define BASE_RING_H

#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_CAPACITY_MAX (UINT32_C(1) << 28)
#define RING_CACHE_LINE 64

typedef struct {
    char *cells;
    size_t element_bytes;
    uint32_t mask;
    uint32_t head; /* of the next pop; head and tail run freely and wrap */
    uint32_t tail; /* of the next push */
} ring_t;

status_t ring_init(ring_t *ring, size_t element_bytes, uint32_t capacity, err_t *err);
void ring_dispose(ring_t *ring);
bool ring_push(ring_t *ring, const void *element); /* at the back; false when full */
bool ring_pop(ring_t *ring, void *element);        /* from the front; false when empty; element may be NULL */
void *ring_at(const ring_t *ring,
              uint32_t i); /* i-th from the front, NULL when i >= len; until the next push */

static inline uint32_t ring_len(const ring_t *ring)
{
    return ring->tail - ring->head;
}

typedef struct {
    /* Written by nobody after init. */
    char *cells;
    size_t element_bytes;
    uint32_t mask;
    /* Written by the producer. */
    _Alignas(RING_CACHE_LINE) _Atomic uint32_t tail;
    uint32_t head_seen;
    /* Written by the consumer. */
    _Alignas(RING_CACHE_LINE) _Atomic uint32_t head;
    uint32_t tail_seen;
} spsc_t;

status_t spsc_init(spsc_t *ring, size_t element_bytes, uint32_t capacity, err_t *err);
void spsc_dispose(spsc_t *ring);
bool spsc_push(spsc_t *ring, const void *element); /* false when full */
bool spsc_pop(spsc_t *ring, void *element);        /* false when empty */
/* The consumer's: i-th from the front, its own until popped; NULL when there are not so many. */
void *spsc_at(const spsc_t *ring, uint32_t i);

/* Either side's; the other may be changing it. */
static inline uint32_t spsc_len(const spsc_t *ring)
{
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    return atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
}

typedef struct {
    char *cells; /* per cell: _Atomic uint32_t sequence, then the element */
    size_t element_bytes;
    size_t stride_bytes;
    uint32_t mask;
    _Alignas(RING_CACHE_LINE) _Atomic uint32_t tail; /* contended by the producers */
    _Alignas(RING_CACHE_LINE) uint32_t head;         /* the consumer's */
} mpsc_t;

status_t mpsc_init(mpsc_t *ring, size_t element_bytes, uint32_t capacity, err_t *err);
void mpsc_dispose(mpsc_t *ring);
bool mpsc_push(mpsc_t *ring, const void *element); /* any thread; false when full */
bool mpsc_pop(mpsc_t *ring, void *element); /* the consumer; false when empty or the next is being written */

#endif
