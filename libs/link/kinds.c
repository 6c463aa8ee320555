/* Who accepts which method. */
#include "link/hub.h"

#include <string.h>

status_t link_accept_within(link_hub_t *hub, const link_kind_t *kind)
{
    if (hub->kind_count == HUB_KINDS_MAX)
        return STATUS_INTERNAL;
    hub->kinds[hub->kind_count++] = kind;
    return STATUS_OK;
}

const link_kind_t *hub_find(const link_hub_t *hub, const char *method)
{
    for (uint32_t i = 0; i < hub->kind_count; i++) {
        if (strcmp(hub->kinds[i]->method, method) == 0)
            return hub->kinds[i];
    }
    return NULL;
}
