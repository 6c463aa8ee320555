/*
 * The front as an event loop uses it: tasks, cancellations, batches that end well and badly, and every rare
 * change at any moment. Every task comes out once more often than it was queued again; nothing comes out for
 * a GPU that was drained or removed, or for a model that was removed.
 */
#include "shards/front.h"

#include "base/clock.h"
#include "base/prng.h"

#include <criterion/criterion.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 5, GPUS = 6, SHARDS = 2, TASKS = 512, ROUNDS = 3000, BATCHES = 1024 };
enum { ROW_NS = 1000, FIXED_NS = 50000 };
#define MS INT64_C(1000000)

typedef struct {
    bool used, cancelled;
    uint32_t generation, model;
    uint64_t batch_id; /* 0: it waits */
} task_t;

typedef struct {
    core_t *core;
    sem_t woken;
    prng_t prng;
    task_t tasks[TASKS];
    struct {
        uint64_t id;
        uint32_t gpu, model, count;
        int64_t start_ns;
    } batches[BATCHES];
    uint32_t batch_count, live;
    bool gpu_open[GPUS], model_here[MODELS];
    uint64_t submitted, done, dropped, cancelled, retried, learned;
} loop_t;

static void wake(void *ctx)
{
    loop_t *loop = ctx;
    sem_post(&loop->woken);
}

static task_t *task_of(loop_t *loop, uint64_t tag)
{
    task_t *task = &loop->tasks[(uint32_t)tag];
    cr_assert(task->used && task->generation == (uint32_t)(tag >> 32), "a task that is gone came out");
    return task;
}

static void give(loop_t *loop, task_t *task)
{
    task->used = false;
    task->generation++;
    loop->live--;
}

static void on_grant(loop_t *loop, const sched_action_t *action)
{
    cr_assert(loop->gpu_open[action->grant.gpu], "a grant for a GPU that was closed");
    cr_assert(loop->model_here[action->model], "a grant of a model that was removed");
    cr_assert_lt(loop->batch_count, BATCHES);
    loop->batches[loop->batch_count].id = action->grant.batch_id;
    loop->batches[loop->batch_count].model = action->model;
    loop->batches[loop->batch_count].count = action->grant.count;
    loop->batches[loop->batch_count].start_ns = action->grant.start_ns;
    loop->batches[loop->batch_count++].gpu = action->grant.gpu;
    for (uint32_t i = 0; i < action->grant.count; i++) {
        task_t *task = task_of(loop, action->grant.tasks[i].tag);
        cr_assert_eq(task->batch_id, 0, "a task was granted twice");
        task->batch_id = action->grant.batch_id;
    }
}

static void on_action(void *ctx, const sched_action_t *action)
{
    loop_t *loop = ctx;
    if (action->kind == SCHED_GRANT) {
        on_grant(loop, action);
        return;
    }
    task_t *task = task_of(loop, action->drop.task.tag);
    cr_assert_eq(task->batch_id, 0, "a task of a batch was dropped");
    cr_assert(action->drop.reason != SCHED_DROP_CANCELLED || task->cancelled);
    cr_assert_neq(action->drop.reason, SCHED_DROP_NO_ROOM);
    loop->cancelled += action->drop.reason == SCHED_DROP_CANCELLED;
    loop->dropped++;
    give(loop, task);
}

static void run(loop_t *loop)
{
    (void)loop->core->ops->run(loop->core, clock_now_ns(), on_action, loop);
}

static void enter(loop_t *loop, uint32_t place, uint32_t model)
{
    task_t *task = &loop->tasks[place];
    int64_t now_ns = clock_now_ns();
    sched_task_t entry = {.tag = (uint64_t)task->generation << 32 | place,
                          .arrival_ns = now_ns,
                          .deadline_ns = now_ns + prng_range(&loop->prng, 1, 30) * MS};
    sched_ref_t ref;
    cr_assert_eq(loop->core->ops->submit(loop->core, now_ns, model, &entry, &ref), STATUS_OK);
    cr_assert_eq(ref, entry.tag);
    *task = (task_t){.used = true, .generation = task->generation, .model = model};
}

static void submit(loop_t *loop)
{
    uint32_t place = 0, model = (uint32_t)prng_below(&loop->prng, MODELS);
    while (place < TASKS && loop->tasks[place].used)
        place++;
    if (place == TASKS || !loop->model_here[model])
        return;
    enter(loop, place, model);
    loop->submitted++;
    loop->live++;
}

