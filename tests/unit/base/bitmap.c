#include "base/bitmap.h"

#include "base/prng.h"

#include <criterion/criterion.h>
#include <stdlib.h>

Test(bitmap, finds_the_least_member)
{
    bitmap_t set;
    cr_assert_eq(bitmap_init(&set, 65536, NULL), STATUS_OK);
    cr_expect_eq(bitmap_first(&set), BITMAP_NONE);
    bitmap_add(&set, 65535);
    bitmap_add(&set, 4096);
    bitmap_add(&set, 4096);
    cr_expect_eq(bitmap_count(&set), 2);
    cr_expect_eq(bitmap_first(&set), 4096);
    cr_expect_eq(bitmap_next(&set, 4096), 4096);
    cr_expect_eq(bitmap_next(&set, 4097), 65535);
    bitmap_remove(&set, 4096);
    bitmap_remove(&set, 4096);
    cr_expect_eq(bitmap_first(&set), 65535);
    cr_expect_not(bitmap_has(&set, 4096));
    bitmap_remove(&set, 65535);
    cr_expect_eq(bitmap_next(&set, 0), BITMAP_NONE);
    bitmap_dispose(&set);
}

Test(bitmap, bounds)
{
    bitmap_t set;
    err_t err = {0};
    cr_expect_eq(bitmap_init(&set, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_expect_eq(bitmap_init(&set, BITMAP_CAPACITY_MAX + 1, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(bitmap_init(&set, BITMAP_CAPACITY_MAX, &err), STATUS_OK);
    bitmap_add(&set, BITMAP_CAPACITY_MAX - 1);
    cr_expect_eq(bitmap_next(&set, 0), BITMAP_CAPACITY_MAX - 1);
    cr_expect_eq(bitmap_next(&set, BITMAP_CAPACITY_MAX), BITMAP_NONE);
    cr_expect_not(bitmap_has(&set, BITMAP_CAPACITY_MAX));
    bitmap_dispose(&set);
    cr_assert_eq(bitmap_init(&set, 1, &err), STATUS_OK);
    bitmap_add(&set, 0);
    cr_expect_eq(bitmap_first(&set), 0);
    cr_expect_eq(bitmap_next(&set, 1), BITMAP_NONE);
    bitmap_dispose(&set);
}

/* Against the plainest implementation there is. */
Test(bitmap, agrees_with_an_array_of_bools)
{
    enum { N = 5000 };
    static bool model[N];
    bitmap_t set;
    prng_t prng;
    err_t err = {0};
    prng_init(&prng, 7);
    bitmap_init(&set, N, NULL);
    for (int step = 0; step < 4000; step++) {
        uint32_t i = (uint32_t)prng_below(&prng, N), from = (uint32_t)prng_below(&prng, N), expected = from;
        model[i] = prng_below(&prng, 3) == 0;
        (model[i] ? bitmap_add : bitmap_remove)(&set, i);
        while (expected < N && !model[expected])
            expected++;
        cr_assert_eq(bitmap_next(&set, from), expected < N ? expected : (uint32_t)BITMAP_NONE);
        cr_assert(bitmap_validate(&set, &err), "%s", err.text);
    }
    bitmap_dispose(&set);
}

Test(bitmap, validate_sees_a_lost_summary_bit)
{
    bitmap_t set;
    err_t err = {0};
    bitmap_init(&set, 100, NULL);
    bitmap_add(&set, 70);
    set.middle[0] = 0;
    cr_expect_not(bitmap_validate(&set, &err));
    bitmap_dispose(&set);
}
