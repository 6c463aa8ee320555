#include "engine/engine.h"
#include "engine/onednn/run/plan.h"
#include "engine/onednn/run/team.h"
#include "networks.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const engine_ops_t *find(const char *name)
{
    const engine_ops_t *ops = NULL;
    cr_assert_eq(engine_find(name, &ops, NULL), STATUS_OK);
    return ops;
}

static engine_t *open_engine(const engine_ops_t *ops, engine_config_t config)
{
    engine_t *engine = NULL;
    err_t err;
    cr_assert_eq(ops->open(&config, &engine, &err), STATUS_OK, "%s", err.text);
    return engine;
}

static float *noise(size_t n, unsigned seed)
{
    float *v = malloc((n + 1) * sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)(rand_r(&seed) % 2001) / 1000 - 1;
    return v;
}

static void floats(maker_t *m, const char *name, int rank, const int64_t *dims, unsigned seed)
{
    size_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    float *v = noise(n, seed);
    maker_floats(m, name, rank, dims, v);
    free(v);
}

/* Residual blocks, a pool, a product: every kind of fusion and reuse. Input rows of [3, 9, 9], output rows of [5]. */
static maker_t *network(int64_t batch)
{
    maker_t *m = maker_create(17);
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){batch, 3, 9, 9});
    floats(m, "w0", 4, (int64_t[]){20, 3, 3, 3}, 1);
    floats(m, "b0", 1, (int64_t[]){20}, 2);
    floats(m, "w1", 4, (int64_t[]){20, 20, 1, 1}, 3);
    floats(m, "w2", 4, (int64_t[]){20, 1, 3, 3}, 4);
    floats(m, "fc", 2, (int64_t[]){5, 60}, 5);
    floats(m, "fb", 1, (int64_t[]){5}, 6);
    maker_attr_ints(maker_node(m, "Conv", "x w0 b0", "c0"), "pads", 4, (int64_t[]){1, 1, 1, 1});
    maker_node(m, "Relu", "c0", "r0");
    maker_node(m, "Conv", "r0 w1", "c1");
    maker_node(m, "Add", "c1 r0", "a1");
    maker_node(m, "Relu", "a1", "r1");
    Onnx__NodeProto *depthwise = maker_node(m, "Conv", "r1 w2", "c2");
    maker_attr_ints(depthwise, "pads", 4, (int64_t[]){1, 1, 1, 1});
    maker_attr_int(depthwise, "group", 20);
    maker_node(m, "Sigmoid", "c2", "s2");
    maker_node(m, "Mul", "c2 s2", "m2");
    maker_node(m, "Add", "m2 r0", "a2");
    maker_node(m, "Tanh", "a2", "t2");
    maker_attr_int(maker_node(m, "Softmax", "r1", "soft"), "axis", 1);
    maker_attr_int(maker_node(m, "Concat", "t2 r1 soft", "k"), "axis", 1);
    maker_node(m, "GlobalAveragePool", "k", "p");
    maker_node(m, "Flatten", "p", "f");
    maker_attr_int(maker_node(m, "Gemm", "f fc fb", "y"), "transB", 1);
    maker_output(m, "y", DTYPE_F32, 2, (int64_t[]){batch, 5});
    return m;
}

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int done;
    status_t status;
    char text[ERR_TEXT_BYTES];
} seen_t;

static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    seen_t *seen = job->arg;
    pthread_mutex_lock(&seen->mutex);
    seen->done++;
    seen->status = status;
    memcpy(seen->text, err ? err->text : "", err ? sizeof seen->text : 1);
    pthread_cond_broadcast(&seen->changed);
    pthread_mutex_unlock(&seen->mutex);
}

static void start(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, seen_t *seen)
{
    pthread_mutex_init(&seen->mutex, NULL);
    pthread_cond_init(&seen->changed, NULL);
    seen->done = 0;
    seen->text[0] = 0;
    job->done = on_done;
    job->arg = seen;
    ops->submit(engine, job);
}

static status_t wait_for(seen_t *seen)
{
    pthread_mutex_lock(&seen->mutex);
    while (!seen->done)
        pthread_cond_wait(&seen->changed, &seen->mutex);
    pthread_mutex_unlock(&seen->mutex);
    return seen->status;
}

static status_t run(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, seen_t *seen)
{
    start(ops, engine, job, seen);
    return wait_for(seen);
}

static void run_rows(const engine_ops_t *ops, engine_t *engine, engine_model_t *model, uint32_t batch,
                     const float *in, float *out)
{
    seen_t seen;
    const void *inputs[] = {in};
    void *outputs[] = {out};
    engine_job_t job = {.model = model, .batch = batch, .inputs = inputs, .outputs = outputs};
    cr_assert_eq(run(ops, engine, &job, &seen), STATUS_OK, "%s", seen.text);
}

