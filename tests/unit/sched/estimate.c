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

/* 100 ms wait, and a task more takes 10. */
static const estimate_backlog_t some_wait = {
    .ends_in_ns = 100 * NS_PER_MS, .row_ns = 10 * NS_PER_MS, .behind_ns = 80 * NS_PER_MS, .level = 2};

static estimate_t waiting(void)
{
    estimate_t estimate = {0};
    estimate_tell(&estimate, 0, 0, NULL);
    estimate_tell_backlog(&estimate, 0, &some_wait);
    return estimate;
}

Test(estimate, who_comes_behind_what_waits_must_have_the_time_for_it)
{
    estimate_t estimate = waiting();
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 110 * NS_PER_MS, 1), ESTIMATE_SILENT);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 110 * NS_PER_MS - 1, 1), ESTIMATE_BACKLOG);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 120 * NS_PER_MS - 1, 2), ESTIMATE_BACKLOG);
    cr_expect_eq(estimate_judge(&estimate, 0, 2, 90 * NS_PER_MS, 1), ESTIMATE_BACKLOG);
    cr_expect_eq(estimate_judge(&estimate, 0, 3, 90 * NS_PER_MS, 1), ESTIMATE_SILENT, "others let him by");
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 80 * NS_PER_MS - 1, 1), ESTIMATE_SILENT,
                 "he goes before some of it");
}

Test(estimate, what_waits_grows_old)
{
    estimate_t estimate = waiting();
    for (int64_t age_ms = 0; age_ms < 100; age_ms++) {
        int64_t now_ns = age_ms * NS_PER_MS, left_ns = 110 * NS_PER_MS - now_ns;
        int64_t behind_ns = some_wait.behind_ns - now_ns;
        if (left_ns - 1 >= behind_ns)
            cr_expect_eq(estimate_judge(&estimate, now_ns, 0, left_ns - 1, 1), ESTIMATE_BACKLOG, "%ld",
                         (long)age_ms);
        cr_expect_eq(estimate_judge(&estimate, now_ns, 0, left_ns, 1), ESTIMATE_SILENT, "%ld", (long)age_ms);
    }
    int64_t later_ns = 300 * NS_PER_MS; /* then all of it is done */
    cr_expect_eq(estimate_judge(&estimate, later_ns, 0, 10 * NS_PER_MS, 1), ESTIMATE_SILENT);
    cr_expect_eq(estimate_judge(&estimate, later_ns, 0, 10 * NS_PER_MS - 1, 1), ESTIMATE_BACKLOG);
    cr_expect_eq(estimate_judge(&estimate, ESTIMATE_VALID_NS, 0, 1, 1), ESTIMATE_SILENT, "it is too old");
}

Test(estimate, what_was_sent_since_waits_as_well)
{
    estimate_t estimate = waiting();
    enum { BUDGET_MS = 150 };
    uint32_t sent = 0;
    for (; sent < MANY && estimate_judge(&estimate, 0, 0, BUDGET_MS * NS_PER_MS, 1) == ESTIMATE_SILENT;
         sent++)
        estimate_sent(&estimate, 0, BUDGET_MS * NS_PER_MS, 1);
    cr_expect_eq(sent, 5);
    /* Who is not held for as long goes before them, and nobody knows for whom the others are given up. */
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 140 * NS_PER_MS, 1), ESTIMATE_SILENT);
    estimate_sent(&estimate, 0, 140 * NS_PER_MS, 1);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 160 * NS_PER_MS, 1), ESTIMATE_SILENT);
    /* What finds no time is given up, and nobody waits for it. */
    estimate_sent(&estimate, 0, BUDGET_MS * NS_PER_MS, 100);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 160 * NS_PER_MS, 1), ESTIMATE_SILENT);
    estimate_tell(&estimate, 0, 0, NULL);
    cr_expect_eq(estimate_judge(&estimate, 0, 0, 90 * NS_PER_MS, 1), ESTIMATE_SILENT,
                 "nothing waits any more");
}

Test(estimate, a_backlog_that_makes_no_sense_is_none)
{
    const int64_t odd[] = {-1, INT64_MIN, INT64_MAX, ESTIMATE_BACKLOG_MOST_NS + 1};
    for (uint32_t i = 0; i < 4; i++)
        for (uint32_t field = 0; field < 3; field++) {
            estimate_backlog_t backlog = some_wait;
            *(field == 0 ? &backlog.ends_in_ns : field == 1 ? &backlog.row_ns : &backlog.behind_ns) = odd[i];
            estimate_t estimate = {0};
            estimate_tell(&estimate, 0, 0, NULL);
            estimate_tell_backlog(&estimate, 0, &backlog);
            cr_expect_eq(estimate_judge(&estimate, 0, 0, 90 * NS_PER_MS, 1), ESTIMATE_SILENT);
        }
}

Test(estimate, what_it_refused_is_told_once)
{
    estimate_t estimate = {.tried_ns = INT64_MAX};
    const double half[SHED_LEVELS] = {0.5, 0.5};
    estimate_refused_t taken;
    estimate_tell(&estimate, 0, NS_PER_MS, half);
    (void)judge_many(&estimate, 0, 0, LONG_NS, 3);
    (void)judge_many(&estimate, 0, 1, LONG_NS, 1);
    (void)judge_many(&estimate, 0, 2, 1, 2);
    cr_expect(estimate_take_refused(&estimate, 0, &taken));
    cr_expect_eq(taken.overload, 3 * MANY / 2);
    cr_expect_eq(taken.infeasible, 2 * MANY);
    cr_expect_eq(taken.backlog, 0);
    cr_expect(estimate_take_refused(&estimate, 1, &taken));
    cr_expect_eq(taken.overload, MANY / 2);
    cr_expect_eq(taken.infeasible, 0);
    estimate_tell(&estimate, 0, 0, NULL);
    estimate_tell_backlog(&estimate, 0, &some_wait);
    (void)judge_many(&estimate, 0, 2, 90 * NS_PER_MS, 1);
    cr_expect(estimate_take_refused(&estimate, 2, &taken));
    cr_expect(taken.overload == 0 && taken.infeasible == 0 && taken.backlog == MANY);
    for (uint32_t level = 0; level < SHED_LEVELS; level++)
        cr_expect_not(estimate_take_refused(&estimate, level, &taken));
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
