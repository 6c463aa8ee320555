/*
 * One stream of "auto": jobs in order, one at a time, each on the engine that its model runs on. It has no thread: a job goes
 * on from the thread that submits it, or from that on which the one before has ended.
 */
#ifndef ENGINE_AUTO_LANE_H
#define ENGINE_AUTO_LANE_H

#include "engine/auto/member.h"
#include "engine/queue/fifo.h"

/* A border of the engine that its model runs on. */
struct engine_border {
    const engine_ops_t *ops;
    engine_border_t *inner;
};

typedef struct {
    fifo_t fifo;
    engine_job_t inner;    /* the running one, as its engine has it */
    pthread_mutex_t guard; /* recursive: an engine may answer inside stop */
    engine_job_t *outer;   /* the running one, as the caller has it; under guard, NULL: none */
    const member_t *on;    /* that runs it; under guard */
    atomic_bool passed;    /* submit has returned, or the answer has come: whoever is second goes on */
} auto_lane_t;

void auto_lane_init(auto_lane_t *lane);
void auto_lane_dispose(auto_lane_t *lane); /* nothing is queued or running */

void auto_lane_submit(auto_lane_t *lane, engine_job_t *job);
bool auto_lane_stop(auto_lane_t *lane, engine_job_t *job); /* as stop of engine.h */

#endif
