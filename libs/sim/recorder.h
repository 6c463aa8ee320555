/*
 * What of a simulation is counted: requests that arrive after the warm-up, GPU time after the warm-up.
 */
#ifndef SIM_RECORDER_H
#define SIM_RECORDER_H

#include "sim/simulation.h"

typedef struct {
    simulation_result_t *result;
    int64_t from_ns, to_ns; /* what arrives in between is counted */
    int64_t *gpu_busy_ns;
    int64_t wasted_ns;
    double *bad_limit; /* per model: above it, the run is given up; NULL: never */
} recorder_t;

status_t recorder_init(recorder_t *recorder, const simulation_config_t *config, err_t *err);
/* Frees all but the result, which is the caller's, or, if not wanted, that too. */
void recorder_dispose(recorder_t *recorder, bool keep_result);

void recorder_arrival(recorder_t *recorder, uint32_t model, int64_t arrival_ns);
void recorder_drop(recorder_t *recorder, uint32_t model, int64_t arrival_ns, sched_drop_t reason);
void recorder_unanswered(recorder_t *recorder, uint32_t model, int64_t arrival_ns);
/* answered: when the client has it. */
void recorder_answer(recorder_t *recorder, uint32_t model, int64_t arrival_ns, int64_t start_ns,
                     int64_t answered_ns, int64_t slo_ns);
void recorder_batch(recorder_t *recorder, const simulation_batch_t *batch);
void recorder_finish(recorder_t *recorder);

#endif
