#include "engine/cuda/lane.h"

#include "base/clock.h"
#include "engine/queue/cpu.h"
#include "engine/queue/segment.h"

#include <stdlib.h>

/* Events of a slot; behind those of both slots, those of the pieces of a job with exits. */
enum { EVENT_IN, EVENT_COMPUTED, EVENT_OUT, EVENTS_PER_SLOT };
enum { EVENT_PIECES = SPACE_SLOTS * EVENTS_PER_SLOT };
_Static_assert(EVENT_PIECES + LANE_AHEAD <= LANE_EVENTS, "a lane has too few events");

/* A job between its launch and its answer. */
typedef struct {
    engine_job_t *job; /* NULL = none */
    plan_t *plan;      /* NULL: nothing is queued */
    runner_t *runner;
    segment_t segment;
    uint32_t slot;
    int64_t launched_ns;
    status_t status;
    err_t err;
} flight_t;

static uint32_t event_of(const lane_t *lane, uint32_t slot, uint32_t which)
{
    return device_event(lane->space.lane, slot * EVENTS_PER_SLOT + which);
}

/* ---- answers ---- */

static void answer(lane_t *lane, flight_t *f)
{
    engine_job_t *job = f->job;
    job->finished_ns = clock_now_ns();
    job->started_ns = f->launched_ns > lane->last_finished_ns ? f->launched_ns : lane->last_finished_ns;
    lane->last_finished_ns = job->finished_ns;
    if (f->plan)
        model_release_plan(job->model, f->plan);
    f->job = NULL;
    fifo_answer(job, f->status, &f->err);
    pthread_mutex_lock(&lane->mutex);
    lane->answered++;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
}

/* Waits for the batch of a flight, if there is one, and answers it. */
static void finish(lane_t *lane, flight_t *f)
{
    if (!f->job)
        return;
    if (f->status == STATUS_OK && f->plan)
        f->status = device_wait(lane->space.device, event_of(lane, f->slot, EVENT_OUT), &f->err);
    answer(lane, f);
}

/* What is queued must be over before its buffers are handed back. */
static void drain(lane_t *lane)
{
    const space_t *space = &lane->space;
    stream_t all[] = {space->in, space->compute, space->out};
    err_t err;
    for (uint32_t i = 0; i < sizeof all / sizeof all[0]; i++)
        device_sync(space->device, all[i], &err);
}

/* ---- one batch ---- */

static const void *row_of(const void *rows, const tensor_t *t, const engine_job_t *job)
{
    return (const char *)rows + tensor_bytes(t) / job->batch * job->row;
}

static status_t queue_inputs(lane_t *lane, flight_t *f)
{
    const program_t *p = f->plan->program;
    const space_t *space = &lane->space;
    uint32_t event = event_of(lane, f->slot, EVENT_IN);
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < p->input_count; i++)
        status =
            runner_copy_in(f->runner, f->slot, i, row_of(f->job->inputs[i], &p->inputs[i], f->job), &f->err);
    if (status == STATUS_OK)
        status = device_mark(space->device, space->in, event, &f->err);
    return status == STATUS_OK ? device_follow(space->device, space->compute, event, &f->err) : status;
}

static status_t queue_outputs(lane_t *lane, flight_t *f)
{
    const program_t *p = f->plan->program;
    const space_t *space = &lane->space;
    uint32_t event = event_of(lane, f->slot, EVENT_COMPUTED);
    status_t status = device_mark(space->device, space->compute, event, &f->err);
    if (status == STATUS_OK)
        status = device_follow(space->device, space->out, event, &f->err);
    for (uint32_t i = 0; status == STATUS_OK && i < p->output_count; i++)
        status =
            runner_copy_out(f->runner, f->slot, i,
                            (void *)(uintptr_t)row_of(f->job->outputs[i], &p->outputs[i], f->job), &f->err);
    return status;
}

static status_t load_rows(lane_t *lane, flight_t *f)
{
    return f->segment.loads
               ? transfers_run(f->segment.loads, &lane->space, f->slot, f->job->source, f->job->row, &f->err)
               : STATUS_OK;
}

