#include "loop/timer.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct {
    loop_t *loop;
    char said[32];
    int64_t fired_at_ns;
    loop_timer_t a, b, c;
} world_t;

static void say(loop_timer_t *timer, void *arg)
{
    world_t *w = arg;
    w->fired_at_ns = clock_now_ns();
    strcat(w->said, timer == &w->a ? "a" : timer == &w->b ? "b" : "c");
}

static void say_and_end(loop_timer_t *timer, void *arg)
{
    say(timer, arg);
    loop_stop(((world_t *)arg)->loop);
}

static void open_world(world_t *w, loop_timer_fn_t a, loop_timer_fn_t b, loop_timer_fn_t c)
{
    memset(w, 0, sizeof *w);
    cr_assert_eq(loop_create(&w->loop, NULL), STATUS_OK);
    cr_assert_eq(loop_timer_init(&w->a, w->loop, a, w, NULL), STATUS_OK);
    cr_assert_eq(loop_timer_init(&w->b, w->loop, b, w, NULL), STATUS_OK);
    cr_assert_eq(loop_timer_init(&w->c, w->loop, c, w, NULL), STATUS_OK);
}

static void close_world(world_t *w)
{
    loop_timer_dispose(&w->a);
    loop_timer_dispose(&w->b);
    loop_timer_dispose(&w->c);
    loop_timer_dispose(&w->c);
    loop_destroy(w->loop);
}

Test(timer, fires_in_order_of_time_and_never_early, .timeout = 120)
{
    world_t w;
    open_world(&w, say, say, say_and_end);
    int64_t now = clock_now_ns();
    loop_timer_start(&w.c, now + 3 * NS_PER_MS);
    loop_timer_start(&w.b, now + 2 * NS_PER_MS);
    loop_timer_start(&w.a, now + 2 * NS_PER_MS);
    loop_run(w.loop);
    cr_expect_str_eq(w.said, "bac", "equal times: the first started first");
    cr_expect_geq(w.fired_at_ns, now + 3 * NS_PER_MS);
    cr_expect_not(loop_timer_active(&w.c));
    close_world(&w);
}

Test(timer, times_in_the_past_fire_at_once, .timeout = 120)
{
    world_t w;
    open_world(&w, say, say, say_and_end);
    loop_timer_start(&w.a, 0);
    loop_timer_start(&w.b, -5);
    loop_timer_start_in(&w.c, 0);
    loop_run(w.loop);
    cr_expect_str_eq(w.said, "bac");
    close_world(&w);
}

Test(timer, a_stopped_or_moved_timer_does_not_fire_at_its_old_time, .timeout = 120)
{
    world_t w;
    open_world(&w, say, say, say_and_end);
    int64_t now = clock_now_ns();
    loop_timer_start(&w.a, now + NS_PER_MS);
    loop_timer_start(&w.b, now + NS_PER_MS);
    loop_timer_start(&w.b, now + 4 * NS_PER_MS);
    loop_timer_start(&w.c, now + 5 * NS_PER_MS);
    loop_timer_stop(&w.a);
    loop_timer_stop(&w.a);
    cr_expect_not(loop_timer_active(&w.a));
    loop_run(w.loop);
    cr_expect_str_eq(w.said, "bc");
    cr_expect_geq(w.fired_at_ns, now + 5 * NS_PER_MS);
    close_world(&w);
}

static void stop_the_others(loop_timer_t *timer, void *arg)
{
    world_t *w = arg;
    say(timer, arg);
    cr_expect(loop_timer_active(&w->b));
    loop_timer_stop(&w->b);
    loop_timer_start_in(&w->c, 0); /* it is due in this very turn: moved, it fires once */
}

Test(timer, a_callback_may_stop_and_move_what_is_due_in_the_same_turn, .timeout = 120)
{
    world_t w;
    open_world(&w, stop_the_others, say, say_and_end);
    loop_timer_start(&w.a, 1);
    loop_timer_start(&w.b, 2);
    loop_timer_start(&w.c, 3);
    loop_run(w.loop);
    cr_expect_str_eq(w.said, "ac");
    close_world(&w);
}

static void again_until_three(loop_timer_t *timer, void *arg)
{
    world_t *w = arg;
    say(timer, arg);
    if (strlen(w->said) < 3)
        loop_timer_start_in(timer, 100 * NS_PER_US);
    else
        loop_stop(w->loop);
}

Test(timer, may_start_itself_again, .timeout = 120)
{
    world_t w;
    open_world(&w, again_until_three, say, say);
    loop_timer_start_in(&w.c, INT64_MAX);
    loop_timer_start_in(&w.a, 0);
    loop_run(w.loop);
    cr_expect_str_eq(w.said, "aaa");
    close_world(&w);
}

static void count(loop_timer_t *timer, void *arg)
{
    (void)timer;
    --*(int *)arg;
}

Test(timer, thousands_of_timers, .timeout = 120)
{
    enum { N = 5000 };
    static loop_timer_t timers[N];
    loop_t *loop;
    int left = N;
    cr_assert_eq(loop_create(&loop, NULL), STATUS_OK);
    int64_t now = clock_now_ns();
    for (int i = 0; i < N; i++) {
        cr_assert_eq(loop_timer_init(&timers[i], loop, count, &left, NULL), STATUS_OK);
        loop_timer_start(&timers[i], now + (i * 7919 % N) * NS_PER_US);
    }
    while (left > 0)
        loop_run_once(loop, NS_PER_S);
    for (int i = 0; i < N; i++)
        loop_timer_dispose(&timers[i]);
    loop_destroy(loop);
}
