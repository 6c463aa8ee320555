/*
 * The admin calls of the scheduler at the gRPC port of the process, for clients of this host: `fermata cluster --scheduler` and its like. What
 * has no meaning in one process is refused by name: a plan, and everything where the process is part of a cluster.
 */
#ifndef SERVE_ADMIN_H
#define SERVE_ADMIN_H

#include "gateway/gateway.h"
#include "scheduler/scheduler.h"

typedef struct {
    loop_t *loop;           /* of the scheduler */
    scheduler_t *scheduler; /* NULL: it is elsewhere, */
    const char *elsewhere;  /* at this address */
} serve_admin_t;

/* Lives as long as admin, which is filled before the gateways listen. */
gateway_calls_t serve_admin_calls(serve_admin_t *admin);

#endif
