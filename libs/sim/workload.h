/*
 * Who asks for what, how often: the models, their shares of the load, and how the rate changes with time.
 */
#ifndef SIM_WORKLOAD_H
#define SIM_WORKLOAD_H

#include "base/rate_steps.h"
#include "profile/profile_csv.h"
#include "sim/arrivals.h"

typedef struct {
    const profile_entry_t *models; /* the caller's, outlives the workload; each has an SLO */
    uint32_t count;
    double *shares; /* sum to 1 */
    double rate_rps;
    arrivals_spec_t arrivals;
    const arrivals_spec_t *each; /* per model, in place of that; the caller's; NULL: all alike */
    const rate_step_t *steps;    /* by time; the caller's */
    uint32_t step_count;
} workload_t;

/* popularity: "equal", "zipf:S" (the first model is the most popular), or NULL: by the weights of the models.
 * INVALID_ARGUMENT names what is wrong, a model without SLO or an SLO below latency(1) included. */
status_t workload_init(workload_t *workload, const profile_entry_t *models, uint32_t count,
                       const char *popularity, err_t *err);
void workload_dispose(workload_t *workload);

#endif
