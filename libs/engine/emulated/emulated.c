/*
 * A GPU that only takes time. A whole batch of b is answered ℓ(b) after it began, ℓ from the profile that the
 * caller gives; a segment, or a batch that can be stopped, when its operators have run. What runs on several
 * streams shares the device as libs/accel says. Output rows are the leading bytes of input rows (output i of
 * input min(i, last)), zero-filled; so what is alive at a cut are the inputs. Batches queue as on a real
 * device. All emulated GPUs of a process share one timer thread; what takes no time on an idle stream is
 * answered inside submit.
 */
#include "accel/accel.h"
#include "base/clock.h"
#include "engine/backends.h"
#include "engine/compile/describe.h"
#include "engine/emulated/timer.h"
#include "engine/queue/cpu.h"
#include "engine/queue/fifo.h"
#include "engine/queue/segment.h"

#include <stdlib.h>
#include <string.h>

enum { OPS_MAX = 256 };         /* of a model: what one stream of the accelerator has room for */
enum { SLOT_SUBMITTED_NS = 1 }; /* of engine_private; the first is the fifo's */

typedef struct {
    fifo_t fifo;           /* driven by one thread at a time: who pushed into an idle one, then the timer */
    engine_job_t *running; /* on the accelerator */
    uint32_t reached;
} lane_t;

struct engine {
    emulated_entry_t entry;
    pthread_mutex_t mutex; /* the accelerator, the entry's time, and `running` of the lanes */
    accel_t *accel;
    double jitter;
    uint64_t random;
    uint32_t lane_count;
    lane_t lanes[];
};

struct engine_model {
    description_t description;
    engine_latency_fn latency;
    void *latency_arg;
    engine_op_fn op;
    void *op_arg;
    engine_cuts_t cuts;
    engine_cut_t *cut_list;
    size_t row_bytes; /* of all inputs */
};

/* Each input in a piece of its own. */
struct engine_border {
    uint32_t rows;
    uint64_t len_bytes;
    char *inputs[ENGINE_MAX_IO];
};

static const engine_model_info_t *info(const engine_model_t *model)
{
    return &model->description.info;
}

static status_t check_batch(const engine_model_t *model, uint32_t batch, err_t *err)
{
    if (batch < 1 || batch > info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       info(model)->max_batch);
    return STATUS_OK;
}

static status_t prepare(engine_model_t *model, uint32_t batch, err_t *err)
{
    return check_batch(model, batch, err);
}

static status_t prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                              const engine_shape_t *input_shapes, err_t *err)
{
    (void)range, (void)input_shapes;
    return check_batch(model, batch, err);
}

/* ---- what a job costs ---- */

/* xorshift64*: uniform in [-1, 1]. */
static double uniform(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return (double)((*state * UINT64_C(0x2545F4914F6CDD1D)) >> 11) / (double)(UINT64_C(1) << 52) - 1.0;
}

static engine_op_cost_t op_cost(const engine_model_t *model, uint32_t op, uint32_t batch)
{
    if (model->op)
        return model->op(model->op_arg, op, batch);
    int64_t all_ns = model->latency(model->latency_arg, batch), count = model->cuts.ops;
    return (engine_op_cost_t){.ns = all_ns * (op + 1) / count - all_ns * op / count, .occupancy = 1};
}

/* Fills what the accelerator runs; returns how many. Under the engine's lock: it draws. */
static uint32_t list_ops(engine_t *engine, const engine_job_t *job, accel_op_t ops[OPS_MAX], int64_t *sum_ns)
{
    const engine_model_t *model = job->model;
    double factor = engine->jitter > 0 ? 1.0 + engine->jitter * uniform(&engine->random) : 1;
    uint32_t from = job->range.from, count = segment_end(job, &model->cuts) - from;
    bool whole = segment_is_whole(job);
    *sum_ns = 0;
    for (uint32_t i = 0; i < (whole ? 1 : count); i++) {
        engine_op_cost_t cost = whole ? (engine_op_cost_t){model->latency(model->latency_arg, job->batch), 1}
                                      : op_cost(model, from + i, job->batch);
        int64_t ns = cost.ns > 0 ? (int64_t)((double)cost.ns * factor) : 0;
        ops[i] =
            (accel_op_t){.ns = ns, .occupancy = cost.occupancy, .exit = segment_is_exit(job, from + i + 1)};
        if (job->op_ns)
            job->op_ns[i] = ns;
        *sum_ns += ns;
    }
    return whole ? 1 : count;
}