Test(onednn, every_batch_size_agrees_with_the_reference)
{
    enum { MAX = 5, ROW = 3 * 81 };
    const engine_ops_t *names[] = {find("onednn"), find("reference")};
    float *in = noise(MAX * ROW, 7), out[2][MAX * 5];
    for (uint32_t batch = 1; batch <= MAX; batch++) {
        for (int e = 0; e < 2; e++) {
            engine_t *engine = open_engine(names[e], (engine_config_t){0});
            engine_model_t *model;
            err_t err;
            cr_assert_eq(network_load_as(network(-1), names[e], engine, (engine_load_t){.max_batch = MAX},
                                         &model, &err),
                         STATUS_OK, "%s", err.text);
            const engine_model_info_t *info = names[e]->info(model);
            cr_assert(info->batchable);
            cr_assert_eq(info->max_batch, MAX);
            cr_assert_eq(info->inputs[0].row_bytes, ROW * 4);
            cr_assert_eq(info->outputs[0].row_bytes, 20);
            cr_assert_eq(names[e]->prepare(model, batch, &err), STATUS_OK, "%s", err.text);
            run_rows(names[e], engine, model, batch, in, out[e]);
            run_rows(names[e], engine, model, batch, in, out[e]);
            names[e]->unload(model);
            names[e]->close(engine);
        }
        for (uint32_t i = 0; i < batch * 5; i++)
            cr_assert_float_eq(out[0][i], out[1][i], 1e-4f, "batch %u, element %u: %g and %g", batch, i,
                               out[0][i], out[1][i]);
    }
    free(in);
}

/* Also more than this host may have; and they are a team's, not libgomp's. */
Test(onednn, several_threads_agree_with_one)
{
    enum { BATCH = 5, ROW = 3 * 81, TIMES = 50 };
    static const uint32_t threads[] = {1, 2, 5};
    const engine_ops_t *ops = find("onednn");
    float *in = noise(BATCH * ROW, 7), out[2][BATCH * 5];
    for (int t = 0; t < 3; t++) {
        engine_t *engine = open_engine(ops, (engine_config_t){.threads = threads[t]});
        engine_model_t *model;
        err_t err;
        cr_assert_eq(
            network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = BATCH}, &model, &err),
            STATUS_OK, "%s", err.text);
        uint64_t before = team_loops();
        cr_assert_eq(ops->prepare(model, BATCH, &err), STATUS_OK, "%s", err.text);
        for (int i = 0; i < TIMES; i++) {
            run_rows(ops, engine, model, BATCH, in, out[t > 0]);
            for (uint32_t k = 0; t > 0 && k < BATCH * 5; k++)
                cr_assert_float_eq(out[0][k], out[1][k], 1e-5f, "%u threads, element %u", threads[t], k);
        }
        cr_expect_eq(team_loops() > before, threads[t] > 1, "%u threads", threads[t]);
        ops->unload(model);
        ops->close(engine);
    }
    free(in);
}

Test(onednn, a_batch_of_one_is_a_batch_when_the_configuration_says_so)
{
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){0});
    engine_model_t *model;
    err_t err;
    cr_assert_eq(network_load_as(network(1), ops, engine, (engine_load_t){0}, &model, &err), STATUS_OK, "%s",
                 err.text);
    cr_assert(!ops->info(model)->batchable);
    cr_assert_eq(ops->info(model)->inputs[0].rank, 4);
    ops->unload(model);
    cr_assert_eq(network_load_as(network(1), ops, engine,
                                 (engine_load_t){.batching = ENGINE_BATCH_FORCE, .max_batch = 7}, &model,
                                 &err),
                 STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->info(model)->max_batch, 7);
    float *in = noise(2 * 243, 3), out[2][5], one[5];
    run_rows(ops, engine, model, 2, in, out[0]);
    run_rows(ops, engine, model, 1, in + 243, one);
    for (int i = 0; i < 5; i++)
        cr_assert_float_eq(out[1][i], one[i], 1e-4f);
    free(in);
    ops->unload(model);
    ops->close(engine);
}

Test(onednn, what_does_not_grow_with_the_batch_is_not_batched)
{
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){0});
    engine_model_t *model;
    err_t err;
    maker_t *m = maker_create(13);
    maker_input(m, "x", DTYPE_F32, 2, (int64_t[]){1, 4});
    maker_ints(m, "to", 2, (int64_t[]){1, 4});
    maker_node(m, "Reshape", "x to", "y");
    maker_output(m, "y", DTYPE_F32, -1, NULL);
    cr_assert_eq(
        network_load_as(m, ops, engine, (engine_load_t){.batching = ENGINE_BATCH_FORCE}, &model, &err),
        STATUS_INVALID_ARGUMENT);
    cr_assert_str_eq(err.text, "max_batch is given, but output 'y' does not grow with the batch");
    ops->close(engine);
}

