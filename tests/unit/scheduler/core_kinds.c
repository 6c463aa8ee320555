/* Which kind of core decides for a sub-cluster is settled when it is made, and what that kind cannot do is refused. */
#include "scheduler/shell.h"
#include "scheduler/threads.h"

#include <criterion/criterion.h>
#include <string.h>

static scheduler_t scheduler; /* as far as threads_make looks at it */
static turn_t turn;
static subcluster_t *sub;
static err_t err;

static void note(void *arg, log_level_t level, const char *event, const log_field_t *fields)
{
    (void)arg, (void)level, (void)event, (void)fields;
}

static void ignore(void *ctx, const sched_action_t *action)
{
    (void)ctx, (void)action;
}

static void begin(uint32_t shards, const char *policy, const char *params)
{
    profile_t profile;
    const subcluster_options_t options = {
        .turn = &turn,
        .name = "s",
        .device_class = "c",
        .limits = {.models_max = 4, .gpus_max = 2, .tasks_max = 16, .batch_max = 8, .gpu_inflight_max = 2},
        .policy = policy,
        .policy_params = params};
    scheduler.options.shards = shards;
    cr_assert_eq(loop_create(&scheduler.loop, &err), STATUS_OK, "%s", err.text);
    turn = (turn_t){.arg = &scheduler, .world = {.note = note}};
    cr_assert_not_null(turn.metrics = metrics_create("test", NULL));
    if (shards > 0) {
        turn.world.make_threads = threads_make;
        turn.world.release_threads = threads_release;
    }
    cr_assert_eq(subcluster_create(&options, &sub, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(profile_from_line(&profile, 1000000, 1000000, 8, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(subcluster_add_model(sub, 0, &profile, INT64_C(100000000), &err), STATUS_OK, "%s", err.text);
}

static void end(void)
{
    subcluster_run(sub, ignore, NULL);
    subcluster_destroy(sub);
    metrics_destroy(turn.metrics);
    loop_destroy(scheduler.loop);
}

static bool on_threads(void)
{
    return sub->core->ops->threads;
}

Test(core_kinds, threads_decide_where_they_were_asked_for)
{
    static const struct {
        uint32_t shards;
        const char *policy;
        bool threads;
    } cases[] = {{0, "fermata", false},
                 {2, "fermata", true},
                 {2, "eager", true},
                 {2, "shepherd", false},
                 {2, "nexus", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        begin(cases[i].shards, cases[i].policy, NULL);
        cr_expect_eq(on_threads(), cases[i].threads, "%s with %u", cases[i].policy, cases[i].shards);
        cr_expect_str_eq(subcluster_policy(sub), cases[i].policy);
        end();
    }
}

Test(core_kinds, a_policy_that_threads_cannot_run_is_refused)
{
    begin(2, "fermata", NULL);
    cr_expect_eq(subcluster_set_policy(sub, "shepherd", NULL, &err), STATUS_UNSUPPORTED);
    cr_expect_str_eq(err.text,
                     "policy shepherd needs one thread that sees queues and GPUs at once: start the "
                     "scheduler with --shards 0");
    cr_expect_eq(subcluster_set_policy(sub, "fermata", "kappa=much", &err), STATUS_INVALID_ARGUMENT);
    cr_expect_str_eq(subcluster_policy(sub), "fermata");
    cr_expect_eq(subcluster_set_policy(sub, "eager", NULL, &err), STATUS_OK);
    cr_expect_str_eq(subcluster_policy(sub), "eager");
    cr_expect(on_threads());
    end();
}

Test(core_kinds, a_policy_that_kept_the_loop_may_go)
{
    begin(2, "shepherd", NULL);
    cr_expect_eq(subcluster_set_policy(sub, "fermata", NULL, &err), STATUS_OK);
    cr_expect_not(on_threads(), "the kind stays");
    end();
}

Test(core_kinds, a_device_that_threads_cannot_drive_is_refused)
{
    const sched_gpu_mode_t staged = {.stretches = true, .inflight = 4}, whole = {0};
    begin(2, "fermata", NULL);
    cr_expect_eq(subcluster_open(sub, 0, &staged, 0, &err), STATUS_UNSUPPORTED);
    cr_expect(strstr(err.text, "--shards 0"), "%s", err.text);
    cr_expect_eq(subcluster_open(sub, 0, &whole, 0, &err), STATUS_OK, "the seat is free");
    end();
    begin(0, "fermata", NULL);
    cr_expect_eq(subcluster_open(sub, 0, &staged, 0, &err), STATUS_OK);
    end();
}

Test(core_kinds, a_model_with_exit_points_is_served_and_not_stopped)
{
    begin(2, "fermata", "preempt=0");
    subcluster_set_exit_points(sub, 0, 10);
    cr_expect_not(sub->hinted, "nobody wants to stop it");
    cr_expect_eq(subcluster_set_policy(sub, "fermata", NULL, &err), STATUS_OK);
    cr_expect(sub->hinted && on_threads());
    end();
    begin(2, "eager", NULL);
    subcluster_set_exit_points(sub, 0, 10);
    cr_expect(sub->hinted);
    end();
    begin(0, "fermata", NULL);
    subcluster_set_exit_points(sub, 0, 10);
    cr_expect_not(sub->hinted);
    cr_expect_eq(subcluster_set_policy(sub, "deferred", NULL, &err), STATUS_OK);
    cr_expect(sub->hinted);
    end();
}
