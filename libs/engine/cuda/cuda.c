/*
 * The CUDA engine: one thread per opened GPU takes the jobs in order. While a batch is computed, the inputs of the next one
 * are copied in and its graph is queued behind, so the GPU goes from one batch to the next without the host.
 */
#include "base/clock.h"
#include "base/log.h"
#include "engine/cpu.h"
#include "engine/cuda/accuracy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Events of the two slots. */
enum { EVENT_IN, EVENT_COMPUTED, EVENT_OUT, EVENTS_PER_SLOT };

/* A job between its launch and its answer. */
typedef struct {
    engine_job_t *job; /* NULL = none */
    plan_t *plan;
    int64_t launched_ns;
    status_t status;
    err_t err;
} flight_t;

struct engine {
    fifo_t fifo;
    pthread_t thread;
    device_t *device;
    pool_t pool;
    space_t space;
    /* The thread holds it while a batch is in flight; prepare takes it to let the space grow. */
    pthread_mutex_t busy;
    atomic_uint waiting; /* for busy: the thread pauses between two batches */
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* a batch was answered, or nobody waits for busy any more */
    uint64_t taken, answered;
    int64_t last_finished_ns;
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

/* ---- one batch ---- */

static status_t check_outputs(flight_t *f)
{
    const program_t *p = f->plan->program;
    const tensor_t *outputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < p->output_count; i++)
        outputs[i] = &p->outputs[i];
    return cpu_job_outputs(info(f->job->model), f->job, outputs, &f->err);
}

static status_t queue(engine_t *e, flight_t *f, uint32_t slot)
{
    uint32_t first = slot * EVENTS_PER_SLOT;
    status_t status = plan_copy_in(f->plan, &e->space, slot, f->job->inputs, &f->err);
    if (status == STATUS_OK)
        status = device_mark(e->device, STREAM_IN, first + EVENT_IN, &f->err);
    if (status == STATUS_OK)
        status = device_follow(e->device, STREAM_COMPUTE, first + EVENT_IN, &f->err);
    f->launched_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = plan_compute(f->plan, &e->space, slot, &f->err);
    if (status == STATUS_OK)
        status = device_mark(e->device, STREAM_COMPUTE, first + EVENT_COMPUTED, &f->err);
    if (status == STATUS_OK)
        status = device_follow(e->device, STREAM_OUT, first + EVENT_COMPUTED, &f->err);
    for (uint32_t i = 0; status == STATUS_OK && i < f->plan->program->output_count; i++)
        status = plan_copy_out(f->plan, &e->space, slot, i, f->job->outputs[i], &f->err);
    if (status == STATUS_OK)
        status = device_mark(e->device, STREAM_OUT, first + EVENT_OUT, &f->err);
    return status;
}

static void answer(engine_t *e, flight_t *f)
{
    f->job->finished_ns = clock_now_ns();
    f->job->started_ns = f->launched_ns > e->last_finished_ns ? f->launched_ns : e->last_finished_ns;
    e->last_finished_ns = f->job->finished_ns;
    fifo_answer(f->job, f->status, &f->err);
    f->job = NULL;
    pthread_mutex_lock(&e->mutex);
    e->answered++;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->mutex);
}

/* Waits for the batch of a slot, if there is one, and answers it. */
static void finish(engine_t *e, flight_t *f, uint32_t slot)
{
    if (!f->job)
        return;
    if (f->status == STATUS_OK && f->plan)
        f->status = device_wait(e->device, slot * EVENTS_PER_SLOT + EVENT_OUT, &f->err);
    answer(e, f);
}

/* After a failure half a batch may still be queued: it must be over before its buffers are handed back. */
static void drain(engine_t *e)
{
    err_t err;
    for (stream_t s = STREAM_IN; s <= STREAM_OUT; s++)
        device_sync(e->device, s, &err);
}

