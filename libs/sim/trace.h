/*
 * Recorded load in the format of the public Azure Functions 2019 trace: a header line
 * HashOwner,HashApp,HashFunction,Trigger,1,2,…,N and one row per function with its invocations in each minute. As in
 * Shepherd 7, rows are dealt to the models in turn, and within a minute requests come as the arrival process says.
 */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include "sim/workload.h"

/* Sets the workload's shares and rate (its mean) from the file and gives the steps of each minute, scaled
 * so that the mean rate is rate_rps (0: as recorded). On STATUS_OK *steps is malloc'ed. Errors name file
 * and line. */
status_t trace_read(const char *path, double rate_rps, workload_t *workload, rate_step_t **steps,
                    uint32_t *count, err_t *err);

/* Writes a synthetic trace of the same kind, since the real one is not to be had everywhere: rates of the
 * functions over many decades (log-normal), a daily wave of its own phase for half of them, and for a
 * third long silences with bursts of minutes; invocations of a minute are Poisson. Same seed, same file. */
status_t trace_write_synthetic(const char *path, uint32_t functions, uint32_t minutes, uint64_t seed,
                               err_t *err);

#endif
