/*
 * Outputs on their way to the gateways. A push whose connection breaks is sent once more, on a new one. Loop thread.
 */
#ifndef WORKER_RUN_PUSH_H
#define WORKER_RUN_PUSH_H

#include "worker/state/batch.h"

/* Rows that left the device together go to each of their gateways as one push. Those that cannot be sent at
 * all are lost (batch_lose_row). The results are filled. */
void batch_push(batch_t *batch, uint32_t first, uint32_t count);

/* Once the batch is reported: recycles it when nothing of it is on its way, now or after the last push. */
void batch_settle_pushes(batch_t *batch);

#endif
