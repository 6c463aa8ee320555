/* What was told ahead of what a scheduler would refuse: who is answered by it, and until when. */
#include "sched/estimate.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <math.h>

enum { LONG_NS = 1000000000, MANY = 1000 };

typedef struct {
    uint32_t verdicts[ESTIMATE_INFEASIBLE + 1];
} counts_t;

static counts_t judge_many(estimate_t *estimate, int64_t now_ns, uint32_t priority, int64_t budget_ns,
                           uint32_t tasks)
{
    counts_t counts = {{0}};
    for (uint32_t i = 0; i < MANY; i++)
        counts.verdicts[estimate_judge(estimate, now_ns, priority, budget_ns, tasks)]++;
    return counts;
}

static const double quarter_of_lowest[SHED_LEVELS] = {[0] = 0.25};

Test(estimate, the_part_that_was_told_is_refused_and_no_other)
{
    estimate_t estimate = {0};
    estimate_tell(&estimate, 0, 0, quarter_of_lowest);
    counts_t low = judge_many(&estimate, 0, 0, LONG_NS, 1), high = judge_many(&estimate, 0, 3, LONG_NS, 1);
    cr_expect_eq(low.verdicts[ESTIMATE_OVERLOAD], MANY / 4);
    cr_expect_eq(low.verdicts[ESTIMATE_ADMITS], MANY - MANY / 4);
    cr_expect_eq(high.verdicts[ESTIMATE_ADMITS], MANY);
}

/* The scheduler's own rule and this one, fed alike. */
Test(estimate, it_refuses_what_the_scheduler_would)
{
    estimate_t estimate = {0};
    shed_t shed;
    shed_init(&shed, 1);
    shed.refuse[0] = 0.37;
    shed.refuse[1] = 0.011;
    estimate_tell(&estimate, 0, 0, shed.refuse);
    for (uint32_t i = 0; i < MANY; i++) {
        bool admitted = shed_admits(&shed, i % 3);
        cr_assert_eq(estimate_judge(&estimate, 0, i % 3, LONG_NS, 1) == ESTIMATE_ADMITS, admitted, "%u", i);
    }
}

Test(estimate, it_says_nothing_before_it_was_told_and_when_it_is_old)
{
    estimate_t estimate = {0};
    const double all[SHED_LEVELS] = {1};
    cr_expect_eq(estimate_judge(&estimate, 0, 0, -1, 1), ESTIMATE_SILENT);
    estimate_tell(&estimate, NS_PER_S, NS_PER_MS, all);
    int64_t end_ns = NS_PER_S + ESTIMATE_VALID_NS;
    cr_expect_eq(estimate_judge(&estimate, end_ns - 1, 0, LONG_NS, 1), ESTIMATE_OVERLOAD);
    cr_expect_eq(estimate_judge(&estimate, end_ns, 0, LONG_NS, 1), ESTIMATE_SILENT);
    cr_expect_eq(estimate_judge(&estimate, end_ns, 0, 0, 1), ESTIMATE_SILENT);
    estimate_tell(&estimate, end_ns, 0, all);
    estimate_forget(&estimate);
    cr_expect_eq(estimate_judge(&estimate, end_ns, 0, LONG_NS, 1), ESTIMATE_SILENT);
}

Test(estimate, where_no_part_is_refused_the_scheduler_judges)
{
    estimate_t estimate = {0};
    estimate_tell(&estimate, 0, NS_PER_MS, NULL);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, LONG_NS, 1), ESTIMATE_SILENT);
    const double none[SHED_LEVELS] = {NAN, -1, 2, INFINITY};
    estimate_tell(&estimate, 0, NS_PER_MS, none);
    for (uint32_t level = 0; level < 4; level++)
        cr_expect_eq(judge_many(&estimate, 0, level, LONG_NS, 1).verdicts[ESTIMATE_SILENT], MANY);
}

Test(estimate, of_what_looks_infeasible_one_a_second_is_tried)
{
    estimate_t estimate = {0};
    uint32_t silent = 0;
    for (int64_t now_ns = 0; now_ns < 10 * NS_PER_S; now_ns += 10 * NS_PER_MS) {
        estimate_tell(&estimate, now_ns, 80 * NS_PER_MS, NULL);
        cr_expect_eq(estimate_judge(&estimate, now_ns, 0, 19 * NS_PER_MS, 1), ESTIMATE_INFEASIBLE);
        silent += estimate_judge(&estimate, now_ns, 0, 40 * NS_PER_MS, 1) == ESTIMATE_SILENT;
    }
    cr_expect_eq(silent, 10);
    cr_expect_eq(estimate_judge(&estimate, 10 * NS_PER_S - 1, 0, 80 * NS_PER_MS, 1), ESTIMATE_SILENT);
}

Test(estimate, what_it_refused_is_told_once)
{
    estimate_t estimate = {.tried_ns = INT64_MAX};
    const double half[SHED_LEVELS] = {0.5, 0.5};
    uint32_t overload, infeasible;
    estimate_tell(&estimate, 0, NS_PER_MS, half);
    (void)judge_many(&estimate, 0, 0, LONG_NS, 3);
    (void)judge_many(&estimate, 0, 1, LONG_NS, 1);
    (void)judge_many(&estimate, 0, 2, 1, 2);
    cr_expect(estimate_take_refused(&estimate, 0, &overload, &infeasible));
    cr_expect_eq(overload, 3 * MANY / 2);
    cr_expect_eq(infeasible, 2 * MANY);
    cr_expect(estimate_take_refused(&estimate, 1, &overload, &infeasible));
    cr_expect_eq(overload, MANY / 2);
    cr_expect_eq(infeasible, 0);
    for (uint32_t level = 0; level < SHED_LEVELS; level++)
        cr_expect_not(estimate_take_refused(&estimate, level, &overload, &infeasible));
}

/* Half of all that comes is refused elsewhere: the windows go on as if all had come here. */
Test(estimate, what_others_have_judged_counts)
{
    shed_t here, both;
    shed_init(&here, 1);
    shed_init(&both, 1);
    for (int64_t window = 1; window <= 20; window++) {
        for (uint32_t i = 0; i < MANY; i++) {
            (void)shed_admits(&here, 0);
            (void)shed_admits(&here, 5);
        }
        uint32_t refused = (uint32_t)(MANY * both.refuse[0]);
        shed_note_judged(&both, 0, MANY - refused, refused);
        shed_note_judged(&both, 5, MANY, 0);
        for (uint64_t i = 1500; i < here.admitted; i++)
            shed_note_bad(&here);
        for (uint64_t i = 1500; i < both.admitted; i++)
            shed_note_bad(&both);
        shed_tick(&here, window, 1, (uint64_t)window);
        shed_tick(&both, window, 1, (uint64_t)window);
        cr_assert_float_eq(here.refuse[0], both.refuse[0], 0.01, "window %ld: %g and %g", (long)window,
                           here.refuse[0], both.refuse[0]);
    }
    cr_expect(shed_is_closing(&both));
}
