#include "transfer/ucx/client.h"

#include "transfer/ucx/hardware.h"
#include "transfer/ucx/hello.h"

#include <stdlib.h>
#include <string.h>

status_t rdma_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **out, err_t *err)
{
    carrier_client_t *client = calloc(1, sizeof(*client));

    if (!client)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    client->loop = loop;
    client->spin = spin;
    status_t status = ucx_context_open(NULL, &client->contexts[0], err);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    client->context_count = 1;
    *out = client;
    return STATUS_OK;
}

void rdma_client_close(carrier_client_t *client)
{
    scratch_t *scratch;

    buffers_dispose(&client->buffers);
    for (uint32_t i = 0; i < client->context_count; i++)
        ucx_context_let_go(client->contexts[i]);
    while ((scratch = client->scratch)) {
        client->scratch = scratch->next;
        free(scratch);
    }
    free(client);
}

void rdma_client_hello(carrier_client_t *client, carrier_blob_t *hello)
{
    (void)client;
    ucx_hello_write(hello);
}

static status_t context_for(carrier_client_t *client, const char *local, uint32_t *at, err_t *err)
{
    char device[UCX_DEVICE_BYTES];

    ucx_device_of(local, device);
    for (*at = 0; *at < client->context_count; ++*at) {
        if (strcmp(client->contexts[*at]->device, device) == 0)
            return STATUS_OK;
    }
    if (client->context_count == BUFFER_CONTEXTS_MAX) {
        *at = 0;
        return STATUS_OK;
    }
    status_t status = ucx_context_open(local, &client->contexts[*at], err);
    if (status == STATUS_OK)
        client->context_count++;
    return status;
}

status_t client_context(carrier_client_t *client, const char *local, uint32_t *at, err_t *err)
{
    status_t status = context_for(client, local, at, err);

    if (status == STATUS_OK)
        buffers_use(&client->buffers, *at, client->contexts[*at]);
    return status;
}

void rdma_buffer_add(carrier_client_t *client, transfer_place_t place, void *base, size_t len_bytes)
{
    buffers_add(&client->buffers, place, base, len_bytes);
}

void rdma_buffer_drop(carrier_client_t *client, void *base)
{
    buffers_drop(&client->buffers, base);
}

transfer_reach_t rdma_reach(const carrier_client_t *client)
{
    return (transfer_reach_t){
        .rdma = true, .hardware = ucx_has_hardware(), .device = ucx_context_takes_cuda(client->contexts[0])};
}

void rdma_buffer_count(const carrier_client_t *client, carrier_buffers_t *buffers)
{
    *buffers = buffers_count(&client->buffers);
}

scratch_t *scratch_take(carrier_client_t *client, uint32_t count)
{
    scratch_t *scratch = client->scratch;

    if (scratch && scratch->cap >= count) {
        client->scratch = scratch->next;
        return scratch;
    }
    uint32_t cap = 16;
    while (cap < count)
        cap *= 2;
    size_t bytes = sizeof(*scratch) + cap * sizeof(directory_entry_t);
    if (scratch) /* one of them grows; soon all have the usual size */
        client->scratch = scratch->next;
    free(scratch);
    scratch = calloc(1, bytes);
    if (scratch)
        scratch->cap = cap;
    return scratch;
}

void scratch_put(carrier_client_t *client, scratch_t *scratch)
{
    if (!scratch)
        return;
    scratch->next = client->scratch;
    client->scratch = scratch;
}