static void cancel(loop_t *loop)
{
    uint32_t place = (uint32_t)prng_below(&loop->prng, TASKS);
    task_t *task = &loop->tasks[place];
    if (!task->used || task->batch_id || !loop->model_here[task->model])
        return;
    task->cancelled = true;
    cr_expect_not(
        loop->core->ops->cancel(loop->core, clock_now_ns(), (uint64_t)task->generation << 32 | place));
}

static void forget_batch(loop_t *loop, uint32_t index)
{
    loop->batches[index] = loop->batches[--loop->batch_count];
}

static int64_t latency_ns(uint32_t model, uint32_t count)
{
    return ROW_NS * (int64_t)count + FIXED_NS * (int64_t)(model + 1);
}

/* As if it had run at some other time than now, and for more or less than its profile says. */
static void tell_ran(loop_t *loop, uint32_t index)
{
    int64_t start_ns = loop->batches[index].start_ns;
    int64_t took_ns = latency_ns(loop->batches[index].model, loop->batches[index].count);
    took_ns = took_ns * prng_range(&loop->prng, 80, 160) / 100;
    loop->core->ops->batch_ran(loop->core, clock_now_ns(), loop->batches[index].id, start_ns,
                               start_ns + took_ns);
}

static void end_batch(loop_t *loop, uint32_t index, bool again)
{
    uint64_t id = loop->batches[index].id;
    if (!again)
        tell_ran(loop, index);
    loop->core->ops->batch_ended(loop->core, clock_now_ns(), id, clock_now_ns());
    for (uint32_t i = 0; i < TASKS; i++) {
        task_t *task = &loop->tasks[i];
        if (!task->used || task->batch_id != id)
            continue;
        task->batch_id = 0;
        if (again && loop->model_here[task->model]) {
            loop->retried++;
            enter(loop, i, task->model);
            continue;
        }
        loop->done++;
        give(loop, task);
    }
    forget_batch(loop, index);
}

static void end_some(loop_t *loop)
{
    for (uint32_t i = loop->batch_count; i-- > 0;) {
        if (prng_below(&loop->prng, 4) != 0)
            end_batch(loop, i, prng_below(&loop->prng, 10) == 0);
    }
}

static void close_gpu(loop_t *loop, uint32_t gpu)
{
    loop->core->ops->drain_gpu(loop->core, clock_now_ns(), gpu);
    loop->gpu_open[gpu] = false;
    if (prng_below(&loop->prng, 2) == 0)
        run(loop); /* it may drain for a while */
    for (uint32_t i = loop->batch_count; i-- > 0;)
        if (loop->batches[i].gpu == gpu)
            end_batch(loop, i, true);
    loop->core->ops->remove_gpu(loop->core, clock_now_ns(), gpu);
}

static void remove_model(loop_t *loop, uint32_t model)
{
    loop->model_here[model] = false;
    loop->core->ops->remove_model(loop->core, clock_now_ns(), model);
}

static void add_model(loop_t *loop, uint32_t model)
{
    profile_t profile;
    cr_assert_eq(profile_from_line(&profile, ROW_NS, FIXED_NS * (model + 1), 32, NULL), STATUS_OK);
    cr_assert_eq(loop->core->ops->add_model(loop->core, clock_now_ns(), model, &profile, NULL, NULL),
                 STATUS_OK);
    loop->core->ops->update_profile(loop->core, clock_now_ns(), model, &profile);
    loop->model_here[model] = true;
}

static bool add_gpu(loop_t *loop, uint32_t gpu, int64_t free_at_ns)
{
    const sched_gpu_mode_t whole = {0};
    return loop->core->ops->add_gpu(loop->core, clock_now_ns(), gpu, &whole, free_at_ns, NULL) == STATUS_OK;
}

static void change_something(loop_t *loop)
{
    static const char *const policies[] = {"fermata", "eager", "deferred", "timeout"};
    uint32_t gpu = 1 + (uint32_t)prng_below(&loop->prng, GPUS - 1); /* GPU 0 stays */
    uint32_t model = (uint32_t)prng_below(&loop->prng, MODELS);
    sched_delays_t delays = {.ctrl_ns = prng_range(&loop->prng, 0, MS / 10)};
    delays.ctrl_rare_ns = prng_range(&loop->prng, 0, delays.ctrl_ns);
    switch (prng_below(&loop->prng, 8)) {
    case 0:
    case 1:
        if (loop->gpu_open[gpu])
            close_gpu(loop, gpu);
        else
            loop->gpu_open[gpu] = add_gpu(loop, gpu, clock_now_ns());
        break;
    case 2:
    case 3:
        if (loop->model_here[model])
            remove_model(loop, model);
        else
            add_model(loop, model);
        break;
    case 4:
        cr_assert_eq(loop->core->ops->set_policy(loop->core, clock_now_ns(),
                                                 policies[prng_below(&loop->prng, 4)], NULL, NULL),
                     STATUS_OK);
        break;
    case 5:
        loop->core->ops->set_delays(loop->core, clock_now_ns(), &delays);
        break;
    case 6:
        loop->core->ops->allow(loop->core, clock_now_ns(), model, gpu, prng_below(&loop->prng, 2) == 0);
        break;
    default:
        loop->core->ops->gpu_free(loop->core, clock_now_ns(), gpu, clock_now_ns());
        break;
    }
}

