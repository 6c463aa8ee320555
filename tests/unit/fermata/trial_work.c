/* The queries of a trial, and how soon they could be answered at the best. */
#include "fermata/profile/trial_work.h"

#include <criterion/criterion.h>
#include <string.h>

enum { COUNT = 4000 };

static trial_arrival_t work[COUNT], again[COUNT];

Test(trial_work, one_seed_is_one_list)
{
    trial_work_draw(NULL, 100, 7, work, COUNT);
    trial_work_draw(NULL, 100, 7, again, COUNT);
    cr_assert_arr_eq(work, again, sizeof(work));
    for (uint32_t i = 1; i < COUNT; i++)
        cr_assert_geq(work[i].at_ns, work[i - 1].at_ns);
    cr_assert_float_eq((double)work[COUNT - 1].at_ns / (COUNT - 1), 1e7, 5e5, "10 ms between two");
    trial_work_draw(NULL, 100, 8, again, COUNT);
    cr_assert_neq(memcmp(work, again, sizeof(work)), 0);
    trial_work_draw(NULL, 0, 7, work, COUNT);
    cr_assert_eq(work[COUNT - 1].at_ns, 0, "all at once");
}

Test(trial_work, a_row_costs_least_in_the_best_batch)
{
    profile_t line;
    trial_cost_t cost;
    cr_assert_eq(profile_from_line(&line, 5000, 5000, 8, NULL), STATUS_OK);
    trial_cost_init(&cost, NULL, &line, 5, 2);
    cr_assert_float_eq(cost.alone_ns[1], 10000, 1e-9);
    cr_assert_float_eq(cost.least_ns[1], 3000, 1e-9, "30 us for five, on two streams");
}

static double bound(const trial_cost_t *cost, uint32_t count)
{
    double mean_ns;
    cr_assert_eq(trial_bound(cost, work, count, &mean_ns, NULL), STATUS_OK);
    return mean_ns;
}

Test(trial_work, no_query_leaves_before_its_time_nor_the_device_its_work)
{
    trial_cost_t cost = {.alone_ns = {0, 10, 100}, .least_ns = {0, 5, 100}};
    work[0] = work[1] = work[2] = (trial_arrival_t){.length = 1};
    /* The device could have done with them at 5, 10 and 15. */
    cr_assert_float_eq(bound(&cost, 3), (10 + 10 + 15) / 3.0, 1e-9);
    work[3] = (trial_arrival_t){.at_ns = 1000, .length = 1};
    cr_assert_float_eq(bound(&cost, 4), (10 + 10 + 15 + 10) / 4.0, 1e-9, "it idles in between");
}

Test(trial_work, the_least_left_goes_first)
{
    trial_cost_t cost = {.alone_ns = {0, 10, 100}, .least_ns = {0, 10, 100}};
    work[0] = (trial_arrival_t){.at_ns = 0, .length = 2};
    work[1] = (trial_arrival_t){.at_ns = 50, .length = 1};
    cr_assert_float_eq(bound(&cost, 2), (110 + 10) / 2.0, 1e-9, "the short one passes");
    work[1].at_ns = 95;
    cr_assert_float_eq(bound(&cost, 2), (100 + 15) / 2.0, 1e-9, "the long one has less left");
}
