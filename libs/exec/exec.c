#include "exec/exec.h"

status_t exec_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                     uint64_t batch, err_t *err)
{
    if (count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a batch without queries");
    return exec->ops->submit(exec, now_ns, queries, count, batch, err);
}

bool exec_finished(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    return exec->ops->finished(exec, now_ns, launch);
}

bool exec_preempt(exec_t *exec, int64_t now_ns, uint64_t batch)
{
    return batch && exec->ops->preempt && exec->ops->preempt(exec, now_ns, batch);
}

bool exec_stopped(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    return exec->ops->stopped && exec->ops->stopped(exec, now_ns, launch);
}

int64_t exec_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    return exec->ops->run(exec, now_ns, sink, ctx);
}

uint32_t exec_room(const exec_t *exec)
{
    return exec->ops->room(exec);
}

const char *exec_validate(const exec_t *exec)
{
    return exec->ops->validate(exec);
}
