/*
 * gpu-bench --model FILE [--engine E] [--precision fp32|tf32|fp16|bf16] [--batches 1,8] [--seconds S] [--inputs DIR]
 *           [--outputs DIR]
 *
 * One line of JSON per batch size: how long preparing took, the latency of one batch alone, and the time per batch when the
 * next one is always queued. Inputs come from DIR/0.bin, 1.bin, … (rows of the largest batch; zeros else), the outputs of
 * the largest batch are written the same way.
 */
#include "base/clock.h"
#include "engine/engine.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 100000, MAX_BATCHES = 16, IN_FLIGHT = 3 };

typedef struct {
    const char *model, *engine, *inputs, *outputs;
    engine_precision_t precision;
    double seconds;
    uint32_t batches[MAX_BATCHES], batch_count, largest;
} options_t;

typedef struct {
    void *in[ENGINE_MAX_IO], *out[ENGINE_MAX_IO];
    engine_job_t job;
} set_t;

typedef struct {
    const engine_ops_t *ops;
    engine_t *engine;
    const engine_model_info_t *info;
    set_t sets[IN_FLIGHT];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t done;
    int64_t end_ns;
    size_t count;
    int64_t *runs;
    bool failed;
    err_t err;
} bench_t;

static void fail(const char *what)
{
    fprintf(stderr, "gpu-bench: %s\n", what);
    exit(1);
}

static bool parse_precision(const char *text, engine_precision_t *precision)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(names[i], text)) {
            *precision = (engine_precision_t)i;
            return true;
        }
    return false;
}

static bool parse_batches(char *text, options_t *o)
{
    o->batch_count = o->largest = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        int n = atoi(word);
        if (n < 1 || n > ENGINE_MAX_BATCH || o->batch_count == MAX_BATCHES)
            return false;
        o->batches[o->batch_count++] = (uint32_t)n;
        o->largest = (uint32_t)n > o->largest ? (uint32_t)n : o->largest;
    }
    return o->batch_count > 0;
}

static bool parse(int argc, char **argv, options_t *o)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},     {"engine", required_argument, NULL, 'e'},
        {"precision", required_argument, NULL, 'p'}, {"batches", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 's'},   {"inputs", required_argument, NULL, 'i'},
        {"outputs", required_argument, NULL, 'o'},   {NULL, 0, NULL, 0},
    };
    bool ok = true;
    *o = (options_t){.engine = "cuda", .seconds = 1, .batches = {1}, .batch_count = 1, .largest = 1};
    for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'e':
            o->engine = optarg;
            break;
        case 'p':
            ok = parse_precision(optarg, &o->precision);
            break;
        case 'b':
            ok = parse_batches(optarg, o);
            break;
        case 's':
            o->seconds = atof(optarg);
            break;
        case 'i':
            o->inputs = optarg;
            break;
        case 'o':
            o->outputs = optarg;
            break;
        default:
            ok = false;
        }
    }
    return ok && o->model;
}

static void move_file(const char *dir, uint32_t i, void *bytes, size_t len, bool write)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%u.bin", dir, i);
    FILE *file = fopen(path, write ? "wb" : "rb");
    size_t moved = !file ? 0 : write ? fwrite(bytes, 1, len, file) : fread(bytes, 1, len, file);
    if (file)
        fclose(file);
    if (moved != len)
        fail(path);
}

static void *allocate(bench_t *b, const engine_tensor_t *t, uint32_t rows)
{
    if (!t->row_bytes)
        fail("a dimension of the model varies");
    void *buffer = b->ops->buffer_alloc(b->engine, t->row_bytes * rows);
    if (!buffer)
        fail("no memory");
    memset(buffer, 0, t->row_bytes * rows);
    return buffer;
}

static void make_sets(bench_t *b, const options_t *o)
{
    for (uint32_t s = 0; s < IN_FLIGHT; s++) {
        for (uint32_t i = 0; i < b->info->input_count; i++) {
            const engine_tensor_t *t = &b->info->inputs[i];
            b->sets[s].in[i] = allocate(b, t, o->largest);
            if (o->inputs)
                move_file(o->inputs, i, b->sets[s].in[i], t->row_bytes * o->largest, false);
        }
        for (uint32_t i = 0; i < b->info->output_count; i++)
            b->sets[s].out[i] = allocate(b, &b->info->outputs[i], o->largest);
    }
}

