#include "transfer/ucx/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint32_t registered;

uint32_t ucx_registered(void)
{
    return atomic_load(&registered);
}

static status_t map_by(const ucx_context_t *context, const ucp_mem_map_params_t *params, ucp_mem_h *handle,
                       err_t *err)
{
    ucs_status_t failed = ucp_mem_map(context->handle, params, handle);
    const size_t mib = params->length >> 20;

    if (failed != UCS_OK)
        return err_set(err, STATUS_NO_MEMORY, "%zu %s cannot be registered (ulimit -l?): %s",
                       mib ? mib : params->length, mib ? "MiB" : "bytes", ucs_status_string(failed));
    atomic_fetch_add(&registered, 1);
    return STATUS_OK;
}

static ucp_mem_map_params_t params_of(void *base, size_t len_bytes)
{
    return (ucp_mem_map_params_t){.field_mask =
                                      UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                  .address = base,
                                  .length = len_bytes};
}

status_t ucx_map(const ucx_context_t *context, transfer_place_t place, void *base, size_t len_bytes,
                 ucp_mem_h *handle, err_t *err)
{
    ucp_mem_map_params_t params = params_of(base, len_bytes);

    if (place == TRANSFER_IN_DEVICE) {
        params.field_mask |= UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
        params.memory_type = UCS_MEMORY_TYPE_CUDA;
    }
    return map_by(context, &params, handle, err);
}

void ucx_unmap(const ucx_context_t *context, ucp_mem_h handle)
{
    ucp_mem_unmap(context->handle, handle);
    atomic_fetch_sub(&registered, 1);
}

static status_t memory_map(const ucx_context_t *context, const ucp_mem_map_params_t *params,
                           ucx_memory_t *memory, err_t *err)
{
    status_t status = map_by(context, params, &memory->handle, err);

    if (status != STATUS_OK)
        return status;
    ucs_status_t failed = ucp_rkey_pack(context->handle, memory->handle, &memory->rkey, &memory->rkey_bytes);
    if (failed != UCS_OK) {
        ucx_unmap(context, memory->handle);
        return err_set(err, STATUS_INTERNAL, "UCX gives no key: %s", ucs_status_string(failed));
    }
    return STATUS_OK;
}

status_t ucx_register(const ucx_context_t *context, void *base, size_t len_bytes, ucx_memory_t *memory,
                      err_t *err)
{
    const ucp_mem_map_params_t params = params_of(base, len_bytes);

    return memory_map(context, &params, memory, err);
}

/* Deregistering frees it. */
static status_t ucx_allocate(const ucx_context_t *context, size_t len_bytes, ucx_memory_t *memory,
                             void **base, err_t *err)
{
    const ucp_mem_map_params_t params = {.field_mask =
                                             UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = len_bytes,
                                         .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    status_t status = memory_map(context, &params, memory, err);

    if (status != STATUS_OK)
        return status;
    ucs_status_t failed = ucp_mem_query(memory->handle, &attributes);
    if (failed != UCS_OK) {
        ucx_deregister(context, memory);
        return err_set(err, STATUS_INTERNAL, "UCX hides its memory: %s", ucs_status_string(failed));
    }
    *base = attributes.address;
    return STATUS_OK;
}

void ucx_deregister(const ucx_context_t *context, ucx_memory_t *memory)
{
    if (!memory->rkey)
        return;
    ucp_rkey_buffer_release(memory->rkey);
    ucx_unmap(context, memory->handle);
    *memory = (ucx_memory_t){0};
}

/* ---- what an owner lays open ---- */

status_t rdma_memory_make(const char *address, const carrier_memory_t *beside, size_t len_bytes,
                          carrier_memory_t *memory, err_t *err)
{
    struct carrier_made *made = calloc(1, sizeof(*made));
    void *base = NULL;
    status_t status = STATUS_OK;

    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (beside && beside->made)
        made->context = ucx_context_hold(beside->made->context);
    else
        status = ucx_context_open(address, &made->context, err);
    if (status != STATUS_OK)
        goto free_made;
    status = ucx_allocate(made->context, len_bytes, &made->memory, &base, err);
    if (status != STATUS_OK)
        goto let_go;
    *memory = (carrier_memory_t){
        .base = base, .len_bytes = len_bytes, .fd = -1, .made = made, .made_by = &carrier_rdma};
    return STATUS_OK;

let_go:
    ucx_context_let_go(made->context);
free_made:
    free(made);
    return status;
}

void rdma_memory_free(carrier_memory_t *memory)
{
    struct carrier_made *made = memory->made;

    ucx_deregister(made->context, &made->memory);
    ucx_context_let_go(made->context);
    free(made);
    memory->made = NULL;
}
