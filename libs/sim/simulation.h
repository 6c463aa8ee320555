/*
 * A discrete-event simulation of one sub-cluster around the very scheduling core that the service runs (sched/sched.h):
 * a virtual clock, seeded streams of requests, GPUs that take what the profiles say. Same configuration, same result,
 * byte for byte. Each simulation is on its own: several may run on several threads.
 */
#ifndef SIM_SIMULATION_H
#define SIM_SIMULATION_H

#include "base/histogram.h"
#include "sched/autoscale.h"
#include "sim/net.h"
#include "sim/workload.h"

/* What a GPU did, told when it ends or is broken off; times in ns from the start. */
typedef struct {
    uint32_t gpu, model, count, late;
    int64_t start_ns, end_ns;
    bool preempted;
} simulation_batch_t;

/* One second of the simulation, warm-up included. */
typedef struct {
    double at_s; /* its end */
    uint64_t arrived, good, bad;
    uint32_t gpus; /* that may be granted, at its end */
    double busy_fraction;
    int32_t advice;
} simulation_second_t;

typedef struct {
    double at_s;
    uint32_t gpu;
    bool up; /* false: the GPU fails, with what it runs */
} simulation_change_t;

typedef struct {
    const workload_t *workload;
    uint32_t gpus;
    const char *policy, *params; /* NULL: the default */
    double switch_s;             /* then to this policy, as the admin API does; NULL: never */
    const char *switch_policy;
    double seconds; /* of arrivals that are counted, after the warm-up */
    double warmup_s;
    uint64_t seed;
    net_t net;
    /* As a service: what the core counts on, since it was measured, and by how much a batch is to end before its deadlines; batches begin
     * as soon as they can, and nobody tells the rates. NULL: the bounds of the net, and no batch begins before they have passed. */
    const sched_delays_t *measured;
    int64_t answer_ns;
    double jitter;      /* standard deviation of a GPU's latency, as a part of it */
    bool model_latency; /* of each model as well: 36 KiB each */
    const simulation_change_t *changes;
    uint32_t change_count;
    /* Follow the advice: begin with start_gpus of the GPUs, add and release as advised. NULL: all GPUs, always. */
    const autoscale_params_t *autoscale;
    uint32_t start_gpus;
    double provision_s; /* a GPU that was advised is there after so long */
    /* Stop as soon as the worst model's bad rate is surely above this; 0: never. */
    double give_up_bad_rate;
    void (*on_batch)(void *ctx, const simulation_batch_t *batch); /* optional */
    void (*on_drop)(void *ctx, uint32_t model, int64_t arrival_ns, int64_t now_ns);
    void (*on_second)(void *ctx, const simulation_second_t *second);
    void (*on_progress)(void *ctx, double fraction);
    void *ctx;
} simulation_config_t;

typedef struct {
    uint64_t arrived, good, late, unanswered;
    uint64_t dropped[SCHED_DROP_REASONS];
    double bad_rate;
    histogram_t *latency; /* as that of all; the result's. NULL: not asked for, or of all */
} simulation_model_t;

enum { SIMULATION_BATCH_SIZES = 1025 }; /* larger ones count as the last */

typedef struct {
    simulation_model_t *models; /* per model of the workload */
    histogram_t *latencies;     /* theirs */
    uint32_t model_count;
    double *gpu_busy; /* per GPU: fraction of the counted time */
    uint32_t gpu_count;
    simulation_model_t all;
    double seconds;
    double offered_rps, goodput_rps, bad_rate, worst_model_bad_rate;
    double gpu_busy_fraction, wasted_fraction; /* of the GPUs' time */
    uint32_t gpus_used, gpu_highest;           /* highest: id of the highest used, plus 1 */
    uint32_t median_batch;
    uint64_t batches, preemptions, requests; /* requests: simulated, warm-up included */
    uint64_t batch_sizes[SIMULATION_BATCH_SIZES];
    histogram_t latency, queueing; /* of requests that were answered in time or late */
    bool gave_up;
} simulation_result_t;

/* *result is the caller's to dispose on STATUS_OK. INVALID_ARGUMENT: the configuration (zero GPUs, no rate, no time,
 * unknown policy, …); INTERNAL: the core broke a promise (a batch on two GPUs, a late grant, …). */
status_t simulation_run(const simulation_config_t *config, simulation_result_t **result, err_t *err);
void simulation_result_dispose(simulation_result_t *result);

#endif
