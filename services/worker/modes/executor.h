/*
 * The border between a batch whose inputs are here (run_execute.c) and the mode in which it is run.
 *
 *   run_execute.c ── batch ready ──▶ turns.c ── submit ──▶ executor_MODE.c ── launches ──▶ engine
 *         ◀── rows: these have their outputs in the batch's buffers, push them ──┤
 *         ◀── ended: once per batch, after its last rows ────────────────────────┘
 *
 * A mode is one file that ends in one `static const executor_ops_t`. What is decided is decided in libs/exec;
 * an executor carries it out on its device. Loop thread. From submit until `ended` a batch is its executor's.
 */
#ifndef WORKER_EXECUTOR_H
#define WORKER_EXECUTOR_H

#include "model/modes/overlap_plan.h"
#include "worker/state/batch.h"

/* What all executors of a run share. */
typedef struct {
    launcher_t *launcher;
    const model_devices_t *devices;
    metrics_t *metrics;
    /* Rows [first, first + count) have run, in one batch of `together` rows of the device; batch->started_ns and
     * finished_ns are set. */
    void (*rows)(batch_t *batch, uint32_t first, uint32_t count, uint32_t together);
    /* Not OK: batch->err says why; rows that were not handed to `rows` have not run. May submit to this
     * executor. UNSUPPORTED: no row of it has left, and the mode cannot run such a shape: it runs whole
     * then. */
    void (*ended)(batch_t *batch, status_t status);
} executor_env_t;

typedef struct {
    model_mode_t mode;
    /* May be NULL: always. False: submit this one when another has ended. */
    bool (*takes)(const executor_t *executor, const batch_t *batch);
    void (*submit)(executor_t *executor, batch_t *batch);
    /* Ends the batch before its end, as soon as the mode can; `ended` may come inside. False: it ends as usual. */
    bool (*revoke)(executor_t *executor, batch_t *batch);
    /* How long this batch keeps the device from taking another; may be NULL: as long as its profile says. */
    int64_t (*left_ns)(const executor_t *executor, const batch_t *batch);
    void (*destroy)(executor_t *executor); /* no batch is in it */
} executor_ops_t;

/* First member of every executor's object. */
struct executor {
    const executor_ops_t *ops;
    const executor_env_t *env;
    uint32_t device;
    uint32_t batches;     /* in it; counted by turns.c */
    const model_t *model; /* it runs this one only; NULL: all of its mode */
    executor_t *next;     /* of the same device */
};

/* One batch after the other, in the order of the engine's own queue. */
executor_t *executor_create_whole(const executor_env_t *env, uint32_t device, err_t *err);

executor_t *executor_create_preempt(const executor_env_t *env, uint32_t device, err_t *err);

executor_t *executor_create_staged(const executor_env_t *env, uint32_t device, model_t *model, err_t *err);
executor_t *executor_create_overlap(const executor_env_t *env, uint32_t device, const overlap_plan_t *plan,
                                    err_t *err);

#endif
