#include "sim/goodput.h"

#include "sim/bound.h"

#define LEAST 1e-3 /* of the bound: below it no search goes on */

typedef struct {
    simulation_config_t config;
    workload_t workload; /* a copy that shares the models and shares */
    double bad_limit;
    goodput_rule_t rule;
} search_t;

static status_t try_rate(search_t *search, double rate_rps, bool give_up, simulation_result_t **result,
                         err_t *err)
{
    search->workload.rate_rps = rate_rps;
    search->config.workload = &search->workload;
    search->config.give_up_bad_rate = give_up && search->rule == GOODPUT_WORST_MODEL ? search->bad_limit : 0;
    return simulation_run(&search->config, result, err);
}

static status_t is_good(search_t *search, double rate_rps, bool *good, err_t *err)
{
    simulation_result_t *result;
    status_t status = try_rate(search, rate_rps, true, &result, err);
    if (status != STATUS_OK)
        return status;
    double bad = search->rule == GOODPUT_MEAN ? result->bad_rate : result->worst_model_bad_rate;
    *good = !result->gave_up && bad <= search->bad_limit;
    simulation_result_dispose(result);
    return STATUS_OK;
}

status_t goodput_search(const goodput_config_t *config, double *rate_rps, simulation_result_t **result,
                        err_t *err)
{
    search_t search = {.config = config->base,
                       .workload = *config->base.workload,
                       .bad_limit = config->bad_limit > 0 ? config->bad_limit : 0.01,
                       .rule = config->rule};
    double precision = config->precision > 0 ? config->precision : 0.005;
    double bound = bound_rate_rps(config->base.workload, config->base.gpus);
    double low = 0, high = bound * 1.1, step = bound * 0.25;
    bool good = false;
    status_t status = is_good(&search, high, &good, err);
    if (good)
        low = high; /* nothing is lost even there: that is the answer */
    while (status == STATUS_OK && high - low > precision * high && high > bound * LEAST) {
        /* From above in steps, as most answers are near the bound; once there is a lower end, halves. */
        double middle = low > 0 ? (low + high) / 2 : high > bound * 0.4 ? high - step : high / 2;
        status = is_good(&search, middle, &good, err);
        if (good)
            low = middle;
        else
            high = middle;
    }
    if (status == STATUS_OK && !(low > 0))
        low = bound * LEAST; /* not even there; the result tells */
    if (status == STATUS_OK)
        status = try_rate(&search, low, false, result, err);
    if (status == STATUS_OK)
        *rate_rps = low;
    return status;
}
