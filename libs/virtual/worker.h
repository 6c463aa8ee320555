/*
 * A worker on a virtual network, as the scheduler sees one: it has models with profiles, runs what is granted on devices that
 * take as long as the profiles say, pushes results to gateways, reports, loads, unloads, stops batches and drains. It checks that
 * what it is granted can be.
 */
#ifndef VIRTUAL_WORKER_H
#define VIRTUAL_WORKER_H

#include "control.pb-c.h"
#include "profile/profile.h"
#include "virtual/gateway.h"
#include "virtual/network.h"

typedef struct virtual_worker virtual_worker_t;

typedef struct {
    const char *name;
    profile_t profile;
    int64_t slo_ns;
    uint32_t exit_points; /* places at which a running batch can be stopped */
} virtual_model_t;

/* What a worker does in place of its work, at once. */
typedef enum {
    VICE_NONE,
    VICE_MUTE,     /* reports batches done, and pushes nothing */
    VICE_ROWS,     /* reports every row failed */
    VICE_GIVES_UP, /* says that all clients have gone */
    VICE_FAILS,    /* reports batches failed */
    VICE_HALF,     /* its first device reports batches failed */
    VICE_SLOW,     /* works, and reports that a row takes an hour */
    VICE_SLEPT,    /* the same until it is asked to measure that anew */
    VICE_DAWDLES,  /* works, and takes thirty times as long as it says */
} virtual_vice_t;

/* A batch that a device ran to its end. */
typedef struct {
    uint32_t worker, device, model, rows;
    int64_t granted_ns, start_ns, end_ns; /* granted: when the grant came */
    const uint64_t *tasks;
} virtual_batch_t;

typedef struct {
    network_t *network;
    virtual_scheduler_t *scheduler;
    virtual_gateway_t *const *gateways; /* to which results are pushed */
    uint32_t gateway_count;
    uint32_t index, devices;
    const virtual_model_t *models;
    uint32_t model_count;
    const char *device_class; /* NULL: that of all who say none */
    int64_t fetch_ns;         /* of the inputs of a batch */
    double jitter;   /* a batch takes as long as its profile says, and up to this part more or less */
    double failures; /* part of the batches that fail */
    virtual_vice_t vice;
    int64_t vice_from_ns, vice_until_ns; /* honest before and behind */
    uint32_t inflight_max; /* batches that a device may be granted and not have ended: more are a violation */
    void (*ran)(void *ctx, const virtual_batch_t *batch);
    void (*asked_to_measure)(void *ctx);
    /* What the scheduler must never do. */
    void (*violated)(void *ctx, const char *what);
    bool (*batch_is_new)(void *ctx, uint64_t epoch, uint64_t batch_id);
    void *ctx;
} virtual_worker_options_t;

virtual_worker_t *
virtual_worker_create(const virtual_worker_options_t *options); /* connects, with all models ready */
void virtual_worker_destroy(virtual_worker_t *worker);

uint64_t virtual_worker_instance(const virtual_worker_t *worker);
bool virtual_worker_is_idle(const virtual_worker_t *worker);
void virtual_worker_break(virtual_worker_t *worker); /* its stream; it comes again, and ends what it runs */
void virtual_worker_crash(
    virtual_worker_t *worker); /* with what it runs; another instance comes in its place */

#endif
