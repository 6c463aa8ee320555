/* The engine itself, over the device that the CPU plays: jobs, precisions, memory, failures. */
#include "engine/cuda/accuracy.h"
#include "engine/cuda/device/device_host.h"
#include "maker.h"
#include "networks.h"
#include "ticket.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const engine_ops_t *fermata_engine(uint32_t abi);

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done, failed;
    status_t last;
    char text[ERR_TEXT_BYTES];
} seen_t;

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    seen_t *s = job->arg;
    pthread_mutex_lock(&s->mutex);
    s->done++;
    s->failed += status != STATUS_OK;
    s->last = status;
    if (err)
        memcpy(s->text, err->text, sizeof s->text);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static void seen_init(seen_t *s)
{
    memset(s, 0, sizeof *s);
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
}

static void seen_wait(seen_t *s, int count)
{
    pthread_mutex_lock(&s->mutex);
    while (s->done < count)
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
}

/* y = relu(x · w + b): rows of 4 to rows of 3. */
static uint8_t *linear(size_t *len)
{
    maker_t *m = maker_create(17);
    float w[12], b[3] = {0.5f, -1, 2};
    for (int i = 0; i < 12; i++)
        w[i] = (float)(i % 5) - 2;
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_floats(m, "w", 2, (int64_t[]){4, 3}, w);
    maker_floats(m, "b", 1, (int64_t[]){3}, b);
    maker_node(m, "MatMul", "x w", "p");
    maker_node(m, "Add", "p b", "s");
    maker_node(m, "Relu", "s", "y");
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){-1, 3});
    return maker_pack(m, len);
}

static void expected(const float *x, uint32_t rows, float *y)
{
    static const float b[3] = {0.5f, -1, 2};
    for (uint32_t r = 0; r < rows; r++)
        for (uint32_t c = 0; c < 3; c++) {
            float sum = b[c];
            for (uint32_t k = 0; k < 4; k++)
                sum += x[r * 4 + k] * (float)((int)(k * 3 + c) % 5 - 2);
            y[r * 3 + c] = sum > 0 ? sum : 0;
        }
}

static engine_t *open_engine(engine_config_t config)
{
    engine_t *e = NULL;
    err_t err;
    cr_assert_eq(fermata_engine(ENGINE_ABI)->open(&config, &e, &err), STATUS_OK, "%s", err.text);
    return e;
}

static engine_model_t *load(engine_t *e, engine_precision_t precision)
{
    size_t len;
    uint8_t *bytes = linear(&len);
    engine_model_t *model = NULL;
    err_t err;
    engine_load_t what = {
        .name = "linear", .bytes = bytes, .len_bytes = len, .max_batch = 8, .precision = precision};
    cr_assert_eq(fermata_engine(ENGINE_ABI)->load(e, &what, &model, &err), STATUS_OK, "%s", err.text);
    free(bytes);
    return model;
}

enum { JOBS = 40 };

typedef struct {
    engine_job_t job;
    float x[36], y[27];
    const void *in[1];
    void *out[1];
} batch_t;

static void submit(const engine_ops_t *ops, engine_t *e, engine_model_t *model, batch_t *b, uint32_t rows,
                   seen_t *seen)
{
    for (uint32_t i = 0; i < rows * 4; i++)
        b->x[i] = (float)((i * 7 + rows * 3) % 11) - 5;
    b->in[0] = b->x;
    b->out[0] = b->y;
    b->job = (engine_job_t){
        .model = model, .batch = rows, .inputs = b->in, .outputs = b->out, .done = on_done, .arg = seen};
    ops->submit(e, &b->job);
}

static void check(const batch_t *b, uint32_t rows, float tolerance)
{
    float y[24];
    expected(b->x, rows, y);
    for (uint32_t i = 0; i < rows * 3; i++)
        cr_assert_float_eq(b->y[i], y[i], tolerance, "element %u: %g, not %g", i, (double)b->y[i],
                           (double)y[i]);
}

Test(cuda_engine, batches_in_flight_do_not_mix)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    static batch_t batches[JOBS];
    seen_t seen;
    seen_init(&seen);
    engine_t *e = open_engine((engine_config_t){0});
    engine_model_t *model = load(e, ENGINE_FP32);
    cr_assert(ops->info(model)->batchable);
    cr_assert_eq(ops->prepare(model, 3, NULL), STATUS_OK);
    for (uint32_t i = 0; i < JOBS; i++)
        submit(ops, e, model, &batches[i], 1 + i % 8, &seen);
    cr_assert_eq(ops->prepare(model, 8, NULL), STATUS_OK, "preparing goes on beside running");
    ops->flush(e);
    cr_assert_eq(seen.done, JOBS);
    cr_assert_eq(seen.failed, 0, "%s", seen.text);
    for (uint32_t i = 0; i < JOBS; i++) {
        check(&batches[i], 1 + i % 8, 0);
        cr_assert_leq(batches[i].job.started_ns, batches[i].job.finished_ns);
    }
    ops->unload(model);
    ops->close(e);
}

