/*
 * What surrounds the scheduler in bench-sched: requests that come by a Poisson process and GPUs that keep exactly to
 * their profile, both in this process. One world belongs to one thread.
 */
#ifndef BENCH_SCHED_WORLD_H
#define BENCH_SCHED_WORLD_H

#include "base/heap.h"
#include "sched/sched.h"

typedef struct {
    uint32_t models, gpus; /* models: those whose requests this world makes: first, first + stride, … */
    uint32_t first_model, stride;
    int64_t slo_ns;
    double rate; /* requests/s */
    uint64_t seed;
} world_params_t;

/* A batch under way on an emulated GPU. */
typedef struct {
    heap_node_t node; /* by its end */
    uint64_t batch_id;
    uint32_t next; /* free chain */
} world_batch_t;

enum {
    WORLD_DRAWS = 1 << 16
}; /* gaps and models drawn beforehand: the generator should not be what is measured */

typedef struct {
    world_params_t params;
    uint32_t *gap_q8; /* WORLD_DRAWS of them, 1/256 ns */
    uint16_t *model;
    uint32_t draw;
    uint64_t next_q8; /* time of the next request since begin_ns, 1/256 ns */
    int64_t begin_ns;
    int64_t counted_from_ns; /* requests that arrive before it are warming up */
    int64_t *gpu_free_ns;
    world_batch_t *batches;
    uint32_t free_batch;
    heap_t ends;
    uint64_t sent, counted, bad, granted, batch_count, refused;
} world_t;

status_t world_init(world_t *world, const world_params_t *params, int64_t begin_ns, int64_t counted_from_ns,
                    err_t *err);
void world_dispose(world_t *world);

/* The next request that has come by now; false: none. */
bool world_next_request(world_t *world, int64_t now_ns, uint32_t *model, sched_task_t *task);

/* How long the next request has been waiting to be made; 0: it has not come yet. */
int64_t world_lag_ns(const world_t *world, int64_t now_ns);

/* A grant or a drop came out at now_ns. */
void world_on_action(world_t *world, int64_t now_ns, const sched_action_t *action);

/* A request could not be handed over. */
void world_on_refused(world_t *world, const sched_task_t *task);

/* The next batch that has ended by now; false: none. */
bool world_next_end(world_t *world, int64_t now_ns, uint64_t *batch_id, int64_t *free_ns);

#endif