/* ---- what a job does ---- */

static const char *input_row(const engine_model_info_t *info, const engine_job_t *job,
                             const char *const *inputs, uint32_t i, uint32_t row)
{
    return job->row_inputs ? job->row_inputs[row * info->input_count + i]
                           : inputs[i] + row * info->inputs[i].row_bytes;
}

static char *output_row(const engine_model_info_t *info, const engine_job_t *job, uint32_t i, uint32_t row)
{
    return job->row_outputs ? job->row_outputs[row * info->output_count + i]
                            : (char *)job->outputs[i] + row * info->outputs[i].row_bytes;
}

static void write_outputs(const engine_model_info_t *info, engine_job_t *job, const char *const *inputs)
{
    for (uint32_t i = 0; i < info->output_count; i++) {
        size_t to_bytes = info->outputs[i].row_bytes;
        uint32_t from = i < info->input_count ? i : info->input_count - 1;
        size_t from_bytes = info->input_count ? info->inputs[from].row_bytes : 0;
        size_t len = from_bytes < to_bytes ? from_bytes : to_bytes;
        for (uint32_t row = job->row; row < job->row + job->batch; row++) {
            char *to = output_row(info, job, i, row);
            if (len)
                memcpy(to, input_row(info, job, inputs, from, row), len);
            memset(to + len, 0, to_bytes - len);
        }
    }
}

static void write_border(const engine_model_info_t *info, const engine_job_t *job, const char *const *inputs)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        size_t row_bytes = info->inputs[i].row_bytes;
        memcpy(job->target->inputs[i] + job->row * row_bytes, inputs[i] + job->row * row_bytes,
               job->batch * row_bytes);
    }
}

static void answer(engine_job_t *job, uint32_t reached)
{
    const engine_model_t *model = job->model;
    const char *const *inputs =
        job->source ? (const char *const *)job->source->inputs : (const char *const *)job->inputs;
    err_t err;
    status_t status = STATUS_OK;
    job->reached = reached;
    if (reached < segment_end(job, &model->cuts))
        status = segment_stopped(job, reached, &err);
    else if (job->target)
        write_border(info(model), job, inputs);
    else
        write_outputs(info(model), job, inputs);
    fifo_answer(job, status, &err);
}

/* ---- time ---- */

static void set_timer_locked(engine_t *engine)
{
    int64_t next_ns = accel_next_ns(engine->accel);
    if (next_ns != ACCEL_NEVER)
        emulated_timer_set(&engine->entry, next_ns);
}

/* From now_ns on, or when it was submitted, if that was later. False: it takes no time. */
static bool launch(engine_t *engine, lane_t *lane, engine_job_t *job, int64_t now_ns)
{
    accel_op_t ops[OPS_MAX];
    int64_t sum_ns, submitted_ns = (int64_t)job->engine_private[SLOT_SUBMITTED_NS];
    now_ns = now_ns > submitted_ns ? now_ns : submitted_ns;
    pthread_mutex_lock(&engine->mutex);
    uint32_t count = list_ops(engine, job, ops, &sum_ns);
    if (sum_ns > 0) {
        accel_advance(engine->accel, now_ns);
        job->started_ns = accel_now_ns(engine->accel); /* of several streams another may have moved it on */
        uint64_t tag = (uint64_t)(lane - engine->lanes);
        accel_launch(engine->accel, (uint32_t)tag, tag, ops, count,
                     NULL); /* the stream is empty: it has room */
        lane->running = job;
        lane->reached = segment_end(job, &job->model->cuts);
        set_timer_locked(engine);
    } else {
        job->started_ns = job->finished_ns = now_ns;
    }
    pthread_mutex_unlock(&engine->mutex);
    return sum_ns > 0;
}

/* Runs jobs from this one on until one must wait. */
static void drive(engine_t *engine, lane_t *lane, engine_job_t *job, int64_t now_ns)
{
    for (; job && !launch(engine, lane, job, now_ns); job = fifo_next(&lane->fifo))
        answer(job, segment_end(job, &job->model->cuts));
}

/* The lane whose job has ended by now; NULL: none, and the timer is set to when the next operator ends. */
static lane_t *take_ended(engine_t *engine, engine_job_t **job, uint32_t *reached)
{
    lane_t *lane = NULL;
    uint64_t tag;
    pthread_mutex_lock(&engine->mutex);
    int64_t now_ns = clock_now_ns(), due_ns;
    while (!lane && (due_ns = accel_next_ns(engine->accel)) <= now_ns) {
        accel_advance(engine->accel, due_ns);
        if (!accel_take_ended(engine->accel, &tag))
            continue;
        lane = &engine->lanes[tag];
        *job = lane->running;
        *reached = lane->reached;
        lane->running->finished_ns = due_ns;
        lane->running = NULL;
    }
    if (!lane)
        set_timer_locked(engine);
    pthread_mutex_unlock(&engine->mutex);
    return lane;
}

