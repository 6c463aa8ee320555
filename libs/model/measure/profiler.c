#include "model/measure/profiler.h"

#include "base/clock.h"
#include "base/prng.h"
#include "model/measure/lost_time.h"
#include "model/measure/profiler_bench.h"
#include "model/measure/profiler_series.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_RUNS = 2,
    RUNS_MIN = 3,
    RUNS_LONG = 2,    /* of a size of which one run takes longer than measuring a size should */
    ALWAYS_SIZES = 2, /* measured whatever the budget: two points make a slope */
    SMALL_RUNS = 20,  /* of a size that is small: one of them lies above the 95th percentile */
    NEEDED_TIMES = 3, /* as long may runs of these keep others waiting: of a quarter of an SLO three */
    CHECKS_MAX = 4096,
};
/* A size is measured for about this long at most, so that one disturbance of the machine does not cover all its runs. */
static const int64_t SIZE_GOAL_NS = 60 * NS_PER_MS;
/* One run this long is enough of its size, unless a goal beyond it was set. */
static const int64_t SIZE_BUDGET_NS = 400 * NS_PER_MS;
#define NOISE_MOST 0.99 /* of a run of no time at all */

static int64_t goal_of(const profiler_t *profiler)
{
    return profiler->size_goal_ns ? profiler->size_goal_ns : SIZE_GOAL_NS;
}

/* What has been spent but for waiting, and what more would be. Gaps may take long to come: some day it is enough. */
static bool is_over(const profiler_t *profiler, const bench_t *bench, int64_t more_ns)
{
    enum { WAIT_TIMES = 4 };
    int64_t spent_ns = clock_now_ns() - bench->begin_ns - bench->waited_ns;

    return more_ns > profiler->budget_ns - spent_ns || bench->waited_ns / WAIT_TIMES > profiler->budget_ns;
}

/* Of one of the sizes that there must be, the measured-th. */
static bool is_unbearable(const profiler_t *profiler, uint32_t measured, int64_t took_ns)
{
    return bench_keeps_others_waiting(profiler, measured < ALWAYS_SIZES ? took_ns / NEEDED_TIMES : took_ns);
}

static int64_t slow_ns(const profiler_t *profiler)
{
    int64_t goal = goal_of(profiler);

    return goal > SIZE_BUDGET_NS ? goal : SIZE_BUDGET_NS;
}

/* Where the very first run shows that each keeps others waiting too long, it is also the last. */
static status_t warm_up(const profiler_t *profiler, engine_job_t *job, series_t *series, uint32_t measured,
                        err_t *err)
{
    for (int i = 0; i < WARM_RUNS; i++) {
        int64_t took;
        status_t status = bench_run(profiler, job, &took, err);
        if (status != STATUS_OK)
            return status;
        if (is_unbearable(profiler, measured, took)) {
            series->took[series->runs++] = took;
            series->done = true;
        }
        if (took > goal_of(profiler) || bench_keeps_others_waiting(profiler, took))
            break; /* so slow that warming up is no matter */
    }
    return STATUS_OK;
}

/* A median that is known to some percent will do where the whole of it hardly matters. */
static bool is_known(const profiler_t *profiler, const series_t *series)
{
    return series_is_settled(series) ||
           (series->runs >= SMALL_RUNS && series->took[series->runs - 1] < profiler->small_ns);
}

static status_t run_one_more(const profiler_t *profiler, engine_job_t *job, series_t *series, err_t *err)
{
    job->batch = series->batch;
    status_t status = bench_run(profiler, job, &series->took[series->runs], err);
    if (status != STATUS_OK)
        return status;
    series->done = series->took[series->runs] > slow_ns(profiler);
    series->runs++;
    if (!profiler->size_goal_ns)
        series->done |= is_known(profiler, series);
    return atomic_load(profiler->stop) ? err_set(err, STATUS_CANCELLED, "stopped") : STATUS_OK;
}

/* What there must be of a size. */
static status_t measure_least(const profiler_t *profiler, engine_job_t *job, series_t *series,
                              uint32_t measured, err_t *err)
{
    job->batch = series->batch;
    status_t status = warm_up(profiler, job, series, measured, err);
    while (status == STATUS_OK && series->runs < RUNS_MIN && !series->done) {
        status = run_one_more(profiler, job, series, err);
        bool hurts = bench_keeps_others_waiting(profiler, series->took[0]);
        series->done |= hurts && series->runs >= RUNS_LONG;
        if (series->runs >= RUNS_LONG && series->took[0] > goal_of(profiler))
            break;
    }
    return status;
}

/* What all sizes together may take beyond what there must be of each. */
static bool is_over_goal(const profiler_t *profiler, const bench_t *bench, uint32_t sizes)
{
    int64_t spent_ns = clock_now_ns() - bench->begin_ns - bench->waited_ns;

    return spent_ns >= goal_of(profiler) * sizes || is_over(profiler, bench, 0);
}

