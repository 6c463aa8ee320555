#include "transfer/ucx/client.h"

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

ucx_context_t *client_context(carrier_client_t *client, const char *local, err_t *err)
{
    char device[UCX_DEVICE_BYTES];

    ucx_device_of(local, device);
    for (uint32_t i = 0; i < client->context_count; i++) {
        if (strcmp(client->contexts[i]->device, device) == 0)
            return client->contexts[i];
    }
    if (client->context_count == CLIENT_CONTEXTS_MAX)
        return client->contexts[0];
    ucx_context_t **context = &client->contexts[client->context_count];
    if (ucx_context_open(local, context, err) != STATUS_OK)
        return NULL;
    client->context_count++;
    return *context;
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
