/*
 * Changing rates from a CSV file with columns at_s,model,factor: from then on the model (by name, or * for all) has that
 * many times its share of the rate. Rows by time. A recorded trace of counts per minute becomes such a file by dividing.
 */
#ifndef SIM_STEPS_H
#define SIM_STEPS_H

#include "sim/workload.h"

/* On STATUS_OK *steps is malloc'ed (free it). Errors name file and line. */
status_t steps_read(const char *path, const workload_t *workload, workload_step_t **steps, uint32_t *count,
                    err_t *err);

#endif