/* The next job of a stream that waits begins when the last one was due, not when this thread got the processor. */
static void fire(emulated_entry_t *entry)
{
    engine_t *engine = (engine_t *)entry;
    engine_job_t *job;
    uint32_t reached;
    for (lane_t *lane; (lane = take_ended(engine, &job, &reached));) {
        int64_t due_ns = job->finished_ns;
        answer(job, reached);
        drive(engine, lane, fifo_next(&lane->fifo), due_ns);
    }
}

/* ---- jobs ---- */

static status_t check_borders(const engine_job_t *job, err_t *err)
{
    const engine_border_t *ends[] = {job->source, job->target};
    for (size_t i = 0; i < 2; i++)
        if (ends[i] && (job->row > ends[i]->rows || ends[i]->rows - job->row < job->batch))
            return err_set(err, STATUS_INVALID_ARGUMENT, "rows %u..%u are outside a border of %u", job->row,
                           job->row + job->batch, ends[i]->rows);
    return STATUS_OK;
}

static void submit(engine_t *engine, engine_job_t *job)
{
    err_t err;
    const engine_model_t *model = job->model;
    status_t status = fifo_check_job(info(model), &model->cuts, engine->lane_count, job, &err);
    if (status == STATUS_OK)
        status = check_borders(job, &err);
    if (status != STATUS_OK) {
        fifo_answer(job, status, &err);
        return;
    }
    lane_t *lane = &engine->lanes[job->range.stream];
    job->engine_private[SLOT_SUBMITTED_NS] = (uint64_t)clock_now_ns();
    if (fifo_push(&lane->fifo, job))
        drive(engine, lane, fifo_next(&lane->fifo), clock_now_ns());
}

static bool cancel(engine_t *engine, engine_job_t *job)
{
    return fifo_cancel(&engine->lanes[job->range.stream].fifo, job);
}

static bool stop(engine_t *engine, engine_job_t *job)
{
    uint32_t stream = job->range.stream, ran;
    lane_t *lane = &engine->lanes[stream];
    if (fifo_cancel(&lane->fifo, job))
        return true;
    pthread_mutex_lock(&engine->mutex);
    bool found = lane->running == job && job->exit_count;
    if (found) {
        accel_advance(engine->accel, clock_now_ns());
        if (accel_stop(engine->accel, stream, stream, &ran))
            lane->reached = job->range.from + ran;
        set_timer_locked(engine);
    }
    pthread_mutex_unlock(&engine->mutex);
    return found;
}

static void flush(engine_t *engine)
{
    for (uint32_t i = 0; i < engine->lane_count; i++)
        fifo_flush(&engine->lanes[i].fifo);
}

/* ---- borders ---- */

static status_t cuts(engine_model_t *model, engine_cuts_t *out, err_t *err)
{
    for (uint32_t i = 0; i < info(model)->input_count; i++)
        if (!info(model)->inputs[i].row_bytes)
            return err_set(err, STATUS_UNSUPPORTED,
                           "input '%.80s' varies or is empty: the emulated model runs whole",
                           info(model)->inputs[i].name);
    if (model->cuts.ops < 2)
        return err_set(err, STATUS_UNSUPPORTED, "the emulated model has one operator: it runs whole");
    *out = model->cuts;
    return STATUS_OK;
}

static void border_destroy(engine_border_t *border)
{
    for (uint32_t i = 0; border && i < ENGINE_MAX_IO; i++)
        free(border->inputs[i]);
    free(border);
}

static status_t border_create(engine_model_t *model, const uint32_t *at, uint32_t at_count, uint32_t rows,
                              const engine_shape_t *largest_shapes, engine_border_t **out, err_t *err)
{
    (void)largest_shapes;
    for (uint32_t i = 0; i < at_count; i++)
        if (segment_find_cut(&model->cuts, at[i]) == UINT32_MAX)
            return err_set(err, STATUS_INVALID_ARGUMENT, "operator %u is no cut", at[i]);
    engine_border_t *border = calloc(1, sizeof *border);
    bool ok = border;
    for (uint32_t i = 0; ok && i < info(model)->input_count; i++)
        ok = (border->inputs[i] = calloc(rows, info(model)->inputs[i].row_bytes));
    if (!ok) {
        border_destroy(border);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a border of %zu bytes", rows * model->row_bytes);
    }
    border->rows = rows;
    border->len_bytes = rows * model->row_bytes;
    *out = border;
    return STATUS_OK;
}

