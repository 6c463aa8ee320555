/* When a size has been run often enough, and which size is next. */
#include "model/measure/profiler_series.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

static series_t series;

/* So many runs of 1000 us, evenly spread over as many parts per thousand around it, in any order. */
static series_t *runs_around(uint32_t runs, int64_t apart)
{
    series = (series_t){.batch = 1, .runs = runs};
    for (uint32_t i = 0; i < runs; i++)
        series.took[i] = 1000000 + apart * 1000 * (int64_t)(i * 7 % runs) / (int64_t)runs - apart * 500;
    return &series;
}

Test(series, is_settled_when_the_median_is_known_to_a_hundredth)
{
    cr_expect_not(series_is_settled(runs_around(16, 0)), "too few for the 95th percentile");
    cr_expect(series_is_settled(runs_around(20, 0)));
    cr_expect_not(series_is_settled(runs_around(21, 0)), "it is looked at now and then");
    cr_expect(series_is_settled(runs_around(20, 50)));
    cr_expect_not(series_is_settled(runs_around(20, 200)));
    cr_expect_not(series_is_settled(runs_around(52, 200)));
    cr_expect(series_is_settled(runs_around(96, 200)), "more runs tell");
    cr_expect_not(series_is_settled(runs_around(96, 400)));
    cr_expect(series_is_settled(runs_around(100, 400)), "or must do");
}

Test(series, sums_up_what_it_has)
{
    profiler_sample_t sample;

    series = (series_t){.batch = 3, .runs = 2, .took = {900, 500}};
    series_sum_up(&series, &sample);
    cr_expect_eq(sample.batch, 3);
    cr_expect_eq(sample.min_ns, 500);
    cr_expect_eq(sample.median_ns, 500, "of two runs the one that was disturbed less");
    cr_expect_eq(sample.p95_ns, 900);
}

static void expect_order(uint32_t max_batch, const char *want)
{
    uint32_t sizes[PROFILER_SIZES_MAX], count = profiler_sizes(max_batch, sizes, PROFILER_SIZES_MAX);
    char text[256] = "";

    series_order(sizes, count);
    for (uint32_t i = 0, len = 0; i < count; i++)
        len += (uint32_t)snprintf(text + len, sizeof(text) - len, i ? ",%u" : "%u", sizes[i]);
    cr_expect_str_eq(text, want);
}

Test(series, sizes_are_doubled_first)
{
    expect_order(1, "1");
    expect_order(2, "1,2");
    expect_order(3, "1,2,3");
    expect_order(10, "1,2,4,8,10,3,6");
    expect_order(32, "1,2,4,8,16,32,3,6,12,24");
}

Test(series, a_batch_is_expected_to_take_as_long_for_each_row_as_a_smaller_one)
{
    series_t *all = calloc(3, sizeof(*all));

    all[0] = (series_t){.batch = 1, .runs = 1, .took = {100}};
    all[1] = (series_t){.batch = 4, .runs = 2, .took = {900, 200}};
    all[2] = (series_t){.batch = 2, .runs = 1, .took = {150}};
    cr_expect_eq(series_expect_ns(all, 3, 1), 100);
    cr_expect_eq(series_expect_ns(all, 3, 3), 225);
    cr_expect_eq(series_expect_ns(all, 3, 8), 400, "by its last run");
    cr_expect_eq(series_expect_ns(all, 1, 8), 800);
    free(all);
}
