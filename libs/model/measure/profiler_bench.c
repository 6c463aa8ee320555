#include "model/measure/profiler_bench.h"

#include "base/clock.h"
#include "engine/wait.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

/* A gap between batches is looked for this often, and at most this long before each run: the next batch of
 * a queue that is never empty then waits for one run in two hundred milliseconds. */
static const int64_t GAP_POLL_NS = 100 * NS_PER_US;
static const int64_t GAP_PATIENCE_NS = 200 * NS_PER_MS;

/* Those who serve come first; but a device that is never free must be measured too. */
static void wait_for_a_gap(const profiler_t *profiler, bench_t *bench)
{
    const struct timespec pause = {.tv_nsec = GAP_POLL_NS};
    int64_t begin_ns = clock_now_ns();

    if (!profiler->busy || atomic_load(profiler->busy) == 0)
        return;
    while (atomic_load(profiler->busy) > 0 && clock_now_ns() - begin_ns < GAP_PATIENCE_NS)
        nanosleep(&pause, NULL);
    bench->waited_ns += clock_now_ns() - begin_ns;
}

static status_t run_job(const profiler_t *profiler, bench_t *bench, err_t *err)
{
    wait_for_a_gap(profiler, bench);
    return engine_run_wait(profiler->ops, profiler->engine, &bench->job, err);
}

/* Room for the outputs as the job has just said they are. True: something has grown. */
static bool grow_outputs(const profiler_t *profiler, bench_t *bench)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    bool grown = false;

    for (uint32_t o = 0; o < info->output_count; o++) {
        void **buffer = &bench->buffers[info->input_count + o];
        uint64_t row = axes_output_row_bytes(info, o, &bench->out_shapes[o]), need;
        if (__builtin_mul_overflow(row, (uint64_t)bench->job.batch, &need) || need <= bench->capacity[o])
            continue;
        void *larger = profiler->ops->buffer_alloc(profiler->engine, need);
        if (!larger)
            return false;
        profiler->ops->buffer_free(profiler->engine, *buffer);
        *buffer = larger;
        bench->capacity[o] = need;
        grown = true;
    }
    return grown;
}

status_t bench_run(const profiler_t *profiler, engine_job_t *job, int64_t *took_ns, err_t *err)
{
    bench_t *bench = (bench_t *)job;

    if (profiler->axes)
        axes_input_shapes(profiler->axes, profiler->axis_sizes, job->batch, bench->in_shapes);
    status_t status = run_job(profiler, bench, err);
    if (status == STATUS_TOO_LARGE && profiler->axes && grow_outputs(profiler, bench))
        status = run_job(profiler, bench, err);
    if (status == STATUS_OK)
        *took_ns = job->finished_ns - job->started_ns;
    return status;
}

bool profiler_others_are_served(const profiler_t *profiler, int64_t quiet_ns)
{
    if (!profiler->granted_ns || (profiler->busy && atomic_load(profiler->busy) > 0))
        return true;
    return clock_now_ns() - atomic_load(profiler->granted_ns) < quiet_ns;
}

bool bench_keeps_others_waiting(const profiler_t *profiler, int64_t took_ns)
{
    return profiler->step_most_ns && took_ns > atomic_load(profiler->step_most_ns) &&
           profiler_others_are_served(profiler, PROFILER_QUIET_NS);
}

/* Of one row; of an output that varies nothing: it grows when a run says how much. */
static uint64_t row_bytes(const profiler_t *profiler, const engine_model_info_t *info, uint32_t i)
{
    if (i >= info->input_count)
        return info->outputs[i - info->input_count].row_bytes;
    return profiler->axes ? axes_row_bytes(profiler->axes, i, profiler->axis_sizes)
                          : info->inputs[i].row_bytes;
}

/* Strings that the model knows, when it takes no others. */
static void put_samples(const engine_tensor_t *tensor, uint32_t rows, void *buffer)
{
    for (uint32_t row = 0; tensor->sample && row < rows; row++)
        memcpy((char *)buffer + row * tensor->row_bytes, tensor->sample, tensor->row_bytes);
}

/* Buffers for the largest batch; zeros are as good as any input for the time of a convolution. */
static status_t buffers_alloc(const profiler_t *profiler, const engine_model_info_t *info, bench_t *bench,
                              err_t *err)
{
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        uint64_t len;
        if (!__builtin_mul_overflow(row_bytes(profiler, info, i), (uint64_t)info->max_batch, &len))
            bench->buffers[i] = profiler->ops->buffer_alloc(profiler->engine, len ? len : 1);
        if (!bench->buffers[i])
            return err_set(err, STATUS_NO_MEMORY, "no memory to measure batches of %u", info->max_batch);
        memset(bench->buffers[i], 0, len);
        if (i < info->input_count && len > 0)
            put_samples(&info->inputs[i], info->max_batch, bench->buffers[i]);
        if (i >= info->input_count)
            bench->capacity[i - info->input_count] = len;
    }
    return STATUS_OK;
}

status_t bench_init(const profiler_t *profiler, const engine_model_info_t *info, bench_t *bench, err_t *err)
{
    *bench = (bench_t){0};
    bench->job = (engine_job_t){.model = profiler->model,
                                .inputs = (const void *const *)bench->buffers,
                                .outputs = bench->buffers + info->input_count};
    if (profiler->axes) {
        bench->job.input_shapes = bench->in_shapes;
        bench->job.output_shapes = bench->out_shapes;
        bench->job.output_capacity_bytes = bench->capacity;
    }
    return buffers_alloc(profiler, info, bench, err);
}

void bench_dispose(const profiler_t *profiler, bench_t *bench)
{
    for (uint32_t i = 0; i < 2 * ENGINE_MAX_IO; i++) {
        if (bench->buffers[i])
            profiler->ops->buffer_free(profiler->engine, bench->buffers[i]);
    }
}
