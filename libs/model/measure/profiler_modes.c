#include "model/measure/profiler_modes.h"

#include "base/clock.h"
#include "model/measure/profiler_bench.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Operators are run so often, or for as long. */
enum { OPERATOR_RUNS = 3 };
static const int64_t OPERATORS_NS = 400 * NS_PER_MS;

/* Leaves in job->batch as many of its rows as others can wait for, if each takes as long as one alone. */
static status_t limit_rows(const profiler_t *profiler, engine_job_t *job, err_t *err)
{
    uint32_t rows = job->batch;
    int64_t one_ns = 0;

    if (!profiler->step_most_ns)
        return STATUS_OK;
    job->batch = 1;
    status_t status = bench_run(profiler, job, &one_ns, err);
    if (bench_keeps_others_waiting(profiler, one_ns * rows))
        rows = (uint32_t)(atomic_load(profiler->step_most_ns) / one_ns);
    job->batch = rows > 0 ? rows : 1;
    return status;
}

static status_t measure_operators(const profiler_t *profiler, engine_job_t *job, uint32_t ops, int64_t *op_ns,
                                  err_t *err)
{
    uint32_t rows = job->batch;
    status_t status = limit_rows(profiler, job, err);
    int64_t begin = clock_now_ns(), took = 0;

    for (uint32_t run = 0; run < OPERATOR_RUNS && !bench_keeps_others_waiting(profiler, took); run++) {
        if (status == STATUS_OK)
            status = bench_run(profiler, job, &took, err);
        if (status != STATUS_OK)
            return status;
        for (uint32_t op = 0; op < ops; op++)
            if (run == 0 || job->op_ns[op] < op_ns[op])
                op_ns[op] = job->op_ns[op];
        if (atomic_load(profiler->stop))
            return err_set(err, STATUS_CANCELLED, "stopped");
        if (clock_now_ns() - begin > OPERATORS_NS)
            break;
    }
    for (uint32_t op = 0; op < ops; op++)
        op_ns[op] = op_ns[op] * rows / job->batch;
    return STATUS_OK;
}

status_t profiler_operators(const profiler_t *profiler, uint32_t batch, uint32_t ops, int64_t *op_ns,
                            err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;
    int64_t *run_ns = calloc(ops, sizeof(*run_ns));

    if (!run_ns)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u operators", ops);
    status_t status = bench_init(profiler, info, &bench, err);
    bench.job.batch = batch;
    bench.job.op_ns = run_ns;
    if (status == STATUS_OK)
        status = measure_operators(profiler, &bench.job, ops, op_ns, err);
    bench_dispose(profiler, &bench);
    free(run_ns);
    return status;
}

status_t profiler_output_bytes(const profiler_t *profiler, size_t row_bytes[ENGINE_MAX_IO], err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;
    int64_t took_ns;
    status_t status = bench_init(profiler, info, &bench, err);

    bench.job.batch = 1;
    if (status == STATUS_OK)
        status = bench_run(profiler, &bench.job, &took_ns, err);
    for (uint32_t o = 0; status == STATUS_OK && o < info->output_count; o++)
        row_bytes[o] = axes_output_row_bytes(info, o, &bench.out_shapes[o]);
    bench_dispose(profiler, &bench);
    return status;
}

static status_t measure_exits(const profiler_t *profiler, engine_job_t *job, uint32_t exit_count,
                              uint32_t runs, int64_t least_ns[2], err_t *err)
{
    least_ns[0] = least_ns[1] = INT64_MAX;
    for (uint32_t run = 0; run < 2 * (runs + 1); run++) { /* the first of each only warms up */
        int64_t took_ns;
        job->exit_count = run % 2 ? 0 : exit_count;
        status_t status = bench_run(profiler, job, &took_ns, err);
        if (status == STATUS_OK && atomic_load(profiler->stop))
            status = err_set(err, STATUS_CANCELLED, "stopped");
        if (status != STATUS_OK)
            return status;
        if (run >= 2 && took_ns < least_ns[run % 2])
            least_ns[run % 2] = took_ns;
    }
    return STATUS_OK;
}

status_t profiler_exits(const profiler_t *profiler, uint32_t batch, const uint32_t *exits,
                        uint32_t exit_count, uint32_t runs, int64_t *with_ns, int64_t *without_ns, err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bench_t bench;
    int64_t least_ns[2];
    status_t status = bench_init(profiler, info, &bench, err);

    bench.job.batch = batch;
    bench.job.exits = exits;
    if (status == STATUS_OK)
        status = measure_exits(profiler, &bench.job, exit_count, runs, least_ns, err);
    if (status == STATUS_OK) {
        *with_ns = least_ns[0];
        *without_ns = least_ns[1];
    }
    bench_dispose(profiler, &bench);
    return status;
}
