/*
 * A batch of zeros with buffers of its own, run on the profiler's device in gaps between the batches of others. What the
 * files of the profiler share; threads as in profiler.h.
 */
#ifndef MODEL_PROFILER_BENCH_H
#define MODEL_PROFILER_BENCH_H

#include "model/measure/profiler.h"

/* The job is the first member, so that the bench can be found from it. */
typedef struct {
    engine_job_t job;
    void *buffers[2 * ENGINE_MAX_IO];
    size_t capacity[ENGINE_MAX_IO]; /* of the outputs */
    engine_shape_t in_shapes[ENGINE_MAX_IO], out_shapes[ENGINE_MAX_IO];
    int64_t begin_ns, waited_ns; /* for gaps, since it began */
} bench_t;

/* Buffers for the largest batch of the model. Also after an error it is to be disposed of. */
status_t bench_init(const profiler_t *profiler, const engine_model_info_t *info, bench_t *bench, err_t *err);
void bench_dispose(const profiler_t *profiler, bench_t *bench);

/* Runs job->batch rows of a bench once. */
status_t bench_run(const profiler_t *profiler, engine_job_t *job, int64_t *took_ns, err_t *err);

/* Whether a run that takes so long holds up others longer than they can wait. */
bool bench_keeps_others_waiting(const profiler_t *profiler, int64_t took_ns);

#endif
