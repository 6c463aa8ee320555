/*
 * fermata-engine-bench --model FILE --batch N [--length L] [--seconds S] [--threads T] [--inputs DIR]
 * [--outputs DIR] [--engine E] [--pause-ms P] [--echo PORT]
 *
 * Loads one model, runs one batch size for S seconds and prints one line of JSON: load and compile time,
 * minimum, median and 99th percentile per batch. Inputs come as raw tensors DIR/0.bin, 1.bin, … (else seeded noise); outputs
 * are written the same way. Open dimensions take the value of --length. tests/onnx/beside_onnxruntime.py runs
 * it beside onnxruntime. With --pause-ms the engine rests before each run, as one that hardly any requests reach does: caches
 * go cold and cores to sleep. With --echo a server of HTTP on this host (fermata-echo-peer) is sent as much as the first input after each run, when
 * the engine has used the caches, and how long its answers take is told, too.
 */
#include "bench_net.h"

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/wait.h"

#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_RUNS = 20000, MAX_PATH_BYTES = 1024 };

typedef struct {
    const char *model, *inputs, *outputs, *engine;
    unsigned batch, threads, echo_port;
    long length;
    double seconds, pause_ms;
} options_t;

typedef struct {
    void *in[ENGINE_MAX_IO], *out[ENGINE_MAX_IO];
    size_t in_bytes[ENGINE_MAX_IO], out_bytes[ENGINE_MAX_IO];
    engine_shape_t in_shapes[ENGINE_MAX_IO], out_shapes[ENGINE_MAX_IO];
} buffers_t;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "fermata-engine-bench: %s\n", what);
    exit(1);
}

static int64_t run_once(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, status_t *status)
{
    err_t err = {0};
    *status = engine_run_wait(ops, engine, job, &err);
    if (*status != STATUS_OK && *status != STATUS_TOO_LARGE)
        fail(err.text);
    return job->finished_ns - job->started_ns;
}

static size_t shape_of(const engine_tensor_t *t, bool batchable, const options_t *o, engine_shape_t *shape)
{
    size_t bytes = dtype_size(t->dtype);
    shape->rank = t->rank + batchable;
    for (uint32_t d = 0; d < shape->rank; d++) {
        int64_t dim = batchable && d == 0 ? o->batch : t->dims[d - batchable];
        shape->dims[d] = dim < 0 ? o->length : dim;
        bytes *= (size_t)shape->dims[d];
    }
    return bytes;
}

static void *allocate(const engine_ops_t *ops, engine_t *engine, size_t len)
{
    void *buffer = ops->buffer_alloc(engine, len);
    if (!buffer)
        fail("no memory");
    memset(buffer, 0, len);
    return buffer;
}

static void move_file(const char *dir, uint32_t i, void *bytes, size_t len, bool write)
{
    char path[MAX_PATH_BYTES];
    snprintf(path, sizeof path, "%s/%u.bin", dir, i);
    FILE *file = fopen(path, write ? "wb" : "rb");
    size_t moved = !file ? 0 : write ? fwrite(bytes, 1, len, file) : fread(bytes, 1, len, file);
    if (file)
        fclose(file);
    if (moved != len)
        fail(path);
}

static void fill(const engine_tensor_t *t, void *bytes, size_t len)
{
    uint64_t x = 88172645463325252u;
    for (size_t i = 0; i < len / dtype_size(t->dtype); i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (t->dtype == DTYPE_F32)
            ((float *)bytes)[i] = (float)(x % 2001) / 1000 - 1;
        else if (t->dtype == DTYPE_I64)
            ((int64_t *)bytes)[i] = (int64_t)(x % 2);
    }
}

static void prepare_buffers(const engine_ops_t *ops, engine_t *engine, const engine_model_info_t *info,
                            const options_t *o, buffers_t *b)
{
    for (uint32_t i = 0; i < info->input_count; i++) {
        b->in_bytes[i] = shape_of(&info->inputs[i], info->batchable, o, &b->in_shapes[i]);
        b->in[i] = allocate(ops, engine, b->in_bytes[i]);
        if (o->inputs)
            move_file(o->inputs, i, b->in[i], b->in_bytes[i], false);
        else
            fill(&info->inputs[i], b->in[i], b->in_bytes[i]);
    }
    for (uint32_t i = 0; i < info->output_count; i++) {
        b->out_bytes[i] = shape_of(&info->outputs[i], info->batchable, o, &b->out_shapes[i]);
        b->out[i] = allocate(ops, engine, b->out_bytes[i]);
    }
}

