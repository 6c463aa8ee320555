/*
 * Granted batches: fetch -> execute -> push, several under way on each device, so that
 * the inputs of the next batch come in while the present one is executed. Loop thread; a hot path: what a
 * batch needs is recycled.
 *
 *   FETCHING ──all rows here or given up──▶ SUBMITTED ──engine done──▶ PUSHING ──▶ free
 *      │                                        │
 *      └── no row left, revoked ────────────────┴── revoked, failed, stopped ──▶ reported, free
 *
 * Each granted batch is reported exactly once, when its execution has ended or it is clear that there will be none; the
 * outputs are handed to the data plane just before.
 *
 * Rows: one whose input cannot be fetched is left out, the rest runs. A failure of the engine fails the batch: nothing
 * is pushed and the scheduler decides whether to try elsewhere. A device that its engine has lost takes no
 * grants any more.
 */
#ifndef WORKER_RUN_H
#define WORKER_RUN_H

#include "control.pb-c.h"
#include "loop/loop.h"
#include "worker/state/peers.h"
#include "worker/state/serving.h"

typedef struct run run_t;

enum {
    RUN_QUEUE_MAX =
        32, /* batches of one device that are not yet executed; a scheduler grants two or three ahead */
};

typedef struct {
    uint64_t batch_id;
    uint32_t generation; /* of the connection that granted it */
    uint32_t device;
    status_t status;
    const char *reason; /* "" when OK */
    int64_t exec_ns, device_ns, fetch_ns, push_ns, free_in_ns;
    const uint32_t *failed_row, *failed_status; /* valid during the call */
    uint32_t failed_count;
} run_report_t;

typedef void (*run_report_fn)(void *ctx, const run_report_t *report);

typedef struct {
    loop_t *loop;
    const model_devices_t *devices;
    peers_t *peers;
    transfer_pool_t *pool;
    metrics_t *metrics;
    run_report_fn report;
    void (*device_lost)(void *ctx, uint32_t device); /* once, after the report that shows it; may be NULL */
    void (*profile_changed)(void *ctx, const model_t *model); /* may be NULL */
    void (*model_idle)(void *ctx, model_t *model); /* its last batch under way has ended; may be NULL */
    void *ctx;
} run_options_t;

status_t run_create(const run_options_t *options, run_t **run, err_t *err);

/* Revokes what has not begun, waits for what executes, then frees. What is being pushed is given up. */
void run_destroy(run_t *run);

/* model NULL: the catalogue id is not known; reported at once, as everything that is wrong with a grant. */
void run_grant(run_t *run, uint32_t generation, model_t *model, const Control__Grant *grant);

/* One that has not begun does not begin; in mode preempt one that runs is stopped at its next exit point; otherwise it
 * ends as usual. One that is not there (any more) is counted, no more. generation: that of its grant. */
void run_revoke(run_t *run, uint32_t generation, uint64_t batch_id);
/* All that have not begun. */
void run_revoke_all(run_t *run);

/* Before the model leaves its devices; no batch of it is under way. Not inside `report`. */
void run_forget(run_t *run, const model_t *model);

/* Batches not yet wholly pushed. */
uint32_t run_under_way(const run_t *run);

#endif
