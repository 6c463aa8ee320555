/*
 * A UCX worker, turned by a uv loop: it sleeps on the worker's event descriptor (ucp_worker_arm) and never spins
 * unless told to. What UCX has finished is looked at in turns: before the loop sleeps, after an event, and in every round of the loop
 * while there is more to do. UCX that says there is something to do and finds nothing is looked at by a timer, and given up when that lasts:
 * a process that is killed while it writes a message leaves the queue of UCX's shared memory so for ever.
 */
#ifndef TRANSFER_UCX_WORKER_H
#define TRANSFER_UCX_WORKER_H

#include "transfer/ucx/context.h"

#include <stdbool.h>
#include <uv.h>

typedef struct ucx {
    uv_poll_t poll;
    uv_prepare_t prepare;
    uv_idle_t idle;
    uv_timer_t again;
    int handles;
    ucp_worker_h worker;   /* NULL: it is closed */
    bool spin, due;        /* due: something was begun or has happened since it was last armed */
    uint32_t vain;         /* times in a row that it did not sleep and found nothing */
    int64_t vain_since_ns; /* with that */
    bool gave_up;          /* stuck was told */
    /* In each turn: what is there to be done by now; true: there was something. */
    bool (*advance)(void *ctx);
    /* It has been in vain for so long that it will be for ever; told once. May close it. */
    void (*stuck)(void *ctx);
    void (*freed)(void *ctx); /* the last word, when the loop has closed its handles */
    void *ctx;
} ucx_t;

/* advance, stuck, freed and ctx are set. UNSUPPORTED: UCX finds nothing to work with. */
status_t ucx_open(ucx_t *ucx, const ucx_context_t *context, struct uv_loop_s *loop, bool spin, err_t *err);
/* Ends the worker, from within advance, too: nothing is read or written for it after this. An endpoint without handling of errors is
 * not closed before: that would wait for its peer, which may be gone. */
void ucx_close(ucx_t *ucx);
/* Closes an endpoint with handling of errors; operations under way are told as cancelled from within. */
void ucx_close_endpoint(ucx_t *ucx, ucp_ep_h ep);
/* Something was begun: a turn comes before the loop sleeps. */
void ucx_begin(ucx_t *ucx);

#endif