/* Some output was larger than expected, and the job says how large each is. */
static void grow(const engine_ops_t *ops, engine_t *engine, const engine_model_info_t *info, buffers_t *b)
{
    for (uint32_t i = 0; i < info->output_count; i++) {
        size_t need = dtype_size(info->outputs[i].dtype);
        for (uint32_t d = 0; d < b->out_shapes[i].rank; d++)
            need *= (size_t)b->out_shapes[i].dims[d];
        if (need <= b->out_bytes[i])
            continue;
        ops->buffer_free(engine, b->out[i]);
        b->out[i] = allocate(ops, engine, need);
        b->out_bytes[i] = need;
    }
}

/* What the outputs really take: at most what was allocated. */
static size_t written(const engine_model_info_t *info, const buffers_t *b, uint32_t i)
{
    size_t len = dtype_size(info->outputs[i].dtype);
    for (uint32_t d = 0; d < b->out_shapes[i].rank; d++)
        len *= (size_t)b->out_shapes[i].dims[d];
    return len < b->out_bytes[i] ? len : b->out_bytes[i];
}

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static bool parse(int argc, char **argv, options_t *o)
{
    static const struct option options[] = {
        {"model", required_argument, NULL, 'm'},
        {"batch", required_argument, NULL, 'b'},
        {"length", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"threads", required_argument, NULL, 't'},
        {"inputs", required_argument, NULL, 'i'},
        {"outputs", required_argument, NULL, 'o'},
        {"engine", required_argument, NULL, 'e'},
        {"pause-ms", required_argument, NULL, 'p'},
        {"echo", required_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    *o = (options_t){.engine = "onednn", .batch = 1, .threads = 1, .length = 128, .seconds = 2};
    for (int c; (c = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (c) {
        case 'm':
            o->model = optarg;
            break;
        case 'b':
            o->batch = (unsigned)atoi(optarg);
            break;
        case 'l':
            o->length = atol(optarg);
            break;
        case 's':
            o->seconds = atof(optarg);
            break;
        case 't':
            o->threads = (unsigned)atoi(optarg);
            break;
        case 'i':
            o->inputs = optarg;
            break;
        case 'o':
            o->outputs = optarg;
            break;
        case 'e':
            o->engine = optarg;
            break;
        case 'p':
            o->pause_ms = atof(optarg);
            break;
        case 'h':
            o->echo_port = (unsigned)atoi(optarg);
            break;
        default:
            return false;
        }
    }
    return o->model != NULL;
}

typedef struct {
    const engine_ops_t *ops;
    engine_model_t *model;
    uint32_t batch;
} prepare_t;

static void *prepare_main(void *arg)
{
    const prepare_t *prepare = arg;
    err_t err;
    if (prepare->ops->prepare(prepare->model, prepare->batch, &err) != STATUS_OK)
        fail(err.text);
    return NULL;
}

/* On a thread that ends, as in a worker: a runtime that counts threads, or keeps some for each that asks, is then as there. */
static void prepare(const engine_ops_t *ops, engine_model_t *model, uint32_t batch)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, prepare_main, &(prepare_t){ops, model, batch}))
        fail("no thread");
    pthread_join(thread, NULL);
}

