#include "profile/profile.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

static profile_t line(int64_t alpha_ns, int64_t beta_ns, uint32_t max_batch)
{
    profile_t profile;
    err_t err;
    cr_assert_eq(profile_from_line(&profile, alpha_ns, beta_ns, max_batch, &err), STATUS_OK, "%s", err.text);
    return profile;
}

static profile_t points(const profile_point_t *list, uint32_t count, uint32_t max_batch)
{
    profile_t profile;
    err_t err;
    cr_assert_eq(profile_from_points(&profile, list, count, max_batch, &err), STATUS_OK, "%s", err.text);
    cr_assert_null(profile_validate(&profile));
    return profile;
}

static profile_t with_points(const profile_point_t *points, uint32_t count)
{
    profile_t profile;

    cr_assert_eq(profile_from_points(&profile, points, count, 64, NULL), STATUS_OK);
    return profile;
}

/* Half as slow as it was up to 4 rows: half as slow beyond. */
Test(profile, goes_on_as_another_one_does)
{
    const profile_point_t now[] = {{1, 50}, {2, 60}, {4, 100}}, then[] = {{1, 100}, {4, 200}, {16, 800}};
    profile_t profile = with_points(now, 3), other = with_points(then, 3), before = other;

    profile_continue(&other, &profile);
    cr_expect_eq(memcmp(&other, &before, sizeof(before)), 0, "the longer one stays");
    profile_continue(&profile, &other);
    cr_expect_null(profile_validate(&profile));
    cr_expect_eq(profile_latency_ns(&profile, 2), 60);
    cr_expect_eq(profile_latency_ns(&profile, 16), 400);
    cr_expect_eq(profile_latency_ns(&profile, 8), profile_latency_ns(&other, 8) / 2);
    cr_expect_eq(profile_latency_ns(&profile, 64), 400 + 48 * profile.alpha_ns);
    cr_expect_float_eq((double)profile.alpha_ns, (double)other.alpha_ns / 2, 1);
    cr_expect_eq(profile.points, 3);
}

Test(profile, line_is_its_formula_and_its_inverse)
{
    profile_t profile = line(1053000, 5072000, 1000);
    cr_assert_eq(profile_latency_ns(&profile, 1), 6125000);
    cr_assert_eq(profile_latency_ns(&profile, 18), 24026000);
    cr_assert_eq(profile_largest_batch(&profile, 25000000), 18);
    cr_assert_eq(profile_largest_batch(&profile, 24026000), 18);
    cr_assert_eq(profile_largest_batch(&profile, 24025999), 17);
    cr_assert_eq(profile_largest_batch(&profile, 6124999), 0);
    cr_assert_eq(profile_largest_batch(&profile, -5), 0);
    cr_assert_eq(profile_largest_batch(&profile, INT64_MAX / 2), 1000);
}

Test(profile, a_model_of_no_cost_fits_always)
{
    profile_t profile = line(0, 0, 64);
    cr_assert_eq(profile_latency_ns(&profile, 64), 0);
    cr_assert_eq(profile_largest_batch(&profile, 0), 64);
    cr_assert_eq(profile_largest_batch(&profile, -1), 0);
}

/* The table of VGG16 in DESIGN.md 6: nothing like a line at small sizes. */
Test(profile, the_measured_table_wins_over_the_fit)
{
    profile_point_t measured[] = {{1, 6300000}, {2, 14500000}, {4, 20000000}, {8, 31000000}};
    profile_t profile = points(measured, 4, 0);
    cr_assert_eq(profile.max_batch, 8);
    cr_assert_eq(profile.table_len, 8);
    cr_assert_not(profile.repaired);
    cr_assert_eq(profile_latency_ns(&profile, 1), 6300000);
    cr_assert_eq(profile_latency_ns(&profile, 2), 14500000);
    cr_assert_eq(profile_latency_ns(&profile, 3), 17250000,
                 "between two measured sizes: on the straight line");
    cr_assert_eq(profile_largest_batch(&profile, 14499999), 1);
    cr_assert_eq(profile_largest_batch(&profile, 17250000), 3);
}

Test(profile, what_falls_is_raised_and_said)
{
    profile_point_t measured[] = {{3, 7000000}, {1, 5000000}, {2, 8000000}, {2, 6000000}};
    profile_t profile = points(measured, 4, 3);
    cr_assert(profile.repaired);
    cr_assert_eq(profile_latency_ns(&profile, 2), 8000000, "the slower of two measurements counts");
    cr_assert_eq(profile_latency_ns(&profile, 3), 8000000);
}

Test(profile, goes_on_beyond_the_table_with_the_fit)
{
    profile_point_t measured[] = {{1, 3000000}, {2, 5000000}, {3, 7000000}};
    profile_t profile = points(measured, 3, 10);
    cr_assert_eq(profile.alpha_ns, 2000000);
    cr_assert_eq(profile.beta_ns, 1000000);
    cr_assert_float_eq(profile.residual, 0, 1e-9);
    cr_assert_eq(profile_latency_ns(&profile, 10), 21000000);
    cr_assert_eq(profile_largest_batch(&profile, 20999999), 9);
    cr_assert_eq(profile_largest_batch(&profile, 90000000), 10);
}