/*
 * Rounds in which each size runs once, in another order each time: so a run finds the caches as a run finds them when
 * serving, left by some other size, and a slow spell of the machine falls on all sizes alike.
 */
static status_t measure_rounds(const profiler_t *profiler, bench_t *bench, series_t *all, uint32_t count,
                               err_t *err)
{
    uint32_t order[PROFILER_SIZES_MAX];
    prng_t random;
    uint32_t open = count;

    prng_init(&random, count);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    for (uint32_t round = RUNS_MIN; round < PROFILER_RUNS_MAX && open > 0; round++) {
        open = 0;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t other = i + (uint32_t)prng_below(&random, count - i), size = order[other];
            order[other] = order[i];
            order[i] = size;
            if (all[size].done)
                continue;
            if (is_over_goal(profiler, bench, count))
                return STATUS_OK;
            status_t status = run_one_more(profiler, &bench->job, &all[size], err);
            if (status != STATUS_OK)
                return status;
            open++;
        }
    }
    return STATUS_OK;
}

uint32_t profiler_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap)
{
    uint32_t count = 0, power = 1;

    for (uint32_t size = 1; size < max_batch && count + 1 < cap;) {
        sizes[count++] = size;
        if (size < 4) {
            size++;
            power = 4;
        } else if (size == power) {
            size = power + power / 2;
        } else {
            power *= 2;
            size = power;
        }
    }
    sizes[count++] = max_batch;
    return count;
}

uint32_t profiler_coarse_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap)
{
    uint32_t count = 0;

    for (uint32_t size = 1; size < max_batch && count + 1 < cap; size *= 4)
        sizes[count++] = size;
    sizes[count++] = max_batch;
    return count;
}

static uint32_t sizes_of(const profiler_t *profiler, const engine_model_info_t *info,
                         uint32_t sizes[PROFILER_SIZES_MAX])
{
    if (!profiler->sizes && profiler->coarse)
        return profiler_coarse_sizes(info->max_batch, sizes, PROFILER_SIZES_MAX);
    if (!profiler->sizes)
        return profiler_sizes(info->max_batch, sizes, PROFILER_SIZES_MAX);
    uint32_t count = profiler->size_count < PROFILER_SIZES_MAX ? profiler->size_count : PROFILER_SIZES_MAX;
    memcpy(sizes, profiler->sizes, count * sizeof(*sizes));
    return count;
}

static bool is_small(const profiler_t *profiler, uint32_t batch, int64_t expect_ns)
{
    bool between = (batch & (batch - 1)) != 0 && batch != profiler->ops->info(profiler->model)->max_batch;

    return !profiler->sizes && between && expect_ns < profiler->small_ns;
}

/* Whether a size is left to the line of those measured, of which there are `measured`. */
static bool is_left_out(const profiler_t *profiler, const bench_t *bench, const series_t *all,
                        uint32_t measured, uint32_t batch)
{
    if (measured == 0)
        return false;
    int64_t expect_ns = series_expect_ns(all, measured, batch);
    if (is_unbearable(profiler, measured, expect_ns) || is_small(profiler, batch, expect_ns))
        return true;
    /* One more to warm up. What takes longer than an hour is no more welcome, and overflows. */
    return measured >= ALWAYS_SIZES && is_over(profiler, bench, expect_ns * (RUNS_LONG + 1));
}

static status_t measure_all(const profiler_t *profiler, bench_t *bench, series_t *all, const uint32_t *sizes,
                            uint32_t *count, err_t *err)
{
    uint32_t wanted = *count, measured = 0;
    status_t status = STATUS_OK;

    bench->begin_ns = clock_now_ns();
    bench->waited_ns = 0;
    for (uint32_t i = 0; status == STATUS_OK && i < wanted; i++) {
        if (is_left_out(profiler, bench, all, measured, sizes[i]))
            continue;
        all[measured].batch = sizes[i];
        status = measure_least(profiler, &bench->job, &all[measured], measured, err);
        measured++;
    }
    if (status != STATUS_OK)
        return status;
    *count = measured;
    return measure_rounds(profiler, bench, all, measured, err);
}

static int compare_samples(const void *a, const void *b)
{
    const profiler_sample_t *x = a, *y = b;

    return (x->batch > y->batch) - (x->batch < y->batch);
}

