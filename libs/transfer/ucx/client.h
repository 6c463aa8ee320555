/* What the links of one pool share (carrier.h). */
#ifndef TRANSFER_UCX_CLIENT_H
#define TRANSFER_UCX_CLIENT_H

#include "transfer/carrier.h"
#include "transfer/ucx/buffers.h"

/* Room for the entries of a job's items. */
typedef struct scratch {
    struct scratch *next;
    uint32_t cap;
    directory_entry_t entries[];
} scratch_t;

struct carrier_client {
    ucx_context_t *contexts[BUFFER_CONTEXTS_MAX]; /* the first is kept to no device */
    uint32_t context_count;
    struct uv_loop_s *loop;
    bool spin;
    buffers_t buffers;
    scratch_t *scratch; /* not in use */
};

status_t rdma_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **client, err_t *err);
void rdma_client_close(carrier_client_t *client);
void rdma_client_hello(carrier_client_t *client, carrier_blob_t *hello);

void rdma_buffer_add(carrier_client_t *client, transfer_place_t place, void *base, size_t len_bytes);
void rdma_buffer_drop(carrier_client_t *client, void *base);
transfer_reach_t rdma_reach(const carrier_client_t *client);
void rdma_buffer_count(const carrier_client_t *client, carrier_buffers_t *buffers);

/* The index of the context for a link whose connection is from this address, which is to hold it. Not OK: err says why there is none. */
status_t client_context(carrier_client_t *client, const char *local, uint32_t *at, err_t *err);

scratch_t *scratch_take(carrier_client_t *client, uint32_t count); /* NULL: no memory */
void scratch_put(carrier_client_t *client, scratch_t *scratch);    /* NULL is allowed */

#endif
