#include "transfer/ucx/client.h"

#include "transfer/ucx/hello.h"

#include <stdlib.h>

status_t rdma_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **out, err_t *err)
{
    carrier_client_t *client = calloc(1, sizeof(*client));

    if (!client)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    client->loop = loop;
    client->spin = spin;
    status_t status = ucx_context_open(&client->context, err);
    if (status != STATUS_OK) {
        free(client);
        return status;
    }
    *out = client;
    return STATUS_OK;
}

void rdma_client_close(carrier_client_t *client)
{
    scratch_t *scratch;

    ucx_context_let_go(client->context);
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
