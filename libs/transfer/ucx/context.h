/* A context of UCX: what its workers and registered memory stand on. */
#ifndef TRANSFER_UCX_CONTEXT_H
#define TRANSFER_UCX_CONTEXT_H

#include "base/status.h"
#include "transfer/ucx/device.h"

#include <stdbool.h>
#include <stdint.h>
#include <ucp/api/ucp.h>

/* Whoever uses it holds it, all on one thread at a time. */
typedef struct {
    ucp_context_h handle;
    char device[UCX_DEVICE_BYTES]; /* to which it is kept, "": none */
    uint32_t holders;
} ucx_context_t;

/* For who listens on, or connects from, this "host:port" (device.h). UNSUPPORTED: UCX does not start. */
status_t ucx_context_open(const char *address, ucx_context_t **context, err_t *err);
ucx_context_t *ucx_context_hold(ucx_context_t *context);
void ucx_context_let_go(ucx_context_t *context); /* the last holder ends it */

/* It says that it reads and writes memory of CUDA. */
bool ucx_context_takes_cuda(const ucx_context_t *context);

/* Both sides must have the same: major << 16 | minor. */
uint32_t ucx_version(void);

#endif
