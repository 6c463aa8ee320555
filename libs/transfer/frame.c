#include "transfer/frame.h"

#include <stdlib.h>
#include <string.h>

enum {
    FREE_MAX = 128,          /* frames kept for reuse: a few per connection of a busy process */
    KEPT_META_MAX = 1 << 16, /* a frame of unusual size does not keep its memory */
    KEPT_IOV_MAX = 1024,
};

void frame_pool_init(frame_pool_t *pool)
{
    TAILQ_INIT(&pool->free);
    pool->free_count = 0;
}

static void frame_free(frame_t *frame)
{
    free(frame->meta);
    free(frame->iov);
    free(frame->pins);
    free(frame);
}

void frame_pool_dispose(frame_pool_t *pool)
{
    frame_t *frame;

    while ((frame = TAILQ_FIRST(&pool->free))) {
        TAILQ_REMOVE(&pool->free, frame, link);
        frame_free(frame);
    }
    pool->free_count = 0;
}

int frame_grow(void *array, uint32_t *cap, uint32_t want, size_t element_bytes)
{
    void *old, *grown;
    uint32_t to = *cap ? *cap : 16;

    if (want <= *cap)
        return 1;
    while (to < want)
        to *= 2;
    memcpy(&old, array, sizeof(old));
    grown = realloc(old, to * element_bytes);
    if (!grown)
        return 0;
    memcpy(array, &grown, sizeof(grown));
    *cap = to;
    return 1;
}

static int frame_reserve(frame_t *frame, size_t meta_bytes, uint32_t iovs, uint32_t pins)
{
    if (meta_bytes > frame->meta_cap) {
        uint8_t *meta = realloc(frame->meta, meta_bytes);
        if (!meta)
            return 0;
        frame->meta = meta;
        frame->meta_cap = meta_bytes;
    }
    return frame_grow(&frame->iov, &frame->iov_cap, iovs + 1, sizeof(*frame->iov)) &&
           (pins == 0 || frame_grow(&frame->pins, &frame->pin_cap, pins, sizeof(*frame->pins)));
}

frame_t *frame_get(frame_pool_t *pool, size_t meta_bytes, uint32_t iovs, uint32_t pins)
{
    frame_t *frame = TAILQ_FIRST(&pool->free);

    if (frame) {
        TAILQ_REMOVE(&pool->free, frame, link);
        pool->free_count--;
    } else if (!(frame = calloc(1, sizeof(*frame)))) {
        return NULL;
    }
    if (!frame_reserve(frame, meta_bytes, iovs, pins)) {
        frame_free(frame);
        return NULL;
    }
    frame->meta_bytes = meta_bytes;
    frame->iov[0] = (struct iovec){.iov_base = frame->meta, .iov_len = meta_bytes};
    frame->iov_count = 1;
    frame->pin_count = 0;
    frame->iov_pos = 0;
    frame->iov_off = 0;
    frame->weight = 1;
    frame->request = NULL;
    return frame;
}

void frame_put(frame_pool_t *pool, frame_t *frame)
{
    if (pool->free_count >= FREE_MAX || frame->meta_cap > KEPT_META_MAX || frame->iov_cap > KEPT_IOV_MAX) {
        frame_free(frame);
        return;
    }
    TAILQ_INSERT_HEAD(&pool->free, frame, link);
    pool->free_count++;
}
