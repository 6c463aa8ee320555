/* The engine itself, over the device that the CPU plays: jobs, precisions, memory, failures. */
#include "engine/cuda/accuracy.h"
#include "engine/cuda/device_host.h"
#include "maker.h"

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
    device_host.lost = true;
    submit(ops, e, model, &b, 2, &seen);
    ops->flush(e);
    cr_assert_eq(seen.done, 2);
    cr_assert_eq(seen.last, STATUS_UNAVAILABLE, "%s", seen.text);
    cr_assert_neq(ops->prepare(model, 7, NULL), STATUS_OK);
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
