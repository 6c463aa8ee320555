/*
 * What a device ran, launch by launch, as CSV: `fermata-sim mode --trace FILE`.
 *
 *     stream,stage,batch,rows,again,start_ms,end_ms,end
 *
 * stream: which of those that run side by side; under overlap and preempt the model. stage: the one that was
 * launched (staged), the first operator (overlap), else 0. batch: the mode's, under overlap the query. again:
 * how many of its rows had been in a launch before that was stopped. end: `ended`, `stopped`, or `dropped`:
 * no launch, but a request that waited again after its batch had been stopped, until the scheduler gave it
 * up.
 */
#ifndef SIM_MODE_TRACE_H
#define SIM_MODE_TRACE_H

#include "base/status.h"

#include <stdint.h>
#include <stdio.h>

typedef struct {
    const char *path;
    FILE *file; /* NULL: nothing is traced */
} mode_trace_t;

typedef enum { MODE_TRACE_ENDED, MODE_TRACE_STOPPED, MODE_TRACE_DROPPED } mode_trace_end_t;

typedef struct {
    uint32_t stream, stage, rows, again;
    uint64_t batch;
    int64_t start_ns, end_ns;
    mode_trace_end_t end;
} mode_trace_row_t;

/* path NULL: rows go nowhere. */
status_t mode_trace_open(mode_trace_t *trace, const char *path, err_t *err);
void mode_trace_row(mode_trace_t *trace, const mode_trace_row_t *row);
/* Returns `status`, or when that is OK what came of writing the file. */
status_t mode_trace_close(mode_trace_t *trace, status_t status, err_t *err);

#endif
