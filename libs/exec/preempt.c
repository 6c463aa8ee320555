#include "exec/preempt.h"

#include "exec/whole_core.h"

static bool preempt_preempt(exec_t *exec, int64_t now_ns, uint64_t batch)
{
    (void)now_ns;
    whole_t *whole = (whole_t *)exec;
    for (uint32_t i = 0; i < whole->granted; i++) {
        whole_batch_t *at = &whole->batches[(whole->running + i) % WHOLE_BUFFERS];
        bool has_ended = i == 0 && whole->busy && whole->ended;
        if (at->id == batch && !at->stop && !has_ended)
            return at->stop = true;
    }
    return false;
}

static bool preempt_stopped(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    whole_t *whole = (whole_t *)exec;
    if (!whole->stop_said || !whole_finished(exec, now_ns, launch))
        return false;
    return whole->stopped = true;
}

/* A batch that waits behind the running one: the last of the two buffers. */
static void give_back_waiting(whole_t *whole, exec_sink_fn sink, void *ctx)
{
    whole_batch_t *waiting = &whole->batches[(whole->running + 1) % WHOLE_BUFFERS];
    if (!whole->busy || whole->granted < 2 || !waiting->stop)
        return;
    exec_action_t action = {.kind = EXEC_REQUEUE, .batch = waiting->id};
    action.done.queries = waiting->queries;
    action.done.count = waiting->count;
    whole->granted--;
    sink(ctx, &action);
}

static int64_t preempt_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    (void)now_ns;
    whole_t *whole = (whole_t *)exec;
    if (whole->busy && whole->ended)
        whole_end(whole, whole->stopped ? EXEC_REQUEUE : EXEC_COMPLETE, sink, ctx);
    while (!whole->busy && whole->granted && whole->batches[whole->running].stop)
        whole_end(whole, EXEC_REQUEUE, sink, ctx);
    give_back_waiting(whole, sink, ctx);
    if (!whole->busy && whole->granted)
        whole_launch(whole, sink, ctx);
    if (whole->busy && whole->batches[whole->running].stop && !whole->stop_said) {
        exec_action_t action = {.kind = EXEC_STOP, .batch = whole->batches[whole->running].id};
        action.stop.launch = whole->launch;
        whole->stop_said = true;
        sink(ctx, &action);
    }
    return EXEC_NEVER;
}

static preempt_plan_t plan_with(const stages_model_t *model, const int64_t *op_ns, int64_t exit_ns,
                                uint32_t exits, uint32_t at[STAGED_STAGES_MAX])
{
    uint32_t count = stages_even(model, op_ns, exits + 1, at);
    int64_t all_ns = stages_time_ns(op_ns, 0, model->ops);
    return (preempt_plan_t){.exit_points = count,
                            .delay = stages_longest(model, op_ns, at, count),
                            .overhead = (double)count * (double)exit_ns / (all_ns > 0 ? (double)all_ns : 1)};
}

preempt_plan_t preempt_plan(const stages_model_t *model, const int64_t *op_ns, int64_t exit_ns, double limit,
                            uint32_t at[STAGED_STAGES_MAX])
{
    uint32_t most = model->cut_count < STAGED_STAGES_MAX - 1 ? model->cut_count : STAGED_STAGES_MAX - 1;
    preempt_plan_t best = plan_with(model, op_ns, exit_ns, 0, at);
    for (uint32_t exits = 1; exits <= most && best.delay >= limit; exits++) {
        preempt_plan_t plan = plan_with(model, op_ns, exit_ns, exits, at);
        if (plan.overhead >= limit)
            break;
        if (plan.delay < best.delay)
            best = plan;
    }
    return plan_with(model, op_ns, exit_ns, best.exit_points, at);
}

const exec_ops_t preempt_ops = {
    .submit = whole_submit,
    .finished = whole_finished,
    .preempt = preempt_preempt,
    .stopped = preempt_stopped,
    .run = preempt_run,
    .room = whole_room,
    .validate = whole_validate,
};
