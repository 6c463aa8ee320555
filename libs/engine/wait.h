/*
 * One job, run while the caller waits: for programs that measure or check, one thing after the other.
 */
#ifndef ENGINE_WAIT_H
#define ENGINE_WAIT_H

#include "engine/engine.h"

/* Submits the job and returns when it has ended, with its status; its done and arg are set here. Not from inside a
 * done. err may be NULL. */
status_t engine_run_wait(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, err_t *err);

#endif
