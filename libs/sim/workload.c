#include "sim/workload.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static status_t check_models(const profile_entry_t *models, uint32_t count, err_t *err)
{
    if (count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "no models");
    for (uint32_t m = 0; m < count; m++) {
        if (models[m].slo_ns <= 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "model %s has no slo_ms", models[m].name);
        if (models[m].slo_ns < profile_latency_ns(&models[m].profile, 1))
            return err_set(err, STATUS_INVALID_ARGUMENT, "model %s: SLO below the latency of a batch of one",
                           models[m].name);
    }
    return STATUS_OK;
}

static status_t parse_zipf(const char *popularity, double *exponent, err_t *err)
{
    int used = 0;
    if (strcmp(popularity, "equal") == 0) {
        *exponent = 0;
        return STATUS_OK;
    }
    if (sscanf(popularity, "zipf:%lf%n", exponent, &used) == 1 && popularity[used] == '\0' &&
        *exponent >= 0 && *exponent <= 10)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "popularity '%.80s' is none of equal, zipf:S", popularity);
}

status_t workload_init(workload_t *workload, const profile_entry_t *models, uint32_t count,
                       const char *popularity, err_t *err)
{
    double exponent = 0, sum = 0;
    status_t status = check_models(models, count, err);
    if (status == STATUS_OK && popularity)
        status = parse_zipf(popularity, &exponent, err);
    if (status != STATUS_OK)
        return status;
    double *shares = calloc(count, sizeof(*shares));
    if (!shares)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", count);
    for (uint32_t m = 0; m < count; m++) {
        shares[m] = popularity ? pow(m + 1, -exponent) : models[m].weight;
        sum += shares[m];
    }
    if (!(sum > 0)) {
        free(shares);
        return err_set(err, STATUS_INVALID_ARGUMENT, "the weights of the models add up to nothing");
    }
    for (uint32_t m = 0; m < count; m++)
        shares[m] /= sum;
    *workload = (workload_t){.models = models, .count = count, .shares = shares};
    return STATUS_OK;
}

void workload_dispose(workload_t *workload)
{
    free(workload->shares);
    *workload = (workload_t){0};
}