Test(cuda_engine, inputs_may_lie_in_memory_of_the_device)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    batch_t batch;
    seen_t seen;

    seen_init(&seen);
    engine_t *e = open_engine((engine_config_t){0});
    engine_model_t *model = load(e, ENGINE_FP32);
    float *x = ops->input_alloc(model, sizeof batch.x);
    cr_assert_not_null(x);
    for (uint32_t i = 0; i < 8 * 4; i++)
        x[i] = batch.x[i] = (float)(i % 7) - 3;
    batch.in[0] = x;
    batch.out[0] = batch.y;
    batch.job = (engine_job_t){
        .model = model, .batch = 8, .inputs = batch.in, .outputs = batch.out, .done = on_done, .arg = &seen};
    ops->submit(e, &batch.job);
    seen_wait(&seen, 1);
    cr_assert_eq(seen.last, STATUS_OK, "%s", seen.text);
    check(&batch, 8, 1e-5f);
    device_host.fail_alloc = true;
    cr_assert_null(ops->input_alloc(model, 64), "the device is full");
    device_host.fail_alloc = false;
    ops->input_free(e, x);
    ops->unload(model);
    ops->close(e);
}

/* How many elements are not zero shapes what comes between: the CPU runs it, and reads its inputs. */
Test(cuda_engine, inputs_that_shapes_depend_on_lie_in_the_hosts)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    maker_t *m = maker_create(17);
    engine_model_t *model;
    size_t len;
    err_t err;

    maker_input(m, "x", DTYPE_F32, 1, (int64_t[]){4});
    maker_node(m, "NonZero", "x", "at");
    maker_node(m, "ReduceSum", "at", "y");
    maker_output(m, "y", DTYPE_I64, 2, (int64_t[]){1, 1});
    uint8_t *bytes = maker_pack(m, &len);
    engine_t *e = open_engine((engine_config_t){0});
    engine_load_t what = {.name = "places", .bytes = bytes, .len_bytes = len};
    cr_assert_eq(ops->load(e, &what, &model, &err), STATUS_OK, "%s", err.text);
    cr_assert_null(ops->input_alloc(model, 16));
    free(bytes);
    ops->unload(model);
    ops->close(e);
}

Test(cuda_engine, half_precisions_are_near_and_measured)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    static const struct {
        engine_precision_t precision;
        double most;
    } cases[] = {{ENGINE_FP32, 0}, {ENGINE_TF32, 0}, {ENGINE_FP16, 2e-3}, {ENGINE_BF16, 1e-2}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        batch_t b;
        seen_t seen;
        accuracy_t a;
        seen_init(&seen);
        engine_t *e = open_engine((engine_config_t){0});
        engine_model_t *model = load(e, cases[i].precision);
        cr_assert_eq(accuracy_measure(model, &a, NULL), STATUS_OK);
        cr_assert_leq(a.max_relative, cases[i].most);
        cr_assert(cases[i].most == 0 || a.max_relative > 0, "rounding shows");
        submit(ops, e, model, &b, 5, &seen);
        seen_wait(&seen, 1);
        check(&b, 5, 0.2f);
        ops->unload(model);
        ops->close(e);
    }
}

Test(cuda_engine, what_does_not_fit_is_refused_and_the_rest_goes_on)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    seen_t seen;
    batch_t b;
    seen_init(&seen);
    engine_t *e = open_engine((engine_config_t){.memory_limit_bytes = 1024});
    engine_model_t *model = load(e, ENGINE_FP32);
    err_t err;
    cr_assert_eq(ops->prepare(model, 4, &err), STATUS_NO_MEMORY);
    submit(ops, e, model, &b, 4, &seen);
    seen_wait(&seen, 1);
    cr_assert_eq(seen.last, STATUS_NO_MEMORY, "%s", seen.text);
    ops->unload(model);
    ops->close(e);
}

Test(cuda_engine, a_lost_device_fails_batches_and_not_the_process)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    seen_t seen;
    batch_t a, b;
    seen_init(&seen);
    engine_t *e = open_engine((engine_config_t){0});
    engine_model_t *model = load(e, ENGINE_FP32);
    submit(ops, e, model, &a, 2, &seen);
    ops->flush(e);
    cr_assert_eq(seen.failed, 0);
    cr_assert_not(ops->is_lost(e));
    device_host.lost = true;
    submit(ops, e, model, &b, 2, &seen);
    ops->flush(e);
    cr_assert_eq(seen.done, 2);
    cr_assert_eq(seen.last, STATUS_UNAVAILABLE, "%s", seen.text);
    cr_assert_neq(ops->prepare(model, 7, NULL), STATUS_OK);
    cr_assert(ops->is_lost(e), "the worker does not hear of it");
    device_host.lost = false;
    ops->unload(model);
    ops->close(e);
}

