/* When freed memory goes back to the kernel, and that it does. */
#include "loop/trim.h"

#include <criterion/criterion.h>

#define MB ((uint64_t)1 << 20)

Test(trim, what_has_grown_by_much_is_due_and_what_gave_nothing_waits)
{
    trim_rule_t rule = {0};
    cr_expect_not(trim_is_due(&rule, 512 * MB), "all of it may be models");
    cr_expect_not(trim_is_due(&rule, 544 * MB));
    cr_expect(trim_is_due(&rule, 545 * MB));
    trim_note(&rule, 545 * MB, 540 * MB);
    for (int i = 0; i < 2; i++)
        cr_expect_not(trim_is_due(&rule, 900 * MB), "look %d", i);
    cr_expect(trim_is_due(&rule, 900 * MB));
    trim_note(&rule, 900 * MB, 600 * MB);
    cr_expect(trim_is_due(&rule, 600 * MB), "it was worth it");
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
    cr_expect_not(trim_is_due(&rule, 500 * MB));
    cr_expect_not(trim_is_due(&rule, 100 * MB));
    cr_expect(trim_is_due(&rule, 200 * MB));
}

Test(trim, begins_and_ends)
{
    trim_t *trim = NULL;
    err_t err;
    cr_assert_eq(trim_create(&trim, &err), STATUS_OK);
    trim_destroy(trim);
    trim_destroy(NULL);
}
