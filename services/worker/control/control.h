/*
 * The stream to the scheduler: registers, reports models and batches, obeys grants. Comes back by itself; a
 * new scheduler gets everything anew. Loop thread.
 *
 * Only the newest epoch is obeyed: a message of an older one is dropped. With each new stream, catalogue ids
 * and gateway numbers begin anew and batches of the last one that have not begun are revoked.
 */
#ifndef WORKER_CONTROL_H
#define WORKER_CONTROL_H

#include "loop/loop.h"
#include "rpc/runtime.h"
#include "worker/batch/run.h"
#include "worker/models/lifecycle.h"
#include "worker/state/served.h"

typedef struct control control_t;

typedef struct {
    loop_t *loop;
    rpc_runtime_t *rpc;
    const char *scheduler; /* host:port */
    const char *name;
    uint64_t instance_id;
    const model_devices_t *devices;
    const served_t *served;
    peers_t *peers;
    metrics_t *metrics;
    void (*leave)(void *ctx); /* the scheduler wants the process to drain and end */
    void *leave_ctx;
} control_options_t;

/* Connects from control_start on. lifecycle NULL: commands about models are refused. */
status_t control_create(const control_options_t *options, control_t **control, err_t *err);
status_t control_start(control_t *control, run_t *run, lifecycle_t *lifecycle, err_t *err);

/* Tells the scheduler, and each one that comes after it, to grant nothing more (or to grant again) to any
 * device; batches it has granted go on. */
void control_drain(control_t *control, bool drain);

/* Tells the scheduler which devices are lost, once it has heard of the batches that ended in this turn. */
void control_report_devices(control_t *control);

/* Sends what is to be reported and ends the stream; closed comes on the loop, then destroy may be called. */
void control_stop(control_t *control, void (*closed)(void *ctx), void *ctx);
void control_destroy(control_t *control);

/* A model has changed its state; grants for old, if any, are for it from now on. */
void control_report_model(control_t *control, const model_t *model, const model_t *old);
/* A model is forgotten. */
void control_report_gone(control_t *control, const model_t *model);
/* How a command of the scheduler has ended. */
void control_report_command(control_t *control, uint64_t command, status_t status, const char *reason);

/* A batch has ended: sent with others of the same turn of the loop. Is a run_report_fn; ctx is the control_t. */
void control_report_batch(void *ctx, const run_report_t *report);

/* Fills a report, whose fields point into the model until model_report_dispose. NO_MEMORY. */
status_t model_report_fill(Control__ModelReport *report, const model_t *model);
void model_report_dispose(Control__ModelReport *report);

#endif
