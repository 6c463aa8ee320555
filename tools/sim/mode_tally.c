#include "mode.h"

#include <stdlib.h>

status_t mode_tally_init(mode_tally_t *tally, uint32_t max, err_t *err)
{
    *tally = (mode_tally_t){.max = max, .latency_ms = malloc((size_t)max * sizeof(double))};
    tally->of_slo = malloc((size_t)max * sizeof(double));
    return tally->latency_ms && tally->of_slo
               ? STATUS_OK
               : err_set(err, STATUS_NO_MEMORY, "no memory for %u latencies", max);
}

void mode_tally_dispose(mode_tally_t *tally)
{
    free(tally->latency_ms);
    free(tally->of_slo);
}

static bool counts(mode_tally_t *tally, double at_s)
{
    if (tally->counted++ < tally->max / 10)
        return false;
    if (tally->counted == tally->max / 10 + 1)
        tally->first_s = at_s;
    tally->last_s = at_s;
    return true;
}

void mode_tally_answer(mode_tally_t *tally, double at_s, double latency_ms, double slo_ms)
{
    if (!counts(tally, at_s) || tally->count == tally->max)
        return;
    tally->of_slo[tally->count] = latency_ms / slo_ms;
    tally->latency_ms[tally->count++] = latency_ms;
    tally->late += latency_ms > slo_ms + 1e-9;
}

void mode_tally_drop(mode_tally_t *tally, double at_s)
{
    if (counts(tally, at_s))
        tally->dropped++;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

void mode_tally_close(mode_tally_t *tally, mode_result_t *result)
{
    double sum = 0, seconds = tally->last_s - tally->first_s;
    qsort(tally->latency_ms, tally->count, sizeof(double), by_size);
    qsort(tally->of_slo, tally->count, sizeof(double), by_size);
    for (uint32_t i = 0; i < tally->count; i++)
        sum += tally->latency_ms[i];
    uint32_t all = tally->count + tally->dropped;
    result->completed = tally->count;
    result->dropped = tally->dropped;
    if (tally->count) {
        result->avg_ms = sum / tally->count;
        uint32_t at = (uint32_t)((double)(tally->count - 1) * 0.99);
        result->p99_ms = tally->latency_ms[at];
        result->p99_of_slo = tally->of_slo[at];
    }
    if (seconds > 0) {
        result->throughput_rps = tally->count / seconds;
        result->goodput_rps = (tally->count - tally->late) / seconds;
    }
    result->qos_violation_rate = all ? (double)(tally->late + tally->dropped) / all : 0;
}