Test(cuda_engine, wrong_arguments_are_answered)
{
    const engine_ops_t *ops = fermata_engine(ENGINE_ABI);
    seen_t seen;
    batch_t b;
    err_t err;
    engine_t *none;
    seen_init(&seen);
    cr_assert_eq(ops->open(&(engine_config_t){.index = 5}, &none, &err), STATUS_UNAVAILABLE);
    engine_t *e = open_engine((engine_config_t){0});
    engine_model_t *model = load(e, ENGINE_FP32);
    submit(ops, e, model, &b, 0, &seen);
    submit(ops, e, model, &b, 9, &seen);
    seen_wait(&seen, 2);
    cr_assert_eq(seen.failed, 2);
    cr_assert_eq(ops->prepare(model, 0, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(ops->load(e, &(engine_load_t){.name = "x", .bytes = "y", .len_bytes = 1}, &model, &err),
                 STATUS_INVALID_ARGUMENT);
    cr_assert_null(fermata_engine(ENGINE_ABI + 1));
    ops->unload(model);
    ops->close(e);
}

/* ---- graphs, exits and what they have to do with each other ---- */

enum { ROWS = 4, FLOATS = ROWS * 2048, OPS_MAX = 64 };

/* A network of several operators on an engine of one stream, with two sets of buffers. */
typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    engine_cuts_t cuts;
    uint32_t exits[OPS_MAX];
    float in[2][FLOATS], out[2][FLOATS], want[2][FLOATS];
    const void *inputs[2][1];
    void *outputs[2][1], *wants[2][1];
} rig_t;

static engine_job_t whole(rig_t *rig, uint32_t set)
{
    return (engine_job_t){.model = rig->model,
                          .batch = ROWS,
                          .inputs = rig->inputs[set],
                          .outputs = rig->outputs[set],
                          .exits = rig->exits};
}

static rig_t *open_rig(void)
{
    rig_t *rig = calloc(1, sizeof *rig);
    err_t err;
    rig->ops = fermata_engine(ENGINE_ABI);
    rig->engine = open_engine((engine_config_t){0});
    cr_assert_eq(
        network_load(networks[0].make(), rig->ops, rig->engine, ROWS, ENGINE_FP32, &rig->model, &err),
        STATUS_OK, "%s", err.text);
    cr_assert_eq(rig->ops->cuts(rig->model, &rig->cuts, &err), STATUS_OK, "%s", err.text);
    cr_assert_leq(rig->cuts.cut_count, OPS_MAX);
    for (uint32_t c = 0; c < rig->cuts.cut_count; c++)
        rig->exits[c] = rig->cuts.cuts[c].op;
    for (uint32_t set = 0; set < 2; set++) {
        ticket_t t;
        network_noise(rig->in[set], FLOATS, 5 + set);
        rig->inputs[set][0] = rig->in[set];
        rig->outputs[set][0] = rig->out[set];
        rig->wants[set][0] = rig->want[set];
        engine_job_t job = whole(rig, set);
        job.outputs = rig->wants[set];
        cr_assert_eq(ticket_run(&t, rig->ops, rig->engine, job), STATUS_OK, "%s", t.text);
    }
    return rig;
}

static void close_rig(rig_t *rig)
{
    rig->ops->unload(rig->model);
    rig->ops->close(rig->engine);
    free(rig);
}

static void check_out(const rig_t *rig, uint32_t set, const char *what)
{
    size_t len = ROWS * rig->ops->info(rig->model)->outputs[0].row_bytes;
    cr_assert_eq(memcmp(rig->out[set], rig->want[set], len), 0, "%s, buffers %u", what, set);
}

/* Two jobs at a time, so that both slots are used; then once more after another model has made the work space move. */
static void run_pairs(rig_t *rig, uint32_t exit_count, const char *what)
{
    for (uint32_t round = 0; round < 6; round++) {
        ticket_t t[2];
        memset(rig->out, 0xff, sizeof rig->out);
        for (uint32_t set = 0; set < 2; set++) {
            engine_job_t job = whole(rig, set);
            job.exit_count = exit_count;
            ticket_start(&t[set], rig->ops, rig->engine, job);
        }
        for (uint32_t set = 0; set < 2; set++) {
            cr_assert_eq(ticket_wait(&t[set]), STATUS_OK, "%s", t[set].text);
            cr_assert_eq(t[set].job.reached, rig->cuts.ops);
            check_out(rig, set, what);
        }
    }
}

/* Many more rows of the same network need a larger work space than what was recorded has. */
static void move_space(rig_t *rig)
{
    engine_model_t *large;
    err_t err;
    cr_assert_eq(network_load(networks[1].make(), rig->ops, rig->engine, 64, ENGINE_FP32, &large, &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(rig->ops->prepare(large, 64, &err), STATUS_OK, "%s", err.text);
    rig->ops->unload(large);
}

Test(cuda_engine, what_is_run_often_is_recorded_and_recorded_anew)
{
    rig_t *rig = open_rig();
    uint32_t all = rig->cuts.cut_count, counts[] = {0, 1, all};
    for (uint32_t i = 0; i < 3; i++) {
        unsigned before = atomic_load(&device_host.graph_launches);
        run_pairs(rig, counts[i], "recorded");
        cr_assert_gt(atomic_load(&device_host.graph_launches), before, "%u exits: nothing was recorded",
                     counts[i]);
    }
    move_space(rig);
    for (uint32_t i = 0; i < 3; i++)
        run_pairs(rig, counts[i], "after the work space moved");
    close_rig(rig);
}

Test(cuda_engine, what_is_prepared_is_a_graph_at_once)
{
    rig_t *rig = open_rig();
    ticket_t t;
    err_t err;
    cr_assert_eq(rig->ops->prepare(rig->model, ROWS - 1, &err), STATUS_OK, "%s", err.text);
    unsigned before = atomic_load(&device_host.graph_launches);
    engine_job_t job = whole(rig, 0);
    job.batch = ROWS - 1;
    cr_assert_eq(ticket_run(&t, rig->ops, rig->engine, job), STATUS_OK, "%s", t.text);
    cr_assert_eq(atomic_load(&device_host.graph_launches), before + 1);
    close_rig(rig);
}

typedef struct {
    rig_t *rig;
    ticket_t *ticket;
    uint32_t steps, stop_at;
} stopper_t;

static void count_step(void *arg)
{
    stopper_t *s = arg;
    if (++s->steps == s->stop_at)
        cr_assert(s->rig->ops->stop(s->rig->engine, &s->ticket->job), "a running job can be stopped");
}

/* Told to stop while step n is queued, wherever that is: the next exit ends it, and no later step is queued. */
Test(cuda_engine, a_job_ends_at_the_next_exit)
{
    rig_t *rig = open_rig();
    ticket_t t;
    stopper_t s = {.rig = rig, .ticket = &t};
    device_host.on_step_arg = &s;
    device_host.on_step = count_step;
    engine_job_t job = whole(rig, 0);
    job.exit_count = rig->cuts.cut_count;
    uint32_t stopped = 0, last_reached = 0;
    for (uint32_t round = 0; round < 3; round++) /* the third one runs graphs */
        cr_assert_eq(ticket_run(&t, rig->ops, rig->engine, job), STATUS_OK, "%s", t.text);
    uint32_t steps = s.steps / 3;
    for (s.stop_at = 1; s.stop_at <= steps; s.stop_at++) {
        s.steps = 0;
        status_t status = ticket_run(&t, rig->ops, rig->engine, job);
        if (status == STATUS_CANCELLED) {
            stopped++;
            cr_assert_geq(t.job.reached, last_reached);
            cr_assert_lt(t.job.reached, rig->cuts.ops);
            last_reached = t.job.reached;
        } else {
            cr_assert_eq(status, STATUS_OK, "%s", t.text);
            cr_assert_geq(s.stop_at, last_reached, "only behind the last exit");
        }
    }
    /* The operator behind the last but one is a view: there is no step to be told in. */
    cr_assert_eq(last_reached, rig->exits[rig->cuts.cut_count - 2]);
    cr_assert_geq(stopped + 3, steps);
    device_host.on_step = NULL;
    run_pairs(rig, job.exit_count, "after being stopped");
    close_rig(rig);
}

Test(cuda_engine, a_lost_device_fails_segments_and_streams)
{
    rig_t *rig = open_rig();
    ticket_t t;
    err_t err;
    engine_border_t *border;
    uint32_t cut = rig->exits[0];
    cr_assert_eq(rig->ops->border_create(rig->model, &cut, 1, ROWS, NULL, &border, &err), STATUS_OK);
    engine_job_t job = whole(rig, 0);
    job.exit_count = rig->cuts.cut_count;
    device_host.lost = true;
    cr_assert_eq(ticket_run(&t, rig->ops, rig->engine, job), STATUS_UNAVAILABLE);
    cr_assert_eq(rig->ops->prepare_range(rig->model, &(engine_range_t){.to = cut}, 2, NULL, &err),
                 STATUS_UNAVAILABLE);
    device_host.lost = false;
    rig->ops->border_destroy(border);
    close_rig(rig);
}