/* Starts a batch in a slot, behind the one that is in flight in the other. */
static void start(engine_t *e, flight_t *f, engine_job_t *job, uint32_t slot, flight_t *before)
{
    tensor_t inputs[ENGINE_MAX_IO];
    *f = (flight_t){.job = job, .launched_ns = clock_now_ns()};
    f->status = cpu_job_inputs(info(job->model), job, inputs, &f->err);
    if (f->status == STATUS_OK && job->model->by_value) {
        f->status = cpu_job_interpret(info(job->model), job, job->model->graph, inputs, &f->err);
        return;
    }
    if (f->status == STATUS_OK && !model_find_plan(job->model, job->batch, inputs))
        finish(e, before, !slot); /* building may push out the plan that is running */
    if (f->status == STATUS_OK)
        f->status = model_plan(job->model, job->batch, inputs, &f->plan, &f->err);
    if (f->status == STATUS_OK)
        f->status = check_outputs(f);
    if (f->status != STATUS_OK) {
        f->plan = NULL;
        return;
    }
    if (f->plan->generation != e->space.generation) {
        finish(e, before, !slot);
        f->status = plan_ready(f->plan, &e->space, &f->err);
    }
    if (f->plan->program->host_steps)
        finish(e, before, !slot);
    if (f->status == STATUS_OK)
        f->status = queue(e, f, slot);
    if (f->status != STATUS_OK)
        drain(e);
}

/* ---- the thread ---- */

static void take_busy(engine_t *e)
{
    pthread_mutex_lock(&e->mutex);
    while (atomic_load(&e->waiting))
        pthread_cond_wait(&e->changed, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
    pthread_mutex_lock(&e->busy);
}

static void count_taken(engine_t *e)
{
    pthread_mutex_lock(&e->mutex);
    e->taken++;
    pthread_mutex_unlock(&e->mutex);
}

/* One or two batches in flight until there is nothing to do, or somebody else wants the space. */
static void run_burst(engine_t *e, engine_job_t *job)
{
    flight_t flights[PLAN_SLOTS] = {{.job = NULL}};
    uint32_t slot = 0;
    take_busy(e);
    while (job || flights[0].job || flights[1].job) {
        if (job)
            start(e, &flights[slot], job, slot, &flights[!slot]);
        finish(e, &flights[!slot], !slot);
        slot = !slot;
        job = atomic_load(&e->waiting) ? NULL : fifo_next(&e->fifo);
        if (job)
            count_taken(e);
    }
    pthread_mutex_unlock(&e->busy);
}

static void *engine_main(void *arg)
{
    engine_t *e = arg;
    engine_job_t *job;
    while ((job = fifo_wait(&e->fifo))) {
        count_taken(e);
        run_burst(e, job);
    }
    return NULL;
}

static void lock_space(engine_t *e)
{
    atomic_fetch_add(&e->waiting, 1);
    pthread_mutex_lock(&e->busy);
}

static void unlock_space(engine_t *e)
{
    pthread_mutex_unlock(&e->busy);
    pthread_mutex_lock(&e->mutex);
    atomic_fetch_sub(&e->waiting, 1);
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->mutex);
}

/* ---- life ---- */

static void *pool_get(void *arg, size_t len)
{
    return device_alloc(arg, len);
}

static void pool_put(void *arg, void *memory)
{
    device_free(arg, memory);
}

static void release(engine_t *e)
{
    space_dispose(&e->space);
    pool_dispose(&e->pool);
    device_close(e->device);
    pthread_cond_destroy(&e->changed);
    pthread_mutex_destroy(&e->mutex);
    pthread_mutex_destroy(&e->busy);
    fifo_dispose(&e->fifo);
    free(e);
}

static status_t cuda_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    engine_t *e = calloc(1, sizeof *e);
    if (!e)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an engine");
    status_t status = device_open(config->index, &e->device, err);
    if (status != STATUS_OK) {
        free(e);
        return status;
    }
    /* A little is left for the driver and the libraries, which allocate on their own. */
    uint64_t limit = device_free_bytes(e->device) / 20 * 19;
    if (config->memory_limit_bytes && config->memory_limit_bytes < limit)
        limit = config->memory_limit_bytes;
    pool_init(&e->pool, limit, pool_get, pool_put, e->device);
    space_init(&e->space, e->device, &e->pool);
    fifo_init(&e->fifo);
    pthread_mutex_init(&e->busy, NULL);
    pthread_mutex_init(&e->mutex, NULL);
    pthread_cond_init(&e->changed, NULL);
    if (pthread_create(&e->thread, NULL, engine_main, e)) {
        release(e);
        return err_set(err, STATUS_IO, "cannot start the thread of an engine");
    }
    log_info("engine_open", LOG_STR("engine", device_engine_name), LOG_U64("device", config->index),
             LOG_STR("name", device_name(e->device)), LOG_U64("memory_limit_mib", limit >> 20));
    *out = e;
    return STATUS_OK;
}

