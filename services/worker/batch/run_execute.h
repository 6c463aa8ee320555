/*
 * A batch whose inputs are here runs: in its model's mode, on the device's executor of that mode, or whole where its
 * shape does not suit the mode. Executors are made when a batch first needs one. Loop thread.
 */
#ifndef WORKER_RUN_EXECUTE_H
#define WORKER_RUN_EXECUTE_H

#include "worker/batch/run.h"
#include "worker/state/batch.h"

/* After all else of the run. */
void run_execute_init(run_t *run);
/* Destroys the executors; no batch is in them. */
void run_execute_dispose(run_t *run);

/* Its start has come: from now on it is its executor's, or waits for the executor's turn. */
void batch_submit(batch_t *batch);

#endif
