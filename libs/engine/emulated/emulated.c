/*
 * A GPU that only takes time: a batch of b is answered ℓ(b) after it began, ℓ from the profile that the
 * caller gives. Output rows are the leading bytes of input rows (output i of input min(i, last)),
 * zero-filled. Batches queue as on a real device. All emulated GPUs of a process share one timer thread; ℓ =
 * 0 on an idle device answers inside submit.
 */
#include "base/clock.h"
#include "engine/backends.h"
#include "engine/cpu.h"
#include "engine/describe.h"
#include "engine/emulated/timer.h"
#include "engine/fifo.h"

#include <stdlib.h>
#include <string.h>

struct engine {
    emulated_entry_t entry; /* of the running job */
    fifo_t fifo;
    engine_job_t *running;
    double jitter;
    uint64_t random;
};

struct engine_model {
    description_t description;
    engine_latency_fn latency;
    void *latency_arg;
};

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    if (batch < 1 || batch > model->description.info.max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       model->description.info.max_batch);
    return STATUS_OK;
}

/* xorshift64*: uniform in [-1, 1]. */
static double uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) / (double)(UINT64_C(1) << 52) - 1.0;
}

static int64_t duration_ns(engine_t *engine, const engine_job_t *job)
{
    int64_t ns = job->model->latency(job->model->latency_arg, job->batch);
    if (engine->jitter > 0)
        ns = (int64_t)((double)ns * (1.0 + engine->jitter * uniform(&engine->random)));
    return ns > 0 ? ns : 0;
}

static void copy_rows(const engine_model_info_t *info, engine_job_t *job)
{
    for (uint32_t i = 0; i < info->output_count; i++) {
        size_t to_bytes = info->outputs[i].row_bytes;
        uint32_t from = i < info->input_count ? i : info->input_count - 1;
        size_t from_bytes = info->input_count ? info->inputs[from].row_bytes : 0;
        size_t len = from_bytes < to_bytes ? from_bytes : to_bytes;
        for (uint32_t row = 0; row < job->batch; row++) {
            char *to = (char *)job->outputs[i] + row * to_bytes;
            if (len)
                memcpy(to, (const char *)job->inputs[from] + row * from_bytes, len);
            memset(to + len, 0, to_bytes - len);
        }
    }
}

static void finish(engine_job_t *job)
{
    copy_rows(&job->model->description.info, job);
    fifo_answer(job, STATUS_OK, NULL);
}

/* Runs jobs from this one on until one must wait; the queue may be driven by one thread at a time only. */
static void drive(engine_t *engine, engine_job_t *job, int64_t now_ns)
{
    for (; job; job = fifo_next(&engine->fifo)) {
        int64_t ns = duration_ns(engine, job);
        job->started_ns = now_ns;
        job->finished_ns = now_ns += ns;
        if (ns) {
            engine->running = job;
            engine->entry.due_ns = now_ns;
            emulated_timer_add(&engine->entry);
            return;
        }
        finish(job);
    }
}

/* The next job begins when the last one was due, not when this thread got the processor. */
static void fire(emulated_entry_t *entry)
{
    engine_t *engine = (engine_t *)entry;
    finish(engine->running);
    drive(engine, fifo_next(&engine->fifo), entry->due_ns);
}

static void submit(engine_t *engine, engine_job_t *job)
{
    err_t err;
    status_t status = fifo_check_job(&job->model->description.info, job, &err);
    if (status != STATUS_OK)
        fifo_answer(job, status, &err);
    else if (fifo_push(&engine->fifo, job))
        drive(engine, fifo_next(&engine->fifo), clock_now_ns());
}

static bool cancel(engine_t *engine, engine_job_t *job)
{
    return fifo_cancel(&engine->fifo, job);
}

static void flush(engine_t *engine)
{
    fifo_flush(&engine->fifo);
}

static status_t emulated_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    if (!(config->jitter >= 0 && config->jitter < 1))
        return err_set(err, STATUS_INVALID_ARGUMENT, "jitter %g is outside [0, 1)", config->jitter);
    engine_t *engine = calloc(1, sizeof *engine);
    if (!engine)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an emulated engine");
    status_t status = emulated_timer_acquire(err);
    if (status != STATUS_OK) {
        free(engine);
        return status;
    }
    fifo_init(&engine->fifo);
    engine->entry.fire = fire;
    engine->jitter = config->jitter;
    engine->random = (config->seed + config->index + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    *out = engine;
    return STATUS_OK;
}

static void emulated_close(engine_t *engine)
{
    fifo_flush(&engine->fifo);
    fifo_dispose(&engine->fifo);
    free(engine);
    emulated_timer_release();
}

/* A row of no bytes is not one that varies. */
static bool tensor_is_empty(const engine_tensor_t *t)
{
    for (uint32_t i = 0; i < t->rank; i++)
        if (t->dims[i] < 0)
            return false;
    return true;
}

static void unload(engine_model_t *model)
{
    description_dispose(&model->description);
    free(model);
}

static status_t load(engine_t *engine, const engine_load_t *what, engine_model_t **out, err_t *err)
{
    (void)engine;
    if (!what->latency)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "model '%s': the emulated engine needs a latency profile", what->name);
    engine_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%s'", what->name);
    status_t status = describe(&model->description, what, err);
    if (status != STATUS_OK) {
        free(model);
        return status;
    }
    for (uint32_t i = 0; i < model->description.info.output_count; i++) {
        if (model->description.outputs[i].row_bytes || tensor_is_empty(&model->description.outputs[i]))
            continue;
        err_set(err, STATUS_UNSUPPORTED, "model '%.60s': output '%.80s' varies, which cannot be emulated",
                what->name, model->description.outputs[i].name);
        unload(model);
        return STATUS_UNSUPPORTED;
    }
    model->latency = what->latency;
    model->latency_arg = what->latency_arg;
    *out = model;
    return STATUS_OK;
}

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

const engine_ops_t engine_emulated = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "emulated",
    .device_count = cpu_device_count,
    .open = emulated_open,
    .close = emulated_close,
    .load = load,
    .unload = unload,
    .info = info,
    .prepare = prepare,
    .submit = submit,
    .cancel = cancel,
    .flush = flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};