static uint64_t border_bytes(const engine_border_t *border)
{
    return border->len_bytes;
}

/* ---- life ---- */

static status_t make_engine(uint32_t streams, engine_t **out, err_t *err)
{
    engine_t *engine = calloc(1, sizeof *engine + streams * sizeof(lane_t));
    if (!engine)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an emulated engine");
    engine->accel = accel_create(streams, OPS_MAX, err);
    status_t status = engine->accel ? emulated_timer_acquire(err) : STATUS_NO_MEMORY;
    if (status != STATUS_OK) {
        accel_destroy(engine->accel);
        free(engine);
        return status;
    }
    *out = engine;
    return STATUS_OK;
}

static status_t emulated_open(const engine_config_t *config, engine_t **out, err_t *err)
{
    engine_t *engine;
    uint32_t streams = config->streams ? config->streams : 1;
    if (!(config->jitter >= 0 && config->jitter < 1))
        return err_set(err, STATUS_INVALID_ARGUMENT, "jitter %g is outside [0, 1)", config->jitter);
    if (streams > ENGINE_MAX_STREAMS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%u streams are more than %d", streams,
                       ENGINE_MAX_STREAMS);
    status_t status = make_engine(streams, &engine, err);
    if (status != STATUS_OK)
        return status;
    pthread_mutex_init(&engine->mutex, NULL);
    engine->lane_count = streams;
    for (uint32_t i = 0; i < streams; i++)
        fifo_init(&engine->lanes[i].fifo);
    engine->entry.fire = fire;
    engine->jitter = config->jitter;
    engine->random = (config->seed + config->index + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
    *out = engine;
    return STATUS_OK;
}

static void emulated_close(engine_t *engine)
{
    flush(engine);
    emulated_timer_remove(&engine->entry);
    for (uint32_t i = 0; i < engine->lane_count; i++)
        fifo_dispose(&engine->lanes[i].fifo);
    pthread_mutex_destroy(&engine->mutex);
    accel_destroy(engine->accel);
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
    free(model->cut_list);
    description_dispose(&model->description);
    free(model);
}

/* A cut before each operator; at each the inputs are alive. */
static status_t make_cuts(engine_model_t *model, const engine_load_t *what, err_t *err)
{
    uint32_t ops = what->op_count ? what->op_count : ENGINE_EMULATED_OPS;
    if (ops > OPS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "model '%.80s': %u operators are more than %d",
                       what->name, ops, OPS_MAX);
    model->cut_list = calloc(ops, sizeof *model->cut_list);
    if (!model->cut_list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    for (uint32_t i = 0; i < info(model)->input_count; i++)
        model->row_bytes += info(model)->inputs[i].row_bytes;
    for (uint32_t i = 0; i + 1 < ops; i++)
        model->cut_list[i] = (engine_cut_t){.op = i + 1,
                                            .tensors = info(model)->input_count,
                                            .row_bytes = model->row_bytes,
                                            .name = "emulated"};
    model->cuts = (engine_cuts_t){.ops = ops, .cuts = model->cut_list, .cut_count = ops - 1};
    return STATUS_OK;
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
    if (status == STATUS_OK)
        status = make_cuts(model, what, err);
    if (status != STATUS_OK) {
        unload(model);
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
    model->op = what->op;
    model->op_arg = what->op_arg;
    *out = model;
    return STATUS_OK;
}

const engine_ops_t engine_emulated = {
    .abi = ENGINE_ABI,
    .size_bytes = sizeof(engine_ops_t),
    .name = "emulated",
    .rows_apart = true,
    .device_count = cpu_device_count,
    .open = emulated_open,
    .close = emulated_close,
    .load = load,
    .unload = unload,
    .info = info,
    .prepare = prepare,
    .cuts = cuts,
    .border_create = border_create,
    .border_destroy = border_destroy,
    .border_bytes = border_bytes,
    .prepare_range = prepare_range,
    .submit = submit,
    .cancel = cancel,
    .stop = stop,
    .flush = flush,
    .buffer_alloc = cpu_buffer_alloc,
    .buffer_free = cpu_buffer_free,
};