static loop_t *start(void)
{
    loop_t *loop = calloc(1, sizeof *loop);
    front_options_t options = {
        .limits = {.models_max = MODELS, .gpus_max = GPUS, .tasks_max = TASKS, .batch_max = 32},
        .shard_count = SHARDS,
        .balance_ns = 5 * MS,
        .wake = wake,
        .ctx = loop};
    err_t err = {0};
    prng_init(&loop->prng, 7);
    sem_init(&loop->woken, 0, 0);
    cr_assert_eq(front_create(&options, &loop->core, &err), STATUS_OK, "%s", err.text);
    for (uint32_t m = 0; m < MODELS; m++)
        add_model(loop, m);
    for (uint32_t g = 0; g < GPUS; g++)
        loop->gpu_open[g] = add_gpu(loop, g, 0);
    run(loop);
    return loop;
}

static void wait_a_little(loop_t *loop)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 500000;
    if (until.tv_nsec >= NS_PER_S) {
        until.tv_nsec -= NS_PER_S;
        until.tv_sec++;
    }
    (void)sem_timedwait(&loop->woken, &until);
}

static void expect_stats(loop_t *loop)
{
    for (uint32_t m = 0; m < MODELS; m++) {
        sched_model_stats_t stats;
        if (!loop->core->ops->model_stats(loop->core, m, &stats))
            continue;
        cr_expect_eq(stats.queued, 0, "model %u: %u queued", m, stats.queued);
        cr_expect_eq(stats.in_flight, 0, "model %u: %u in flight", m, stats.in_flight);
    }
}

/* Models that have only just come have not, and the loop changes them all the time. */
static void count_learned(loop_t *loop)
{
    for (uint32_t m = 0; m < MODELS; m++) {
        sched_scatter_t scatter;
        loop->learned += loop->core->ops->model_scatter(loop->core, m, &scatter) && scatter.guard > 1;
    }
}

Test(front, every_task_comes_out_once, .timeout = 120)
{
    loop_t *loop = start();
    for (int i = 0; i < ROUNDS; i++) {
        for (uint64_t n = prng_below(&loop->prng, 40); n > 0; n--)
            submit(loop);
        cancel(loop);
        if (i % 8 == 0)
            change_something(loop);
        if (prng_below(&loop->prng, 2) == 0)
            wait_a_little(loop);
        run(loop);
        end_some(loop);
        count_learned(loop);
    }
    int64_t end_ns = clock_now_ns() + 30 * NS_PER_S;
    while (loop->live > 0 && clock_now_ns() < end_ns) {
        wait_a_little(loop);
        run(loop);
        while (loop->batch_count > 0)
            end_batch(loop, 0, false);
    }
    cr_expect_eq(loop->live, 0, "%u tasks never came out", loop->live);
    cr_expect_eq(loop->done + loop->dropped, loop->submitted);
    cr_expect_gt(loop->done, 1000);
    cr_expect_gt(loop->cancelled, 10);
    cr_expect_gt(loop->retried, 10);
    expect_stats(loop);
    cr_expect_gt(loop->learned, 0);
    loop->core->ops->destroy(loop->core);
    sem_destroy(&loop->woken);
    free(loop);
}

/* A loop that takes nothing: the shard stops taking in when its outbox is half full, and goes on as soon
 * as it is emptied. */
Test(front, a_loop_that_stands_still_costs_no_memory, .timeout = 120)
{
    loop_t *loop = start();
    sched_ref_t ref;
    uint64_t refused = 0;
    for (int i = 0; i < 20 * TASKS; i++) { /* all are too late: each comes out as a drop */
        sched_task_t late = {.tag = (uint64_t)i << 32 | (uint64_t)(i % TASKS), .deadline_ns = 1};
        refused += loop->core->ops->submit(loop->core, clock_now_ns(), 0, &late, &ref) != STATUS_OK;
    }
    cr_expect_gt(refused, 0, "no bound was met");
    sched_model_stats_t stats;
    (void)loop->core->ops->model_stats(loop->core, 0, &stats);
    cr_expect_lt(stats.queued, 16 * TASKS);
    cr_expect_eq(stats.queued + refused, 20 * TASKS);
    loop->core->ops->destroy(loop->core);
    free(loop);
}

