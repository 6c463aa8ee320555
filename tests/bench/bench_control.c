/*
 * The control streams at rate: a real scheduler process, between gateways and workers that this program plays
 * over loopback.
 *
 *   bench-control --gateways 4 --rate 20000     tasks at this rate, spread over the gateways; a grant's latency is from the send of a
 *                                               task to the arrival of its grant
 *   bench-control --gateways 4 --rate 0         as many as go: 4,096 under way, each answered by the next
 *
 * The model costs nothing and the workers report every batch at once, so that what is measured is the scheduler.
 */
#include "base/clock.h"
#include "base/histogram.h"
#include "config/config.h"
#include "control.pb-c.h"
#include "grant_rows.h"
#include "loop/spin.h"
#include "rpc/client.h"
#include "rpc/pb.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    GATEWAYS_MAX = 64,
    FRAME_MAX = 256,
    UNDER_WAY = 4096,
    SENT_RING = 1 << 18, /* tasks whose send time is remembered: more than can be under way */
    GRANTS_MAX = 1024,
};

typedef struct {
    int64_t gateways, workers, devices, frame, shards, spin_us, client_spin_us;
    bool keep_awake;
    double rate, seconds, warm_seconds, budget_ms;
    const char *policy, *scheduler;
    bool json;
    int log_level, log_format;
} options_t;

#define NUMBER(field, type_, text, preset, low, high)                                             \
    {                                                                                             \
        .name = #field, .type = type_, .group = "Bench", .help = text, .def = preset, .min = low, \
        .max = high, .offset = offsetof(options_t, field)                                         \
    }

static const config_option_t option_table[] = {
    NUMBER(gateways, CONFIG_INT, "Gateways, a connection each.", "1", 1, GATEWAYS_MAX),
    NUMBER(workers, CONFIG_INT, "Workers, a connection each.", "1", 1, GATEWAYS_MAX),
    NUMBER(devices, CONFIG_INT, "Devices of each worker.", "4", 1, 64),
    NUMBER(frame, CONFIG_INT, "Tasks in one message.", "4", 1, FRAME_MAX),
    NUMBER(shards, CONFIG_INT, "Threads that decide in the scheduler.", "0", 0, 64),
    NUMBER(spin_us, CONFIG_INT, "--spin of the scheduler, in microseconds.", "0", 0, 1000),
    NUMBER(client_spin_us, CONFIG_INT, "The same for the loop of this program.", "0", 0, 1000),
    {.name = "keep_awake",
     .type = CONFIG_BOOL,
     .group = "Bench",
     .help = "Ask Linux to let idle CPUs poll, as a gateway does (PM QoS).",
     .def = "false",
     .offset = offsetof(options_t, keep_awake)},
    NUMBER(rate, CONFIG_DOUBLE, "Tasks/s of all gateways; 0: as many as go.", "20000", 0, 100000000),
    NUMBER(seconds, CONFIG_DOUBLE, "Measured time.", "3", 0, 1000),
    NUMBER(warm_seconds, CONFIG_DOUBLE, "Time before it counts.", "1", 0, 1000),
    NUMBER(budget_ms, CONFIG_DOUBLE, "Budget of a task.", "100", 1, 100000),
    {.name = "policy",
     .type = CONFIG_STRING,
     .group = "Bench",
     .help = "Batching policy.",
     .def = "eager",
     .offset = offsetof(options_t, policy)},
    {.name = "scheduler",
     .type = CONFIG_STRING,
     .group = "Bench",
     .help = "The program; otherwise that beside this one.",
     .metavar = "FILE",
     .offset = offsetof(options_t, scheduler)},
    {.name = "json",
     .type = CONFIG_BOOL,
     .group = "Output",
     .help = "One line of JSON.",
     .offset = offsetof(options_t, json)},
    CONFIG_LOG_OPTIONS(options_t),
};

static const config_schema_t schema = {
    .program = "bench-control",
    .summary = "Measures a scheduler process at its control streams.",
    .options = option_table,
    .options_len = sizeof option_table / sizeof option_table[0],
};

typedef struct bench bench_t;

typedef struct {
    bench_t *bench;
    rpc_link_t *link;
    rpc_stream_t *stream;
    uint32_t index;
} peer_t;

