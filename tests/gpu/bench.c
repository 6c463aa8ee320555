/*
 * gpu-bench --model FILE [--engine E] [--precision fp32,tf32,fp16,bf16] [--batches 1,8] [--seconds S] [--exits N]
 *           [--inputs DIR] [--outputs DIR]
 *
 * One line of JSON per precision and batch size: how long preparing took, the latency of one batch alone, and
 * the time per batch when the next one is always queued. With --exits also the latency with N exits, and how
 * long a batch goes on after it was told to stop. Inputs come from DIR/0.bin, 1.bin, … (rows of the largest
 * batch; zeros else), the outputs of the largest batch are written to DIR/PRECISION/0.bin, ….
 */
#include "base/clock.h"
#include "engine/engine.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_RUNS = 100000, MAX_BATCHES = 16, IN_FLIGHT = 3, PRECISIONS = 4, MAX_EXITS = 64, STOPS = 60 };

static const char *const precision_names[PRECISIONS] = {"fp32", "tf32", "fp16", "bf16"};

typedef struct {
    const char *model, *engine, *inputs, *outputs;
    engine_precision_t precisions[PRECISIONS];
    double seconds;
    uint32_t batches[MAX_BATCHES], batch_count, largest, precision_count, exits;
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
    uint32_t exits[MAX_EXITS], exit_count; /* of the jobs of run() */
    status_t last;
    bool failed;
    err_t err;
} bench_t;

static void fail(const char *what)
{
    fprintf(stderr, "gpu-bench: %s\n", what);
    exit(1);
}

static bool parse_precisions(char *text, options_t *o)
{
    o->precision_count = 0;
    for (char *word = strtok(text, ","); word; word = strtok(NULL, ",")) {
        uint32_t i = 0;
        while (i < PRECISIONS && strcmp(precision_names[i], word) != 0)
            i++;
        if (i == PRECISIONS || o->precision_count == PRECISIONS)
            return false;
        o->precisions[o->precision_count++] = (engine_precision_t)i;
    }
    return o->precision_count > 0;
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
        {"model", required_argument, NULL, 'm'},
        {"engine", required_argument, NULL, 'e'},
        {"precision", required_argument, NULL, 'p'},
        {"batches", required_argument, NULL, 'b'},
        {"seconds", required_argument, NULL, 's'},
        {"inputs", required_argument, NULL, 'i'},
        {"outputs", required_argument, NULL, 'o'},
        {"exits", required_argument, NULL, 'x'},
        {NULL, 0, NULL, 0},
    };
    bool ok = true;
    *o = (options_t){
        .engine = "cuda", .seconds = 1, .batches = {1}, .batch_count = 1, .largest = 1, .precision_count = 1};
    for (int c; ok && (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'e':
            o->engine = optarg;
            break;
        case 'p':
            ok = parse_precisions(optarg, o);
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
        case 'x':
            o->exits = (uint32_t)atoi(optarg);
            ok = o->exits <= MAX_EXITS;
            break;
        default:
            ok = false;
        }
    }
    return ok && o->model;
}

