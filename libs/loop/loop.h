/*
 * One event loop (libuv) and what every service hangs on it.
 *
 * Threads: a loop belongs to the thread that runs it. Only loop_post, loop_post_job and loop_stop may be
 * called from other threads.
 *
 * Order of stopping, the same in every program:
 *   1. a signal or a failure calls the program's stop callback on the loop: stop accepting, finish or answer
 *      what is open;
 *   2. loop_stop(loop): loop_run returns after the current turn;
 *   3. stop every thread that posts to this loop (work pools, RPC queues): none may post after this;
 *   4. dispose mailboxes, timers, modules, on the loop's thread; their uv handles begin to close;
 *   5. loop_destroy: runs what was posted before, waits for all close callbacks, then frees. Handles that
 *      somebody forgot are closed and reported by a log line.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include "base/status.h"
#include "loop/mailbox.h"

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

typedef struct loop loop_t;
typedef void (*loop_fn_t)(void *arg);

/* Lifts the process's soft limit of descriptors to the hard one: a connection is a descriptor. Once, when a program
 * starts. */
void loop_raise_descriptor_limit(void);

status_t loop_create(loop_t **out, err_t *err);
void loop_destroy(loop_t *loop);

/* Runs until loop_stop, even while no handle is active. */
void loop_run(loop_t *loop);

/* Any thread; idempotent. */
void loop_stop(loop_t *loop);

/* One turn for tests and for waiting on a condition: waits at most timeout_ns for something to happen. */
void loop_run_once(loop_t *loop, int64_t timeout_ns);

uv_loop_t *loop_uv(loop_t *loop);

/* Monotonic now, read anew (libuv's own now has ms precision and is the turn's). */
int64_t loop_now_ns(void);

bool loop_on_thread(const loop_t *loop);

/* Runs fn(arg) on the loop soon; any thread; order kept per posting thread. One malloc: not for hot paths. */
status_t loop_post(loop_t *loop, loop_fn_t fn, void *arg);

/* The same without allocation: the job is embedded in the caller's object, belongs to the loop from the post
 * until fn is called, and may be freed or posted again from within fn. */
typedef struct {
    mailbox_node_t node;
    loop_fn_t fn;
    void *arg;
} loop_job_t;
void loop_post_job(loop_t *loop, loop_job_t *job);

#endif
