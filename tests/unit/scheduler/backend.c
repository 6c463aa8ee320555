/* On which kind of core a sub-cluster decides: on threads where they were asked for and nothing speaks against them. */
#include "scheduler/backend.h"

#include <criterion/criterion.h>

static loop_t *loop;
static backend_t *backend;
static err_t err;

static void on_news(void *arg)
{
    (void)arg;
}

static void drop_all(void *ctx, const sched_action_t *action)
{
    (void)ctx, (void)action;
}

static void begin(const char *policy, const char *params)
{
    profile_t profile;
    const sched_model_opts_t opts = {.slo_ns = INT64_C(100000000)};
    backend_options_t options = {
        .limits = {.models_max = 4, .gpus_max = 2, .tasks_max = 16, .batch_max = 8, .gpu_inflight_max = 2},
        .shards = 2,
        .policy = policy,
        .params = params,
        .on_news = on_news};
    cr_assert_eq(loop_create(&loop, &err), STATUS_OK, "%s", err.text);
    options.loop = loop;
    cr_assert_eq(backend_create(&options, &backend, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(profile_from_line(&profile, 1000000, 1000000, 8, &err), STATUS_OK, "%s", err.text);
    for (uint32_t model = 0; model < 2; model++)
        cr_assert_eq(backend_add_model(backend, model, &profile, &opts, &err), STATUS_OK, "%s", err.text);
}

static void end(void)
{
    backend_destroy(backend);
    loop_destroy(loop);
}

static void set_policy(const char *name, const char *params)
{
    (void)backend_run(backend, drop_all, NULL); /* a core that was left must be empty */
    cr_assert_eq(backend_set_policy(backend, name, params, &err), STATUS_OK, "%s", err.text);
}

Test(backend, threads_decide_until_a_model_can_be_stopped)
{
    begin("fermata", NULL);
    cr_expect(backend_is_threaded(backend));
    backend_set_exit_points(backend, 1, 0);
    cr_expect(backend_is_threaded(backend));
    backend_set_exit_points(backend, 1, 10);
    cr_expect_not(backend_is_threaded(backend));
    set_policy("eager", NULL);
    cr_expect(backend_is_threaded(backend), "it never stops a batch");
    set_policy("shepherd", NULL);
    cr_expect_not(backend_is_threaded(backend));
    end();
}

Test(backend, threads_go_on_where_the_policy_is_to_stop_nothing)
{
    begin("fermata", "preempt=0");
    backend_set_exit_points(backend, 1, 10);
    cr_expect(backend_is_threaded(backend));
    set_policy("fermata", "kappa=0.8");
    cr_expect_not(backend_is_threaded(backend));
    set_policy("fermata", "kappa=0.8,preempt=0");
    cr_expect(backend_is_threaded(backend));
    end();
}

Test(backend, threads_decide_again_when_no_model_is_left_that_can_be_stopped)
{
    begin("fermata", NULL);
    backend_set_exit_points(backend, 0, 5);
    backend_set_exit_points(backend, 1, 10);
    backend_set_exit_points(backend, 1, 20);
    backend_remove_model(backend, 0);
    set_policy("fermata", NULL);
    cr_expect_not(backend_is_threaded(backend), "one is left");
    backend_remove_model(backend, 1);
    set_policy("fermata", NULL);
    cr_expect(backend_is_threaded(backend));
    end();
}

Test(backend, parameters_that_make_no_sense_change_nothing)
{
    begin("fermata", NULL);
    backend_set_exit_points(backend, 1, 10);
    (void)backend_run(backend, drop_all, NULL);
    cr_expect_eq(backend_set_policy(backend, "fermata", "preempt=much", &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(err.text, "policy fermata: bad value in 'preempt=much'");
    cr_expect_not(backend_is_threaded(backend));
    end();
}
