#include "worker/batch/turns.h"

void turns_init(turns_t *turns)
{
    TAILQ_INIT(&turns->waiting);
    turns->active = NULL;
}

static bool is_behind_its_own(const turns_t *turns, const batch_t *batch)
{
    const batch_t *before = TAILQ_FIRST(&turns->waiting);

    while (before != batch && before->model != batch->model)
        before = TAILQ_NEXT(before, turn);
    return before != batch;
}

/* The oldest that the executor whose turn it is takes; none passes a batch of its model, nor of another executor. */
static batch_t *next_taken(const turns_t *turns)
{
    batch_t *batch = TAILQ_FIRST(&turns->waiting);
    executor_t *executor = turns->active ? turns->active : batch ? batch->executor : NULL;

    for (; batch && batch->executor == executor; batch = TAILQ_NEXT(batch, turn)) {
        bool takes = !executor->ops->takes || executor->ops->takes(executor, batch);
        if (takes && !is_behind_its_own(turns, batch))
            return batch;
    }
    return NULL;
}

void turns_advance(turns_t *turns)
{
    batch_t *batch;

    while ((batch = next_taken(turns))) {
        executor_t *executor = batch->executor;
        TAILQ_REMOVE(&turns->waiting, batch, turn);
        batch->waits = false;
        turns->active = executor;
        executor->batches++;
        executor->ops->submit(executor, batch);
    }
}

void turns_submit(turns_t *turns, batch_t *batch)
{
    batch->waits = true;
    TAILQ_INSERT_TAIL(&turns->waiting, batch, turn);
    turns_advance(turns);
}

bool turns_withdraw(turns_t *turns, batch_t *batch)
{
    if (!batch->waits)
        return false;
    batch->waits = false;
    TAILQ_REMOVE(&turns->waiting, batch, turn);
    return true;
}

void turns_ended(turns_t *turns)
{
    if (--turns->active->batches == 0)
        turns->active = NULL;
    turns_advance(turns);
}
