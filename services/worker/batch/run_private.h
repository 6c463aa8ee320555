/*
 * The state that the files of a run share; each file drives the batch in one of its states, and calls those to
 * its right.
 *
 *   run.c ─▶ run_revoke.c ───────────────────────────────────────┐
 *            run_grant.c ─▶ run_fetch.c ─▶ run_execute.c ─▶ run_push.c ─▶ run_end.c
 *                            FETCHING,       SUBMITTED       PUSHING      reported, free
 */
#ifndef WORKER_RUN_PRIVATE_H
#define WORKER_RUN_PRIVATE_H

#include "worker/batch/run.h"
#include "worker/batch/turns.h"
#include "worker/modes/executor.h"

typedef struct {
    struct batch_list queue; /* granted and not yet executed, in the order of their grants */
    uint32_t queued;
    turns_t turns;
    executor_t *executors; /* made when first needed */
} run_device_t;

struct run {
    run_options_t options;
    launcher_t launcher;
    executor_env_t env;
    run_device_t *devices;
    struct batch_list free;
    uint32_t under_way;
    bool stopping;
    metric_t *silent, *heard_again; /* breakers opened and closed */
    metric_t *late_start, *revoked_waiting, *revoked_stopped, *revoked_late;
};

#endif
