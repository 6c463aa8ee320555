/*
 * Outgoing frames: a meta buffer (header and records) and the list of everything to write, meta first.
 * Recycled through a free list, with the buffers they have grown, so that a steady state allocates nothing.
 */
#ifndef TRANSFER_FRAME_H
#define TRANSFER_FRAME_H

#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/uio.h>

typedef struct frame {
    TAILQ_ENTRY(frame) link;
    uint8_t *meta; /* meta_bytes of it; the caller fills them */
    size_t meta_bytes, meta_cap;
    struct iovec *iov; /* iov[0] is the meta */
    uint32_t iov_count, iov_cap;
    uint32_t *pins; /* region slots to unpin when the frame has left (owner) */
    uint32_t pin_count, pin_cap;
    uint32_t iov_pos; /* first one not wholly written, and how far it is */
    size_t iov_off;
    uint32_t weight; /* records in it; what a connection's queue is bounded by */
    void *request;   /* the pool's, NULL for others */
} frame_t;

TAILQ_HEAD(frame_list, frame);

typedef struct {
    struct frame_list free;
    uint32_t free_count;
} frame_pool_t;

void frame_pool_init(frame_pool_t *pool);
void frame_pool_dispose(frame_pool_t *pool);

/* A frame with room for so many payload iovs (and pins); NULL: no memory. */
frame_t *frame_get(frame_pool_t *pool, size_t meta_bytes, uint32_t iovs, uint32_t pins);
void frame_put(frame_pool_t *pool, frame_t *frame);

/* Adds bytes to be written; within the room asked for. Empty ones are left out. */
static inline void frame_add(frame_t *frame, const void *data, size_t len_bytes)
{
    if (len_bytes)
        frame->iov[frame->iov_count++] =
            (struct iovec){.iov_base = (void *)(uintptr_t)data, .iov_len = len_bytes};
}

static inline int frame_started(const frame_t *frame)
{
    return frame->iov_pos > 0 || frame->iov_off > 0;
}

/* Grows *array to at least want elements; keeps the content. 0: no memory. */
int frame_grow(void *array, uint32_t *cap, uint32_t want, size_t element_bytes);

#endif
