#include "profiler.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    WARM_RUNS = 2,
    RUNS_MIN = 3,
    RUNS_MAX = 101,
    SIZES_MAX = 32,
    ALWAYS_SIZES = 2, /* measured whatever the budget: two points make a slope */
};
/* A size is measured for about this long, so that one disturbance of the machine does not cover all its runs. */
static const int64_t SIZE_GOAL_NS = 60 * NS_PER_MS;
/* One run this long is enough of its size. */
static const int64_t SIZE_BUDGET_NS = 400 * NS_PER_MS;

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
    status_t status;
    err_t err;
} waiter_t;

static void waiter_on_done(engine_job_t *job, status_t status, const err_t *err)
{
    waiter_t *waiter = job->arg;

    pthread_mutex_lock(&waiter->mutex);
    waiter->done = true;
    waiter->status = status;
    if (err)
        waiter->err = *err;
    pthread_cond_signal(&waiter->changed);
    pthread_mutex_unlock(&waiter->mutex);
}

static status_t run_once(const profiler_t *profiler, engine_job_t *job, int64_t *took_ns, err_t *err)
{
    waiter_t waiter = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

    job->arg = &waiter;
    job->done = waiter_on_done;
    profiler->ops->submit(profiler->engine, job);
    pthread_mutex_lock(&waiter.mutex);
    while (!waiter.done)
        pthread_cond_wait(&waiter.changed, &waiter.mutex);
    pthread_mutex_unlock(&waiter.mutex);
    pthread_cond_destroy(&waiter.changed);
    pthread_mutex_destroy(&waiter.mutex);
    if (waiter.status != STATUS_OK) {
        if (err)
            *err = waiter.err;
        return waiter.status;
    }
    *took_ns = job->finished_ns - job->started_ns;
    return STATUS_OK;
}

static int compare_i64(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static status_t measure_size(const profiler_t *profiler, engine_job_t *job, int64_t *median_ns, err_t *err)
{
    int64_t took[RUNS_MAX], warm, begin = clock_now_ns();
    int runs = 0;

    for (int i = 0; i < WARM_RUNS; i++) {
        status_t status = run_once(profiler, job, &warm, err);
        if (status != STATUS_OK)
            return status;
        if (warm > SIZE_BUDGET_NS)
            break; /* so slow that warming up is no matter */
    }
    while (runs < RUNS_MIN || (runs < RUNS_MAX && clock_now_ns() - begin < SIZE_GOAL_NS)) {
        status_t status = run_once(profiler, job, &took[runs++], err);
        if (status != STATUS_OK)
            return status;
        if (atomic_load(profiler->stop))
            return err_set(err, STATUS_CANCELLED, "stopped");
        if (took[runs - 1] > SIZE_BUDGET_NS)
            break;
    }
    qsort(took, (size_t)runs, sizeof(took[0]), compare_i64);
    *median_ns = took[runs / 2];
    return STATUS_OK;
}

uint32_t profiler_sizes(uint32_t max_batch, uint32_t *sizes, uint32_t cap)
{
    uint32_t count = 0, power = 1;

    for (uint32_t size = 1; size < max_batch && count + 1 < cap;) {
        sizes[count++] = size;
        if (size < 4) {
            size++;
            power = 4;
        } else if (size == power) {
            size = power + power / 2;
        } else {
            power *= 2;
            size = power;
        }
    }
    sizes[count++] = max_batch;
    return count;
}

/* Buffers for the largest batch; zeros are as good as any input for the time of a convolution. */
static status_t buffers_alloc(const profiler_t *profiler, const engine_model_info_t *info, void **all,
                              err_t *err)
{
    uint32_t total = info->input_count + info->output_count;

    for (uint32_t i = 0; i < total; i++) {
        const engine_tensor_t *tensor =
            i < info->input_count ? &info->inputs[i] : &info->outputs[i - info->input_count];
        size_t len = tensor->row_bytes * info->max_batch;
        all[i] = profiler->ops->buffer_alloc(profiler->engine, len ? len : 1);
        if (!all[i])
            return err_set(err, STATUS_NO_MEMORY, "no memory to measure batches of %u", info->max_batch);
        memset(all[i], 0, len);
    }
    return STATUS_OK;
}

static status_t measure_all(const profiler_t *profiler, const engine_model_info_t *info, void **buffers,
                            profile_t *profile, err_t *err)
{
    profile_point_t points[SIZES_MAX];
    uint32_t sizes[SIZES_MAX], count = profiler_sizes(info->max_batch, sizes, SIZES_MAX), measured = 0;
    int64_t begin = clock_now_ns();
    engine_job_t job = {.model = profiler->model,
                        .inputs = (const void *const *)buffers,
                        .outputs = buffers + info->input_count};

    for (; measured < count; measured++) {
        if (measured >= ALWAYS_SIZES && clock_now_ns() - begin > profiler->budget_ns)
            break;
        job.batch = points[measured].batch = sizes[measured];
        status_t status = measure_size(profiler, &job, &points[measured].latency_ns, err);
        if (status != STATUS_OK)
            return status;
    }
    return profile_from_points(profile, points, measured, info->max_batch, err);
}

status_t profiler_measure(const profiler_t *profiler, profile_t *profile, err_t *err)
{
    const engine_model_info_t *info = profiler->ops->info(profiler->model);
    void *buffers[2 * ENGINE_MAX_IO] = {0};

    status_t status = buffers_alloc(profiler, info, buffers, err);
    if (status == STATUS_OK)
        status = measure_all(profiler, info, buffers, profile, err);
    for (uint32_t i = 0; i < info->input_count + info->output_count; i++) {
        if (buffers[i])
            profiler->ops->buffer_free(profiler->engine, buffers[i]);
    }
    return status;
}
