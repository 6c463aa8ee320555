/*
 * The RPC layer over loopback, server in a process of its own, delivered through a loop and directly, beside what bare
 * gRPC C core gave on the reference machine (2 cores, both sides on them).
 *
 *   unary, one at a time     64 bytes there and back
 *   unary, 64 outstanding
 *   ping                     one 64-byte message there and back on a stream, 1,000 a second
 *   echo                     64 messages under way on a stream
 *   one way                  as many as the queue takes, the last one is answered
 */
#include "base/clock.h"
#include "base/histogram.h"
#include "loop/loop.h"
#include "rpc/client.h"
#include "rpc/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNARY "/bench.Rpc/Unary"
#define STREAM "/bench.Rpc/Stream"

enum {
    PAYLOAD_BYTES = 64,
    SINGLE_CALLS = 10000,
    WINDOW = 64,
    MANY_CALLS = 100000,
    PINGS = 3000,
    ECHOES = 200000,
    ONE_WAY = 400000,
    WARM = 500
};

/* ---- The server process ---- */

static void on_unary(rpc_call_t *call, void *arg)
{
    (void)arg;
    rpc_call_finish(call, RPC_OK, NULL, rpc_call_take_request(call));
}

/* Messages whose first byte is 1 are answered, the others only counted. */
static void on_server_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)arg;
    if (rpc_bytes_flat(bytes)[0] != 1)
        return;
    *keep = true;
    (void)rpc_stream_send(stream, bytes);
}

static void serve(bool direct, int out)
{
    static const rpc_stream_ops_t ops = {.on_message = on_server_message};
    err_t err = {0};
    loop_t *loop = NULL;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    rpc_server_options_t options = {.address = "127.0.0.1:0"};
    if (loop_create(&loop, &err) != STATUS_OK)
        _exit(1);
    rpc_runtime_options_t how = {.loop = direct ? NULL : loop};
    if (rpc_runtime_create(&how, &runtime, &err) != STATUS_OK ||
        rpc_server_create(runtime, &options, &server, &err) != STATUS_OK ||
        rpc_server_add_unary(server, UNARY, on_unary, NULL) != STATUS_OK ||
        rpc_server_add_stream(server, STREAM, &ops, NULL) != STATUS_OK ||
        rpc_server_start(server, &err) != STATUS_OK)
        _exit(1);
    char address[64] = {0};
    (void)snprintf(address, sizeof address, "%s", rpc_server_address(server));
    if (write(out, address, sizeof address) != (ssize_t)sizeof address)
        _exit(1);
    loop_run(loop); /* until the parent kills it */
}

/* ---- The client ---- */

typedef struct {
    bool direct;
    loop_t *loop;
    rpc_runtime_t *runtime;
    rpc_client_t *client;
    rpc_link_t *link;
    rpc_stream_t *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done_phases;

    int sent, answered, wanted;
    int64_t sent_ns;
    histogram_t *latencies;
    enum { PING, ECHO_WINDOW, FLOOD } mode;
} bench_t;

static void phase_done(bench_t *b)
{
    pthread_mutex_lock(&b->lock);
    b->done_phases++;
    pthread_cond_signal(&b->changed);
    pthread_mutex_unlock(&b->lock);
}

static void phase_wait(bench_t *b, int phases)
{
    if (b->direct) {
        pthread_mutex_lock(&b->lock);
        while (b->done_phases < phases)
            pthread_cond_wait(&b->changed, &b->lock);
        pthread_mutex_unlock(&b->lock);
    } else {
        while (b->done_phases < phases)
            loop_run_once(b->loop, NS_PER_S);
    }
}

static rpc_bytes_t *payload(uint8_t first)
{
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(PAYLOAD_BYTES, &data);
    memset(data, 0, PAYLOAD_BYTES);
    data[0] = first;
    return bytes;
}

static void unary_next(bench_t *b);

static void on_answer(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    (void)response;
    (void)keep;
    bench_t *b = arg;
    if (code != RPC_OK) {
        (void)fprintf(stderr, "call failed: %s %s\n", rpc_code_name(code), text);
        exit(1);
    }
    b->answered++;
    if (b->latencies != NULL && b->answered > WARM)
        histogram_record(b->latencies, clock_now_ns() - b->sent_ns);
    if (b->answered == b->wanted)
        phase_done(b);
    else if (b->sent < b->wanted)
        unary_next(b);
}

static void unary_next(bench_t *b)
{
    static const rpc_unary_options_t options = {
        .method = UNARY, .timeout_ns = RPC_NO_DEADLINE, .wait_for_ready = true};
    b->sent++;
    b->sent_ns = clock_now_ns();
    (void)rpc_client_unary(b->client, &options, payload(0), on_answer, b);
}

static void on_client_open(rpc_stream_t *stream, void *arg)
{
    bench_t *b = arg;
    b->stream = stream;
    phase_done(b);
}

static void on_client_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)bytes;
    (void)keep;
    bench_t *b = arg;
    b->answered++;
    if (b->mode == PING && b->answered > WARM)
        histogram_record(b->latencies, clock_now_ns() - b->sent_ns);
    if (b->mode == ECHO_WINDOW && b->sent < b->wanted) {
        b->sent++;
        (void)rpc_stream_send(stream, payload(1));
    }
    if (b->mode == PING || b->answered == b->wanted)
        phase_done(b);
}

static void flood(bench_t *b)
{
    while (b->sent < b->wanted) {
        bool last = b->sent == b->wanted - 1;
        if (rpc_stream_send(b->stream, payload(last)) != STATUS_OK)
            return; /* on_writable goes on */
        b->sent++;
    }
}

static void on_client_writable(rpc_stream_t *stream, void *arg)
{
    (void)stream;
    bench_t *b = arg;
    if (b->mode == FLOOD)
        flood(b);
}

