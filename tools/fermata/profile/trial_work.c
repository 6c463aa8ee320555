#include "fermata/profile/trial_work.h"

#include "base/prng.h"

#include <math.h>
#include <stdlib.h>

void trial_work_draw(const profile_mix_t *mix, double rate_rps, uint64_t seed, trial_arrival_t *work,
                     uint32_t count)
{
    prng_t prng;
    double at_ns = 0;
    prng_init(&prng, seed);
    for (uint32_t i = 0; i < count; i++) {
        work[i] = (trial_arrival_t){.at_ns = (int64_t)at_ns,
                                    .length = mix ? profile_mix_draw(mix, prng_uniform(&prng)) : 1};
        at_ns += rate_rps > 0 ? prng_exponential(&prng, 1e9 / rate_rps) : 0;
    }
}

void trial_cost_init(trial_cost_t *cost, const profile_mix_t *mix, const profile_t *profile,
                     uint32_t rows_max, uint32_t streams)
{
    for (uint32_t length = 1; length <= (mix ? mix->count : 1); length++) {
        const profile_t *of = mix ? &mix->shapes[length - 1].latency : profile;
        double least = INFINITY;
        for (uint32_t rows = 1; rows <= rows_max; rows++)
            least = fmin(least, (double)profile_latency_ns(of, rows) / rows);
        cost->alone_ns[length] = (double)profile_latency_ns(of, 1);
        cost->least_ns[length] = least / streams;
    }
}

/* ---- the bound ---- */

typedef struct {
    double *left; /* work of those that are there, in no order */
    uint32_t count;
    double now_ns;
    double *ends; /* when the device has done the work of one more */
    uint32_t ended;
} device_t;

/* Does the least that is left first, until then. */
static void work_until(device_t *device, double until_ns)
{
    while (device->count > 0) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < device->count; i++)
            if (device->left[i] < device->left[least])
                least = i;
        if (device->now_ns + device->left[least] > until_ns) {
            device->left[least] -= until_ns - device->now_ns;
            break;
        }
        device->now_ns += device->left[least];
        device->left[least] = device->left[--device->count];
        device->ends[device->ended++] = device->now_ns;
    }
    device->now_ns = until_ns;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

status_t trial_bound(const trial_cost_t *cost, const trial_arrival_t *work, uint32_t count, double *mean_ns,
                     err_t *err)
{
    double *memory = calloc(3 * (size_t)count, sizeof(*memory)), *alone = memory + 2 * (size_t)count, sum = 0;
    device_t device = {.left = memory, .ends = memory + count};
    if (!memory)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u queries", count);
    for (uint32_t i = 0; i < count; i++) {
        work_until(&device, (double)work[i].at_ns);
        device.left[device.count++] = cost->least_ns[work[i].length];
        alone[i] = (double)work[i].at_ns + cost->alone_ns[work[i].length];
    }
    work_until(&device, INFINITY);
    qsort(alone, count, sizeof(*alone), by_size);
    for (uint32_t i = 0; i < count; i++)
        sum += fmax(alone[i], device.ends[i]) - (double)work[i].at_ns;
    *mean_ns = sum / count;
    free(memory);
    return STATUS_OK;
}
