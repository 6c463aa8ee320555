/*
 * A plan on one stream: its steps bound to the stream's memory, and CUDA graphs of the ranges of steps that
 * are run again and again. Whoever has the stream has its runners; work is queued in the order of the calls.
 */
#ifndef ENGINE_CUDA_RUN_RUNNER_H
#define ENGINE_CUDA_RUN_RUNNER_H

#include "engine/cuda/run/space.h"

enum {
    RUNNER_GRAPHS_MAX = 64, /* ranges kept; whole plans have two, exits and stages some dozens */
    RUNNER_RECORD_AFTER =
        2, /* plain runs: recording costs about as much as one, and kernels must be loaded before */
};

/* Steps to run, in this slot. */
typedef struct {
    uint32_t first, end, slot;
} step_range_t;

/* A range, and how often it was run without a graph. */
typedef struct {
    step_range_t steps;
    uint32_t runs;
    uint64_t used;
    device_graph_t *graph;
} recording_t;

struct runner {
    runner_t *next; /* of the plan */
    plan_t *plan;
    space_t *space;
    step_t *steps;
    uint64_t generation; /* of the space, when it was bound */
    uint32_t slot;       /* that it is bound to */
    bool records;        /* false: a step runs on the CPU, or recording failed once */
    recording_t recordings[RUNNER_GRAPHS_MAX];
    uint32_t recording_count;
    uint64_t clock;
    void *host; /* pinned, for HOST steps */
    void *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
};

/* The plan's runner on this stream, made when it is not there. It is the plan's. */
status_t plan_runner(plan_t *plan, space_t *space, runner_t **runner, err_t *err);
void runners_destroy(runner_t *first);

/* Bound to the space as it is now. */
bool runner_is_ready(const runner_t *runner);
/* Makes room in the space and binds to it. Nothing may be running on the stream. */
status_t runner_ready(runner_t *runner, err_t *err);

/* Records the steps for each slot at once, after a run on zeros. Ready; nothing may be running on the stream. */
status_t runner_prepare(runner_t *runner, uint32_t first, uint32_t end, err_t *err);

/* Queues the steps; returns after them when some run on the CPU. Ready. */
status_t runner_run(runner_t *runner, const step_range_t *steps, err_t *err);
/* The same without a graph. */
status_t runner_run_plainly(runner_t *runner, const step_range_t *steps, err_t *err);

/* Queues the copy of an input into a slot on the stream in, of an output to the host on the stream out. */
status_t runner_copy_in(runner_t *runner, uint32_t slot, uint32_t input, const void *from, err_t *err);
status_t runner_copy_out(runner_t *runner, uint32_t slot, uint32_t output, void *to, err_t *err);

#endif
