/*
 * The inputs of a batch: one request to each gateway, then the wait for the batch's start. Rows that do not
 * come are left out; those of a gateway that has fallen silent (breaker.h) are not waited for. Loop thread.
 */
#ifndef WORKER_RUN_FETCH_H
#define WORKER_RUN_FETCH_H

#include "worker/state/batch.h"

/* Of a batch that is placed. It may be submitted or aborted inside, when there is nothing to wait for. */
void batch_fetch(batch_t *batch, uint64_t timeout_ns);

#endif
