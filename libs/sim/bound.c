#include "sim/bound.h"

#include <math.h>

static double model_gpus(const profile_entry_t *model, double rate_rps)
{
    double rate = rate_rps / 1e9; /* per ns */
    double alpha = (double)model->profile.alpha_ns, beta = (double)model->profile.beta_ns;
    double slo = (double)model->slo_ns;
    double batch = (1 + rate * (slo - beta)) / (1 + rate * alpha);
    if (alpha > 0)
        batch = fmin(batch, (slo - beta) / alpha);
    return rate * (alpha + beta / batch);
}

double bound_gpus(const workload_t *workload, double rate_rps)
{
    double gpus = 0;
    for (uint32_t m = 0; m < workload->count; m++)
        gpus += model_gpus(&workload->models[m], rate_rps * workload->shares[m]);
    return gpus;
}

double bound_rate_rps(const workload_t *workload, uint32_t gpus)
{
    double low = 0, high = 1;
    while (bound_gpus(workload, high) <= gpus && high < 1e12)
        high *= 2;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (bound_gpus(workload, middle) <= gpus)
            low = middle;
        else
            high = middle;
    }
    return low;
}