struct bench {
    options_t o;
    loop_t *loop;
    rpc_runtime_t *runtime;
    rpc_client_t *clients[2 * GATEWAYS_MAX]; /* one each, so that no two streams share a connection */
    peer_t gateways[GATEWAYS_MAX], workers[GATEWAYS_MAX];
    pb_arena_t arena;
    uint64_t epoch;
    uint32_t model, ready, joined;
    uint64_t sent, granted, dropped, batches;
    int64_t *sent_ns; /* by id, modulo SENT_RING */
    int64_t counts_from_ns;
    histogram_t latency;
};

/* ---- Frames ---- */

static void send_frame(const bench_t *b, const peer_t *peer, ProtobufCMessage *frame)
{
    (void)b;
    if (peer->stream != NULL)
        (void)rpc_stream_send(peer->stream, rpc_pack(frame));
}

static void send_tasks(bench_t *b, const peer_t *gateway, uint32_t count)
{
    static const uint64_t zero64[FRAME_MAX];
    static const uint32_t zero32[FRAME_MAX];
    uint64_t ids[FRAME_MAX];
    uint32_t models[FRAME_MAX];
    int64_t budgets_ns[FRAME_MAX], now_ns = clock_now_ns();
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = ++b->sent; /* of all gateways together, so that a grant names its send time */
        models[i] = b->model;
        budgets_ns[i] = (int64_t)(b->o.budget_ms * 1e6);
        b->sent_ns[ids[i] % SENT_RING] = now_ns;
    }
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = count;
    tasks.id = ids;
    tasks.model = models;
    tasks.budget_ns = budgets_ns;
    tasks.handle_hi = tasks.handle_lo = tasks.offset_bytes = (uint64_t *)(uintptr_t)zero64;
    tasks.len_bytes = (uint32_t *)(uintptr_t)zero32;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.epoch = b->epoch;
    frame.tasks = &tasks;
    send_frame(b, gateway, &frame.base);
}

/* ---- The gateways' side ---- */

static void gateway_open(rpc_stream_t *stream, void *arg)
{
    peer_t *peer = arg;
    peer->stream = stream;
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 1 + peer->index;
    hello.data_address = (char *)"127.0.0.1:1";
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.hello = &hello;
    send_frame(peer->bench, peer, &frame.base);
}

static void pong_gateway(const peer_t *peer, const Control__Ping *ping)
{
    Control__Pong pong = CONTROL__PONG__INIT;
    Control__GatewayToScheduler answer = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    pong.sent_ns = ping->sent_ns;
    answer.epoch = peer->bench->epoch;
    answer.pong = &pong;
    send_frame(peer->bench, peer, &answer.base);
}

static void gateway_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    const peer_t *peer = arg;
    bench_t *b = peer->bench;
    Control__SchedulerToGateway *frame = (Control__SchedulerToGateway *)rpc_unpack(
        &control__scheduler_to_gateway__descriptor, bytes, &b->arena);
    if (frame == NULL)
        exit(1);
    b->epoch = frame->epoch;
    b->joined += frame->welcome != NULL;
    if (frame->catalogue != NULL && frame->catalogue->n_models > 0) {
        b->model = frame->catalogue->models[0]->id;
        b->ready = frame->catalogue->models[0]->workers;
    }
    b->dropped += frame->drops != NULL ? frame->drops->n_id : 0;
    if (frame->ping != NULL)
        pong_gateway(peer, frame->ping);
    pb_arena_reset(&b->arena);
}

/* ---- The workers' side ---- */

static void worker_open(rpc_stream_t *stream, void *arg)
{
    peer_t *peer = arg;
    bench_t *b = peer->bench;
    peer->stream = stream;
    Control__Device devices[64], *list[64];
    for (int i = 0; i < b->o.devices; i++) {
        control__device__init(&devices[i]);
        devices[i].name = devices[i].kind = (char *)"emulated";
        list[i] = &devices[i];
    }
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 1000 + peer->index;
    hello.n_devices = (size_t)b->o.devices;
    hello.devices = list;
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport report = CONTROL__MODEL_REPORT__INIT, *reports[] = {&report};
    report.name = (char *)"nothing";
    report.version = 1;
    report.state = CONTROL__MODEL_STATE__MODEL_STATE_READY;
    report.max_batch = 64;
    report.slo_ns = (int64_t)(b->o.budget_ms * 1e6);
    report.latency = &latency;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.hello = &hello;
    frame.n_models = 1;
    frame.models = reports;
    send_frame(b, peer, &frame.base);
}

