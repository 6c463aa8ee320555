/*
 * GPUs that fail and come back, from a CSV file with columns at_s,gpu,event: from then on the GPU is `down`,
 * with what it runs, or `up`. All are up at first. Rows by time.
 */
#ifndef SIM_CHANGES_H
#define SIM_CHANGES_H

#include "sim/simulation.h"

/* On STATUS_OK *changes is malloc'ed (free it). Errors name file and line. gpus: ids are below. */
status_t changes_read(const char *path, uint32_t gpus, simulation_change_t **changes, uint32_t *count,
                      err_t *err);

#endif
