/*
 * The scheduler process between a gateway and a worker that this program plays: from the task's send to its grant.
 *
 *   latency      one task at a time, 1,000 a second, model of no cost, per policy
 *   throughput   tasks in frames of 32, 4,096 under way, the worker reports every batch at once
 *
 *   bench_scheduler PATH-OF-fermata-scheduler
 */
#include "base/clock.h"
#include "base/histogram.h"
#include "control.pb-c.h"
#include "loop/loop.h"
#include "rpc/client.h"
#include "rpc/pb.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SINGLES = 3000, WARM = 300, FRAME = 32, UNDER_WAY = 4096, MANY = 400000, DEVICES = 4, MAX_BATCH = 32 };

typedef struct {
    loop_t *loop;
    rpc_runtime_t *runtime;
    rpc_client_t *client;
    rpc_stream_t *gateway, *worker;
    rpc_arena_t arena;
    uint64_t epoch;
    bool ready;
    uint32_t sent, granted, dropped, batches;
    int64_t granted_ns;
} bench_t;

static void send_gateway(bench_t *b, Control__GatewayToScheduler *frame)
{
    frame->epoch = b->epoch;
    (void)rpc_stream_send(b->gateway, rpc_pack(&frame->base));
}

static void send_worker(bench_t *b, Control__WorkerToScheduler *frame)
{
    frame->epoch = b->epoch;
    (void)rpc_stream_send(b->worker, rpc_pack(&frame->base));
}

static void send_tasks(bench_t *b, uint32_t count)
{
    uint64_t ids[FRAME], zero64[FRAME] = {0};
    uint32_t zero32[FRAME] = {0};
    int64_t budgets_ns[FRAME];
    for (uint32_t i = 0; i < count; i++) {
        ids[i] = ++b->sent;
        budgets_ns[i] = 100 * NS_PER_MS;
    }
    Control__TaskBatch tasks = CONTROL__TASK_BATCH__INIT;
    tasks.n_id = tasks.n_model = tasks.n_budget_ns = tasks.n_handle_hi = tasks.n_handle_lo =
        tasks.n_offset_bytes = tasks.n_len_bytes = count;
    tasks.id = ids;
    tasks.budget_ns = budgets_ns;
    tasks.handle_hi = tasks.handle_lo = tasks.offset_bytes = zero64;
    tasks.model = tasks.len_bytes = zero32;
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.tasks = &tasks;
    send_gateway(b, &frame);
}

/* ---- The gateway's side ---- */

static void gateway_open(rpc_stream_t *stream, void *arg)
{
    bench_t *b = arg;
    b->gateway = stream;
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 1;
    hello.data_address = (char *)"127.0.0.1:1";
    Control__GatewayToScheduler frame = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
    frame.hello = &hello;
    send_gateway(b, &frame);
}

static void gateway_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    bench_t *b = arg;
    Control__SchedulerToGateway *frame = (Control__SchedulerToGateway *)rpc_unpack(
        &control__scheduler_to_gateway__descriptor, bytes, &b->arena);
    if (frame == NULL)
        exit(1);
    b->epoch = frame->epoch;
    if (frame->catalogue != NULL && frame->catalogue->n_models > 0)
        b->ready = frame->catalogue->models[0]->ready;
    b->dropped += frame->drops != NULL ? (uint32_t)frame->drops->n_id : 0;
    if (frame->ping != NULL) {
        Control__Pong pong = CONTROL__PONG__INIT;
        Control__GatewayToScheduler answer = CONTROL__GATEWAY_TO_SCHEDULER__INIT;
        pong.sent_ns = frame->ping->sent_ns;
        answer.pong = &pong;
        send_gateway(b, &answer);
    }
    rpc_arena_reset(&b->arena);
}

/* ---- The worker's side ---- */

static void worker_open(rpc_stream_t *stream, void *arg)
{
    bench_t *b = arg;
    b->worker = stream;
    Control__Device devices[DEVICES], *list[DEVICES];
    for (int i = 0; i < DEVICES; i++) {
        control__device__init(&devices[i]);
        list[i] = &devices[i];
    }
    Control__Hello hello = CONTROL__HELLO__INIT;
    hello.min_version = hello.max_version = 1;
    hello.instance_id = 2;
    hello.n_devices = DEVICES;
    hello.devices = list;
    Control__Latency latency = CONTROL__LATENCY__INIT;
    Control__ModelReport report = CONTROL__MODEL_REPORT__INIT, *reports[] = {&report};
    report.name = (char *)"nothing";
    report.version = 1;
    report.state = CONTROL__MODEL_STATE__MODEL_STATE_READY;
    report.max_batch = MAX_BATCH;
    report.slo_ns = 100 * NS_PER_MS;
    report.latency = &latency;
    Control__WorkerToScheduler frame = CONTROL__WORKER_TO_SCHEDULER__INIT;
    frame.hello = &hello;
    frame.n_models = 1;
    frame.models = reports;
    send_worker(b, &frame);
}

static void report_done(bench_t *b, Control__SchedulerToWorker *frame)
{
    Control__BatchDone done[64], *list[64];
    Control__WorkerToScheduler answer = CONTROL__WORKER_TO_SCHEDULER__INIT;
    for (size_t i = 0; i < frame->n_grants && i < 64; i++) {
        control__batch_done__init(&done[i]);
        done[i].batch_id = frame->grants[i]->batch_id;
        done[i].device = frame->grants[i]->device;
        list[answer.n_done++] = &done[i];
        b->granted += (uint32_t)frame->grants[i]->n_task_id;
        b->batches++;
    }
    answer.done = list;
    if (answer.n_done > 0)
        send_worker(b, &answer);
}