/* From exit to exit; the event of a piece tells when the one that is LANE_AHEAD behind it may be queued. */
static status_t run_pieces(lane_t *lane, flight_t *f)
{
    engine_job_t *job = f->job;
    const program_t *p = f->plan->program;
    const space_t *space = &lane->space;
    step_range_t steps = {.first = f->segment.first_step, .slot = f->slot};
    uint32_t exits = f->segment.alike ? job->exit_count : 0;
    for (uint32_t i = 0; i <= exits; i++, steps.first = steps.end) {
        uint32_t event = device_event(space->lane, EVENT_PIECES + i % LANE_AHEAD);
        status_t status = i < LANE_AHEAD ? STATUS_OK : device_wait(space->device, event, &f->err);
        if (status == STATUS_OK && i > 0 && atomic_load(&lane->fifo.interrupted))
            return segment_stopped(job, job->exits[i - 1], &f->err);
        steps.end = i < exits ? program_first_step(p, job->exits[i]) : f->segment.end_step;
        if (status == STATUS_OK)
            status = runner_run(f->runner, &steps, &f->err);
        if (status == STATUS_OK)
            status = device_mark(space->device, space->compute, event, &f->err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static status_t run_timed(lane_t *lane, flight_t *f, device_stamps_t *stamps)
{
    const program_t *p = f->plan->program;
    const space_t *space = &lane->space;
    step_range_t steps = {.first = f->segment.first_step, .end = f->segment.end_step, .slot = f->slot};
    status_t status = runner_run(f->runner, &steps, &f->err);
    if (status == STATUS_OK)
        status = load_rows(lane, f);
    if (status == STATUS_OK)
        status = device_stamp(space->device, space->compute, stamps, 0, &f->err);
    for (uint32_t op = f->segment.from; status == STATUS_OK && op < f->segment.to; op++) {
        steps.first = program_first_step(p, op);
        steps.end = program_end_step(p, op + 1);
        status = runner_run_plainly(f->runner, &steps, &f->err);
        if (status == STATUS_OK)
            status = device_stamp(space->device, space->compute, stamps, op + 1 - f->segment.from, &f->err);
    }
    return status == STATUS_OK ? device_stamps_read(space->device, stamps, f->job->op_ns, &f->err) : status;
}

/* A first run keeps the GPU busy while the second one is queued: else the host, which queues each step by
 * itself, would be timed. */
static status_t time_operators(lane_t *lane, flight_t *f)
{
    device_stamps_t *stamps;
    status_t status =
        device_stamps_create(lane->space.device, f->segment.to - f->segment.from + 1, &stamps, &f->err);
    if (status != STATUS_OK)
        return status;
    status = run_timed(lane, f, stamps);
    drain(lane);
    device_stamps_destroy(stamps);
    return status;
}

static status_t compute(lane_t *lane, flight_t *f)
{
    step_range_t steps = {.first = f->segment.first_step, .end = f->segment.end_step, .slot = f->slot};
    if (f->job->op_ns)
        return time_operators(lane, f);
    return f->job->exit_count ? run_pieces(lane, f) : runner_run(f->runner, &steps, &f->err);
}

/* `before` is in flight in the other slot. */
static status_t queue(lane_t *lane, flight_t *f, flight_t *before)
{
    const engine_job_t *job = f->job;
    const space_t *space = &lane->space;
    status_t status = f->segment.from ? STATUS_OK : queue_inputs(lane, f);
    if (job->exit_count || job->op_ns || f->plan->program->host_steps)
        finish(lane, before);
    f->launched_ns = clock_now_ns();
    if (status == STATUS_OK)
        status = load_rows(lane, f);
    if (status == STATUS_OK)
        status = compute(lane, f);
    if (status == STATUS_OK && f->segment.stores)
        status = transfers_run(f->segment.stores, space, f->slot, job->target, job->row, &f->err);
    if (status == STATUS_OK && f->segment.is_last)
        status = queue_outputs(lane, f);
    stream_t last = f->segment.is_last ? space->out : space->compute;
    return status == STATUS_OK ? device_mark(space->device, last, event_of(lane, f->slot, EVENT_OUT), &f->err)
                               : status;
}

/* ---- what a job needs ---- */

static status_t check_outputs(flight_t *f)
{
    const program_t *p = f->plan->program;
    const tensor_t *outputs[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < p->output_count; i++)
        outputs[i] = &p->outputs[i];
    return cpu_job_outputs(model_info(f->job->model), f->job, outputs, &f->err);
}

static status_t check_border(flight_t *f, const transfers_t *transfers, const engine_border_t *border)
{
    return transfers ? border_check(border, f->job, transfers_row_bytes(transfers), &f->err) : STATUS_OK;
}

static status_t find_segment(flight_t *f)
{
    engine_job_t *job = f->job;
    engine_range_t range = job->range;
    range.to = range.to ? range.to : f->plan->program->instance->node_count;
    if (job->op_ns && range.to != segment_end(job, &job->model->blueprint.cuts))
        return err_set(&f->err, STATUS_UNSUPPORTED, "with these shapes the model has other operators");
    status_t status = model_segment(job->model, f->plan, &range, job->batch, &f->segment, &f->err);
    if (status == STATUS_OK && f->segment.is_last)
        status = check_outputs(f);
    if (status == STATUS_OK)
        status = check_border(f, f->segment.loads, job->source);
    if (status == STATUS_OK)
        status = check_border(f, f->segment.stores, job->target);
    job->reached = range.to;
    return status;
}

/* Building takes long, and memory that grows must not be in use: then the batch before is answered first. */
static status_t make_ready(lane_t *lane, flight_t *f, const tensor_t *inputs, flight_t *before)
{
    engine_job_t *job = f->job;
    status_t status = STATUS_OK;
    f->plan = model_find_plan(job->model, job->batch, inputs);
    if (!f->plan) {
        finish(lane, before);
        status = model_plan(job->model, job->batch, inputs, &f->plan, &f->err);
    }
    if (status == STATUS_OK)
        status = find_segment(f);
    if (status == STATUS_OK)
        status = plan_runner(f->plan, &lane->space, &f->runner, &f->err);
    if (status == STATUS_OK && !runner_is_ready(f->runner)) {
        finish(lane, before);
        status = runner_ready(f->runner, &f->err);
    }
    return status;
}

/* Starts a batch behind the one that is in flight in the other slot. */
static void start(lane_t *lane, flight_t *f, engine_job_t *job, uint32_t slot, flight_t *before)
{
    const engine_model_t *model = job->model;
    tensor_t inputs[ENGINE_MAX_IO];
    *f = (flight_t){.job = job, .slot = slot, .launched_ns = clock_now_ns()};
    f->status = cpu_job_inputs(model_info(model), job, inputs, &f->err);
    if (f->status != STATUS_OK)
        return;
    if (model->blueprint.by_value) {
        finish(lane, before);
        f->status = cpu_job_interpret(model_info(model), job, model->blueprint.graph, inputs, &f->err);
        return;
    }
    f->status = make_ready(lane, f, inputs, before);
    if (f->status != STATUS_OK)
        return;
    f->status = queue(lane, f, before);
    if (f->status != STATUS_OK)
        drain(lane);
}

/* ---- the thread ---- */

static void take_busy(lane_t *lane)
{
    pthread_mutex_lock(&lane->mutex);
    while (atomic_load(&lane->waiting))
        pthread_cond_wait(&lane->changed, &lane->mutex);
    pthread_mutex_unlock(&lane->mutex);
    pthread_mutex_lock(&lane->busy);
}

static void count_taken(lane_t *lane)
{
    pthread_mutex_lock(&lane->mutex);
    lane->taken++;
    pthread_mutex_unlock(&lane->mutex);
}

/* One or two batches in flight until there is nothing to do, or somebody else wants the space. */
static void run_burst(lane_t *lane, engine_job_t *job)
{
    flight_t flights[SPACE_SLOTS] = {{.job = NULL}};
    uint32_t slot = 0;
    take_busy(lane);
    while (job || flights[0].job || flights[1].job) {
        if (job)
            start(lane, &flights[slot], job, slot, &flights[!slot]);
        finish(lane, &flights[!slot]);
        slot = !slot;
        job = atomic_load(&lane->waiting) ? NULL : fifo_next(&lane->fifo);
        if (job)
            count_taken(lane);
    }
    pthread_mutex_unlock(&lane->busy);
}

static void *lane_main(void *arg)
{
    lane_t *lane = arg;
    engine_job_t *job;
    while ((job = fifo_wait(&lane->fifo))) {
        count_taken(lane);
        run_burst(lane, job);
    }
    return NULL;
}

/* ---- from other threads ---- */

static void lock_space(lane_t *lane)
{
    atomic_fetch_add(&lane->waiting, 1);
    pthread_mutex_lock(&lane->busy);
}

static void unlock_space(lane_t *lane)
{
    pthread_mutex_unlock(&lane->busy);
    pthread_mutex_lock(&lane->mutex);
    atomic_fetch_sub(&lane->waiting, 1);
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->mutex);
}

status_t lane_prepare(lane_t *lane, plan_t *plan, const segment_t *segment, err_t *err)
{
    runner_t *runner;
    lock_space(lane);
    status_t status = plan_runner(plan, &lane->space, &runner, err);
    if (status == STATUS_OK)
        status = runner_ready(runner, err);
    if (status == STATUS_OK)
        status = runner_prepare(runner, segment->first_step, segment->end_step, err);
    unlock_space(lane);
    return status;
}

/* The queue counts a batch as done when the next one is taken; the last two may still be in flight. */
void lane_flush(lane_t *lane)
{
    fifo_flush(&lane->fifo);
    pthread_mutex_lock(&lane->mutex);
    uint64_t until = lane->taken;
    while (lane->answered < until)
        pthread_cond_wait(&lane->changed, &lane->mutex);
    pthread_mutex_unlock(&lane->mutex);
}

static void release(lane_t *lane)
{
    space_dispose(&lane->space);
    pthread_cond_destroy(&lane->changed);
    pthread_mutex_destroy(&lane->mutex);
    pthread_mutex_destroy(&lane->busy);
    fifo_dispose(&lane->fifo);
}

status_t lane_init(lane_t *lane, gpu_t *gpu, uint32_t index, err_t *err)
{
    space_init(&lane->space, gpu->device, &gpu->pool, index);
    fifo_init(&lane->fifo);
    pthread_mutex_init(&lane->busy, NULL);
    pthread_mutex_init(&lane->mutex, NULL);
    pthread_cond_init(&lane->changed, NULL);
    if (!pthread_create(&lane->thread, NULL, lane_main, lane))
        return STATUS_OK;
    release(lane);
    return err_set(err, STATUS_IO, "cannot start the thread of stream %u", index);
}

void lane_dispose(lane_t *lane)
{
    fifo_stop(&lane->fifo);
    pthread_join(lane->thread, NULL);
    release(lane);
}
