/*
 * Batches that have ended, until the scheduler is told: those of one turn of the loop go as one message. Grows to the
 * largest turn and stays; loop thread.
 */
#ifndef WORKER_DONE_H
#define WORKER_DONE_H

#include "worker/batch/run.h"

typedef struct {
    Control__BatchDone *list;
    Control__BatchDone **pointers; /* as many as the list has room for */
    uint32_t count, cap;
} done_list_t;

enum { DONE_MAX = 1 << 16 }; /* waiting while the stream is full; with more it is begun anew */

/* Copies the report. False: no memory, or DONE_MAX wait; the list may then end in half a report, and must
 * not be sent. */
bool done_add(done_list_t *done, const run_report_t *report);
/* Fills the message; the list stays as it is until that is sent. */
void done_put(done_list_t *done, Control__WorkerToScheduler *message);
void done_clear(done_list_t *done);
void done_dispose(done_list_t *done);

#endif
