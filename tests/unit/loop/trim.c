/* When freed memory goes back to the kernel, and that it does. */
#include "loop/trim.h"

#include <criterion/criterion.h>

#define MB ((uint64_t)1 << 20)

Test(trim, what_has_grown_by_much_is_given_back_for_as_long_as_that_helps)
{
    trim_rule_t rule = {0};
    cr_expect_not(trim_is_due(&rule, 512 * MB, 0), "all of it may be models");
    cr_expect_not(trim_is_due(&rule, 544 * MB, 0));
    cr_expect(trim_is_due(&rule, 900 * MB, 0));
    cr_expect(trim_is_due(&rule, 600 * MB, 0), "it was worth it");
    cr_expect_not(trim_is_due(&rule, 520 * MB, 0), "it is as it was");
}

static uint32_t looks_until_due(trim_rule_t *rule, uint64_t resident_bytes)
{
    uint32_t looks = 0;
    while (!trim_is_due(rule, resident_bytes, 0))
        looks++;
    return looks;
}

/* Models were loaded: all of it is in use, and each time that it is tried costs a little. */
Test(trim, what_gives_nothing_is_tried_ever_more_seldom)
{
    trim_rule_t rule = {0};
    (void)trim_is_due(&rule, 512 * MB, 0);
    cr_assert(trim_is_due(&rule, 900 * MB, 0));
    for (uint32_t pause = 1; pause <= TRIM_PAUSE_MOST; pause *= 2)
        cr_expect_eq(looks_until_due(&rule, 900 * MB), pause);
    cr_expect_eq(looks_until_due(&rule, 900 * MB), TRIM_PAUSE_MOST);
    (void)trim_is_due(&rule, 500 * MB, 0);
    cr_expect(trim_is_due(&rule, 900 * MB, 0), "that was long ago");
}

/* Twenty models were unloaded, or what a stranger had brought is forgotten: no need to wait until it is tried again. */
Test(trim, what_much_was_freed_of_is_given_back_at_once)
{
    trim_rule_t rule = {0};
    (void)trim_is_due(&rule, 512 * MB, 0);
    cr_assert(trim_is_due(&rule, 900 * MB, 40 * MB));
    cr_expect_not(trim_is_due(&rule, 900 * MB, 40 * MB), "that gave nothing");
    cr_assert(trim_is_due(&rule, 900 * MB, 40 * MB), "nor did this");
    cr_expect_not(trim_is_due(&rule, 900 * MB, 10 * MB), "more is in use");
    cr_expect(trim_is_due(&rule, 900 * MB, 50 * MB), "and is not any more");
    cr_expect_not(trim_is_due(&rule, 900 * MB, 60 * MB), "a little");
}

/* Or what three hundred strangers leave behind in a program of 20 MB would stay. */
Test(trim, a_small_program_keeps_little_and_a_large_one_not_all)
{
    cr_expect_eq(trim_kept_bytes(16 * MB), 2 * MB);
    cr_expect_eq(trim_kept_bytes(160 * MB), 10 * MB);
    cr_expect_eq(trim_kept_bytes(16000 * MB), 64 * MB);
}

Test(trim, it_is_measured_against_the_least_that_there_was)
{
    trim_rule_t rule = {0};
    cr_expect_not(trim_is_due(&rule, 500 * MB, 0));
    cr_expect_not(trim_is_due(&rule, 100 * MB, 0));
    cr_expect(trim_is_due(&rule, 200 * MB, 0));
}

Test(trim, begins_and_ends)
{
    trim_t *trim = NULL;
    err_t err;
    cr_assert_eq(trim_create(&trim, &err), STATUS_OK);
    trim_destroy(trim);
    trim_destroy(NULL);
}
