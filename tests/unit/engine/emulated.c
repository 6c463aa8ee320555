#include "base/clock.h"
#include "engine/engine.h"
#include "maker.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done;
    char order[64];
    status_t status;
    char text[ERR_TEXT_BYTES];
} seen_t;

typedef struct {
    engine_job_t job;
    seen_t *seen;
    char letter;
    status_t status;
    float in[8], out[8];
    const void *inputs[1];
    void *outputs[1];
} batch_t;

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    batch_t *batch = job->arg;
    seen_t *seen = batch->seen;
    pthread_mutex_lock(&seen->mutex);
    seen->order[seen->done++] = batch->letter;
    seen->status = batch->status = status;
    snprintf(seen->text, sizeof seen->text, "%s", err ? err->text : "");
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->mutex);
}

static void seen_init(seen_t *seen)
{
    *seen = (seen_t){.status = STATUS_OK};
    pthread_mutex_init(&seen->mutex, NULL);
    pthread_cond_init(&seen->changed, NULL);
}

static void seen_wait(seen_t *seen, int count)
{
    pthread_mutex_lock(&seen->mutex);
    while (seen->done < count)
        pthread_cond_wait(&seen->changed, &seen->mutex);
    pthread_mutex_unlock(&seen->mutex);
}

static int64_t linear(void *arg, uint32_t batch)
{
    const int64_t *alpha_beta = arg;
    return alpha_beta[0] * batch + alpha_beta[1];
}

static const engine_ops_t *ops;
static const engine_tensor_t in_desc = {.name = "x", .dtype = DTYPE_F32, .rank = 1, .dims = {2}};
static const engine_tensor_t out_desc = {.name = "y", .dtype = DTYPE_F32, .rank = 1, .dims = {3}};

static engine_t *open_gpu(engine_config_t config)
{
    engine_t *engine = NULL;
    cr_assert_eq(engine_find("emulated", &ops, NULL), STATUS_OK);
    cr_assert_eq(ops->open(&config, &engine, NULL), STATUS_OK);
    return engine;
}

static engine_model_t *load(engine_t *engine, int64_t *alpha_beta)
{
    engine_load_t what = {.name = "m",
                          .max_batch = 4,
                          .latency = linear,
                          .latency_arg = alpha_beta,
                          .inputs = &in_desc,
                          .input_count = 1,
                          .outputs = &out_desc,
                          .output_count = 1};
    engine_model_t *model = NULL;
    err_t err;
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    return model;
}

static void batch_init(batch_t *batch, engine_model_t *model, seen_t *seen, char letter, uint32_t n)
{
    *batch = (batch_t){.seen = seen, .letter = letter, .in = {1, 2, 3, 4}};
    batch->inputs[0] = batch->in;
    batch->outputs[0] = batch->out;
    batch->job = (engine_job_t){.model = model,
                                .batch = n,
                                .inputs = batch->inputs,
                                .outputs = batch->outputs,
                                .done = on_done,
                                .arg = batch};
}

Test(emulated, zero_latency_answers_inside_submit_with_the_leading_bytes)
{
    int64_t zero[2] = {0, 0};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, zero);
    seen_t seen;
    batch_t batch;
    seen_init(&seen);
    batch_init(&batch, model, &seen, 'a', 2);
    memset(batch.out, 0xff, sizeof batch.out);
    ops->submit(engine, &batch.job);
    cr_assert_eq(seen.done, 1);
    cr_assert_eq(seen.status, STATUS_OK);
    const float want[6] = {1, 2, 0, 3, 4, 0};
    cr_assert(!memcmp(batch.out, want, sizeof want));
    ops->unload(model);
    ops->close(engine);
}

Test(emulated, rows_may_lie_apart)
{
    int64_t zero[2] = {0, 0};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, zero);
    seen_t seen;
    batch_t batch;
    seen_init(&seen);
    batch_init(&batch, model, &seen, 'a', 2);
    const void *row_inputs[2] = {batch.in + 2, batch.in};
    void *row_outputs[2] = {batch.out + 5, batch.out + 1};
    memset(batch.out, 0, sizeof batch.out);
    batch.job.inputs = NULL;
    batch.job.outputs = NULL;
    batch.job.row_inputs = row_inputs;
    batch.job.row_outputs = row_outputs;
    ops->submit(engine, &batch.job);
    cr_assert_eq(seen.status, STATUS_OK, "%s", seen.text);
    const float want[8] = {0, 1, 2, 0, 0, 3, 4, 0};
    cr_assert(!memcmp(batch.out, want, sizeof want));
    ops->unload(model);
    ops->close(engine);
}