Test(profile, sizes_below_the_first_measured_cost_as_much)
{
    profile_point_t measured[] = {{4, 9000000}, {8, 13000000}};
    profile_t profile = points(measured, 2, 0);
    cr_assert_eq(profile_latency_ns(&profile, 1), 9000000);
    cr_assert_eq(profile_latency_ns(&profile, 6), 11000000);
}

Test(profile, fit_never_falls_and_never_begins_below_zero)
{
    int64_t alpha_ns, beta_ns;
    double residual;
    profile_point_t falling[] = {{1, 9}, {2, 6}, {3, 3}};
    profile_fit(falling, 3, &alpha_ns, &beta_ns, &residual);
    cr_assert_eq(alpha_ns, 0);
    cr_assert_eq(beta_ns, 4);
    profile_point_t steep[] = {{1, 10}, {2, 30}};
    profile_fit(steep, 2, &alpha_ns, &beta_ns, &residual);
    cr_assert_eq(beta_ns, 0);
    cr_assert_eq(alpha_ns, 12);
    profile_point_t one[] = {{4, 100}};
    profile_fit(one, 1, &alpha_ns, &beta_ns, &residual);
    cr_assert_eq(alpha_ns, 25);
    cr_assert_eq(beta_ns, 0);
}

/* A flat line would promise that thirty-two rows take as long as one. */
Test(profile, one_size_alone_is_not_continued_flat)
{
    profile_point_t one[] = {{1, 50000000}}, two[] = {{1, 50000000}, {2, 80000000}, {2, 81000000}};
    profile_t profile = points(one, 1, 32);
    cr_assert_eq(profile_latency_ns(&profile, 1), 50000000);
    cr_assert_eq(profile_latency_ns(&profile, 32), 32 * INT64_C(50000000));
    cr_assert_not(profile_is_whole(&profile));
    profile = points(one, 1, 1);
    cr_assert(profile_is_whole(&profile), "there is no other size");
    profile = points(two, 3, 32);
    cr_assert_eq(profile.points, 2);
    cr_assert(profile_is_whole(&profile));
    profile = line(1, 2, 32);
    cr_assert(profile_is_whole(&profile));
}

Test(profile, one_disturbed_large_batch_does_not_place_the_line)
{
    int64_t alpha_ns, beta_ns;
    double residual;
    profile_point_t disturbed[] = {{1, 11000}, {2, 21000},   {4, 41000},
                                   {8, 81000}, {16, 161000}, {32, 640000}};
    profile_fit(disturbed, 6, &alpha_ns, &beta_ns, &residual);
    cr_assert_lt(llabs(alpha_ns + beta_ns - 11000), 1100, "%ld + %ld", (long)alpha_ns, (long)beta_ns);
}

Test(profile, the_slower_of_two_devices_holds_on_both)
{
    profile_t into = line(2000000, 1000000, 32), other = line(1000000, 6000000, 16);
    profile_merge_slower(&into, &other);
    cr_assert_null(profile_validate(&into));
    cr_assert_eq(into.max_batch, 16);
    cr_assert_eq(profile_latency_ns(&into, 1), 7000000);
    cr_assert_eq(profile_latency_ns(&into, 16), 33000000);
}

Test(profile, bad_measurements_are_errors)
{
    profile_t profile;
    err_t err;
    profile_point_t zero[] = {{0, 5}}, huge[] = {{PROFILE_BATCH_MAX + 1, 5}}, negative[] = {{1, -5}};
    cr_assert_eq(profile_from_points(&profile, zero, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_points(&profile, huge, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_points(&profile, negative, 1, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_points(&profile, NULL, 0, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_line(&profile, -1, 0, 4, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_line(&profile, 0, 0, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(profile_from_line(&profile, INT64_MAX, 0, 4, &err), STATUS_INVALID_ARGUMENT);
}

/* Against a search from the bottom up, with tables shorter and longer than max_batch. */
Test(profile, largest_batch_agrees_with_trying_them_all)
{
    prng_t prng;
    prng_init(&prng, 20261120);
    for (int round = 0; round < 300; round++) {
        profile_point_t measured[20];
        uint32_t count = (uint32_t)prng_range(&prng, 1, 20);
        for (uint32_t i = 0; i < count; i++)
            measured[i] = (profile_point_t){(uint32_t)prng_range(&prng, 1, 40), prng_range(&prng, 0, 1000)};
        profile_t profile = points(measured, count, (uint32_t)prng_range(&prng, 1, 60));
        for (int i = 0; i < 30; i++) {
            int64_t budget_ns = prng_range(&prng, -10, 3000), extra_ns = prng_range(&prng, 0, 20);
            uint32_t batch = 0;
            while (batch < profile.max_batch &&
                   profile_latency_ns(&profile, batch + 1) + extra_ns * (int64_t)(batch + 1) <= budget_ns)
                batch++;
            cr_assert_eq(profile_largest_batch_sloped(&profile, budget_ns, extra_ns), batch);
        }
    }
}