static void note_grant(bench_t *b, const Control__Grant *grant, int64_t now_ns)
{
    b->granted += grant->rows;
    b->batches++;
    for (uint32_t i = 0; i < grant->rows && now_ns >= b->counts_from_ns; i++)
        histogram_record(&b->latency, now_ns - b->sent_ns[grant_rows_at(grant, i).task_id % SENT_RING]);
}

static void answer(bench_t *b, const peer_t *peer, const Control__SchedulerToWorker *frame)
{
    static Control__BatchDone done[GRANTS_MAX], *list[GRANTS_MAX];
    Control__WorkerToScheduler said = CONTROL__WORKER_TO_SCHEDULER__INIT;
    Control__Pong pong = CONTROL__PONG__INIT;
    int64_t now_ns = clock_now_ns();
    for (size_t i = 0; i < frame->n_grants && i < GRANTS_MAX; i++) {
        control__batch_done__init(&done[i]);
        done[i].batch_id = frame->grants[i]->batch_id;
        done[i].device = frame->grants[i]->device;
        list[said.n_done++] = &done[i];
        note_grant(b, frame->grants[i], now_ns);
    }
    if (frame->ping != NULL) {
        pong.sent_ns = frame->ping->sent_ns;
        said.pong = &pong;
    }
    said.epoch = b->epoch;
    said.done = list;
    if (said.n_done > 0 || said.pong != NULL)
        send_frame(b, peer, &said.base);
}

static void worker_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    const peer_t *peer = arg;
    bench_t *b = peer->bench;
    Control__SchedulerToWorker *frame =
        (Control__SchedulerToWorker *)rpc_unpack(&control__scheduler_to_worker__descriptor, bytes, &b->arena);
    if (frame == NULL)
        exit(1);
    b->epoch = frame->epoch;
    answer(b, peer, frame);
    pb_arena_reset(&b->arena);
}

/* ---- The scheduler ---- */

