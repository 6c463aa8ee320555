#include "sched/autoscale.h"

#include <math.h>

const autoscale_params_t autoscale_defaults = {
    .window_ns = INT64_C(5000000000), .bad_limit = 0.01, .idle_reserve = 0.1, .quiet_windows = 6};

void autoscale_init(autoscale_t *autoscale, const autoscale_params_t *params)
{
    *autoscale = (autoscale_t){.params = *params};
}

static void begin_window(autoscale_t *autoscale, int64_t now_ns, const autoscale_sums_t *sums)
{
    autoscale->begun = *sums;
    autoscale->begun_ns = now_ns;
}

static void begin_anew(autoscale_t *autoscale, int64_t now_ns, uint32_t gpus, const autoscale_sums_t *sums)
{
    begin_window(autoscale, now_ns, sums);
    autoscale->started = 1;
    autoscale->gpus = gpus;
    autoscale->quiet = 0;
    autoscale->least_idle = 1;
    autoscale->advice = 0;
}

static int32_t missing(const autoscale_t *autoscale)
{
    double bad = fmin(autoscale->bad_rate, 0.9); /* beyond, the signal is saturated: grow tenfold at most */
    return (int32_t)fmax(1, ceil(autoscale->gpus * bad / (1 - bad) - 1e-9));
}

static int32_t spare(const autoscale_t *autoscale)
{
    int32_t most = (int32_t)autoscale->gpus - 1;
    int32_t idle =
        (int32_t)floor(autoscale->gpus * (autoscale->least_idle - autoscale->params.idle_reserve) + 1e-9);
    idle = idle < most ? idle : most;
    return idle > 0 ? idle : 0;
}

static void end_window(autoscale_t *autoscale, int64_t now_ns, const autoscale_sums_t *sums)
{
    double requests = (double)(sums->requests - autoscale->begun.requests);
    double bad = (double)(sums->bad - autoscale->begun.bad);
    double busy_ns = (double)(int64_t)(sums->busy_ns - autoscale->begun.busy_ns);
    double gpu_ns = (double)(now_ns - autoscale->begun_ns) * autoscale->gpus;
    autoscale->bad_rate = requests > 0 ? fmin(bad / requests, 1) : 0;
    autoscale->idle_fraction = gpu_ns > 0 ? fmax(1 - busy_ns / gpu_ns, 0) : 0;
    autoscale->advice = 0;
    if (autoscale->bad_rate > autoscale->params.bad_limit) {
        autoscale->quiet = 0;
        autoscale->least_idle = 1;
        autoscale->advice = missing(autoscale);
        return;
    }
    autoscale->quiet++;
    autoscale->least_idle = fmin(autoscale->least_idle, autoscale->idle_fraction);
    if (autoscale->quiet < autoscale->params.quiet_windows)
        return;
    autoscale->advice = -spare(autoscale);
    autoscale->quiet = 0;
    autoscale->least_idle = 1;
}

int32_t autoscale_observe(autoscale_t *autoscale, int64_t now_ns, uint32_t gpus, const autoscale_sums_t *sums)
{
    if (gpus == 0)
        return 1;
    if (!autoscale->started || gpus != autoscale->gpus) {
        begin_anew(autoscale, now_ns, gpus, sums);
    } else if (now_ns - autoscale->begun_ns >= autoscale->params.window_ns) {
        end_window(autoscale, now_ns, sums);
        begin_window(autoscale, now_ns, sums);
    }
    return autoscale->advice;
}