static void ignore(void *ctx, const sched_action_t *action)
{
    (void)ctx;
    (void)action;
}

Test(front, a_model_that_comes_back_is_counted_anew, .timeout = 120)
{
    loop_t *loop = start();
    sched_task_t late = {.tag = 1, .deadline_ns = 1};
    sched_model_stats_t stats;
    sched_ref_t ref;
    cr_assert_eq(loop->core->ops->submit(loop->core, clock_now_ns(), 0, &late, &ref), STATUS_OK);
    do {
        (void)loop->core->ops->run(loop->core, clock_now_ns(), ignore, NULL);
        (void)loop->core->ops->model_stats(loop->core, 0, &stats);
    } while (stats.queued > 0);
    cr_assert_eq(stats.submitted, 1);
    remove_model(loop, 0);
    add_model(loop, 0);
    (void)loop->core->ops->model_stats(loop->core, 0, &stats);
    cr_expect_eq(memcmp(&stats, &(sched_model_stats_t){0}, sizeof stats), 0, "%lu submitted",
                 stats.submitted);
    loop->core->ops->destroy(loop->core);
    free(loop);
}

/* What needs one thread that sees queues and GPUs at once. */
Test(front, what_threads_cannot_do_is_refused_and_changes_nothing)
{
    static const sched_gpu_mode_t modes[] = {{.stretches = true}, {.slots = 2}};
    loop_t *loop = start();
    core_t *core = loop->core;
    err_t err = {0};
    cr_expect_eq(core->ops->set_policy(core, clock_now_ns(), "shepherd", NULL, &err), STATUS_UNSUPPORTED);
    cr_expect_eq(core->ops->set_policy(core, clock_now_ns(), "nexus", NULL, &err), STATUS_UNSUPPORTED);
    cr_expect_str_eq(core->ops->policy(core), "fermata");
    core->ops->drain_gpu(core, clock_now_ns(), 1);
    core->ops->remove_gpu(core, clock_now_ns(), 1);
    for (int i = 0; i < 2; i++)
        cr_expect_eq(core->ops->add_gpu(core, clock_now_ns(), 1, &modes[i], 0, &err), STATUS_UNSUPPORTED);
    cr_expect_str_eq(
        err.text, "grants that join or run beside others need one thread that sees queues and GPUs at once");
    cr_expect(add_gpu(loop, 1, 0));
    core->ops->destroy(core);
    free(loop);
}

Test(front, whether_batches_are_stopped_as_the_policy_wants_is_told)
{
    loop_t *loop = start();
    core_t *core = loop->core;
    err_t why = {0};
    cr_expect_not(core->ops->stops(core, &why));
    cr_expect_str_eq(why.text, "threads that decide never stop a running batch");
    cr_expect_eq(core->ops->set_policy(core, clock_now_ns(), "fermata", "preempt=0", &why), STATUS_OK);
    cr_expect(core->ops->stops(core, &why), "it wants to stop none");
    core->ops->destroy(core);
    free(loop);
}

Test(front, what_is_not_there_is_ignored)
{
    loop_t *loop = start();
    core_t *core = loop->core;
    int64_t now_ns = clock_now_ns();
    sched_task_t task = {0};
    sched_ref_t ref;
    core->ops->remove_model(core, now_ns, MODELS);
    cr_expect_eq(core->ops->submit(core, now_ns, MODELS, &task, &ref), STATUS_NOT_FOUND);
    core->ops->allow(core, now_ns, 0, GPUS, false);
    core->ops->batch_ended(core, now_ns, UINT64_MAX, 0);
    core->ops->batch_ended(core, now_ns, 77, 0);
    core->ops->batch_ran(core, now_ns, 77, 0, 1);
    core->ops->batch_ran(core, now_ns, UINT64_MAX, 0, 1);
    sched_scatter_t scatter;
    cr_expect_not(core->ops->model_scatter(core, MODELS, &scatter));
    cr_expect(core->ops->model_scatter(core, 0, &scatter) && scatter.mean == 1 && scatter.guard == 1);
    core->ops->destroy(core);
    free(loop);
}
