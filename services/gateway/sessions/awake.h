/*
 * Keeps the CPUs of this host from sleeping deeply while requests are under way.
 *
 * A request crosses a handful of threads, and each of them must be woken. On a virtual machine waking a
 * halted CPU costs 30 to 50 us, so that a lone request spends most of its way waiting for CPUs to come back.
 * Linux lets a process ask for a bound on that (PM QoS, /dev/cpu_dma_latency): idle CPUs then poll instead of
 * halting. It is asked for with the first request and given back when none has come for a while, so that an
 * idle gateway costs nothing.
 *
 * Loop thread only.
 */
#ifndef GATEWAY_AWAKE_H
#define GATEWAY_AWAKE_H

#include "base/status.h"
#include "loop/loop.h"

#include <stdint.h>

typedef struct awake awake_t;

#define AWAKE_PATH "/dev/cpu_dma_latency"

/* The CPUs may sleep again after this long without a request; up to twice as long, as a timer looks only so often. */
#define AWAKE_HOLD_NS INT64_C(100000000)

/* STATUS_UNAVAILABLE: the kernel or the rights to ask it are not there; serving goes on without. */
status_t awake_create(loop_t *loop, const char *path, awake_t **awake, err_t *err);
void awake_destroy(awake_t *awake); /* gives it back; NULL is fine */

/* A request has come. NULL is fine. One write(2) when the CPUs were free to sleep, else nothing. */
void awake_touch(awake_t *awake);

#endif
