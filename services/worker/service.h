/*
 * The worker as one object on a loop: the program is this, signals and a command line; `serve` holds one beside a gateway and a
 * scheduler. Loop thread.
 */
#ifndef WORKER_SERVICE_H
#define WORKER_SERVICE_H

#include "loop/loop.h"
#include "metrics/metrics.h"
#include "worker/options.h"

typedef struct worker_service worker_service_t;

/* What it shares with others of its process; all outlive it. */
typedef struct {
    /* where the scheduler of this process accepts; NULL: it is elsewhere, and so may gateways be */
    struct link_hub *hub;
    /* the data planes of the gateways of this process, shared where their loops are others */
    struct transfer_owner *const *owners;
    uint32_t owner_count;
    metrics_t *metrics; /* of all of them, exposed by another */
} worker_within_t;

/*
 * Loads models and dials from now on. options outlive it. within NULL: by itself, with metrics that listen. With a hub
 * the scheduler's address does not matter.
 */
status_t worker_service_create(loop_t *loop, const worker_options_t *options, const worker_within_t *within,
                               worker_service_t **service, err_t *err);

/* Called when the worker has stopped, by worker_service_stop or since the scheduler wanted it so. */
void worker_service_on_stopped(worker_service_t *service, void (*on_stopped)(void *arg), void *arg);
/* Drains, leaves the scheduler: each step when the one before is done or patience is. Once; later calls do nothing. by: for
 * people. */
void worker_service_stop(worker_service_t *service, const char *by);
/* Looks for changes in the repository, whatever the control mode (lifecycle_reread), and of the cluster's certificates. */
void worker_service_reread(worker_service_t *service);
/* NULL is fine. */
void worker_service_destroy(worker_service_t *service);

/* The models that it has, for those who tell of them. */
const struct served *worker_service_models(const worker_service_t *service);
/* Tells whoever started the program that it runs, and what it is. */
void worker_service_print_ready(const worker_service_t *service);

#endif
