/*
 * The executors of one device take turns, in the order in which batches became ready: a device runs one mode
 * at a time, or no latency that was profiled alone would hold. The executor whose turn it is gets the batches
 * that come for it as long as none for another waits before them; one that it does not take (executor_ops_t.takes) is
 * passed by those of other models.
 */
#ifndef WORKER_TURNS_H
#define WORKER_TURNS_H

#include "worker/modes/executor.h"

typedef struct {
    struct batch_list waiting;
    executor_t *active; /* NULL: nothing runs */
} turns_t;

void turns_init(turns_t *turns);
/* Hands the batch to batch->executor now or when it has its turn. */
void turns_submit(turns_t *turns, batch_t *batch);
/* True: it had not been handed over, and is the caller's again. Others may have their turn now: turns_advance. */
bool turns_withdraw(turns_t *turns, batch_t *batch);
void turns_advance(turns_t *turns);
/* A batch of the active executor has ended. */
void turns_ended(turns_t *turns);

#endif
