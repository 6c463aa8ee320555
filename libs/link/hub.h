/* Where a process's accepting ends are found, and what waits for them. */
#ifndef LINK_HUB_H
#define LINK_HUB_H

#include "link/link_private.h"

enum { HUB_KINDS_MAX = 4 };

struct event;

struct link_hub {
    loop_t *loop;                            /* of all accepting ends */
    const link_kind_t *kinds[HUB_KINDS_MAX]; /* none is added once somebody dials from another loop */
    uint32_t kind_count;
    /* within.c: links whose both ends are on this loop */
    uv_idle_t idle; /* while something is to be heard, or has been */
    struct event *first, **last;
    unsigned hearing; /* messages that are being heard */
    /* between.c: what comes from ends on other loops */
    mailbox_t mailbox;
};

/* NULL: nobody accepts this method. */
const link_kind_t *hub_find(const link_hub_t *hub, const char *method);

/* between.c, for the hub's mailbox */
void between_deliver(void *arg, mailbox_node_t *first);

#endif