static void begin(bench_t *b, int wanted, histogram_t *latencies)
{
    b->sent = b->answered = 0;
    b->wanted = wanted;
    b->latencies = latencies;
    if (latencies != NULL)
        histogram_init(latencies);
}

static void report_latency(const char *what, const histogram_t *h, double bare_us)
{
    double p50_us = (double)histogram_quantile_ns(h, 0.5) / 1e3,
           p99_us = (double)histogram_quantile_ns(h, 0.99) / 1e3;
    printf("  %-22s p50 %7.1f us   p99 %7.1f us   bare gRPC p50 %5.0f us   ratio %.2f\n", what, p50_us,
           p99_us, bare_us, p50_us / bare_us);
}

static void report_rate(const char *what, int count, int64_t took_ns, double bare_rate)
{
    double rate = (double)count * 1e9 / (double)took_ns;
    printf("  %-22s %9.0f /s                        bare gRPC %9.0f /s   ratio %.2f\n", what, rate, bare_rate,
           rate / bare_rate);
}

static void measure_unary(bench_t *b, histogram_t *h)
{
    int phase = b->done_phases;
    begin(b, SINGLE_CALLS, h);
    unary_next(b);
    phase_wait(b, phase + 1);
    report_latency("unary, one at a time", h, 61);

    begin(b, MANY_CALLS, NULL);
    int64_t start_ns = clock_now_ns();
    /* The counters belong to the delivery thread; on a direct runtime the window is filled before anything is
     * answered twice only because `sent` is set first. */
    b->sent = WINDOW;
    static const rpc_unary_options_t options = {
        .method = UNARY, .timeout_ns = RPC_NO_DEADLINE, .wait_for_ready = true};
    for (int i = 0; i < WINDOW; i++)
        (void)rpc_client_unary(b->client, &options, payload(0), on_answer, b);
    phase_wait(b, phase + 2);
    report_rate("unary, 64 outstanding", MANY_CALLS, clock_now_ns() - start_ns, 42000);
}

static void measure_ping(bench_t *b, histogram_t *h)
{
    begin(b, PINGS, h);
    b->mode = PING;
    int64_t next_ns = clock_now_ns();
    for (int i = 0; i < PINGS; i++, next_ns += NS_PER_MS) {
        struct timespec at = {.tv_sec = next_ns / NS_PER_S, .tv_nsec = next_ns % NS_PER_S};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        int phase = b->done_phases;
        b->sent_ns = clock_now_ns();
        (void)rpc_stream_send(b->stream, payload(1));
        phase_wait(b, phase + 1);
    }
    report_latency("stream ping, 1,000/s", h, 52);
}

static void measure_stream_rates(bench_t *b)
{
    begin(b, ECHOES, NULL);
    b->mode = ECHO_WINDOW;
    b->sent = WINDOW;
    int phase = b->done_phases;
    int64_t start_ns = clock_now_ns();
    for (int i = 0; i < WINDOW; i++)
        (void)rpc_stream_send(b->stream, payload(1));
    phase_wait(b, phase + 1);
    report_rate("stream echo, window 64", ECHOES, clock_now_ns() - start_ns, 111000);

    begin(b, ONE_WAY, NULL);
    b->mode = FLOOD;
    b->answered = ONE_WAY - 1; /* only the last is answered */
    start_ns = clock_now_ns();
    flood(b);
    phase_wait(b, phase + 2);
    report_rate("stream, one way", ONE_WAY, clock_now_ns() - start_ns, 550000);
}

static void closed(void *arg)
{
    phase_done(arg);
}

static void measure(bool direct)
{
    static const rpc_stream_ops_t ops = {
        .on_open = on_client_open, .on_message = on_client_message, .on_writable = on_client_writable};
    int channel[2];
    err_t err = {0};
    char address[64];
    (void)fflush(stdout);
    if (pipe(channel) != 0)
        exit(1);
    pid_t child = fork(); /* before gRPC is initialised in this process's new runtime */
    if (child == 0)
        serve(direct, channel[1]);
    if (read(channel[0], address, sizeof address) != (ssize_t)sizeof address)
        exit(1);
    bench_t *b = calloc(1, sizeof *b);
    histogram_t *h = calloc(1, sizeof *h);
    b->direct = direct;
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->changed, NULL);
    rpc_client_options_t options = {.address = address};
    if (loop_create(&b->loop, &err) != STATUS_OK)
        exit(1);
    rpc_runtime_options_t how = {.loop = direct ? NULL : b->loop};
    rpc_link_options_t link = {.method = STREAM, .ops = ops, .arg = b};
    if (rpc_runtime_create(&how, &b->runtime, &err) != STATUS_OK ||
        rpc_client_create(b->runtime, &options, &b->client, &err) != STATUS_OK ||
        rpc_link_create(b->client, &link, &b->link, &err) != STATUS_OK)
        exit(1);
    phase_wait(b, 1);
    printf("%s\n", direct ? "direct delivery" : "delivery through a loop");
    measure_unary(b, h);
    measure_ping(b, h);
    measure_stream_rates(b);

    int phase = b->done_phases;
    rpc_link_close(b->link, closed, b);
    phase_wait(b, phase + 1);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    rpc_client_destroy(b->client);
    rpc_runtime_destroy(b->runtime);
    loop_destroy(b->loop);
    free(h);
    free(b);
}

int main(void)
{
    /* A process each, because a process that has used gRPC must not fork. */
    for (int direct = 0; direct < 2; direct++) {
        pid_t child = fork();
        if (child == 0) {
            measure(direct != 0);
            return 0;
        }
        int status = 0;
        if (waitpid(child, &status, 0) != child || status != 0)
            return 1;
    }
    return 0;
}