/* What is wrong with a job whose rows lie apart; "" nothing. */
static void check_apart(const void *const *row_inputs, void *const *row_outputs, uint32_t to,
                        const char *text)
{
    int64_t zero[2] = {0, 0};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, zero);
    seen_t seen;
    batch_t batch;
    seen_init(&seen);
    batch_init(&batch, model, &seen, 'a', 2);
    batch.job.row_inputs = row_inputs;
    batch.job.row_outputs = row_outputs;
    batch.job.range.to = to;
    ops->submit(engine, &batch.job);
    cr_expect_eq(seen.status, *text ? STATUS_INVALID_ARGUMENT : STATUS_OK);
    cr_expect(strstr(seen.text, text), "%s", seen.text);
    ops->unload(model);
    ops->close(engine);
}

Test(emulated, rows_apart_that_are_not_all_there_are_refused)
{
    float in[2], out[3];
    const void *inputs[2] = {in, in}, *no_input[2] = {in, NULL};
    void *outputs[2] = {out, out}, *no_output[2] = {out, NULL};
    check_apart(inputs, outputs, 0, "");
    check_apart(no_input, outputs, 0, "input 'x' has no buffer");
    check_apart(inputs, no_output, 0, "output 'y' has no buffer");
    check_apart(inputs, NULL, 0, "on both sides");
    check_apart(NULL, outputs, 0, "on both sides");
    check_apart(inputs, outputs, 1, "only whole jobs");
}

Test(emulated, a_batch_takes_its_latency_and_batches_queue)
{
    int64_t profile[2] = {1 * NS_PER_MS, 4 * NS_PER_MS};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, profile);
    seen_t seen;
    batch_t a, b;
    seen_init(&seen);
    batch_init(&a, model, &seen, 'a', 1);
    batch_init(&b, model, &seen, 'b', 3);
    int64_t begin_ns = clock_now_ns();
    ops->submit(engine, &a.job);
    ops->submit(engine, &b.job);
    ops->flush(engine);
    int64_t took_ns = clock_now_ns() - begin_ns;
    cr_assert_str_eq(seen.order, "ab");
    cr_assert_eq(a.job.finished_ns - a.job.started_ns, 5 * NS_PER_MS);
    cr_assert_eq(b.job.started_ns, a.job.finished_ns, "back to back");
    cr_assert_eq(b.job.finished_ns - b.job.started_ns, 7 * NS_PER_MS);
    cr_assert_geq(took_ns, 12 * NS_PER_MS);
    ops->unload(model);
    ops->close(engine);
}

typedef struct {
    batch_t first, second;
    const engine_ops_t *ops;
    engine_t *engine;
    int64_t submitted_ns;
} late_t;

/* On the timer's thread, which is as late as this. */
static void submit_late(engine_job_t *job, status_t status, const err_t *err)
{
    late_t *late = job->arg;
    (void)status, (void)err;
    while (clock_now_ns() < job->finished_ns + NS_PER_MS)
        ;
    late->submitted_ns = clock_now_ns();
    late->ops->submit(late->engine, &late->second.job);
}

Test(emulated, no_job_begins_before_it_was_submitted)
{
    static late_t late;
    int64_t profile[2] = {0, NS_PER_MS};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, profile);
    seen_t seen;
    seen_init(&seen);
    batch_init(&late.first, model, &seen, 'a', 1);
    batch_init(&late.second, model, &seen, 'b', 1);
    late.ops = ops;
    late.engine = engine;
    late.first.job.done = submit_late;
    late.first.job.arg = &late;
    ops->submit(engine, &late.first.job);
    seen_wait(&seen, 1);
    cr_assert_geq(late.second.job.started_ns, late.submitted_ns);
    cr_assert_eq(late.second.job.finished_ns - late.second.job.started_ns, NS_PER_MS);
    ops->flush(engine);
    ops->unload(model);
    ops->close(engine);
}

Test(emulated, gpus_run_beside_each_other_on_one_timer)
{
    enum { GPUS = 200 };
    static engine_t *engines[GPUS];
    static engine_model_t *models[GPUS];
    static batch_t batches[GPUS];
    int64_t profile[2] = {0, 20 * NS_PER_MS};
    for (int i = 0; i < GPUS; i++) {
        engines[i] = open_gpu((engine_config_t){.index = (uint32_t)i});
        models[i] = load(engines[i], profile);
    }
    seen_t own[GPUS];
    for (int i = 0; i < GPUS; i++) {
        seen_init(&own[i]);
        batch_init(&batches[i], models[i], &own[i], 'x', 1);
        ops->submit(engines[i], &batches[i].job);
    }
    for (int i = 0; i < GPUS; i++)
        seen_wait(&own[i], 1);
    int64_t first_ns = INT64_MAX, last_ns = 0;
    for (int i = 0; i < GPUS; i++) {
        first_ns = batches[i].job.started_ns < first_ns ? batches[i].job.started_ns : first_ns;
        last_ns = batches[i].job.finished_ns > last_ns ? batches[i].job.finished_ns : last_ns;
    }
    cr_assert_lt(last_ns - first_ns, GPUS * 20 * NS_PER_MS / 4, "they waited for each other");
    for (int i = 0; i < GPUS; i++) {
        ops->flush(engines[i]);
        ops->unload(models[i]);
        ops->close(engines[i]);
    }
}

