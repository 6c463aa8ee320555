#include "sim/scaler.h"

#include <string.h>

void scaler_init(scaler_t *scaler, const autoscale_params_t *params, uint32_t gpus, uint32_t most,
                 int64_t delay_ns)
{
    *scaler = (scaler_t){.gpus = gpus, .most = most, .delay_ns = delay_ns};
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

/* One that still drains is taken out and put in again, when it is idle. */
static bool add_gpu(scaler_t *scaler, sched_t *sched, int64_t now_ns, bool *up)
{
    uint32_t gpu = scaler->gpus;
    if (up[gpu] && sched_gpu_inflight(sched, gpu) > 0)
        return false;
    if (up[gpu])
        sched_remove_gpu(sched, now_ns, gpu);
    sched_add_gpu(sched, now_ns, gpu, now_ns);
    up[gpu] = true;
    scaler->gpus++;
    return true;
}

static void order(scaler_t *scaler, int64_t now_ns, uint32_t count)
{
    uint32_t room = scaler->most - scaler->gpus - scaler->ordered;
    count = count < room ? count : room;
    if (count == 0 || scaler->order_count == SCALER_ORDERS_MAX)
        return; /* the advice comes again if it is still true */
    scaler->orders[scaler->order_count++] =
        (scaler_order_t){.due_ns = now_ns + scaler->delay_ns, .count = count};
    scaler->ordered += count;
}

static void deliver(scaler_t *scaler, sched_t *sched, int64_t now_ns, bool *up)
{
    scaler_order_t *first = scaler->orders;
    while (scaler->order_count && first->due_ns <= now_ns) {
        while (first->count && add_gpu(scaler, sched, now_ns, up)) {
            first->count--;
            scaler->ordered--;
        }
        if (first->count)
            return;
        memmove(first, first + 1, --scaler->order_count * sizeof(*first));
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
    autoscale_sums_t needed = *sums;
    double busy_ns =
        (double)(int64_t)(sums->busy_ns - scaler->busy_seen_ns); /* less than 0 after a preemption */
    scaler->needed_ns += (uint64_t)(int64_t)(busy_ns * sched_needed(sched));
    scaler->busy_seen_ns = sums->busy_ns;
    needed.busy_ns = scaler->needed_ns;
    int32_t advice = autoscale_observe(&scaler->autoscale, now_ns, scaler->gpus, &needed);
    if (advice > (int32_t)scaler->ordered)
        order(scaler, now_ns, (uint32_t)advice - scaler->ordered);
    else if (advice < 0 && scaler->ordered == 0)
        release(scaler, sched, now_ns, (uint32_t)-advice);
    deliver(scaler, sched, now_ns, up);
    return advice;
}