/* Five halvings make 1 of 16 and of 24: what looks fixed at small sizes is not. */
Test(onednn, an_output_that_varies_slowly_is_found_to_vary)
{
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){0});
    engine_model_t *model;
    err_t err;
    maker_t *m = maker_create(13);
    char from[] = "x", to[] = "a";
    maker_input(m, "x", DTYPE_F32, 4, (int64_t[]){-1, 1, -1, 32});
    maker_floats(m, "w", 4, (int64_t[]){1, 1, 3, 3}, (float[9]){1, 1, 1, 1, 1, 1, 1, 1, 1});
    for (int i = 0; i < 5; i++) {
        char inputs[8];
        snprintf(inputs, sizeof inputs, "%s w", from);
        to[0] = (char)('a' + i);
        Onnx__NodeProto *conv = maker_node(m, "Conv", inputs, to);
        maker_attr_ints(conv, "pads", 4, (int64_t[]){1, 1, 1, 1});
        maker_attr_ints(conv, "strides", 2, (int64_t[]){2, 2});
        from[0] = to[0];
    }
    maker_output(m, "e", DTYPE_F32, -1, NULL);
    cr_assert_eq(network_load_as(m, ops, engine, (engine_load_t){0}, &model, &err), STATUS_OK, "%s",
                 err.text);
    const engine_tensor_t *out = &ops->info(model)->outputs[0];
    cr_expect_eq(out->rank, 3);
    cr_expect_eq(out->dims[1], -1);
    cr_expect_eq(out->dims[2], 1, "the width is given");
    ops->unload(model);
    ops->close(engine);
}

Test(onednn, the_memory_limit_is_kept_and_named)
{
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){.memory_limit_bytes = 1000});
    engine_model_t *model;
    err_t err;
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){0}, &model, &err),
                 STATUS_NO_MEMORY);
    cr_assert(strstr(err.text, "MiB are needed"), "%s", err.text);
    ops->close(engine);
    engine = open_engine(ops, (engine_config_t){.memory_limit_bytes = 256 << 10});
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = 64}, &model, &err),
                 STATUS_OK);
    cr_assert_eq(ops->prepare(model, 1, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(ops->prepare(model, 64, &err), STATUS_NO_MEMORY);
    ops->unload(model);
    ops->close(engine);
}

Test(onednn, loading_errors_reach_the_caller)
{
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){0});
    engine_model_t *model;
    err_t err;
    engine_load_t what = {.name = "m", .path = "/nonexistent/model.onnx"};
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_NOT_FOUND);
    what.precision = ENGINE_FP16;
    cr_assert_eq(ops->load(engine, &what, &model, &err), STATUS_UNSUPPORTED);
    ops->close(engine);
}

typedef struct {
    const engine_ops_t *ops;
    engine_model_t *model;
} preparer_t;

static void *prepare_all(void *arg)
{
    preparer_t *p = arg;
    for (uint32_t batch = 1; batch <= 8; batch++)
        if (p->ops->prepare(p->model, batch, NULL) != STATUS_OK)
            return p;
    return NULL;
}

Test(onednn, preparing_goes_on_beside_running)
{
    enum { JOBS = 40 };
    const engine_ops_t *ops = find("onednn");
    engine_t *engine = open_engine(ops, (engine_config_t){0});
    engine_model_t *model;
    err_t err;
    cr_assert_eq(network_load_as(network(-1), ops, engine, (engine_load_t){.max_batch = 8}, &model, &err),
                 STATUS_OK);
    float *in = noise(8 * 243, 11), out[2][8][5];
    preparer_t p = {ops, model};
    pthread_t threads[2];
    for (int t = 0; t < 2; t++)
        pthread_create(&threads[t], NULL, prepare_all, &p);
    for (uint32_t j = 0; j < JOBS; j++)
        run_rows(ops, engine, model, 1 + j % 8, in, out[0][0]);
    for (int t = 0; t < 2; t++) {
        void *failed;
        pthread_join(threads[t], &failed);
        cr_assert_null(failed);
    }
    run_rows(ops, engine, model, 8, in, out[0][0]);
    for (uint32_t i = 0; i < 8; i++) {
        run_rows(ops, engine, model, 1, in + 243 * i, out[1][0]);
        for (int k = 0; k < 5; k++)
            cr_assert_float_eq(out[0][i][k], out[1][0][k], 1e-4f);
    }
    free(in);
    ops->unload(model);
    ops->close(engine);
}

Test(plan, buffers_that_live_together_do_not_overlap)
{
    enum { COUNT = 200 };
    unsigned seed = 5;
    for (int round = 0; round < 20; round++) {
        plan_t plan = {.buffer_count = COUNT};
        plan.buffers = calloc(COUNT, sizeof *plan.buffers);
        size_t sum = 0;
        for (int i = 0; i < COUNT; i++) {
            buffer_t *b = &plan.buffers[i];
            b->len_bytes = (size_t)(rand_r(&seed) % 5000);
            b->first = (uint32_t)rand_r(&seed) % 100;
            b->last = b->first + (uint32_t)rand_r(&seed) % 10;
            sum += b->len_bytes + 64;
        }
        cr_assert_eq(plan_place(&plan, NULL), STATUS_OK);
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < i; j++) {
                const buffer_t *a = &plan.buffers[i], *b = &plan.buffers[j];
                bool together = a->first <= b->last && b->first <= a->last;
                bool apart = a->offset + a->len_bytes <= b->offset || b->offset + b->len_bytes <= a->offset;
                cr_assert(!together || apart, "%d and %d", i, j);
            }
        cr_assert_lt(plan.work_bytes, sum / 3, "nothing is reused");
        free(plan.buffers);
    }
}
