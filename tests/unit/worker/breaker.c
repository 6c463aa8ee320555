#include "worker/state/breaker.h"

#include "base/clock.h"

#include <criterion/criterion.h>

static breaker_t breaker;

static int64_t ms(int64_t count)
{
    return count * NS_PER_MS;
}

/* Asked at 0, 40 and 80, each for 40 ms. */
static void fall_silent(void)
{
    breaker = (breaker_t){0};
    cr_assert(breaker_asks(&breaker, ms(0)));
    cr_assert_not(breaker_silent(&breaker, ms(0), ms(40)));
    cr_assert_not(breaker_silent(&breaker, ms(40), ms(80)));
    cr_assert(breaker_asks(&breaker, ms(80)));
    cr_assert(breaker_silent(&breaker, ms(80), ms(120)), "the third in a row opens it");
}

Test(breaker, opens_after_some_in_a_row)
{
    fall_silent();
    cr_assert_not(breaker_asks(&breaker, ms(121)));
    cr_assert_not(breaker_silent(&breaker, ms(90), ms(130)), "told once, however many were under way");
}

Test(breaker, an_answer_in_between_begins_anew)
{
    breaker = (breaker_t){0};
    breaker_silent(&breaker, ms(0), ms(100));
    breaker_silent(&breaker, ms(0), ms(100));
    cr_assert_not(breaker_answered(&breaker), "it was not open");
    for (int64_t at = 200; at < 220; at += 10)
        cr_assert_not(breaker_silent(&breaker, ms(at), ms(at + 200)));
    cr_assert(breaker_asks(&breaker, ms(500)));
}

Test(breaker, what_was_under_way_together_is_no_long_silence)
{
    breaker = (breaker_t){0};
    for (int i = 0; i < 10; i++)
        cr_assert_not(breaker_silent(&breaker, ms(i), ms(i + 50)));
    cr_assert(breaker_silent(&breaker, ms(60), ms(100)));
}

Test(breaker, one_probe_after_a_pause_that_grows_to_a_bound)
{
    int64_t now_ns = ms(120), pause_ns = ms(100);

    fall_silent();
    for (int probe = 0; probe < 20; probe++) {
        cr_assert_not(breaker_asks(&breaker, now_ns + pause_ns - 1), "probe %d", probe);
        cr_assert(breaker_asks(&breaker, now_ns + pause_ns), "probe %d", probe);
        cr_assert_not(breaker_asks(&breaker, now_ns + pause_ns), "only one");
        now_ns += pause_ns + ms(20);
        cr_assert_not(breaker_silent(&breaker, now_ns - ms(20), now_ns), "it was open before");
        pause_ns = 2 * pause_ns < 2 * NS_PER_S ? 2 * pause_ns : 2 * NS_PER_S;
    }
}

Test(breaker, an_answered_probe_closes_it)
{
    fall_silent();
    cr_assert(breaker_asks(&breaker, ms(220)));
    cr_assert(breaker_answered(&breaker));
    cr_assert(breaker_asks(&breaker, ms(221)));
    cr_assert_not(breaker_silent(&breaker, ms(221), ms(400)), "and what was before is forgotten");
}

Test(breaker, a_late_answer_closes_it_too)
{
    fall_silent();
    cr_assert(breaker_answered(&breaker));
    cr_assert(breaker_asks(&breaker, ms(121)));
}

Test(breaker, a_probe_that_came_to_nothing_is_made_again)
{
    fall_silent();
    cr_assert(breaker_asks(&breaker, ms(220)));
    breaker_nothing(&breaker, ms(230));
    cr_assert_not(breaker_asks(&breaker, ms(329)));
    cr_assert(breaker_asks(&breaker, ms(330)), "after the same pause");
}
