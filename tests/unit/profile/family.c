#include "profile/family.h"

#include <criterion/criterion.h>

static family_t family;
static profile_t profile;

static void add(uint64_t elements, int64_t alpha_ns, int64_t beta_ns, uint32_t max_batch)
{
    cr_assert_eq(profile_from_line(&profile, alpha_ns, beta_ns, max_batch, NULL), STATUS_OK);
    cr_assert_eq(family_add(&family, elements, &profile, NULL), STATUS_OK);
}

Test(family, between_references_it_is_interpolated_and_beyond_them_continued)
{
    add(128, 9000, 1000, 8);
    add(16, 1000, 1000, 8); /* in any order */
    cr_expect_eq(family_latency_ns(&family, 16, 2), 3000);
    cr_expect_eq(family_latency_ns(&family, 72, 2), 11000, "half way");
    cr_expect_eq(family_latency_ns(&family, 128, 2), 19000);
    cr_expect_eq(family_latency_ns(&family, 240, 2), 35000, "as far again");
    cr_expect_eq(family_latency_ns(&family, 1, 2), 3000, "nothing is promised below the smallest");
    cr_expect_eq(family_nearest(&family, 71), 0);
    cr_expect_eq(family_nearest(&family, 73), 1);
    family_profile(&family, 72, &profile);
    cr_expect_eq(profile.max_batch, 8);
    for (uint32_t b = 1; b <= 8; b++)
        cr_expect_eq(profile_latency_ns(&profile, b), family_latency_ns(&family, 72, b), "batch %u", b);
    cr_expect_null(profile_validate(&profile));
}

Test(family, a_single_reference_is_scaled_up_only)
{
    add(100, 1000, 500, 4);
    cr_expect_eq(family_latency_ns(&family, 300, 2), 7500);
    cr_expect_eq(family_latency_ns(&family, 10, 2), 2500);
    cr_expect_eq(family_latency_ns(&family, UINT64_MAX, 4), INT64_C(3600000000000), "never beyond an hour");
    family_profile(&family, UINT64_MAX, &profile);
    cr_expect_null(profile_validate(&profile));
}

Test(family, larger_rows_are_never_faster)
{
    add(16, 1000, 0, 4);
    add(32, 500, 0, 4);
    cr_expect_eq(family_latency_ns(&family, 24, 2), 2000);
    cr_expect_eq(family_latency_ns(&family, 64, 2), 2000);
}

Test(family, of_one_size_the_slower_counts_and_the_smallest_batch_limit)
{
    add(16, 1000, 0, 8);
    add(16, 2000, 0, 8);
    add(64, 8000, 0, 4);
    cr_expect_eq(family.count, 2);
    cr_expect_eq(family_latency_ns(&family, 16, 3), 6000);
    family_profile(&family, 16, &profile);
    cr_expect_eq(profile.max_batch, 4);
}

Test(family, only_so_many_references_are_kept)
{
    err_t err = {0};
    for (uint64_t i = 1; i <= FAMILY_MAX; i++)
        add(i, 1, 0, 4);
    cr_expect_eq(family_add(&family, 100, &profile, &err), STATUS_TOO_LARGE);
    cr_expect(err.text[0]);
    cr_expect_eq(family_add(&family, 3, &profile, &err), STATUS_OK, "one that is there takes no room");
}
