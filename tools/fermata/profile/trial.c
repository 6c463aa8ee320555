#include "fermata/profile/trial.h"

#include "base/clock.h"
#include "exec/driver.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { FLIGHTS = STAGED_STAGES_MAX * STAGED_WIDTH_MAX };

typedef struct play play_t;

typedef struct {
    engine_job_t job;
    engine_shape_t *shapes; /* of the inputs, then of the outputs; where they vary */
    play_t *play;
    uint64_t launch;
    bool used, ended;
} flight_t;

struct play {
    const trial_t *trial;
    driver_t driver;
    const engine_model_info_t *info;
    pthread_mutex_t mutex; /* `ended` of the flights, and the first failure */
    pthread_cond_t changed;
    status_t status;
    err_t err;
    flight_t flights[FLIGHTS];
    engine_border_t *borders[STAGED_STAGES_MAX][TRIAL_PAIRS];
    void *inputs[TRIAL_PAIRS][ENGINE_MAX_IO], *outputs[TRIAL_PAIRS][ENGINE_MAX_IO];
    size_t output_bytes[ENGINE_MAX_IO]; /* room in each */
    engine_shape_t *shapes;             /* all flights' */
    int64_t *latency_ns;
    uint32_t sent, answered;
    int64_t begin_ns;
    uint64_t begun; /* the launch that counts as having read its inputs, and exec was not told; 0: none */
};

/* ---- memory ---- */

static bool take_buffers(play_t *play, const size_t *bytes, uint32_t count,
                         void *buffers[TRIAL_PAIRS][ENGINE_MAX_IO])
{
    const trial_t *t = play->trial;
    for (uint32_t pair = 0; pair < TRIAL_PAIRS; pair++)
        for (uint32_t i = 0; i < count; i++) {
            buffers[pair][i] = t->ops->buffer_alloc(t->engine, bytes[i] + 1);
            if (!buffers[pair][i])
                return false;
            memset(buffers[pair][i], 0, bytes[i]);
        }
    return true;
}

/* Bytes of the largest batch: of its inputs, and of its outputs in play->output_bytes. */
static void measure_buffers(play_t *play, size_t *input_bytes)
{
    const profile_mix_t *mix = play->trial->mix;
    const engine_model_info_t *info = play->info;
    uint32_t rows = play->trial->rows_max;
    for (uint32_t i = 0; i < info->input_count; i++)
        input_bytes[i] = rows * (mix ? (size_t)axes_row_bytes(mix->axes, i, profile_mix_largest(mix))
                                     : info->inputs[i].row_bytes);
    for (uint32_t i = 0; i < info->output_count; i++)
        play->output_bytes[i] = rows * (mix ? mix->output_bytes[i] : info->outputs[i].row_bytes);
}

static bool take_shapes(play_t *play)
{
    uint32_t each = play->info->input_count + play->info->output_count;
    play->shapes = calloc(FLIGHTS * each, sizeof(*play->shapes));
    for (uint32_t i = 0; play->shapes && i < FLIGHTS; i++)
        play->flights[i].shapes = play->shapes + i * each;
    return play->shapes;
}

static status_t take_memory(play_t *play, err_t *err)
{
    const trial_t *t = play->trial;
    size_t input_bytes[ENGINE_MAX_IO];
    engine_shape_t largest[ENGINE_MAX_IO];
    measure_buffers(play, input_bytes);
    if (t->mix)
        axes_input_shapes(t->mix->axes, profile_mix_largest(t->mix), 1, largest);
    if (!take_shapes(play) || !take_buffers(play, input_bytes, play->info->input_count, play->inputs) ||
        !take_buffers(play, play->output_bytes, play->info->output_count, play->outputs))
        return err_set(err, STATUS_NO_MEMORY, "no memory for batches of %u", t->rows_max);
    for (uint32_t b = 0; b + 1 < t->stages; b++)
        for (uint32_t pair = 0; pair < TRIAL_PAIRS; pair++) {
            status_t status = t->ops->border_create(t->model, &t->at[b], 1, t->rows_max,
                                                    t->mix ? largest : NULL, &play->borders[b][pair], err);
            if (status != STATUS_OK)
                return status;
        }
    return STATUS_OK;
}

