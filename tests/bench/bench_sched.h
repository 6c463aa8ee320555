/* What the parts of bench-sched share. */
#ifndef BENCH_SCHED_H
#define BENCH_SCHED_H

#include "bench_sched_world.h"

typedef struct {
    int64_t models, gpus, inflight, repeat, shards;

    double alpha_us, beta_us, slo_ms, seconds, warm_seconds, rate, bad_limit, step_us, delay_us;
    const char *policy, *policy_params;
    int clock;
    bool pin, json;
} bench_options_t;

enum { CLOCK_REAL, CLOCK_CPU, CLOCK_VIRTUAL };
typedef struct {
    double rate, bad_rate; /* of all shards together */
    double turns_per_s, batch, candidates_per_s;
    double lag_ms; /* of the generator, at the end */
} result_t;

/* libs/shards with o->shards shard threads, each with its part of the models and of the rate. */
status_t run_threads(const bench_options_t *o, double rate, result_t *result, err_t *err);

#endif
