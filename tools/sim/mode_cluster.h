/*
 * The inside of a cluster of emulated devices (mode_cluster.c), shared by its source files only.
 */
#ifndef SIM_MODE_CLUSTER_H
#define SIM_MODE_CLUSTER_H

#include "exec/driver.h"
#include "mode.h"
#include "sched/sched.h"

enum {
    CLUSTER_INFLIGHT = 8,        /* batches of a device, with what has joined them */
    CLUSTER_STAGED_INFLIGHT = 4, /* of one slot in mode staged, as a worker has it (STAGES_INFLIGHT) */
    CLUSTER_SLOTS_MAX = STAGED_WIDTH_MAX,
    CLUSTER_TAG_MODEL_BITS = 4, /* of a launch of an exec object: its number, and the model */
};

#define CLUSTER_NOBODY UINT32_MAX

typedef struct {
    uint32_t model, gpu;
    uint32_t first, next; /* request that stands for its batch; the one behind it there */
    uint64_t joins;       /* the batch that it was granted to join; 0: none */
    uint64_t batch_id;    /* first only */
    uint64_t entered;     /* first only: batch of the exec object that it is in */
    uint32_t left;        /* first only: rows that run */
    int64_t arrival_ns;
} cluster_request_t;

typedef struct cluster cluster_t;

typedef struct {
    cluster_t *cluster;
    accel_t *device;
    driver_t drivers
        [MODE_MODELS_MAX]; /* of the models' exec objects; without one: batches run as they are granted */
    uint32_t running
        [CLUSTER_SLOTS_MAX]; /* whole, overlap: the first request of the batch in each stream, or CLUSTER_NOBODY */
    uint32_t unanswered;
    uint32_t granted
        [CLUSTER_INFLIGHT]; /* staged: the first request of each batch that it has, or CLUSTER_NOBODY */
} cluster_gpu_t;

/* What an exec object's schedule is told through its cost_ctx. */
typedef struct {
    cluster_t *cluster;
    const mode_model_t *model;
    uint32_t index;
    bool splits; /* staged: then no rows join its batches */
    profile_t profile;
} cluster_model_t;

struct cluster {
    const mode_options_t *options;
    const mode_scenario_t *scenario;
    bool staged, overlap, scheduled;
    uint32_t streams; /* of one model */
    sched_t *sched;
    cluster_gpu_t *gpus;
    cluster_model_t models[MODE_MODELS_MAX];
    cluster_request_t *requests;
    uint32_t sent, answered;
    double rate_rps, next_s;
    prng_t prng;
    mode_tally_t tally;
    int64_t now_ns, sched_wake_ns;
    status_t status;
    err_t *err;
};

/* Devices (mode_cluster_devices.c). Failures are kept in cluster->status. */
staged_cost_t cluster_stage_cost(void *ctx, uint32_t stage, uint32_t rows,
                                 uint32_t length); /* ctx: cluster_model_t */
uint32_t cluster_longest(const mode_model_t *model);
/* Of a launch, operators or (staged) a stage of a model; ops: MODE_OPS_MAX + 1 at most. Returns how many. ctx: cluster_t. */
uint32_t cluster_operators(void *ctx, const exec_part_t *part, accel_op_t *ops);
void cluster_launch(cluster_t *cluster, accel_t *device, uint32_t stream, uint64_t tag,
                    const exec_part_t *part);
void cluster_drive(cluster_gpu_t *gpu); /* sets up its drivers, without exec objects */
void cluster_give_to_exec(cluster_t *cluster, cluster_gpu_t *gpu, uint32_t index); /* this request */
void cluster_run_batch(cluster_t *cluster, cluster_gpu_t *gpu, const cluster_request_t *first, uint32_t rows);
void cluster_take_ended(cluster_t *cluster, cluster_gpu_t *gpu);
void cluster_run_execs(cluster_t *cluster, cluster_gpu_t *gpu);
void cluster_fail(cluster_t *cluster, status_t status); /* the first failure counts */

/* What the scheduler orders, as a Schedule() table: that of a worker (services/worker/modes/executor_staged.c). */
extern const staged_schedule_t cluster_granted;

/* Setting up (mode_cluster_setup.c). */
status_t cluster_init(cluster_t *cluster);
void cluster_dispose(cluster_t *cluster);

#endif
