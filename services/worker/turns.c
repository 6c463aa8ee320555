#include "turns.h"

void turns_init(turns_t *turns)
{
    TAILQ_INIT(&turns->waiting);
    turns->active = NULL;
}

void turns_advance(turns_t *turns)
{
    batch_t *batch;

    while ((batch = TAILQ_FIRST(&turns->waiting))) {
        executor_t *executor = batch->executor;
        if (turns->active && turns->active != executor)
            return;
        if (executor->ops->takes && !executor->ops->takes(executor, batch))
            return;
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