static int64_t cpu_now_ns(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

/* ---- the echo ---- */

/* A server that is asked between the runs. */
typedef struct {
    int fd; /* -1: there is none */
    char *request, *answer;
    size_t request_bytes, body_bytes;
    int64_t times_ns[MAX_RUNS];
    int count;
} echo_t;

static void echo_open(echo_t *echo, const options_t *o, size_t body_bytes)
{
    enum { HEAD_BYTES = 64 };
    echo->fd = -1;
    echo->count = 0;
    if (!o->echo_port)
        return;
    echo->fd = connect_to("127.0.0.1", (uint16_t)o->echo_port);
    echo->body_bytes = body_bytes;
    echo->request = calloc(1, HEAD_BYTES + body_bytes);
    echo->answer = malloc(HEAD_BYTES + body_bytes);
    if (!echo->request || !echo->answer)
        fail("no memory");
    echo->request_bytes = (size_t)snprintf(echo->request, HEAD_BYTES,
                                           "POST / HTTP/1.1\r\nContent-Length: %zu\r\n\r\n", body_bytes) +
                          body_bytes;
}

/* The rest of an answer whose head, the first bytes of it, has no NUL. */
static void echo_read(const echo_t *echo)
{
    size_t have = 0;
    const char *end = NULL;
    while (!end) {
        must(recv_all(echo->fd, echo->answer + have, 1), "the echo's head");
        echo->answer[++have] = '\0';
        end = have >= 4 && strcmp(echo->answer + have - 4, "\r\n\r\n") == 0 ? echo->answer + have : NULL;
    }
    const char *length = strstr(echo->answer, "Content-Length: ");
    size_t body_bytes = length ? strtoul(length + strlen("Content-Length: "), NULL, 10) : 0;
    must(body_bytes > 0 && body_bytes <= echo->body_bytes &&
             recv_all(echo->fd, echo->answer + have, body_bytes),
         "the echo's body");
}

static void echo_ask(echo_t *echo)
{
    if (echo->fd < 0 || echo->count == MAX_RUNS)
        return;
    int64_t begin_ns = clock_now_ns();
    must(send_all(echo->fd, echo->request, echo->request_bytes), "the echo's request");
    echo_read(echo);
    echo->times_ns[echo->count++] = clock_now_ns() - begin_ns;
}

static double echo_us(echo_t *echo, double p)
{
    return echo->count > 0 ? percentile_us(echo->times_ns, echo->count, p) : 0;
}

/* Wall-clock times, sorted; and the least processor time, which neighbours disturb less. */
static size_t measure(const engine_ops_t *ops, engine_t *engine, engine_job_t *job, const options_t *o,
                      echo_t *echo, int64_t *runs, int64_t *least_cpu_ns)
{
    size_t count = 0;
    int64_t end_ns = clock_now_ns() + (int64_t)(o->seconds * 1e9);
    status_t status;
    *least_cpu_ns = INT64_MAX;
    while (count < 3 || (count < MAX_RUNS && clock_now_ns() < end_ns)) {
        if (o->pause_ms > 0)
            usleep((useconds_t)(o->pause_ms * 1e3));
        int64_t begin_ns = cpu_now_ns();
        runs[count++] = run_once(ops, engine, job, &status);
        if (status != STATUS_OK)
            fail("an output grew");
        int64_t used_ns = cpu_now_ns() - begin_ns;
        *least_cpu_ns = used_ns < *least_cpu_ns ? used_ns : *least_cpu_ns;
        echo_ask(echo);
    }
    qsort(runs, count, sizeof *runs, by_value);
    return count;
}

int main(int argc, char **argv)
{
    static int64_t runs[MAX_RUNS];
    static buffers_t b;
    static echo_t echo;
    options_t o;
    const engine_ops_t *ops;
    engine_t *engine;
    engine_model_t *model;
    err_t err;
    if (!parse(argc, argv, &o)) {
        fprintf(stderr, "usage: fermata-engine-bench --model FILE [--batch N] [--length L] [--seconds S] "
                        "[--threads T] [--pause-ms P] …\n");
        return 2;
    }
    int64_t begin_ns = clock_now_ns();
    engine_load_t what = {.name = o.model, .path = o.model, .max_batch = o.batch};
    if (engine_find(o.engine, &ops, &err) != STATUS_OK ||
        ops->open(&(engine_config_t){.threads = o.threads}, &engine, &err) != STATUS_OK ||
        ops->load(engine, &what, &model, &err) != STATUS_OK)
        fail(err.text);
    int64_t loaded_ns = clock_now_ns();
    const engine_model_info_t *info = ops->info(model);
    if (!info->batchable && o.batch != 1)
        fail("the model is not batchable");
    prepare(ops, model, o.batch);
    int64_t prepared_ns = clock_now_ns();
    prepare_buffers(ops, engine, info, &o, &b);
    engine_job_t job = {.model = model,
                        .batch = info->batchable ? o.batch : 1,
                        .inputs = (const void *const *)b.in,
                        .outputs = b.out,
                        .input_shapes = b.in_shapes,
                        .output_shapes = b.out_shapes,
                        .output_capacity_bytes = b.out_bytes};
    status_t status;
    run_once(ops, engine, &job, &status);
    if (status == STATUS_TOO_LARGE) {
        grow(ops, engine, info, &b);
        run_once(ops, engine, &job, &status);
    }
    int64_t least_cpu_ns;
    echo_open(&echo, &o, b.in_bytes[0]);
    size_t count = measure(ops, engine, &job, &o, &echo, runs, &least_cpu_ns);
    for (uint32_t i = 0; o.outputs && i < info->output_count; i++)
        move_file(o.outputs, i, b.out[i], written(info, &b, i), true);
    printf("{\"batch\":%u,\"runs\":%zu,\"load_ms\":%.1f,\"prepare_ms\":%.1f,\"min_ms\":%.3f,\"median_ms\":%."
           "3f,\"p99_ms\":%.3f,\"cpu_ms\":%.3f,"
           "\"memory_mib\":%.1f,\"echo_us\":%.1f}\n",
           o.batch, count, (double)(loaded_ns - begin_ns) / 1e6, (double)(prepared_ns - loaded_ns) / 1e6,
           (double)runs[0] / 1e6, (double)runs[count / 2] / 1e6, (double)runs[count * 99 / 100] / 1e6,
           (double)least_cpu_ns / 1e6, (double)info->memory_bytes / 1048576, echo_us(&echo, 0.5));
    for (uint32_t i = 0; i < ENGINE_MAX_IO; i++) {
        ops->buffer_free(engine, b.in[i]);
        ops->buffer_free(engine, b.out[i]);
    }
    ops->unload(model);
    ops->close(engine);
    return 0;
}
