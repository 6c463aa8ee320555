/*
 * The end of a batch: the scheduler hears how it went, it is counted, and its memory is kept for the next. Loop thread.
 */
#ifndef WORKER_RUN_END_H
#define WORKER_RUN_END_H

#include "worker/batch/run.h"
#include "worker/state/batch.h"

/* The batch leaves its device; the scheduler hears of it, once. reason: valid during the call. */
void batch_report(batch_t *batch, status_t status, const char *reason, int64_t push_ns);

/* Nobody refers to the batch any more. May end in the owner's model_idle. */
void batch_recycle(batch_t *batch);

/* It did not run, or not to its end: reported and recycled, and nothing is pushed. */
void batch_abort(batch_t *batch, status_t status, const char *reason);

/* How long batches whose inputs are there keep the device from taking another. */
int64_t run_free_in_ns(const run_t *run, uint32_t device);

/* The report of a grant that became no batch. */
void run_refuse(run_t *run, uint32_t generation, const Control__Grant *grant, status_t status,
                const char *reason);

#endif
