#include "loop/loop.h"

#include "base/clock.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static loop_t *new_loop(void)
{
    loop_t *loop;
    err_t err = {0};
    cr_assert_eq(loop_create(&loop, &err), STATUS_OK, "%s", err.text);
    return loop;
}

typedef struct {
    loop_t *loop;
    char said[64];
} talk_t;

static void say_a(void *arg)
{
    strcat(((talk_t *)arg)->said, "a");
}

static void say_b(void *arg)
{
    strcat(((talk_t *)arg)->said, "b");
}

static void say_stop(void *arg)
{
    talk_t *talk = arg;
    strcat(talk->said, ".");
    loop_stop(talk->loop);
}

static void *post_from_elsewhere(void *arg)
{
    talk_t *talk = arg;
    cr_expect_not(loop_on_thread(talk->loop));
    loop_post(talk->loop, say_a, talk);
    loop_post(talk->loop, say_b, talk);
    loop_post(talk->loop, say_a, talk);
    loop_post(talk->loop, say_stop, talk);
    return NULL;
}

Test(loop, runs_posted_functions_in_order_until_stopped, .timeout = 120)
{
    talk_t talk = {.loop = new_loop()};
    pthread_t thread;
    pthread_create(&thread, NULL, post_from_elsewhere, &talk);
    loop_run(talk.loop);
    pthread_join(thread, NULL);
    cr_expect_str_eq(talk.said, "aba.");
    cr_expect(loop_on_thread(talk.loop));
    loop_destroy(talk.loop);
}

Test(loop, what_was_posted_before_the_end_still_runs, .timeout = 120)
{
    talk_t talk = {.loop = new_loop()};
    loop_post(talk.loop, say_a, &talk);
    loop_destroy(talk.loop);
    cr_expect_str_eq(talk.said, "a");
}

Test(loop, a_stop_before_the_run_holds_and_the_loop_can_run_again, .timeout = 120)
{
    talk_t talk = {.loop = new_loop()};
    loop_stop(talk.loop);
    loop_stop(talk.loop);
    loop_run(talk.loop);
    loop_post(talk.loop, say_stop, &talk);
    loop_run(talk.loop);
    cr_expect_str_eq(talk.said, ".");
    loop_destroy(talk.loop);
}

typedef struct {
    loop_t *loop;
    loop_job_t job;
    int left;
} countdown_t;

static void count_down(void *arg)
{
    countdown_t *c = arg;
    if (--c->left > 0)
        loop_post_job(c->loop, &c->job);
    else
        loop_stop(c->loop);
}

Test(loop, a_job_may_post_itself_again, .timeout = 120)
{
    countdown_t c = {.loop = new_loop(), .left = 1000};
    c.job = (loop_job_t){.fn = count_down, .arg = &c};
    loop_post_job(c.loop, &c.job);
    loop_run(c.loop);
    cr_expect_eq(c.left, 0);
    loop_destroy(c.loop);
}

Test(loop, run_once_waits_for_an_event_or_its_limit, .timeout = 120)
{
    loop_t *loop = new_loop();
    int64_t start = clock_now_ns();
    loop_run_once(loop, 5 * NS_PER_MS);
    cr_expect_geq(clock_now_ns() - start, 5 * NS_PER_MS);
    loop_run_once(loop, 0);
    loop_destroy(loop);
}

Test(loop, forgotten_handles_are_closed, .timeout = 120)
{
    loop_t *loop = new_loop();
    uv_timer_t forgotten;
    uv_timer_init(loop_uv(loop), &forgotten);
    uv_timer_start(&forgotten, NULL, 1000000, 0);
    loop_destroy(loop);
    cr_expect(uv_is_closing((uv_handle_t *)&forgotten));
}
