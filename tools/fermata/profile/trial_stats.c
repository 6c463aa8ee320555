#include "fermata/profile/trial_stats.h"

#include <math.h>
#include <stdlib.h>

/* Of nine degrees of freedom, for 95 %. */
static const double STUDENT_T = 2.262;

static double mean_of_block(const int64_t *latency_ns, uint32_t count, uint32_t block)
{
    uint32_t from = (uint32_t)((uint64_t)count * block / TRIAL_BLOCKS),
             to = (uint32_t)((uint64_t)count * (block + 1) / TRIAL_BLOCKS);
    double sum = 0;
    for (uint32_t i = from; i < to; i++)
        sum += (double)latency_ns[i];
    return sum / (to - from);
}

static double mean(const double *values)
{
    double sum = 0;
    for (uint32_t i = 0; i < TRIAL_BLOCKS; i++)
        sum += values[i];
    return sum / TRIAL_BLOCKS;
}

/* Of their mean. */
static double error_of(const double *values)
{
    double middle = mean(values), squares = 0;
    for (uint32_t i = 0; i < TRIAL_BLOCKS; i++)
        squares += (values[i] - middle) * (values[i] - middle);
    return STUDENT_T * sqrt(squares / (TRIAL_BLOCKS - 1) / TRIAL_BLOCKS);
}

double trial_change(const int64_t *latency_ns, const int64_t *base_ns, uint32_t count, double *error)
{
    double own[TRIAL_BLOCKS], base[TRIAL_BLOCKS];
    for (uint32_t i = 0; i < TRIAL_BLOCKS; i++) {
        own[i] = mean_of_block(latency_ns, count, i);
        base[i] = mean_of_block(base_ns, count, i);
    }
    double of = mean(base), ratio = mean(own) / of;
    for (uint32_t i = 0; i < TRIAL_BLOCKS; i++)
        own[i] -= ratio * base[i];
    *error = error_of(own) / of;
    return ratio - 1;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void trial_sum_up(int64_t *latency_ns, uint32_t count, int64_t took_ns, trial_result_t *result)
{
    double blocks[TRIAL_BLOCKS], sum = 0;
    for (uint32_t i = 0; i < TRIAL_BLOCKS; i++)
        blocks[i] = mean_of_block(latency_ns, count, i) / 1e6;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)latency_ns[i];
    qsort(latency_ns, count, sizeof(*latency_ns), by_size);
    *result = (trial_result_t){.avg_ms = sum / count / 1e6,
                               .avg_error_ms = error_of(blocks),
                               .p99_ms = (double)latency_ns[(uint32_t)((double)count * 0.99)] / 1e6,
                               .throughput_rps = count * 1e9 / (double)took_ns};
}
