/*
 * `whole`: one batch at a time, from the first operator to the last. The default and what Symphony assumes of a GPU.
 *
 * Granted batches run as they came, in order; while one runs the inputs of the next are fetched into the other of two
 * buffers (exec_room says whether there is one). With `gather` it is the baseline of a serving system instead: it
 * forms batches of up to rows_max queries itself, at once when idle (window 0: DVABatch's ZeroBatch) or when the
 * oldest query has waited window_ns (DelayBatch), and pads all rows to the longest.
 */
#ifndef EXEC_WHOLE_H
#define EXEC_WHOLE_H

#include "exec/exec.h"

typedef struct {
    bool gather;
    uint32_t rows_max; /* gather: 1..EXEC_ROWS_MAX; else of a batch, whose queries may have many rows each */
    uint32_t queries_max; /* that wait; gather only */
    int64_t window_ns;
    /* gather: the next batch is formed as soon as the running one has read its inputs, not when it has ended */
    bool ahead;
} whole_config_t;

exec_t *exec_create_whole(const whole_config_t *config, err_t *err);

/* With `ahead`: this launch has read its inputs, the buffer that they were in can be filled again. Once
 * per launch, before exec_finished, which says it too. False: no such launch. */
bool whole_inputs_read(exec_t *exec, uint64_t launch);

#endif