static pid_t start_scheduler(const bench_t *b, const char *program, char *address, size_t address_bytes)
{
    int out[2];
    char shards[16], spin[16];
    (void)snprintf(shards, sizeof shards, "%" PRId64, b->o.shards);
    (void)snprintf(spin, sizeof spin, "%" PRId64 "us", b->o.spin_us);
    if (pipe(out) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        execl(program, program, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--policy",
              b->o.policy, "--shards", shards, "--spin", spin, "--log-level", "error", (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *lines = fdopen(out[0], "r");
    char line[512], *at = NULL;
    if (lines == NULL || fgets(line, sizeof line, lines) == NULL ||
        (at = strstr(line, "\"grpc\":\"")) == NULL)
        exit(1);
    (void)snprintf(address, address_bytes, "%.*s", (int)strcspn(at + 8, "\""), at + 8);
    (void)fclose(lines);
    return pid;
}

/* What the scheduler used, and what the host took from this machine meanwhile. */
typedef struct {
    double cpu_s, steal_s;
    int64_t sleeps, preemptions; /* context switches that a thread wanted, and that it did not */
} cost_t;

/* Seconds that CPUs were ready to run and the host ran something else, all CPUs together, since the boot. */
static double stolen_s(void)
{
    unsigned long long steal = 0;
    FILE *stat = fopen("/proc/stat", "r");
    if (stat == NULL || fscanf(stat, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &steal) != 1)
        steal = 0;
    if (stat != NULL)
        (void)fclose(stat);
    return (double)steal / (double)sysconf(_SC_CLK_TCK);
}

static void stop_scheduler(pid_t pid, cost_t *cost)
{
    struct rusage usage;
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    getrusage(RUSAGE_CHILDREN, &usage);
    cost->cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                  (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    cost->sleeps = usage.ru_nvcsw;
    cost->preemptions = usage.ru_nivcsw;
}

/* As a gateway does while requests are under way (services/gateway/sessions/awake.h); ends with the process. */
static void keep_awake(void)
{
    static const int32_t no_latency = 0;
    int fd = open("/dev/cpu_dma_latency", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || pwrite(fd, &no_latency, sizeof no_latency, 0) != (ssize_t)sizeof no_latency) {
        perror("/dev/cpu_dma_latency");
        exit(1);
    }
}

/* ---- Measuring ---- */

static void connect_peer(bench_t *b, peer_t *peer, rpc_client_t **client, const char *address, bool gateway)
{
    static const rpc_stream_ops_t gateway_ops = {.on_open = gateway_open, .on_message = gateway_message};
    static const rpc_stream_ops_t worker_ops = {.on_open = worker_open, .on_message = worker_message};
    err_t err = {0};
    rpc_client_options_t options = {.address = address};
    rpc_link_options_t link = {.method = gateway ? "/fermata.control.v1.Control/Gateway"
                                                 : "/fermata.control.v1.Control/Worker",
                               .ops = gateway ? gateway_ops : worker_ops,
                               .arg = peer};
    peer->bench = b;
    if (rpc_client_create(b->runtime, &options, client, &err) != STATUS_OK ||
        rpc_link_create(*client, &link, &peer->link, &err) != STATUS_OK) {
        fprintf(stderr, "bench-control: %s\n", err.text);
        exit(1);
    }
}

static void connect_all(bench_t *b, const char *address)
{
    for (uint32_t i = 0; i < b->o.workers; i++) {
        b->workers[i].index = i;
        connect_peer(b, &b->workers[i], &b->clients[GATEWAYS_MAX + i], address, false);
    }
    for (uint32_t i = 0; i < b->o.gateways; i++) {
        b->gateways[i].index = i;
        connect_peer(b, &b->gateways[i], &b->clients[i], address, true);
    }
    while (b->ready < b->o.workers || b->joined < b->o.gateways)
        loop_run_once(b->loop, NS_PER_S);
}

/* Frames at even distances, each by the next gateway. */
static void send_at_rate(bench_t *b, int64_t start_ns, int64_t now_ns)
{
    uint32_t frame = (uint32_t)b->o.frame;
    double due = (double)(now_ns - start_ns) / 1e9 * b->o.rate;
    while ((double)b->sent + frame <= due)
        send_tasks(b, &b->gateways[b->sent / frame % (uint64_t)b->o.gateways], frame);
}

static void send_what_goes(bench_t *b)
{
    uint32_t frame = (uint32_t)b->o.frame;
    while (b->sent + frame <= b->granted + b->dropped + UNDER_WAY)
        send_tasks(b, &b->gateways[b->sent / frame % (uint64_t)b->o.gateways], frame);
}

static void run(bench_t *b)
{
    int64_t start_ns = clock_now_ns();
    int64_t gap_ns = b->o.rate > 0 ? (int64_t)((double)b->o.frame / b->o.rate * 1e9) : NS_PER_S;
    int64_t end_ns = start_ns + (int64_t)((b->o.warm_seconds + b->o.seconds) * 1e9);
    b->counts_from_ns = start_ns + (int64_t)(b->o.warm_seconds * 1e9);
    uint64_t granted = 0, dropped = 0;
    bool counting = false;
    for (int64_t now_ns = start_ns; now_ns < end_ns; now_ns = clock_now_ns()) {
        if (!counting && now_ns >= b->counts_from_ns) {
            counting = true;
            granted = b->granted;
            dropped = b->dropped;
        }
        if (b->o.rate > 0)
            send_at_rate(b, start_ns, now_ns);
        else
            send_what_goes(b);
        loop_run_once(b->loop, gap_ns / 2);
    }
    b->granted -= granted;
    b->dropped -= dropped;
}

static double us(const histogram_t *h, double q)
{
    return (double)histogram_quantile_ns(h, q) / 1e3;
}

static void print(const bench_t *b, const cost_t *cost)
{
    double rate = (double)b->granted / b->o.seconds, whole_s = b->o.seconds + b->o.warm_seconds;
    double frames = (double)b->sent / (double)b->o.frame;
    double sleeps = (double)cost->sleeps / frames, preemptions = (double)cost->preemptions / frames;
    if (b->o.json)
        printf("{\"gateways\":%" PRId64 ",\"workers\":%" PRId64 ",\"frame\":%" PRId64 ",\"shards\":%" PRId64
               ",\"policy\":\"%s\",\"offered_per_s\":%.0f,\"granted_per_s\":%.0f,\"dropped\":%" PRIu64
               ",\"p50_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"scheduler_cpus\":%.3f"
               ",\"sleeps_per_frame\":%.2f,\"preemptions_per_frame\":%.3f,\"stolen_cpus\":%.4f}\n",
               b->o.gateways, b->o.workers, b->o.frame, b->o.shards, b->o.policy, b->o.rate, rate, b->dropped,
               us(&b->latency, 0.5), us(&b->latency, 0.99), us(&b->latency, 0.999), cost->cpu_s / whole_s,
               sleeps, preemptions, cost->steal_s / whole_s);
    else
        printf("%2" PRId64 " gateways  %" PRId64 " shards  %-9s %8.0f tasks/s granted, %" PRIu64
               " dropped   p50 %7.1f us  p99 %7.1f us  p99.9 %7.1f us   scheduler %.2f cores, %.2f sleeps "
               "and %.3f "
               "preemptions a frame   %.3f cores stolen\n",
               b->o.gateways, b->o.shards, b->o.policy, rate, b->dropped, us(&b->latency, 0.5),
               us(&b->latency, 0.99), us(&b->latency, 0.999), cost->cpu_s / whole_s, sleeps, preemptions,
               cost->steal_s / whole_s);
}

static void count(void *arg)
{
    ++*(int64_t *)arg;
}

static void disconnect(bench_t *b)
{
    int64_t closed = 0;
    for (uint32_t i = 0; i < b->o.gateways; i++)
        rpc_link_close(b->gateways[i].link, count, &closed);
    for (uint32_t i = 0; i < b->o.workers; i++)
        rpc_link_close(b->workers[i].link, count, &closed);
    while (closed < b->o.gateways + b->o.workers)
        loop_run_once(b->loop, NS_PER_S);
    for (uint32_t i = 0; i < 2 * GATEWAYS_MAX; i++)
        if (b->clients[i] != NULL)
            rpc_client_destroy(b->clients[i]);
}

static status_t measure(bench_t *b, const char *program, err_t *err)
{
    char address[128];
    pid_t pid =
        start_scheduler(b, program, address, sizeof address); /* before gRPC: it does not like forks */
    b->sent_ns = calloc(SENT_RING, sizeof *b->sent_ns);
    histogram_init(&b->latency);
    pb_arena_init(&b->arena, 0);
    rpc_runtime_options_t how = {0};
    status_t status = b->sent_ns != NULL ? loop_create(&b->loop, err) : STATUS_NO_MEMORY;
    how.loop = b->loop;
    if (status == STATUS_OK)
        status = rpc_runtime_create(&how, &b->runtime, err);
    if (status != STATUS_OK)
        return status;
    loop_set_spin(b->loop, b->o.client_spin_us * NS_PER_US);
    connect_all(b, address);
    cost_t cost = {.steal_s = -stolen_s()};
    run(b);
    cost.steal_s += stolen_s();
    disconnect(b);
    stop_scheduler(pid, &cost);
    print(b, &cost);
    rpc_runtime_destroy(b->runtime);
    pb_arena_dispose(&b->arena);
    loop_destroy(b->loop);
    free(b->sent_ns);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    static bench_t bench;
    char beside[4096];
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &bench.o, &config, &exit_code))
        return exit_code;
    const char *slash = strrchr(argv[0], '/');
    (void)snprintf(beside, sizeof beside, "%.*sfermata-scheduler",
                   slash != NULL ? (int)(slash + 1 - argv[0]) : 0, argv[0]);
    if (bench.o.keep_awake)
        keep_awake();
    err_t err = {0};
    status_t status = measure(&bench, bench.o.scheduler != NULL ? bench.o.scheduler : beside, &err);
    config_destroy(config);
    return config_exit(&schema, status, &err);
}
