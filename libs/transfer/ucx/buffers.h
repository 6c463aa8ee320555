/*
 * Memory of the pool's own that is registered once, for gets into it and puts from it. It is registered with the contexts by which links
 * have gone out, since what no link uses need not be pinned. Few of them, and each operation looks one up: a sorted array.
 */
#ifndef TRANSFER_UCX_BUFFERS_H
#define TRANSFER_UCX_BUFFERS_H

#include "transfer/carrier.h"
#include "transfer/ucx/context.h"

enum { BUFFER_CONTEXTS_MAX = 8 }; /* one for each device that links go out by; hosts have few */

typedef struct {
    uint8_t *base;
    size_t len_bytes;
    transfer_place_t place;
    ucp_mem_h handles[BUFFER_CONTEXTS_MAX]; /* NULL: it is not registered there */
    bool refused;                           /* by one of them */
} buffer_t;

typedef struct {
    buffer_t *list; /* by base */
    uint32_t count, cap;
    const ucx_context_t *contexts[BUFFER_CONTEXTS_MAX]; /* NULL: no link has gone out by it */
    bool told;                                          /* that one was refused */
} buffers_t;

void buffers_add(buffers_t *buffers, transfer_place_t place, void *base, size_t len_bytes);
void buffers_drop(buffers_t *buffers, void *base);
/* All of them; their contexts are there. */
void buffers_dispose(buffers_t *buffers);
/* The first link goes out by the context `at`. Once or more often is the same. */
void buffers_use(buffers_t *buffers, uint32_t at, const ucx_context_t *context);
/* NULL: [bytes, bytes + len) is not within what is registered there. */
ucp_mem_h buffers_find(const buffers_t *buffers, uint32_t at, const void *bytes, size_t len);
carrier_buffers_t buffers_count(const buffers_t *buffers);

#endif
