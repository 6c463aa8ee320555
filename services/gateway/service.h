/*
 * The gateway as one object on a loop: the program is this, signals and a command line; `serve` holds one beside a scheduler and a
 * worker. Loop thread.
 */
#ifndef GATEWAY_SERVICE_H
#define GATEWAY_SERVICE_H

#include "gateway/options.h"
#include "loop/loop.h"
#include "metrics/metrics.h"

typedef struct gateway_service gateway_service_t;

/* What it shares with others of its process; all outlive it. */
typedef struct {
    /* where the scheduler of this process accepts; NULL: it is elsewhere, and so may workers be */
    struct link_hub *hub;
    metrics_t *metrics; /* of all of them, exposed by another */
} gateway_within_t;

/*
 * Dials the scheduler; clients reach it from gateway_service_open on. options outlive it. within NULL: by itself, with metrics that
 * listen. With a hub neither the scheduler's address nor the data plane's matters: inputs and results pass through
 * gateway_service_owner.
 */
status_t gateway_service_create(loop_t *loop, const gateway_options_t *options,
                                const gateway_within_t *within, gateway_service_t **service, err_t *err);

/* Listens when it returns. */
status_t gateway_service_open(gateway_service_t *service, err_t *err);

/* Answers what is under way, up to five seconds; on_stopped comes on the loop, then destroy. Once; later calls do nothing. */
void gateway_service_stop(gateway_service_t *service, void (*on_stopped)(void *arg), void *arg);
/* Also of one that was not opened or not stopped: then it turns the loop until its parts have ended. NULL is fine. */
void gateway_service_destroy(gateway_service_t *service);

/* Whom a worker of this process fetches from and pushes to. */
struct transfer_owner *gateway_service_owner(const gateway_service_t *service);
const char *gateway_service_http(const gateway_service_t *service); /* "127.0.0.1:8000" */
const char *gateway_service_grpc(const gateway_service_t *service);
/* Tells whoever started the program that it listens, and where. */
void gateway_service_print_ready(const gateway_service_t *service);
/* Versions of models that the scheduler has told it of. */
uint32_t gateway_service_models(const gateway_service_t *service);
/* Requests under way. */
uint32_t gateway_service_waiting(const gateway_service_t *service);

#endif
