#include "engine/auto/lane.h"

void auto_lane_init(auto_lane_t *lane)
{
    pthread_mutexattr_t recursive;
    *lane = (auto_lane_t){0};
    fifo_init(&lane->fifo);
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lane->guard, &recursive);
    pthread_mutexattr_destroy(&recursive);
}

void auto_lane_dispose(auto_lane_t *lane)
{
    pthread_mutex_destroy(&lane->guard);
    fifo_dispose(&lane->fifo);
}

static void drive(auto_lane_t *lane);

static void set_running(auto_lane_t *lane, engine_job_t *job, const member_t *on)
{
    pthread_mutex_lock(&lane->guard);
    lane->outer = job;
    lane->on = on;
    pthread_mutex_unlock(&lane->guard);
}

static void inner_done(engine_job_t *inner, status_t status, const err_t *err)
{
    auto_lane_t *lane = inner->arg;
    engine_job_t *job = lane->outer;
    set_running(lane, NULL, NULL);
    job->reached = inner->reached;
    job->started_ns = inner->started_ns;
    job->finished_ns = inner->finished_ns;
    fifo_answer(job, status, err);
    if (atomic_exchange(&lane->passed, true))
        drive(lane);
}

/* Until one is under way, or none is left. */
static void drive(auto_lane_t *lane)
{
    engine_job_t *job;
    while ((job = fifo_next(&lane->fifo))) {
        const engine_model_t *model = job->model;
        const member_t *on = member_at(model, job->batch);
        lane->inner = *job;
        lane->inner.model = member_model_at(model, job->batch);
        lane->inner.source = job->source ? job->source->inner : NULL;
        lane->inner.target = job->target ? job->target->inner : NULL;
        lane->inner.done = inner_done;
        lane->inner.arg = lane;
        atomic_store(&lane->passed, false);
        set_running(lane, job, on);
        on->ops->submit(on->engine, &lane->inner);
        if (!atomic_exchange(&lane->passed, true))
            return;
    }
}

void auto_lane_submit(auto_lane_t *lane, engine_job_t *job)
{
    if (fifo_push(&lane->fifo, job))
        drive(lane);
}

bool auto_lane_stop(auto_lane_t *lane, engine_job_t *job)
{
    if (fifo_cancel(&lane->fifo, job))
        return true;
    pthread_mutex_lock(&lane->guard);
    const member_t *on = lane->outer == job ? lane->on : NULL;
    bool told = on && on->ops->stop && on->ops->stop(on->engine, &lane->inner);
    pthread_mutex_unlock(&lane->guard);
    return told;
}
