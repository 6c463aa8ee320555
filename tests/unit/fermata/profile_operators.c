/* What of a try stays in the profile. */
#include "fermata/profile/operators.h"

#include <criterion/criterion.h>

Test(profile_operators, keep_a_wait_only_of_a_schedule_by_which_rows_join)
{
    static const struct {
        const char *schedule;
        double wait_ms;
        int64_t kept_ns;
    } cases[] = {{"input", 0, PROFILE_CACHE_NO_WAIT},
                 {"operator", 0, PROFILE_CACHE_NO_WAIT},
                 {"load", 1.5, 1500000},
                 {"combined", 0, 0}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        profile_try_t try = {.mode = "staged", .schedule = cases[i].schedule, .wait_ms = cases[i].wait_ms};
        cr_expect_eq(operators_comp_wait_ns(&try), cases[i].kept_ns, "%s", cases[i].schedule);
    }
}