status_t profiler_run(const profiler_t *profiler, profiler_sample_t samples[PROFILER_SIZES_MAX],
                      uint32_t *count, err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;
    uint32_t sizes[PROFILER_SIZES_MAX], measured = sizes_of(profiler, info, sizes);
    series_t *all = calloc(measured, sizeof(*all));

    if (!all)
        return err_set(err, STATUS_NO_MEMORY, "no memory to measure %u sizes", measured);
    series_order(sizes, measured);
    status_t status = bench_init(profiler, info, &bench, err);
    if (status == STATUS_OK)
        status = measure_all(profiler, &bench, all, sizes, &measured, err);
    for (uint32_t i = 0; status == STATUS_OK && i < measured; i++)
        series_sum_up(&all[i], &samples[i]);
    if (status == STATUS_OK) {
        qsort(samples, measured, sizeof(samples[0]), compare_samples);
        *count = measured;
    }
    bench_dispose(profiler, &bench);
    free(all);
    return status;
}

static int compare_double(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median_of(double *values, uint32_t count)
{
    qsort(values, count, sizeof(values[0]), compare_double);
    return values[(count - 1) / 2];
}

/* What the runs of each size tell of the machine: how far the late ones are above the median, and the shortest below. */
static void tell_quality(const profiler_sample_t *samples, uint32_t count, profile_t *profile)
{
    double late[PROFILER_SIZES_MAX], least[PROFILER_SIZES_MAX];

    for (uint32_t i = 0; i < count; i++) {
        double median_ns = samples[i].median_ns > 0 ? (double)samples[i].median_ns : 1;
        late[i] = fmax((double)samples[i].p95_ns / median_ns, 1);
        least[i] = fmin((double)samples[i].min_ns / median_ns, 1);
    }
    profile->spread = median_of(late, count);
    profile->noise = fmin(1 - median_of(least, count), NOISE_MOST);
}

status_t profiler_fit(const profiler_sample_t *samples, uint32_t count, uint32_t max_batch,
                      profile_t *profile, err_t *err)
{
    profile_point_t points[PROFILER_SIZES_MAX] = {0};

    for (uint32_t i = 0; i < count; i++)
        points[i] = (profile_point_t){.batch = samples[i].batch, .latency_ns = samples[i].median_ns};
    status_t status = profile_from_points(profile, points, count, max_batch, err);
    if (status == STATUS_OK)
        tell_quality(samples, count, profile);
    return status;
}

status_t profiler_measure(const profiler_t *profiler, profile_t *profile, err_t *err)
{
    profiler_sample_t samples[PROFILER_SIZES_MAX];
    uint32_t count;
    lost_time_t begin, end;

    lost_time_look(&begin);
    status_t status = profiler_run(profiler, samples, &count, err);
    if (status != STATUS_OK)
        return status;
    lost_time_look(&end);
    status = profiler_fit(samples, count, profiler->ops->info(profiler->model)->max_batch, profile, err);
    if (status == STATUS_OK && profiler->on_host)
        profile->noise = fmax(profile->noise, lost_time_share(&begin, &end));
    return status;
}

/* ---- how good it is ---- */

typedef struct {
    profiler_run_t runs[CHECKS_MAX];
    double room[3 * CHECKS_MAX];
} check_room_t;

static status_t check_runs(const profiler_t *profiler, prng_t *random, engine_job_t *job,
                           const uint32_t range[2], profiler_run_t *runs, uint32_t *count, err_t *err)
{
    for (job->batch = range[0]; job->batch <= range[1]; job->batch++) {
        status_t status = profiler->ops->prepare(profiler->model, job->batch, err);
        if (status != STATUS_OK)
            return status;
    }
    int64_t until = clock_now_ns() + goal_of(profiler);
    for (*count = 0; *count < CHECKS_MAX && (*count < RUNS_MIN || clock_now_ns() < until); ++*count) {
        profiler_run_t *run = &runs[*count];
        job->batch = run->batch = (uint32_t)prng_range(random, range[0], range[1]);
        status_t status = bench_run(profiler, job, &run->took_ns, err);
        if (status != STATUS_OK)
            return status;
        if (atomic_load(profiler->stop))
            return err_set(err, STATUS_CANCELLED, "stopped");
    }
    return STATUS_OK;
}

status_t profiler_check(const profiler_t *profiler, const profile_t *profile, uint64_t seed,
                        profiler_check_t *check, err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;
    uint32_t sizes[PROFILER_SIZES_MAX], count = sizes_of(profiler, info, sizes);
    check_room_t *room = calloc(1, sizeof(*room));
    prng_t random;
    uint32_t runs;

    prng_init(&random, seed);
    if (!room)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %d runs", CHECKS_MAX);
    status_t status = bench_init(profiler, info, &bench, err);
    if (status == STATUS_OK)
        status = check_runs(profiler, &random, &bench.job, (uint32_t[2]){sizes[0], sizes[count - 1]},
                            room->runs, &runs, err);
    if (status == STATUS_OK)
        profiler_check_sum_up(room->runs, runs, profile, room->room, check);
    bench_dispose(profiler, &bench);
    free(room);
    return status;
}
