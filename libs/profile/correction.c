#include "profile/correction.h"

#include <math.h>

static uint32_t class_of(uint32_t batch)
{
    uint32_t class = 0;

    for (; batch > 1 && class < CORRECTION_CLASSES - 1; batch /= 2)
        class ++;
    return class;
}

static double within(double factor)
{
    return fmin(fmax(factor, CORRECTION_LEAST), CORRECTION_MOST);
}

void correction_init(correction_t *correction, double spread)
{
    double factor = spread > 1 ? within(spread) : 1;

    *correction = (correction_t){0};
    for (uint32_t c = 0; c < CORRECTION_CLASSES; c++)
        correction->factor[c] = correction->told[c] = factor;
}

/* The slowest of the last CORRECTION_RUN batches; before there are as many nobody knows. */
static double slowest_of_run(correction_t *correction, uint32_t class, double ratio)
{
    float slowest = 0, *recent = correction->recent[class];

    recent[correction->seen[class]++ % CORRECTION_RUN] = (float)ratio;
    if (correction->seen[class] < CORRECTION_RUN)
        return CORRECTION_MOST;
    for (uint32_t i = 0; i < CORRECTION_RUN; i++)
        slowest = fmaxf(slowest, recent[i]);
    return slowest;
}

void correction_add(correction_t *correction, const profile_t *base, uint32_t batch, int64_t measured_ns)
{
    int64_t predicted_ns = batch ? profile_latency_ns(base, batch) : 0;
    uint32_t class = class_of(batch);

    if (measured_ns <= 0 || predicted_ns <= 0)
        return;
    double *factor = &correction->factor[class], ratio = within((double)measured_ns / (double)predicted_ns);
    double slowest = slowest_of_run(correction, class, ratio);
    if (slowest < CORRECTION_FAR * *factor)
        *factor = slowest;
    double off = ratio - *factor, step = *factor / CORRECTION_MEMORY;
    *factor += fmin(fmax(off, -(1 - CORRECTION_PERCENTILE) * step), CORRECTION_PERCENTILE * step);
}

bool correction_is_due(const correction_t *correction)
{
    for (uint32_t c = 0; c < CORRECTION_CLASSES; c++) {
        if (fabs(correction->factor[c] - correction->told[c]) >= CORRECTION_STEP * correction->told[c])
            return true;
    }
    return false;
}

void correction_apply(correction_t *correction, const profile_t *base, profile_t *into)
{
    profile_point_t points[PROFILE_TABLE_MAX];
    /* A line becomes a table: its classes move apart. */
    uint32_t len = base->table_len ? base->table_len : base->max_batch;

    len = len < PROFILE_TABLE_MAX ? len : PROFILE_TABLE_MAX;
    for (uint32_t b = 1; b <= len; b++) {
        double ns = (double)profile_latency_ns(base, b) * correction->factor[class_of(b)];
        points[b - 1] = (profile_point_t){.batch = b, .latency_ns = llround(ns)};
    }
    if (profile_from_points(into, points, len, base->max_batch, NULL) != STATUS_OK)
        *into = *base;           /* only if twice a latency is over an hour */
    into->points = base->points; /* how good it is does not change */
    into->spread = base->spread;
    into->noise = base->noise;
    for (uint32_t c = 0; c < CORRECTION_CLASSES; c++)
        correction->told[c] = correction->factor[c];
}
