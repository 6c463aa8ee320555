#include "support.h"

#include "scheduler/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The stage ---- */

void stage_init(stage_t *stage)
{
    err_t err = {0};
    *stage = (stage_t){0};
    cr_assert_eq(loop_create(&stage->fakes.loop, &err), STATUS_OK, "%s", err.text);
    rpc_runtime_options_t how = {.loop = stage->fakes.loop, .name = "fakes"};
    cr_assert_eq(rpc_runtime_create(&how, &stage->fakes.runtime, &err), STATUS_OK, "%s", err.text);
    const char *shards =
        getenv("FERMATA_SHARDS"); /* each test runs with the core on the loop's thread and on others */
    scheduler_options_init(&stage->options);
    stage->options.shards = shards != NULL ? (uint32_t)atoi(shards) : 0;
    stage->options.http_address = "127.0.0.1:0";
}

void stage_start(stage_t *stage)
{
    err_t err = {0};
    stage->options.grpc_address = stage->fakes.address[0] != '\0' ? stage->fakes.address : "127.0.0.1:0";
    stage->stopped = false;
    cr_assert_eq(scheduler_create(stage->fakes.loop, &stage->options, &stage->scheduler, &err), STATUS_OK,
                 "%s", err.text);
    (void)snprintf(stage->fakes.address, sizeof stage->fakes.address, "%s",
                   scheduler_grpc_address(stage->scheduler));
}

void stage_flag(void *flag)
{
    *(bool *)flag = true;
}

void stage_stop(stage_t *stage)
{
    scheduler_stop(stage->scheduler, stage_flag, &stage->stopped);
    stage_until(stage, stage->stopped);
    scheduler_destroy(stage->scheduler);
    stage->scheduler = NULL;
}

void stage_dispose(stage_t *stage)
{
    if (stage->scheduler != NULL)
        stage_stop(stage);
    rpc_runtime_destroy(stage->fakes.runtime);
    loop_destroy(stage->fakes.loop);
}

void stage_pass(stage_t *stage, int64_t duration_ns)
{
    int64_t until_ns = clock_now_ns() + duration_ns;
    while (clock_now_ns() < until_ns)
        loop_run_once(stage->fakes.loop, NS_PER_MS);
}

/* ---- What the core plans, which no message tells ---- */

static struct {
    stage_t *stage;
    const core_ops_t *ops; /* the core's own */
    sched_sink_fn sink;
    void *ctx;
} spy;

static void spy_on_action(void *ctx, const sched_action_t *action)
{
    (void)ctx;
    stage_t *stage = spy.stage;
    if (action->kind == SCHED_GRANT) {
        cr_assert_lt(stage->plan_count, FAKE_GRANTS);
        stage->plan_ns[stage->plan_count++] = action->grant.finish_ns - action->grant.start_ns;
    }
    spy.sink(spy.ctx, action);
}

static int64_t spy_run(core_t *core, int64_t now_ns, sched_sink_fn sink, void *ctx)
{
    spy.sink = sink;
    spy.ctx = ctx;
    return spy.ops->run(core, now_ns, spy_on_action, NULL);
}

void stage_note_plans(stage_t *stage)
{
    static core_ops_t ops;
    core_t *core = stage->scheduler->control->subclusters.all[0]->core;
    spy.stage = stage;
    spy.ops = core->ops;
    ops = *core->ops;
    ops.run = spy_run;
    core->ops = &ops;
}

/* ---- The barrier ---- */

/* Threads that decide come to a stand for a device that is out of range, work off what was told to them, and go on with the
 * next run. A core of the loop's thread has decided before the pong was sent. */
static void stage_stand(stage_t *stage)
{
    control_t *control = stage->scheduler->control;
    const sched_gpu_mode_t whole = {0};
    for (uint32_t i = 0; i < control->subclusters.count; i++) {
        core_t *core = control->subclusters.all[i]->core;
        err_t err;
        if (core->ops->threads)
            cr_assert_neq(core->ops->add_gpu(core, loop_now_ns(), UINT32_MAX, &whole, 0, &err), STATUS_OK);
    }
}

/* The second round is behind what the first one's messages have led to, on every stream. */
void stage_barrier(stage_t *stage)
{
    fakes_ping(&stage->fakes);
    stage_stand(stage);
    fakes_ping(&stage->fakes);
}

void stage_upkeep(stage_t *stage)
{
    const control_t *control = stage->scheduler->control;
    stage_barrier(stage);
    int64_t next_ns = control->tick_ns;
    stage_until(stage, control->tick_ns != next_ns);
    stage_barrier(stage);
}

/* ---- Two on a stage ---- */

duo_t *duo_new(uint32_t devices)
{
    duo_t *duo = calloc(1, sizeof *duo);
    stage_init(&duo->stage);
    worker_init(&duo->worker, &duo->stage.fakes, 7, devices);
    gateway_init(&duo->gateway, &duo->stage.fakes, 9);
    return duo;
}

void duo_begin(duo_t *duo, int64_t alpha_ns, int64_t beta_ns)
{
    stage_start(&duo->stage);
    worker_connect(&duo->worker);
    gateway_connect(&duo->gateway);
    stage_until(&duo->stage, duo->worker.fake.welcomes == 1);
    worker_report(&duo->worker, "net", CONTROL__MODEL_STATE__MODEL_STATE_READY, alpha_ns, beta_ns);
    stage_until(&duo->stage, duo->gateway.ready && duo->worker.peer_count == 1);
}

void duo_add_worker(duo_t *duo, fake_worker_t *second)
{
    worker_init(second, &duo->stage.fakes, 8, 1);
    worker_connect(second);
    stage_until(&duo->stage, second->fake.welcomes == 1);
    worker_report(second, "net", CONTROL__MODEL_STATE__MODEL_STATE_READY, NS_PER_MS, NS_PER_MS);
    stage_until(&duo->stage, duo->gateway.ready_workers == 2);
}

void duo_free(duo_t *duo)
{
    if (duo->gateway.fake.link != NULL)
        fake_kill(&duo->gateway.fake);
    if (duo->worker.fake.link != NULL)
        fake_kill(&duo->worker.fake);
    stage_dispose(&duo->stage);
    free(duo);
}
