#include "link/hub.h"

#include <stdlib.h>

status_t link_hub_create(loop_t *loop, link_hub_t **out, err_t *err)
{
    link_hub_t *hub = calloc(1, sizeof(*hub));

    if (!hub)
        return err_set(err, STATUS_NO_MEMORY, "no memory for links");
    status_t status = mailbox_init(&hub->mailbox, loop, between_deliver, NULL, err);
    if (status != STATUS_OK) {
        free(hub);
        return status;
    }
    hub->loop = loop;
    hub->last = &hub->first;
    (void)uv_idle_init(loop_uv(loop), &hub->idle);
    hub->idle.data = hub;
    *out = hub;
    return STATUS_OK;
}

static void on_hub_closed(uv_handle_t *handle)
{
    free(handle->data);
}

void link_hub_destroy(link_hub_t *hub)
{
    if (!hub)
        return;
    mailbox_dispose(&hub->mailbox);
    uv_close((uv_handle_t *)&hub->idle, on_hub_closed);
}