static void give_memory(play_t *play)
{
    const trial_t *t = play->trial;
    for (uint32_t pair = 0; pair < TRIAL_PAIRS; pair++) {
        for (uint32_t b = 0; b < STAGED_STAGES_MAX; b++)
            if (play->borders[b][pair])
                t->ops->border_destroy(play->borders[b][pair]);
        for (uint32_t i = 0; i < ENGINE_MAX_IO; i++) {
            t->ops->buffer_free(t->engine, play->inputs[pair][i]);
            t->ops->buffer_free(t->engine, play->outputs[pair][i]);
        }
    }
    free(play->shapes);
}

/* ---- launches ---- */

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    flight_t *flight = job->arg;
    play_t *play = flight->play;
    pthread_mutex_lock(&play->mutex);
    flight->ended = true;
    if (status != STATUS_OK && play->status == STATUS_OK) {
        play->status = status;
        play->err = *err;
    }
    pthread_cond_signal(&play->changed);
    pthread_mutex_unlock(&play->mutex);
}

static uint32_t border_op(const trial_t *t, uint32_t stage)
{
    return stage == 0 || stage >= t->stages ? 0 : t->at[stage - 1];
}

static void put_shapes(const play_t *play, flight_t *flight, uint32_t length)
{
    const profile_mix_t *mix = play->trial->mix;
    engine_job_t *job = &flight->job;
    axes_input_shapes(mix->axes, mix->shapes[length - 1].sizes, job->batch, flight->shapes);
    job->input_shapes = flight->shapes;
    job->output_shapes = flight->shapes + play->info->input_count;
    job->output_capacity_bytes = play->output_bytes;
}

static status_t start(void *device, const exec_action_t *action, err_t *err)
{
    play_t *play = device;
    const trial_t *t = play->trial;
    const exec_part_t *part = &action->launch.parts[0];
    uint32_t in = action->launch.in_pair, out = action->launch.out_pair;
    flight_t *flight = play->flights;
    (void)err;
    while (flight->used)
        flight++;
    *flight =
        (flight_t){.play = play, .launch = action->launch.launch, .shapes = flight->shapes, .used = true};
    flight->job =
        (engine_job_t){.model = t->model,
                       .batch = part->rows,
                       .row = action->launch.start,
                       .range = {part->stream % t->streams, border_op(t, part->from), border_op(t, part->to)},
                       .inputs = (const void *const *)play->inputs[in],
                       .outputs = play->outputs[out],
                       .source = part->from ? play->borders[part->from - 1][in] : NULL,
                       .target = part->to < t->stages ? play->borders[part->to - 1][out] : NULL,
                       .done = on_done,
                       .arg = flight};
    if (t->mix)
        put_shapes(play, flight, part->length);
    if (t->ahead)
        play->begun = flight->launch;
    t->ops->submit(t->engine, &flight->job);
    return STATUS_OK;
}

/* NULL: none has ended. With the mutex. */
static flight_t *ended_flight(play_t *play)
{
    for (flight_t *flight = play->flights; flight < play->flights + FLIGHTS; flight++)
        if (flight->used && flight->ended)
            return flight;
    return NULL;
}

static bool take_end(void *device, driver_end_t *end)
{
    play_t *play = device;
    if (play->begun) {
        *end = (driver_end_t){play->begun, DRIVER_INPUTS_READ};
        play->begun = 0;
        return true;
    }
    pthread_mutex_lock(&play->mutex);
    flight_t *flight = ended_flight(play);
    if (flight) {
        flight->used = false;
        *end = (driver_end_t){flight->launch, DRIVER_FINISHED};
    }
    pthread_mutex_unlock(&play->mutex);
    return flight;
}

/* ---- time ---- */

