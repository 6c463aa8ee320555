/*
 * Engine jobs as the loop sees them: submitted there, and answered there, whichever thread the engine answers on and
 * whether or not it does so inside submit. Loop thread; a hot path: nothing is allocated, a launch lies in its owner.
 */
#ifndef WORKER_LAUNCH_H
#define WORKER_LAUNCH_H

#include "loop/loop.h"
#include "loop/mailbox.h"
#include "model/parts/devices.h"
#include "worker/state/device_time.h"

typedef struct launch launch_t;
typedef struct launcher launcher_t;

struct launch {
    mailbox_node_t node;
    engine_job_t job; /* the owner fills what is run; done and arg are set by launch_submit */
    /* On the loop, once per submit; it may come inside any call of this header. */
    void (*ended)(launch_t *launch);
    launcher_t *launcher;
    uint32_t device;
    device_time_job_t time; /* once it has ended: what it was charged */
    launch_t *next;         /* the owner's, until it is submitted */
    status_t status;        /* of the job; err says why it failed */
    err_t err;
};

struct launcher {
    loop_t *loop;
    const model_devices_t *devices;
    device_time_t *times;     /* of each device */
    mailbox_t mailbox;        /* answered on the engines' threads */
    mailbox_node_t *answered; /* answered on the loop's own thread, newest first */
    bool draining, closed;
};

/* Counts in `busy` of each device the time in which it ran launches. */
status_t launcher_init(launcher_t *launcher, loop_t *loop, const model_devices_t *devices, err_t *err);
/* After the engines' flush; delivers what they have answered. */
void launcher_dispose(launcher_t *launcher);

/* From now on what is submitted ends with STATUS_CANCELLED, without the engine. */
void launcher_close(launcher_t *launcher);

/* The launch is the engine's until `ended`. */
void launch_submit(launcher_t *launcher, uint32_t device, launch_t *launch);
/* True: it had not begun, and `ended` has come with STATUS_CANCELLED. */
bool launch_cancel(launch_t *launch);
/* The same; one that runs ends with STATUS_CANCELLED at its next exit, unless it is past the last. */
void launch_stop(launch_t *launch);

#endif
