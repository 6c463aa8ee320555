/*
 * What the worker tests share: a loop, two gateways (data-plane owners) on it, two devices of an engine that finishes a
 * batch when the test says so, one model with two inputs and one output, and a run that reports here.
 */
#ifndef TEST_WORKER_SUPPORT_H
#define TEST_WORKER_SUPPORT_H

#include "grant_rows.h"
#include "until.h"
#include "worker/batch/run.h"

enum {
    GATEWAYS = 2,
    ARENA_BYTES = 1 << 16,
    IN_A = 4,
    IN_A_MAX = 8, /* of the model of rig_vary */
    IN_B = 2,
    OUT = 3,
    OUT_MAX = IN_A_MAX + 1, /* of the model of rig_pad, and its size */
    ROW_BYTES = (IN_A + IN_B) * 4,
    MAX_BATCH = 8
};

typedef struct {
    uint64_t task_id;
    status_t status;
    float values[OUT_MAX];
    size_t len_bytes;
    transfer_timing_t timing;
    transfer_handle_t handle;
} pushed_t;

typedef struct {
    transfer_owner_t *owner;
    transfer_memory_t *memory;
    transfer_handle_t handle; /* of the whole arena */
    _Alignas(64) float arena[ARENA_BYTES / 4];
    pushed_t pushed[64];
    int begun, done;
    uint32_t places, placed; /* rows that may be made where it answers from; none but what a test says */
    int vacated;
    float place[MAX_BATCH][OUT];
} gateway_t;

typedef struct {
    run_report_t report;
    char reason[256];
    uint32_t failed_row[MAX_BATCH], failed_status[MAX_BATCH];
} reported_t;

typedef struct {
    loop_t *loop;
    metrics_t *metrics;
    model_devices_t devices;
    model_t *model, *second; /* NULL but for rig_add_model */
    transfer_pool_t *pool;
    peers_t *peers;
    transfer_owner_t *owners[GATEWAYS];
    run_t *run;
    gateway_t gateways[GATEWAYS];
    reported_t reports[64];
    int report_count;
    uint32_t lost[4]; /* devices that the run says are lost */
    int lost_count;
} rig_t;

void rig_init(rig_t *rig);
/* The gateways are in the worker's process, on its loop. */
void rig_init_within(rig_t *rig);
void rig_dispose(rig_t *rig);

/* Cuts the model into so many stages of one operator and one millisecond each; the mode is staged. */
void rig_stage(rig_t *rig, uint32_t count);

/* The first input has as many elements as the batch says. After rig_stage its stages are made for up to
 * IN_A_MAX; after rig_segment its plan says for how many. */
void rig_vary(rig_t *rig);

/* After rig_stage and rig_vary: sizes are padded to IN_A and IN_A_MAX, with PAD; the output is the first input, doubled, and
 * as long. */
enum { PAD = -5 };
void rig_pad(rig_t *rig);
/* The answer to each such task (see rig_grant_sized) is its own input, doubled, and no more. */
void rig_check_padded(rig_t *rig, uint64_t task, uint32_t size);

/* Another model like the first: its `second`. */
void rig_add_model(rig_t *rig);

/* Cuts it (both, in the order of the plan) into so many segments of one operator; the mode is overlap. */
void rig_segment(rig_t *rig, uint32_t count, const overlap_plan_t *plan);

/* NULL: nothing of that task has come. */
const pushed_t *pushed_of(const gateway_t *gateway, uint64_t task_id);

#define rig_until(rig, condition) loop_until((rig)->loop, condition)

/* A grant in the making. Rows are added one by one. */
typedef struct {
    Control__Grant grant;
    uint64_t words[64 * GRANT_ROW_WORDS];
    uint32_t size; /* elements of the first input, where they vary; set before rows are added */
} grant_t;

void grant_init(grant_t *grant, uint64_t batch_id, uint32_t device);
/* A task of that gateway (index 10 or 11 in the peer table) whose input is at arena row `row`. */
void grant_add(rig_t *rig, grant_t *grant, uint32_t gateway, uint64_t task_id, uint32_t row);
void grant_send(rig_t *rig, grant_t *grant);
void grant_send_to(rig_t *rig, model_t *model, grant_t *grant);

/* Of a model of rig_vary: rows of gateway 10 with `size` elements in the first input; task and arena row are both
 * 10 * batch + i. */
void rig_grant_sized(rig_t *rig, uint64_t batch_id, uint32_t rows, uint32_t size, uint64_t stretches);
/* Each such task has the answer to its own input: the second input begins behind `size` elements of the first. */
void rig_check_sized(rig_t *rig, uint64_t task, uint32_t size);

/* Returns when the inputs of all that was granted by now are here, or their jobs with the engine; when the loop has seen all
 * jobs that have ended; and when what follows from both, reports, jobs and results at the gateways, has come. */
void rig_barrier(rig_t *rig);
/* Waits for a job, finishes it, and for all that follows. */
void rig_finish(rig_t *rig, status_t status);
/* Jobs, until there are so many reports. */
void rig_finish_all(rig_t *rig, int reports);
/* The next job is a whole batch, of two such rows with the tasks 10 and 11, that did not suit the mode: finishes it. */
void rig_finish_unfit(rig_t *rig, uint32_t size);
/* Waits until nothing is under way. */
void rig_end(rig_t *rig);

/* What the engine holds: jobs submitted and not finished. Finishes the oldest, from another thread. */
int engine_held(void);
engine_job_t *engine_oldest(void);
void engine_finish(status_t status, const char *text);
/* How often a job was to be stopped; the running one goes on until engine_finish says how it ended. */
int engine_stops(void);
const engine_ops_t *engine_manual(void);
/* The same, and it takes rows that lie apart. */
const engine_ops_t *engine_manual_apart(void);
/* From now on it says of its devices that they are lost; until the next rig_init. */
void engine_lose(void);

#endif