static void worker_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    bench_t *b = arg;
    Control__SchedulerToWorker *frame =
        (Control__SchedulerToWorker *)rpc_unpack(&control__scheduler_to_worker__descriptor, bytes, &b->arena);
    if (frame == NULL)
        exit(1);
    b->epoch = frame->epoch;
    if (frame->n_grants > 0)
        b->granted_ns = clock_now_ns();
    report_done(b, frame);
    if (frame->ping != NULL) {
        Control__Pong pong = CONTROL__PONG__INIT;
        Control__WorkerToScheduler answer = CONTROL__WORKER_TO_SCHEDULER__INIT;
        pong.sent_ns = frame->ping->sent_ns;
        answer.pong = &pong;
        send_worker(b, &answer);
    }
    rpc_arena_reset(&b->arena);
}

/* ---- Measuring ---- */

static void measure_latency(bench_t *b, const char *policy)
{
    histogram_t *h = calloc(1, sizeof *h);
    histogram_init(h);
    int64_t next_ns = clock_now_ns();
    for (int i = 0; i < SINGLES; i++, next_ns += NS_PER_MS) {
        struct timespec at = {.tv_sec = next_ns / NS_PER_S, .tv_nsec = next_ns % NS_PER_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        uint32_t before = b->granted + b->dropped;
        int64_t sent_ns = clock_now_ns();
        send_tasks(b, 1);
        while (b->granted + b->dropped == before)
            loop_run_once(b->loop, NS_PER_S);
        if (i >= WARM)
            histogram_record(h, b->granted_ns - sent_ns);
    }
    printf("  %-10s task to grant, 1,000/s   p50 %7.1f us   p99 %7.1f us\n", policy,
           (double)histogram_quantile_ns(h, 0.5) / 1e3, (double)histogram_quantile_ns(h, 0.99) / 1e3);
    free(h);
}

static void measure_throughput(bench_t *b, const char *policy)
{
    b->sent = b->granted = b->dropped = b->batches = 0;
    int64_t start_ns = clock_now_ns();
    while (b->granted + b->dropped < MANY) {
        while (b->sent < MANY && b->sent + FRAME <= b->granted + b->dropped + UNDER_WAY)
            send_tasks(b, FRAME);
        loop_run_once(b->loop, NS_PER_S);
    }
    double took_s = (double)(clock_now_ns() - start_ns) / 1e9;
    printf("  %-10s tasks granted            %8.0f /s   batches of %.1f, %.2f %% dropped\n", policy,
           (double)b->granted / took_s, b->batches > 0 ? (double)b->granted / b->batches : 0,
           100.0 * b->dropped / MANY);
}

static pid_t start_scheduler(const char *program, const char *policy, char *address, size_t address_bytes)
{
    int out[2];
    if (pipe(out) != 0)
        exit(1);
    pid_t pid = fork();
    if (pid == 0) {
        (void)dup2(out[1], STDOUT_FILENO);
        execl(program, program, "--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--policy",
              policy, "--log-level", "error", (char *)NULL);
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

static void set_flag(void *arg)
{
    ++*(int *)arg;
}

static void measure(const char *program, const char *policy)
{
    static const rpc_stream_ops_t gateway_ops = {.on_open = gateway_open, .on_message = gateway_message};
    static const rpc_stream_ops_t worker_ops = {.on_open = worker_open, .on_message = worker_message};
    char address[128];
    err_t err = {0};
    pid_t pid = start_scheduler(program, policy, address, sizeof address);
    bench_t b = {0};
    rpc_arena_init(&b.arena, 0);
    rpc_client_options_t options = {.address = address};
    rpc_link_options_t worker = {
        .method = "/fermata.control.v1.Control/Worker", .ops = worker_ops, .arg = &b};
    rpc_link_options_t gateway = {
        .method = "/fermata.control.v1.Control/Gateway", .ops = gateway_ops, .arg = &b};
    rpc_link_t *worker_link, *gateway_link;
    if (loop_create(&b.loop, &err) != STATUS_OK)
        exit(1);
    rpc_runtime_options_t how = {.loop = b.loop};
    if (rpc_runtime_create(&how, &b.runtime, &err) != STATUS_OK ||
        rpc_client_create(b.runtime, &options, &b.client, &err) != STATUS_OK ||
        rpc_link_create(b.client, &worker, &worker_link, &err) != STATUS_OK ||
        rpc_link_create(b.client, &gateway, &gateway_link, &err) != STATUS_OK)
        exit(1);
    while (!b.ready)
        loop_run_once(b.loop, NS_PER_S);
    measure_latency(&b, policy);
    measure_throughput(&b, policy);
    int closed = 0;
    rpc_link_close(worker_link, set_flag, &closed);
    rpc_link_close(gateway_link, set_flag, &closed);
    while (closed < 2)
        loop_run_once(b.loop, NS_PER_S);
    kill(pid, SIGTERM);
    waitpid(pid, NULL, 0);
    rpc_client_destroy(b.client);
    rpc_runtime_destroy(b.runtime);
    rpc_arena_dispose(&b.arena);
    loop_destroy(b.loop);
}

int main(int argc, char **argv)
{
    char beside[4096];
    (void)snprintf(beside, sizeof beside, "%.*sfermata-scheduler",
                   (int)(strrchr(argv[0], '/') != NULL ? strrchr(argv[0], '/') + 1 - argv[0] : 0), argv[0]);
    const char *program = argc > 1 ? argv[1] : beside;
    static const char *const policies[] = {"eager", "fermata"};
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        (void)fflush(stdout);
        pid_t pid = fork(); /* a process each, because one that has used gRPC must not fork */
        if (pid == 0) {
            measure(program, policies[i]);
            return 0;
        }
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || status != 0)
            return 1;
    }
    return 0;
}