static status_t wait_for_end(void *device, int64_t until_ns, int64_t *now_ns, err_t *err)
{
    play_t *play = device;
    /* Nothing that is to come is further away than this: a lost wake-up would show as a slow trial, not as a hang. */
    int64_t latest_ns = clock_now_ns() + NS_PER_S;
    int64_t due_ns = until_ns < latest_ns ? until_ns : latest_ns;
    const struct timespec until = {.tv_sec = due_ns / NS_PER_S, .tv_nsec = due_ns % NS_PER_S};
    pthread_mutex_lock(&play->mutex);
    while (!play->begun && play->status == STATUS_OK && !ended_flight(play) && clock_now_ns() < due_ns)
        (void)pthread_cond_timedwait(&play->changed, &play->mutex, &until);
    status_t status = play->status;
    if (status != STATUS_OK && err)
        *err = play->err;
    pthread_mutex_unlock(&play->mutex);
    *now_ns = clock_now_ns();
    if (status == STATUS_OK && atomic_load(play->trial->stop))
        status = err_set(err, STATUS_CANCELLED, "stopped");
    return status;
}

static const driver_device_ops_t engine_device = {
    .wait = wait_for_end, .take_end = take_end, .launch = start};

/* ---- queries ---- */

static int64_t next_ns(const void *ctx)
{
    const play_t *play = ctx;
    const trial_t *t = play->trial;
    if (play->sent == t->queries)
        return EXEC_NEVER;
    if (t->closed)
        return play->sent == play->answered ? play->driver.now_ns : EXEC_NEVER;
    return play->begin_ns + t->work[play->sent].at_ns;
}

static status_t come(void *ctx, int64_t now_ns, err_t *err)
{
    play_t *play = ctx;
    exec_query_t query = {.tag = play->sent,
                          .rows = 1,
                          .length = play->trial->work[play->sent].length,
                          .arrival_ns = next_ns(play),
                          .deadline_ns = EXEC_NEVER};
    status_t status = exec_submit(play->driver.exec, now_ns, &query, 1, 0, err);
    play->sent += status == STATUS_OK;
    return status;
}

static void act(void *ctx, const exec_action_t *action)
{
    play_t *play = ctx;
    if (action->kind != EXEC_COMPLETE)
        return;
    for (uint32_t i = 0; i < action->done.count; i++)
        play->latency_ns[action->done.queries[i].tag] =
            play->driver.now_ns - action->done.queries[i].arrival_ns;
    play->answered += action->done.count;
}

static const driver_user_ops_t trial_user = {next_ns, come, act};

/* When all are answered, no launch is left whose end could be waited for. */
static status_t play_all(play_t *play, exec_t *exec, err_t *err)
{
    const trial_t *t = play->trial;
    play->begin_ns = clock_now_ns();
    play->driver = (driver_t){.exec = exec,
                              .on = &engine_device,
                              .device = play,
                              .user = &trial_user,
                              .ctx = play,
                              .now_ns = play->begin_ns,
                              .wake_ns = EXEC_NEVER,
                              .err = err};
    while (play->driver.status == STATUS_OK && play->answered < t->queries)
        (void)driver_step(&play->driver, EXEC_NEVER);
    if (play->driver.status != STATUS_OK)
        t->ops->flush(t->engine);
    return play->driver.status;
}

status_t trial_run(const trial_t *trial, exec_t *exec, int64_t *latency_ns, int64_t *took_ns, err_t *err)
{
    pthread_condattr_t attr;
    play_t *play = calloc(1, sizeof(*play));
    if (!play)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    play->trial = trial;
    play->info = trial->ops->info(trial->model);
    play->latency_ns = latency_ns;
    pthread_mutex_init(&play->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&play->changed, &attr);
    pthread_condattr_destroy(&attr);
    status_t status = take_memory(play, err);
    if (status == STATUS_OK)
        status = play_all(play, exec, err);
    if (status == STATUS_OK)
        *took_ns = play->driver.now_ns - play->begin_ns;
    give_memory(play);
    pthread_cond_destroy(&play->changed);
    pthread_mutex_destroy(&play->mutex);
    free(play);
    return status;
}
