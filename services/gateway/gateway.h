/*
 * The gateway process: who holds what. One loop thread owns everything here; only preprocessing runs
 * elsewhere.
 *
 *   front/ ──▶ sessions/ ──▶ links/control.c   ──▶ scheduler     {task id, model, budget, handle}
 *  (REST, gRPC)   │   └─────▶ links/dataplane.c ◀─▶ workers       inputs out, results in
 *                 ├─────────▶ access/                             keys of clients: who may do what, and how much
 *                 ├─────────▶ regions/                            memory that clients of this host share
 *                 └─────────▶ models/                             what the scheduler says is there, and its statistics
 *
 * A room calls those behind it and none before (scripts/check-calls).
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include "base/arena.h"
#include "loop/loop.h"
#include "metrics/metrics.h"
#include "rpc/server.h"

#define GATEWAY_SERVER_NAME "fermata"

/* Why both front ends refuse what Triton serves. */
#define GATEWAY_NO_CUDA_SHARED_MEMORY \
    "shared memory of a GPU is not supported: tensors pass through the gateway's memory"
#define GATEWAY_NO_TRACING "tracing is not configured over this protocol"
#define GATEWAY_NO_LOGGING "logging is not configured over this protocol"

/* Documents are as large as the catalogue; a thousand models with their statistics make a few MB. */
enum { GATEWAY_DOCUMENT_BYTES_MAX = 256 << 20 };

typedef struct access access_t;
typedef struct awake awake_t;
typedef struct catalogue catalogue_t;
typedef struct clients clients_t;
typedef struct gateway_control gateway_control_t;
typedef struct dataplane dataplane_t;
typedef struct preprocess preprocess_t;
typedef struct regions regions_t;
typedef struct sessions sessions_t;

/* What the gRPC port answers beside inference, with keys only to those of AUTH_ADMIN. Handlers are called on the loop of any gateway of the process. */
typedef struct {
    const rpc_unary_method_t *methods; /* a path of NULL at the end; NULL: none */
    void *arg;
} gateway_calls_t;

typedef struct gateway {
    const char *name;      /* for people: host name and pid, or --name */
    uint64_t instance_id;  /* random, one per process start */
    uint64_t instance_key; /* likewise, and shown to nobody but schedulers */
    loop_t *loop;
    metrics_t *metrics;
    arena_t *arena;             /* every tensor from parse to answer */
    catalogue_t *catalogue;     /* the models that the scheduler knows */
    gateway_control_t *control; /* the stream to the scheduler */
    dataplane_t *dataplane;     /* what workers fetch from and push to */
    access_t *access;           /* who may do what; NULL: everybody everything */
    clients_t *clients;         /* what each has of it; NULL: nobody is held */
    preprocess_t *preprocess;   /* pictures to tensors; NULL: no model can take pictures */
    regions_t *regions;         /* memory that clients share; NULL: they may not */
    awake_t *awake;             /* keeps CPUs from sleeping under way; NULL: they may */
    sessions_t *sessions;       /* the requests under way */
    size_t body_bytes_max;      /* of one client request */
    bool stopping;              /* not ready any more; answers what still comes */
    gateway_calls_t calls;
} gateway_t;

#endif