Test(emulated, cancel_takes_out_what_has_not_begun)
{
    int64_t profile[2] = {0, 10 * NS_PER_MS};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, profile);
    seen_t seen;
    batch_t a, b, c;
    seen_init(&seen);
    batch_init(&a, model, &seen, 'a', 1);
    batch_init(&b, model, &seen, 'b', 1);
    batch_init(&c, model, &seen, 'c', 1);
    ops->submit(engine, &a.job);
    ops->submit(engine, &b.job);
    ops->submit(engine, &c.job);
    cr_assert(!ops->cancel(engine, &a.job), "it runs already");
    cr_assert(ops->cancel(engine, &b.job));
    cr_assert_eq(b.status, STATUS_CANCELLED);
    ops->flush(engine);
    cr_assert_str_eq(seen.order, "bac");
    ops->unload(model);
    ops->close(engine);
}

Test(emulated, jitter_is_seeded_and_bounded)
{
    int64_t profile[2] = {0, 1 * NS_PER_MS}, spans[2][8];
    for (int round = 0; round < 2; round++) {
        engine_t *engine = open_gpu((engine_config_t){.seed = 7, .jitter = 0.2});
        engine_model_t *model = load(engine, profile);
        for (int i = 0; i < 8; i++) {
            seen_t seen;
            batch_t a;
            seen_init(&seen);
            batch_init(&a, model, &seen, 'a', 1);
            ops->submit(engine, &a.job);
            ops->flush(engine);
            spans[round][i] = a.job.finished_ns - a.job.started_ns;
            cr_assert_geq(spans[round][i], 800 * NS_PER_US);
            cr_assert_leq(spans[round][i], 1200 * NS_PER_US);
        }
        ops->unload(model);
        ops->close(engine);
    }
    cr_assert(!memcmp(spans[0], spans[1], sizeof spans[0]));
    cr_assert_neq(spans[0][0], spans[0][1]);
}

Test(emulated, wrong_arguments_come_back_through_done)
{
    int64_t profile[2] = {0, NS_PER_MS};
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_model_t *model = load(engine, profile);
    seen_t seen;
    batch_t a;
    seen_init(&seen);
    batch_init(&a, model, &seen, 'a', 5);
    ops->submit(engine, &a.job);
    cr_assert_eq(seen.status, STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(seen.text, "batch 5 is outside 1..4");
    a.job.batch = 1;
    a.inputs[0] = NULL;
    ops->submit(engine, &a.job);
    cr_assert_str_eq(seen.text, "input 'x' has no buffer");
    ops->unload(model);
    ops->close(engine);
}

Test(emulated, takes_its_shapes_from_an_onnx_file)
{
    int64_t zero[2] = {0, 0};
    size_t len;
    err_t err;
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){-1, 4});
    maker_attr_int(maker_node(m, "Concat", "x x", "y"), "axis", 1);
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    uint8_t *bytes = maker_pack(m, &len);
    engine_t *engine = open_gpu((engine_config_t){0});
    engine_load_t what = {
        .name = "m", .bytes = bytes, .len_bytes = len, .latency = linear, .latency_arg = zero};
    engine_model_t *model = NULL;
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_OK, "%s", err.text);
    const engine_model_info_t *info = ops->info(model);
    cr_assert(info->batchable);
    cr_assert_eq(info->max_batch, ENGINE_DEFAULT_MAX_BATCH);
    cr_assert_eq(info->inputs[0].row_bytes, 16);
    cr_assert_eq(info->outputs[0].row_bytes, 32);
    cr_assert_str_eq(info->outputs[0].name, "y");
    ops->unload(model);
    ops->close(engine);
    free(bytes);
}

Test(emulated, refuses_bad_configurations)
{
    engine_t *engine = open_gpu((engine_config_t){0}), *other = NULL;
    engine_model_t *model = NULL;
    err_t err;
    cr_assert_eq(ops->open(&(engine_config_t){.jitter = 1.5}, &other, &err), STATUS_INVALID_ARGUMENT);
    engine_load_t what = {
        .name = "m", .inputs = &in_desc, .input_count = 1, .outputs = &out_desc, .output_count = 1};
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "model 'm': the emulated engine needs a latency profile");
    ops->close(engine);
}

Test(engine, unknown_engines_are_named)
{
    const engine_ops_t *found = NULL;
    err_t err;
    cr_assert_eq(engine_find("warp", &found, &err), STATUS_NOT_FOUND);
    cr_assert(strstr(err.text, "no engine 'warp'"));
    cr_assert_eq(engine_find("../warp", &found, &err), STATUS_INVALID_ARGUMENT);
}
