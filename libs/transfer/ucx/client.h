/* What the links of one pool share (carrier.h). */
#ifndef TRANSFER_UCX_CLIENT_H
#define TRANSFER_UCX_CLIENT_H

#include "transfer/carrier.h"
#include "transfer/ucx/context.h"

/* Room for the entries of a job's items. */
typedef struct scratch {
    struct scratch *next;
    uint32_t cap;
    directory_entry_t entries[];
} scratch_t;

struct carrier_client {
    ucx_context_t *context;
    struct uv_loop_s *loop;
    bool spin;
    scratch_t *scratch; /* not in use */
};

status_t rdma_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **client, err_t *err);
void rdma_client_close(carrier_client_t *client);
void rdma_client_hello(carrier_client_t *client, carrier_blob_t *hello);

scratch_t *scratch_take(carrier_client_t *client, uint32_t count); /* NULL: no memory */
void scratch_put(carrier_client_t *client, scratch_t *scratch);    /* NULL is allowed */

#endif