static void move_file(const char *dir, uint32_t i, void *bytes, size_t len, bool write)
{
    char path[5120];
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
    b->last = status;
    if (status != STATUS_OK && status != STATUS_CANCELLED) {
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

static engine_job_t job_of(bench_t *b, engine_model_t *model, set_t *set, uint32_t batch)
{
    return (engine_job_t){.model = model,
                          .batch = batch,
                          .inputs = (const void *const *)set->in,
                          .outputs = set->out,
                          .exits = b->exits,
                          .exit_count = b->exit_count,
                          .done = on_done,
                          .arg = b};
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
        set->job = job_of(b, model, set, batch);
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

/* ---- exits ---- */

/* Cuts that divide the operators about evenly; 0: it cannot be cut. */
static void choose_exits(bench_t *b, engine_model_t *model, uint32_t wanted)
{
    engine_cuts_t cuts;
    err_t err;
    uint32_t cut = 0;
    b->exit_count = 0;
    if (!b->ops->cuts || b->ops->cuts(model, &cuts, &err) != STATUS_OK)
        return;
    for (uint32_t i = 1; i <= wanted; i++) {
        while (cut < cuts.cut_count && cuts.cuts[cut].op < i * cuts.ops / (wanted + 1))
            cut++;
        if (cut < cuts.cut_count)
            b->exits[b->exit_count++] = cuts.cuts[cut++].op;
    }
}

/* One batch, told to stop a part of its usual time after it was submitted. How long it then went on; -1:
 * it was past its last exit. */
static int64_t stop_one(bench_t *b, engine_model_t *model, uint32_t batch, int64_t after_ns)
{
    set_t *set = &b->sets[0];
    b->end_ns = 0;
    b->count = b->done = 0;
    set->job = job_of(b, model, set, batch);
    int64_t begin_ns = clock_now_ns(), told_ns;
    b->ops->submit(b->engine, &set->job);
    while ((told_ns = clock_now_ns()) < begin_ns + after_ns)
        ;
    b->ops->stop(b->engine, &set->job);
    pthread_mutex_lock(&b->mutex);
    while (!b->done)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
    b->ops->flush(b->engine);
    return b->last == STATUS_CANCELLED ? b->runs[0] - told_ns : -1;
}

static void measure_exits(bench_t *b, engine_model_t *model, const options_t *o, uint32_t batch)
{
    int64_t went_on_ns[STOPS];
    uint32_t stopped = 0;
    choose_exits(b, model, o->exits);
    if (!b->exit_count) {
        printf("{\"batch\":%u,\"exits\":0}\n", batch);
        return;
    }
    run(b, model, batch, 1, 0.1);
    times_t with = run(b, model, batch, 1, o->seconds / 2);
    for (int i = 0; i < STOPS; i++) {
        int64_t ns = stop_one(b, model, batch, (int64_t)(with.median_ms * 1e6) * (i + 1) / (STOPS + 1));
        if (ns >= 0)
            went_on_ns[stopped++] = ns;
        if (b->failed)
            fail(b->err.text);
    }
    qsort(went_on_ns, stopped, sizeof *went_on_ns, by_value);
    printf("{\"batch\":%u,\"exits\":%u,\"latency_exits_ms\":%.4f,\"stops\":%d,\"stopped\":%u,\"stop_median_"
           "ms\":%.4f,"
           "\"stop_max_ms\":%.4f}\n",
           batch, b->exit_count, with.median_ms, STOPS, stopped,
           stopped ? (double)went_on_ns[stopped / 2] / 1e6 : 0,
           stopped ? (double)went_on_ns[stopped - 1] / 1e6 : 0);
    fflush(stdout);
    b->exit_count = 0;
}

static void measure(bench_t *b, engine_model_t *model, const options_t *o, uint32_t batch,
                    const char *precision)
{
    err_t err;
    int64_t begin_ns = clock_now_ns();
    if (b->ops->prepare(model, batch, &err) != STATUS_OK)
        fail(err.text);
    double prepare_ms = (double)(clock_now_ns() - begin_ns) / 1e6;
    run(b, model, batch, IN_FLIGHT, 0.1);
    times_t alone = run(b, model, batch, 1, o->seconds / 2),
            queued = run(b, model, batch, IN_FLIGHT, o->seconds);
    printf("{\"precision\":\"%s\",\"batch\":%u,\"prepare_ms\":%.1f,\"latency_ms\":%.4f,\"latency_p99_ms\":%."
           "4f,\"queued_ms\":%.4f,"
           "\"queued_p99_ms\":%.4f,\"runs\":%zu,\"memory_mib\":%.1f}\n",
           precision, batch, prepare_ms, alone.median_ms, alone.p99_ms, queued.mean_ms, queued.p99_ms,
           queued.count, (double)b->info->memory_bytes / 1048576);
    fflush(stdout);
}

static void free_sets(bench_t *b)
{
    for (uint32_t s = 0; s < IN_FLIGHT; s++)
        for (uint32_t i = 0; i < ENGINE_MAX_IO; i++) {
            b->ops->buffer_free(b->engine, b->sets[s].in[i]);
            b->ops->buffer_free(b->engine, b->sets[s].out[i]);
            b->sets[s].in[i] = b->sets[s].out[i] = NULL;
        }
}

static void write_outputs(bench_t *b, const options_t *o, const char *precision)
{
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/%s", o->outputs, precision);
    mkdir(dir, 0777);
    for (uint32_t i = 0; i < b->info->output_count; i++)
        move_file(dir, i, b->sets[0].out[i], b->info->outputs[i].row_bytes * o->largest, true);
}

static void measure_in(bench_t *b, const options_t *o, engine_precision_t precision)
{
    const char *name = precision_names[precision];
    engine_load_t what = {
        .name = o->model, .path = o->model, .max_batch = o->largest, .precision = precision};
    engine_model_t *model;
    err_t err;
    int64_t begin_ns = clock_now_ns();
    if (b->ops->load(b->engine, &what, &model, &err) != STATUS_OK)
        fail(err.text);
    b->info = b->ops->info(model);
    printf("{\"precision\":\"%s\",\"load_ms\":%.1f}\n", name, (double)(clock_now_ns() - begin_ns) / 1e6);
    fflush(stdout);
    make_sets(b, o);
    for (uint32_t i = 0; i < o->batch_count; i++) {
        measure(b, model, o, o->batches[i], name);
        if (o->exits)
            measure_exits(b, model, o, o->batches[i]);
    }
    if (o->outputs)
        write_outputs(b, o, name);
    free_sets(b);
    b->ops->unload(model);
}

int main(int argc, char **argv)
{
    static bench_t b;
    options_t o;
    err_t err;
    if (!parse(argc, argv, &o)) {
        fprintf(
            stderr,
            "usage: gpu-bench --model FILE [--engine E] [--precision LIST] [--batches LIST] [--seconds S] "
            "[--exits N] …\n");
        return 2;
    }
    int64_t begin_ns = clock_now_ns();
    if (engine_find(o.engine, &b.ops, &err) != STATUS_OK ||
        b.ops->open(&(engine_config_t){0}, &b.engine, &err) != STATUS_OK)
        fail(err.text);
    b.runs = malloc(MAX_RUNS * sizeof *b.runs);
    if (!b.runs)
        fail("no memory");
    pthread_mutex_init(&b.mutex, NULL);
    pthread_cond_init(&b.changed, NULL);
    printf("{\"open_ms\":%.1f}\n", (double)(clock_now_ns() - begin_ns) / 1e6);
    fflush(stdout);
    for (uint32_t i = 0; i < o.precision_count; i++)
        measure_in(&b, &o, o.precisions[i]);
    b.ops->close(b.engine);
    free(b.runs);
    return 0;
}
