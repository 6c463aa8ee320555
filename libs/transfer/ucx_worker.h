/*
 * A UCX worker, turned by a uv loop: it sleeps on the worker's event descriptor (ucp_worker_arm) and never spins
 * unless told to. What UCX has finished is looked at in turns: before the loop sleeps, after an event, and in every round of the loop
 * while there is more to do.
 */
#ifndef TRANSFER_UCX_WORKER_H
#define TRANSFER_UCX_WORKER_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>
#include <uv.h>

enum { UCX_MAGIC = 0x58435546 /* "FUCX" */ };

/* A context of UCX; whoever uses it holds it, all on one thread at a time. */
typedef struct {
    ucp_context_h handle;
    uint32_t holders;
} ucx_context_t;

/* UNSUPPORTED: UCX does not start. */
status_t ucx_context_open(ucx_context_t **context, err_t *err);
ucx_context_t *ucx_context_hold(ucx_context_t *context);
void ucx_context_let_go(ucx_context_t *context); /* the last holder ends it */

typedef struct ucx {
    uv_poll_t poll;
    uv_prepare_t prepare;
    uv_idle_t idle;
    int handles;
    ucp_worker_h worker; /* NULL: it is closed */
    bool spin, due;      /* due: something was begun or has happened since it was last armed */
    /* In each turn: what is there to be done by now; true: there was something. */
    bool (*advance)(void *ctx);
    void (*freed)(void *ctx); /* the last word, when the loop has closed its handles */
    void *ctx;
} ucx_t;

/* advance, freed and ctx are set. UNSUPPORTED: UCX finds nothing to work with. */
status_t ucx_open(ucx_t *ucx, const ucx_context_t *context, struct uv_loop_s *loop, bool spin, err_t *err);
/* Ends the worker, from within advance, too: nothing is read or written for it after this. An endpoint without handling of errors is
 * not closed before: that would wait for its peer, which may be gone. */
void ucx_close(ucx_t *ucx);
/* Closes an endpoint with handling of errors; operations under way are told as cancelled from within. */
void ucx_close_endpoint(ucx_t *ucx, ucp_ep_h ep);
/* Something was begun: a turn comes before the loop sleeps. */
void ucx_begin(ucx_t *ucx);

typedef struct {
    ucp_mem_h handle;
    void *rkey; /* NULL: nothing is registered */
    size_t rkey_bytes;
} ucx_memory_t;

status_t ucx_register(const ucx_context_t *context, void *base, size_t len_bytes, ucx_memory_t *memory,
                      err_t *err);
/* Memory of UCX's own making, which its shared memory lets peers map; deregistering frees it. */
status_t ucx_allocate(const ucx_context_t *context, size_t len_bytes, ucx_memory_t *memory, void **base,
                      err_t *err);
void ucx_deregister(const ucx_context_t *context, ucx_memory_t *memory);
uint32_t ucx_registered(void); /* in this process */

/* Both sides must have the same: major << 16 | minor. */
uint32_t ucx_version(void);

#endif
