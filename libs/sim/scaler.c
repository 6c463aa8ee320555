#include "sim/scaler.h"

void scaler_init(scaler_t *scaler, const autoscale_params_t *params, uint32_t gpus, uint32_t most)
{
    *scaler = (scaler_t){.gpus = gpus, .most = most};
    autoscale_init(&scaler->autoscale, params);
}

autoscale_sums_t scaler_sums(const sched_t *sched, uint32_t models)
{
    autoscale_sums_t sums = {0};
    for (uint32_t m = 0; m < models; m++) {
        sched_model_stats_t stats;
        if (!sched_model_stats(sched, m, &stats))
            continue;
        sums.requests += stats.submitted;
        sums.busy_ns += stats.busy_ns;
        for (unsigned r = 0; r < SCHED_DROP_REASONS; r++)
            sums.bad += stats.dropped[r];
    }
    return sums;
}

/* A GPU that still drains is taken out and put in again. */
static void add(scaler_t *scaler, sched_t *sched, int64_t now_ns, uint32_t count, bool *up)
{
    while (count-- > 0 && scaler->gpus < scaler->most) {
        uint32_t gpu = scaler->gpus;
        if (up[gpu] && sched_gpu_inflight(sched, gpu) > 0)
            return; /* it will be there in a moment; the advice comes again if it is still true */
        if (up[gpu])
            sched_remove_gpu(sched, now_ns, gpu);
        sched_add_gpu(sched, now_ns, gpu, now_ns);
        up[gpu] = true;
        scaler->gpus++;
    }
}

static void release(scaler_t *scaler, sched_t *sched, int64_t now_ns, uint32_t count)
{
    while (count-- > 0 && scaler->gpus > 1)
        sched_drain_gpu(sched, now_ns, --scaler->gpus);
}

int32_t scaler_follow(scaler_t *scaler, sched_t *sched, int64_t now_ns, const autoscale_sums_t *sums,
                      bool *up)
{
    for (uint32_t g = scaler->gpus; g < scaler->most; g++) {
        if (up[g] && sched_gpu_inflight(sched, g) == 0) {
            sched_remove_gpu(sched, now_ns, g);
            up[g] = false;
        }
    }
    int32_t advice = autoscale_observe(&scaler->autoscale, now_ns, scaler->gpus, sums);
    if (advice > 0)
        add(scaler, sched, now_ns, (uint32_t)advice, up);
    else if (advice < 0)
        release(scaler, sched, now_ns, (uint32_t)-advice);
    return advice;
}
