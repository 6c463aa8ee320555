/*
 * Changing rates from a CSV file with columns at_s,model,factor: from then on the model (by name, or * for
 * all) has that many times its share of the rate. Rows by time. A recorded trace of counts per minute becomes
 * such a file by dividing. The simulator plays such files, and the load generator sends them.
 */
#ifndef BASE_RATE_STEPS_H
#define BASE_RATE_STEPS_H

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/* From at_s on, until the next step, model's rate (or every model's: RATE_STEP_ALL) is `factor` times its share. */
typedef struct {
    double at_s;
    uint32_t model;
    double factor;
} rate_step_t;

#define RATE_STEP_ALL UINT32_MAX

/* The names of the models stand in an array of the caller's structures, the first `stride` bytes before the second.
 * On STATUS_OK *steps is malloc'ed (free it). Errors name file and line. */
status_t rate_steps_read(const char *path, const char *names, size_t stride, uint32_t name_count,
                         rate_step_t **steps, uint32_t *count, err_t *err);

#endif
