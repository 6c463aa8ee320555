/*
 * The stream to the scheduler: registers, reports models and batches, obeys grants. Comes back by itself; a
 * new scheduler gets everything anew. Loop thread.
 *
 * Only the newest epoch is obeyed: a message of an older one is dropped. With each new stream, catalogue ids
 * and gateway numbers begin anew and batches of the last one that have not begun are revoked.
 */
#ifndef WORKER_CONTROL_H
#define WORKER_CONTROL_H

#include "inputs_land.h"
#include "loop/loop.h"
#include "worker/batch/run.h"
#include "worker/models/lifecycle.h"
#include "worker/state/served.h"

typedef struct worker_control worker_control_t;

typedef struct {
    loop_t *loop;
    struct rpc_runtime *rpc;
    struct link_hub *hub;    /* the scheduler is in this process; NULL: by rpc */
    struct tls_context *tls; /* of who dials it; NULL: plain */
    const char *scheduler;   /* "host:port", or what people are to read in its place */
    const char *name;
    uint64_t instance_id, instance_key;
    const model_devices_t *devices;
    const served_t *served;
    peers_t *peers;
    metrics_t *metrics;
    landing_t inputs_land;    /* for people */
    void (*leave)(void *ctx); /* the scheduler wants the process to drain and end */
    void *leave_ctx;
} worker_control_options_t;

/* Connects from worker_control_start on. lifecycle NULL: commands about models are refused. */
status_t worker_control_create(const worker_control_options_t *options, worker_control_t **control,
                               err_t *err);
status_t worker_control_start(worker_control_t *control, run_t *run, lifecycle_t *lifecycle, err_t *err);

/* Tells the scheduler, and each one that comes after it, to grant nothing more (or to grant again) to any
 * device; batches it has granted go on. */
void worker_control_drain(worker_control_t *control, bool drain);

/* Tells the scheduler which devices are lost, once it has heard of the batches that ended in this turn. */
void worker_control_report_devices(worker_control_t *control);

/* Sends what is to be reported and ends the stream; closed comes on the loop, then destroy may be called. */
void worker_control_stop(worker_control_t *control, void (*closed)(void *ctx), void *ctx);
void worker_control_destroy(worker_control_t *control);

/* A model has changed its state; grants for old, if any, are for it from now on. */
void worker_control_report_model(worker_control_t *control, const model_t *model, const model_t *old);
/* A model is forgotten. */
void worker_control_report_gone(worker_control_t *control, const model_t *model);
/* How a command of the scheduler has ended. */
void worker_control_report_command(worker_control_t *control, uint64_t command, status_t status,
                                   const char *reason);

/* A batch has ended: sent with others of the same turn of the loop. Is a run_report_fn; ctx is the worker_control_t. */
void worker_control_report_batch(void *ctx, const run_report_t *report);

/* Fills a report, whose fields point into the model until model_report_dispose. NO_MEMORY. */
status_t model_report_fill(Control__ModelReport *report, const model_t *model);
void model_report_dispose(Control__ModelReport *report);

#endif