static void cuda_close(engine_t *e)
{
    fifo_stop(&e->fifo);
    pthread_join(e->thread, NULL);
    release(e);
}

static const char *describe_device(const engine_t *e, uint64_t *memory_bytes)
{
    *memory_bytes = e->pool.limit_bytes;
    return device_name(e->device);
}

static void report_accuracy(engine_model_t *model, const char *name)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    accuracy_t a;
    err_t err;
    if (accuracy_measure(model, &a, &err) == STATUS_OK)
        log_info("model_accuracy", LOG_STR("model", name), LOG_STR("precision", names[model->precision]),
                 LOG_F64("max_relative_error", a.max_relative),
                 LOG_F64("rms_relative_error", a.rms_relative));
    else
        log_info("model_accuracy_not_measured", LOG_STR("model", name), LOG_ERR(&err));
}

static status_t load(engine_t *e, const engine_load_t *what, engine_model_t **model, err_t *err)
{
    if (what->precision < ENGINE_FP32 || what->precision > ENGINE_BF16)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model '%.80s': there is no such precision", what->name);
    status_t status = model_create(e, e->device, &e->pool, what, model, err);
    if (status == STATUS_OK && what->precision != ENGINE_FP32)
        report_accuracy(*model, what->name);
    return status;
}

static void unload(engine_model_t *model)
{
    model_destroy(model);
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    plan_t *plan;
    engine_t *e = model->engine;
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    if (model->by_value || model->varies)
        return STATUS_OK;
    model_batch_shapes(model, batch, inputs);
    status_t status = model_plan(model, batch, inputs, &plan, err);
    if (status != STATUS_OK)
        return status;
    lock_space(e);
    status = plan_ready(plan, &e->space, err);
    unlock_space(e);
    return status;
}

static void submit(engine_t *e, engine_job_t *job)
{
    err_t err;
    status_t status = fifo_check_job(info(job->model), NULL, 1, job, &err);
    if (status == STATUS_OK && device_is_lost(e->device))
        status =
            err_set(&err, STATUS_UNAVAILABLE, "the GPU is lost; this process must be started anew to use it");
    if (status != STATUS_OK)
        fifo_answer(job, status, &err);
    else
        fifo_push(&e->fifo, job);
}

static bool cancel(engine_t *e, engine_job_t *job)
{
    return fifo_cancel(&e->fifo, job);
}

/* The queue counts a batch as done when the next one is taken; the last two may still be in flight. */
static void flush(engine_t *e)
{
    fifo_flush(&e->fifo);
    pthread_mutex_lock(&e->mutex);
    uint64_t until = e->taken;
    while (e->answered < until)
        pthread_cond_wait(&e->changed, &e->mutex);
    pthread_mutex_unlock(&e->mutex);
}

static void *buffer_alloc(engine_t *e, size_t len_bytes)
{
    return device_pinned_alloc(e->device, len_bytes);
}

static void buffer_free(engine_t *e, void *buffer)
{
    if (buffer)
        device_pinned_free(e->device, buffer);
}

static const engine_ops_t ops = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = device_engine_name,
    .device_count = device_count,
    .open = cuda_open,
    .close = cuda_close,
    .load = load,
    .unload = unload,
    .info = info,
    .prepare = prepare,
    .submit = submit,
    .cancel = cancel,
    .flush = flush,
    .buffer_alloc = buffer_alloc,
    .buffer_free = buffer_free,
    .describe = describe_device,
};

const engine_ops_t *fermata_engine(uint32_t abi);

const engine_ops_t *fermata_engine(uint32_t abi)
{
    return abi == ENGINE_ABI ? &ops : NULL;
}
