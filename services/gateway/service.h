/*
 * The gateway as one object on a loop. loops.h holds one or several of them: the program is that, signals and a command line; `serve` holds
 * them beside a scheduler and a worker. Loop thread, but for gateway_service_read.
 */
#ifndef GATEWAY_SERVICE_H
#define GATEWAY_SERVICE_H

#include "base/arena.h"
#include "gateway/gateway.h"
#include "gateway/options.h"
#include "loop/loop.h"
#include "metrics/metrics.h"
#include "rpc/server.h"
#include "tls/context.h"
#include "transfer/transfer.h"

typedef struct gateway_service gateway_service_t;

/* What it shares with others of its process; all outlive it. */
typedef struct {
    /* where the scheduler of this process accepts; NULL: it is elsewhere, and so may workers be */
    struct link_hub *hub;
    metrics_t *metrics;        /* of all of them, exposed by another, who asks gateway_service_read */
    struct stats_board *board; /* where they count what their models did; NULL: there is one gateway */
    gateway_calls_t calls;
    struct auth_usages *usages; /* what keys have used of their limits, at all of them */
    struct regions *regions;    /* memory that clients share; NULL: they may not */
    tls_context_t *tls;         /* of what clients reach; NULL: plain */
    tls_context_t *dialled;     /* of how the scheduler is dialled; NULL: plain */
    transfer_trust_t trust;     /* of the data plane */
    bool others; /* there are gateways on other loops: it shares its ports and its data plane with them */
} gateway_within_t;

/* What metrics tell of it. */
typedef struct {
    uint64_t connections, requests, tasks, preprocess_queue;
    uint32_t models; /* versions that the scheduler has told it of */
    bool up;         /* its scheduler is there */
    arena_stats_t arena;
    transfer_stats_t data; /* zeros with a hub */
    rpc_unfinished_stats_t unfinished;
} gateway_readings_t;

/*
 * Dials the scheduler; clients reach it from gateway_service_open on. options outlive it. With a hub neither the scheduler's address nor
 * the data plane's matters: inputs and results pass through gateway_service_owner.
 */
status_t gateway_service_create(loop_t *loop, const gateway_options_t *options,
                                const gateway_within_t *within, gateway_service_t **service, err_t *err);

/* Listens when it returns. */
status_t gateway_service_open(gateway_service_t *service, err_t *err);

/* Looks for changes of the file of keys now. */
void gateway_service_reread(gateway_service_t *service);

/* Not ready from here on; goes on serving for drain_delay, then answers what is under way, up to drain_timeout; on_stopped comes
 * on the loop, then destroy. Once; later calls do nothing. */
void gateway_service_stop(gateway_service_t *service, void (*on_stopped)(void *arg), void *arg);
/* Also of one that was not opened or not stopped: then it turns the loop until its parts have ended. NULL is fine. */
void gateway_service_destroy(gateway_service_t *service);

/* Whom a worker of this process fetches from and pushes to. */
struct transfer_owner *gateway_service_owner(const gateway_service_t *service);
const char *gateway_service_http(const gateway_service_t *service); /* "127.0.0.1:8000" */
const char *gateway_service_grpc(const gateway_service_t *service);
const char *gateway_service_data(const gateway_service_t *service);
/* Any thread, between create and destroy. On its own: what is now; on others: what was when its loop last went to sleep. */
void gateway_service_read(gateway_service_t *service, gateway_readings_t *readings);

#endif