/* Submits the same job again until the time is over; counts the time between two answers. */
static void on_done(engine_job_t *job, status_t status, const err_t *err)
{
    bench_t *b = job->arg;
    int64_t now_ns = clock_now_ns();
    pthread_mutex_lock(&b->mutex);
    if (status != STATUS_OK) {
        b->failed = true;
        b->err = *err;
    }
    if (b->count < MAX_RUNS)
        b->runs[b->count++] = now_ns;
    bool again = !b->failed && now_ns < b->end_ns && b->count < MAX_RUNS;
    b->done += !again;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
    if (again)
        b->ops->submit(b->engine, job);
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

typedef struct {
    double median_ms, p99_ms, mean_ms;
    size_t count;
} times_t;

/* Runs with so many jobs in flight. The times are those between answers, and with one in flight those of one batch. */
static times_t run(bench_t *b, engine_model_t *model, uint32_t batch, uint32_t in_flight, double seconds)
{
    int64_t begin_ns = clock_now_ns(), before_ns = begin_ns;
    b->end_ns = begin_ns + (int64_t)(seconds * 1e9);
    b->count = b->done = 0;
    for (uint32_t s = 0; s < in_flight; s++) {
        set_t *set = &b->sets[s];
        set->job = (engine_job_t){.model = model,
                                  .batch = batch,
                                  .inputs = (const void *const *)set->in,
                                  .outputs = set->out,
                                  .done = on_done,
                                  .arg = b};
        b->ops->submit(b->engine, &set->job);
    }
    pthread_mutex_lock(&b->mutex);
    while (b->done < in_flight)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
    b->ops->flush(b->engine);
    if (b->failed)
        fail(b->err.text);
    double whole_ms = (double)(b->runs[b->count - 1] - begin_ns) / 1e6;
    for (size_t i = 0; i < b->count; i++) {
        int64_t at_ns = b->runs[i];
        b->runs[i] = at_ns - before_ns;
        before_ns = at_ns;
    }
    qsort(b->runs, b->count, sizeof *b->runs, by_value);
    return (times_t){.median_ms = (double)b->runs[b->count / 2] / 1e6,
                     .p99_ms = (double)b->runs[b->count * 99 / 100] / 1e6,
                     .mean_ms = whole_ms / (double)b->count,
                     .count = b->count};
}

static void measure(bench_t *b, engine_model_t *model, const options_t *o, uint32_t batch)
{
    err_t err;
    int64_t begin_ns = clock_now_ns();
    if (b->ops->prepare(model, batch, &err) != STATUS_OK)
        fail(err.text);
    double prepare_ms = (double)(clock_now_ns() - begin_ns) / 1e6;
    run(b, model, batch, IN_FLIGHT, 0.1);
    times_t alone = run(b, model, batch, 1, o->seconds / 2),
            queued = run(b, model, batch, IN_FLIGHT, o->seconds);
    printf("{\"batch\":%u,\"prepare_ms\":%.1f,\"latency_ms\":%.4f,\"latency_p99_ms\":%.4f,\"queued_ms\":%.4f,"
           "\"queued_p99_ms\":%.4f,\"runs\":%zu,\"memory_mib\":%.1f}\n",
           batch, prepare_ms, alone.median_ms, alone.p99_ms, queued.mean_ms, queued.p99_ms, queued.count,
           (double)b->info->memory_bytes / 1048576);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static bench_t b;
    options_t o;
    engine_model_t *model;
    err_t err;
    if (!parse(argc, argv, &o)) {
        fprintf(
            stderr,
            "usage: gpu-bench --model FILE [--engine E] [--precision P] [--batches LIST] [--seconds S] …\n");
        return 2;
    }
    engine_load_t what = {.name = o.model, .path = o.model, .max_batch = o.largest, .precision = o.precision};
    int64_t begin_ns = clock_now_ns();
    if (engine_find(o.engine, &b.ops, &err) != STATUS_OK ||
        b.ops->open(&(engine_config_t){0}, &b.engine, &err) != STATUS_OK ||
        b.ops->load(b.engine, &what, &model, &err) != STATUS_OK)
        fail(err.text);
    b.info = b.ops->info(model);
    b.runs = malloc(MAX_RUNS * sizeof *b.runs);
    if (!b.runs)
        fail("no memory");
    pthread_mutex_init(&b.mutex, NULL);
    pthread_cond_init(&b.changed, NULL);
    printf("{\"load_ms\":%.1f}\n", (double)(clock_now_ns() - begin_ns) / 1e6);
    make_sets(&b, &o);
    for (uint32_t i = 0; i < o.batch_count; i++)
        measure(&b, model, &o, o.batches[i]);
    for (uint32_t i = 0; o.outputs && i < b.info->output_count; i++)
        move_file(o.outputs, i, b.sets[0].out[i], b.info->outputs[i].row_bytes * o.largest, true);
    for (uint32_t s = 0; s < IN_FLIGHT; s++)
        for (uint32_t i = 0; i < ENGINE_MAX_IO; i++) {
            b.ops->buffer_free(b.engine, b.sets[s].in[i]);
            b.ops->buffer_free(b.engine, b.sets[s].out[i]);
        }
    b.ops->unload(model);
    b.ops->close(b.engine);
    free(b.runs);
    return 0;
}
