/* Memory registered with UCX, and memory of its making. */
#ifndef TRANSFER_UCX_MEMORY_H
#define TRANSFER_UCX_MEMORY_H

#include "transfer/carrier.h"
#include "transfer/ucx/context.h"

typedef struct {
    ucp_mem_h handle;
    void *rkey; /* NULL: nothing is registered */
    size_t rkey_bytes;
} ucx_memory_t;

status_t ucx_register(const ucx_context_t *context, void *base, size_t len_bytes, ucx_memory_t *memory,
                      err_t *err);
void ucx_deregister(const ucx_context_t *context, ucx_memory_t *memory);
uint32_t ucx_registered(void); /* in this process */

/* Memory that only this process reads and writes: it has no key. NO_MEMORY. */
status_t ucx_map(const ucx_context_t *context, transfer_place_t place, void *base, size_t len_bytes,
                 ucp_mem_h *handle, err_t *err);
void ucx_unmap(const ucx_context_t *context, ucp_mem_h handle);

/* What carrier_memory_t.made points to: memory that UCX allocated, which its shared memory lets peers map. */
struct carrier_made {
    ucx_context_t *context; /* the door's, too, and that of what is made beside it */
    ucx_memory_t memory;
};

status_t rdma_memory_make(const char *address, const carrier_memory_t *beside, size_t len_bytes,
                          carrier_memory_t *memory, err_t *err);
void rdma_memory_free(carrier_memory_t *memory);

#endif
