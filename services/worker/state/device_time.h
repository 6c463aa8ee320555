/*
 * Whose the time of a device is. The jobs of a stream run one after the other, in the order in which they
 * were submitted, those of several streams side by side; these share the time evenly. So what is charged to
 * all jobs adds up to the time in which the device was busy, counted once.
 *
 *   stream 0  |-- a: 4 --|-- b: 4 --|             charged: a 2, b 2, c 2 + 2 + 4; busy: 12
 *   stream 1  |-------- c: 12 --------------|
 *
 * A job runs, as seen from here, from when it was submitted or the one before it had ended. Pure; told by launch.c.
 */
#ifndef WORKER_DEVICE_TIME_H
#define WORKER_DEVICE_TIME_H

#include "engine/engine.h"

typedef struct device_time_job {
    int64_t charged_ns; /* so far */
    uint32_t stream;
    struct device_time_job *next; /* on its stream */
} device_time_job_t;

typedef struct {
    device_time_job_t *streams[ENGINE_MAX_STREAMS]; /* the first of each runs */
    uint32_t used;                                  /* no stream from here on has had a job */
    uint32_t running;
    int64_t at_ns; /* all until then is charged */
} device_time_t;

/* Zero is a device without jobs. A moment before the last one told counts as that. Both return by how much the
 * time has grown in which the device was busy. The job is the caller's and stays in place until its end. */
int64_t device_time_begin(device_time_t *time, device_time_job_t *job, uint32_t stream, int64_t now_ns);
int64_t device_time_end(device_time_t *time, device_time_job_t *job, int64_t now_ns);

#endif
