#include "loop/spin.h"

#include "base/clock.h"
#include "loop/timer.h"

#include <criterion/criterion.h>
#include <pthread.h>

enum { MESSAGES = 20000 };

typedef struct {
    loop_t *loop;
    mailbox_t box;
    uv_check_t check;
    int got, told, turns; /* turns: that saw news in their check */
    int stop_at;
    _Atomic int seen;
    mailbox_node_t nodes[MESSAGES];
} scene_t;

static void deliver(void *arg, mailbox_node_t *first)
{
    scene_t *s = arg;
    for (; first != NULL; first = first->next)
        cr_assert_eq(first, &s->nodes[s->got++], "out of order");
    s->told = s->got;
}

/* What a service does with its news: once a turn, behind the poll. */
static void on_check(uv_check_t *check)
{
    scene_t *s = check->data;
    if (s->told == 0)
        return;
    s->told = 0;
    s->turns++;
    atomic_store(&s->seen, s->got);
    if (s->got == s->stop_at)
        loop_stop(s->loop);
}

static scene_t *scene_new(int64_t spin_ns, int stop_at)
{
    scene_t *s = calloc(1, sizeof *s);
    s->stop_at = stop_at;
    cr_assert_eq(loop_create(&s->loop, NULL), STATUS_OK);
    loop_set_spin(s->loop, spin_ns);
    cr_assert_eq(mailbox_init(&s->box, s->loop, deliver, s, NULL), STATUS_OK);
    uv_check_init(loop_uv(s->loop), &s->check);
    uv_check_start(&s->check, on_check);
    s->check.data = s;
    return s;
}

static void scene_free(scene_t *s)
{
    mailbox_dispose(&s->box);
    uv_close((uv_handle_t *)&s->check, NULL);
    loop_destroy(s->loop);
    free(s);
}

static void pause_ns(int64_t ns)
{
    for (int64_t until_ns = clock_now_ns() + ns; clock_now_ns() < until_ns;)
        ;
}

/* With pauses around the length of the watch, so that it ends just before, at and just after a post. */
static void *post_all(void *arg)
{
    scene_t *s = arg;
    for (int i = 0; i < s->stop_at; i++) {
        if (i % 4 == 0)
            pause_ns(i % 97 * NS_PER_US);
        mailbox_post(&s->box, &s->nodes[i]);
    }
    return NULL;
}

Test(spin, nothing_is_lost_between_watching_and_sleeping, .timeout = 120)
{
    scene_t *s = scene_new(50 * NS_PER_US, MESSAGES);
    pthread_t thread;
    pthread_create(&thread, NULL, post_all, s);
    loop_run(s->loop);
    pthread_join(thread, NULL);
    loop_spin_stats_t stats = loop_spin_stats(s->loop);
    cr_expect_eq(s->got, MESSAGES);
    cr_expect_leq(stats.watched, stats.all);
    scene_free(s);
}

/* One after the other, each only when the last has been seen behind a poll: a poll that blocks is a hang. */
static void *post_in_turn(void *arg)
{
    scene_t *s = arg;
    for (int i = 0; i < s->stop_at; i++) {
        while (atomic_load(&s->seen) < i)
            ;
        mailbox_post(&s->box, &s->nodes[i]);
    }
    return NULL;
}

Test(spin, a_turn_ends_after_what_was_watched_for, .timeout = 120)
{
    enum { TURNS = 2000 };
    scene_t *s = scene_new(LOOP_SPIN_MAX_NS, TURNS);
    pthread_t thread;
    pthread_create(&thread, NULL, post_in_turn, s);
    loop_run(s->loop);
    pthread_join(thread, NULL);
    cr_expect_eq(s->turns, TURNS);
    cr_expect_gt(loop_spin_stats(s->loop).watched, 0);
    scene_free(s);
}

Test(spin, a_loop_that_was_not_told_to_sleeps_at_once)
{
    scene_t *s = scene_new(0, 500);
    pthread_t thread;
    pthread_create(&thread, NULL, post_all, s);
    loop_run(s->loop);
    pthread_join(thread, NULL);
    cr_expect_eq(loop_spin_stats(s->loop).watched, 0);
    cr_expect_gt(loop_spin_stats(s->loop).all, 0);
    scene_free(s);
}

/* News once in five milliseconds: a hundredth of them would come while it watches. */
Test(spin, rare_news_are_not_watched_for)
{
    scene_t *s = scene_new(50 * NS_PER_US, 60);
    for (int i = 0; i < 60; i++) {
        mailbox_post(&s->box, &s->nodes[i]);
        loop_run_once(s->loop, 5 * NS_PER_MS);
        loop_run_once(s->loop, 5 * NS_PER_MS);
    }
    cr_expect_eq(loop_spin_stats(s->loop).all, 60);
    cr_expect_eq(loop_spin_stats(s->loop).watched, 0);
    scene_free(s);
}

static void on_timer(loop_timer_t *timer, void *arg)
{
    (void)timer;
    *(int64_t *)arg = clock_now_ns();
}

/* A busy host is late now and then, not each time. */
Test(spin, a_timer_ends_the_watch)
{
    scene_t *s = scene_new(LOOP_SPIN_MAX_NS, MESSAGES);
    loop_timer_t timer;
    int64_t fired_ns = 0, least_ns = INT64_MAX;
    cr_assert_eq(loop_timer_init(&timer, s->loop, on_timer, &fired_ns, NULL), STATUS_OK);
    for (int i = 0; i < 200 && least_ns > LOOP_SPIN_MAX_NS / 2; i++) {
        mailbox_post(&s->box, &s->nodes[i]);
        loop_run_once(s->loop, NS_PER_MS); /* the news, from which on it watches */
        int64_t due_ns = clock_now_ns() + 50 * NS_PER_US;
        fired_ns = 0;
        loop_timer_start(&timer, due_ns);
        while (fired_ns == 0)
            loop_run_once(s->loop, NS_PER_MS);
        least_ns = fired_ns - due_ns < least_ns ? fired_ns - due_ns : least_ns;
    }
    cr_expect_lt(least_ns, LOOP_SPIN_MAX_NS / 2, "never less than %ld us late", (long)(least_ns / NS_PER_US));
    loop_timer_dispose(&timer);
    scene_free(s);
}
