#include "base/acceptor.h"
#include "harness.h"

#include <sys/resource.h>

/* ------------------------------------------------------------------ handlers under test */

static struct {
    http_request_t *held[64];
    int held_count, closed;
    bool hold;
    bool use_buffer;
    char buffer[1 << 20];
    size_t streamed;
    int refuse_early;
    char big[4 << 20];
    int released;
} app;

static void on_released(void *arg)
{
    (void)arg;
    app.released++;
}

static void echo_now(http_request_t *request)
{
    size_t len;
    const uint8_t *body = http_request_body(request, &len);
    http_respond_copy(request, 200, "text/plain", NULL, body, len);
}

static void echo_headers(http_request_t *request, void *user)
{
    (void)user;
    if (app.refuse_early)
        http_respond_error(request, app.refuse_early, NULL, "refused early");
    else if (app.use_buffer)
        http_request_set_body_buffer(request, app.buffer, sizeof app.buffer);
}

static void echo(http_request_t *request, void *user)
{
    (void)user;
    if (app.hold) {
        http_request_keep_body(request);
        app.held[app.held_count++] = request;
    } else {
        echo_now(request);
    }
}

static void echo_closed(http_request_t *request, void *user)
{
    (void)user;
    app.closed++;
    for (int i = 0; i < app.held_count; i++)
        if (app.held[i] == request)
            return; /* the test answers it */
    http_respond_error(request, 499, NULL, "gone");
}

static void count_body(http_request_t *request, const void *data, size_t len, void *user)
{
    (void)request;
    (void)data;
    (void)user;
    app.streamed += len;
}

static void count_done(http_request_t *request, void *user)
{
    (void)user;
    char text[32];
    int n = snprintf(text, sizeof text, "%zu", app.streamed);
    http_respond_copy(request, 200, "text/plain", NULL, text, (size_t)n);
}

static void hello(http_request_t *request, void *user)
{
    (void)user;
    char text[256];
    int n = snprintf(text, sizeof text, "hello %s?%s#", http_request_param(request, "name"),
                     http_request_query(request));
    http_respond_copy(request, 200, "text/plain", "X-Extra: 1\r\n", text, (size_t)n);
}

static void send_big(http_request_t *request, void *user)
{
    (void)user;
    struct iovec pieces[20];
    for (size_t i = 0; i < 20; i++)
        pieces[i] = (struct iovec){app.big, sizeof app.big / 4};
    http_respond(request, &(http_response_t){.status = 200,
                                             .content_type = "application/octet-stream",
                                             .body = pieces,
                                             .body_count = 20,
                                             .release = on_released});
}

static const http_handler_ops_t echo_ops = {
    .on_headers = echo_headers, .on_request = echo, .on_close = echo_closed};
static const http_handler_ops_t count_ops = {
    .on_body = count_body, .on_request = count_done, .on_close = echo_closed};
static const http_handler_ops_t hello_ops = {.on_request = hello};
static const http_handler_ops_t big_ops = {.on_request = send_big};
static const http_route_t routes[] = {
    {HTTP_METHOD_POST, "/echo", &echo_ops, NULL},
    {HTTP_METHOD_POST, "/count", &count_ops, NULL},
    {HTTP_METHOD_GET, "/hello/{name}", &hello_ops, NULL},
    {HTTP_METHOD_GET, "/big", &big_ops, NULL},
};

static harness_t h;

static void start_with(http_server_config_t config)
{
    memset(&app, 0, sizeof app);
    harness_start(&h, config, routes, sizeof routes / sizeof *routes);
}

static void start(void)
{
    start_with((http_server_config_t){0});
}

static void stop(void)
{
    harness_stop(&h, 0);
}

#define HOST "Host: x\r\n"
#define CLOSE "Connection: close\r\n"

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* ------------------------------------------------------------------ plain requests */

Test(server, answers_a_get_with_params_query_and_extra_headers, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "GET /hello/a%20b?x=1&y=2 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 200 OK\r\n"), "%s", got);
    cr_assert(strstr(got, "\r\nX-Extra: 1\r\n"));
    cr_assert(strstr(got, "\r\nContent-Length: 18\r\n"), "%s", got);
    cr_assert(strstr(got, "\r\n\r\nhello a b?x=1&y=2#"), "%s", got);
}

Test(server, a_head_request_gets_the_length_but_no_body, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "HEAD /hello/you HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(strstr(got, "\r\nContent-Length: 11\r\n"), "%s", got);
    cr_assert(strcmp(strstr(got, "\r\n\r\n"), "\r\n\r\n") == 0, "%s", got);
}

Test(server, http_1_0_closes_unless_asked_to_keep_alive, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "GET /hello/x HTTP/1.0\r\n\r\n");
    cr_assert(strstr(got, "Connection: close\r\n"), "%s", got);
    got = harness_exchange(&h, "GET /hello/x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
                               "GET /hello/y HTTP/1.0\r\n\r\n");
    cr_assert(strstr(got, "Connection: keep-alive\r\n") && strstr(got, "hello y"), "%s", got);
}

Test(server, an_upgrade_is_declined_by_answering, .init = start, .fini = stop)
{
    char *got = harness_exchange(
        &h, "GET /hello/x HTTP/1.1\r\n" HOST
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n\r\n"
            "GET /hello/next HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(strstr(got, "hello x") && strstr(got, "hello next"), "%s", got);
}

Test(server, absolute_targets_are_served, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "GET http://x:1/hello/abs HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(strstr(got, "hello abs"), "%s", got);
}

/* ------------------------------------------------------------------ framing */

static const char *const conversation =
    "POST /echo?q HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nfirst"
    "POST /echo HTTP/1.1\r\nHost: x\r\nX-Empty:\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3\r\nsec\r\n4;ext=1\r\nond!\r\n0\r\nTrailer: t\r\n\r\n"
    "GET /hello/third HTTP/1.1\r\nHost: x\r\n\r\n"
    "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 7\r\n\r\n1234567"
    "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

static void check_conversation(const char *got)
{
    const char *first = strstr(got, "\r\n\r\nfirstHTTP/1.1 200");
    const char *second = first ? strstr(first, "\r\n\r\nsecond!HTTP/1.1 200") : NULL;
    const char *third = second ? strstr(second, "hello third?#HTTP/1.1 200") : NULL;
    const char *fourth = third ? strstr(third, "\r\n\r\n7HTTP/1.1 200") : NULL;
    cr_assert(fourth && strstr(fourth, "Connection: close\r\n"), "%s", got);
}

Test(server, pipelined_requests_are_answered_in_order, .init = start, .fini = stop)
{
    check_conversation(harness_exchange(&h, conversation));
}

Test(server, a_conversation_may_be_split_at_every_byte, .init = start, .fini = stop, .timeout = 120)
{
    size_t len = strlen(conversation);
    for (size_t at = 1; at < len; at++) {
        int fd = harness_connect(&h);
        app.streamed = 0;
        harness_send(&h, fd, conversation, at);
        harness_send(&h, fd, conversation + at, len - at);
        check_conversation(harness_read(&h, fd, NULL, 0, NULL));
        close(fd);
    }
}

Test(server, a_conversation_may_come_byte_by_byte, .init = start, .fini = stop)
{
    for (int use_buffer = 0; use_buffer < 2; use_buffer++) {
        app.use_buffer = use_buffer;
        app.streamed = 0;
        int fd = harness_connect(&h);
        for (const char *at = conversation; *at; at++)
            harness_send(&h, fd, at, 1);
        check_conversation(harness_read(&h, fd, NULL, 0, NULL));
        close(fd);
    }
}

Test(server, answers_given_out_of_order_leave_in_order, .init = start, .fini = stop)
{
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA"
                       "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nB"
                       "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 1\r\n\r\nC";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 3)
        harness_turn(&h, fd);
    echo_now(app.held[2]);
    echo_now(app.held[1]);
    echo_now(app.held[0]);
    char *got = harness_read(&h, fd, NULL, 0, NULL);
    char *a = strstr(got, "\r\n\r\nAHTTP"), *b = strstr(got, "\r\n\r\nBHTTP"), *c = strstr(got, "\r\n\r\nC");
    cr_assert(a && b && c && a < b && b < c, "%s", got);
    close(fd);
}

Test(server, a_full_pipeline_stops_reading_and_goes_on_later, .fini = stop)
{
    start_with((http_server_config_t){.pipeline_max = 2});
    app.hold = true;
    int fd = harness_connect(&h);
    char text[2048] = "";
    for (int i = 0; i < 10; i++)
        sprintf(text + strlen(text), "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n<%d", i);
    harness_send(&h, fd, text, strlen(text));
    for (int i = 0; i < 10; i++) {
        while (app.held_count <= i)
            harness_turn(&h, fd);
        cr_assert(app.held_count <= i + 2, "%d requests in work", app.held_count - i);
        echo_now(app.held[i]);
    }
    char *got = harness_read(&h, fd, "<9", 1, NULL);
    for (int i = 0; i < 10; i++) {
        char want[16];
        sprintf(want, "\r\n\r\n<%d", i);
        got = strstr(got, want);
        cr_assert(got, "answer %d is missing", i);
    }
    close(fd);
}

Test(server, large_bodies_arrive_whole_in_every_place, .init = start, .fini = stop)
{
    static char body[300000];
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)('a' + i % 23);
    for (int use_buffer = 0; use_buffer < 2; use_buffer++) {
        app.use_buffer = use_buffer;
        int fd = harness_connect(&h);
        char head[128];
        int n =
            sprintf(head, "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: %zu\r\n\r\n", sizeof body);
        harness_send(&h, fd, head, (size_t)n);
        harness_send(&h, fd, body, sizeof body);
        char *got = harness_read(&h, fd, NULL, 0, NULL);
        char *at = strstr(got, "\r\n\r\n");
        cr_assert(at && memcmp(at + 4, body, sizeof body) == 0 && strlen(at + 4) == sizeof body);
        close(fd);
    }
}

Test(server, a_large_answer_in_pieces_survives_a_slow_reader, .init = start, .fini = stop)
{
    int fd = harness_connect(&h);
    const char *text = "GET /big HTTP/1.1\r\n" HOST CLOSE "\r\n";
    harness_send(&h, fd, text, strlen(text));
    size_t total = 0;
    char chunk[65536], *head_end = NULL;
    size_t head = 0;
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    for (;;) {
        cr_assert(harness_now_ms() < end, "got %zu", total);
        ssize_t n = recv(fd, chunk, sizeof chunk - 1, 0);
        if (n == 0)
            break;
        if (n < 0) {
            harness_turn(&h, fd);
            continue;
        }
        if (!head_end) {
            chunk[n] = '\0';
            head_end = strstr(chunk, "\r\n\r\n");
            head = (size_t)(head_end - chunk) + 4;
        }
        total += (size_t)n;
    }
    cr_assert(total - head == 5 * sizeof app.big, "got %zu", total - head);
    cr_assert(app.released == 1);
    close(fd);
}

/* ------------------------------------------------------------------ Expect */

Test(server, expect_gets_a_continue_before_the_body, .init = start, .fini = stop)
{
    int fd = harness_connect(&h);
    const char *head =
        "POST /echo HTTP/1.1\r\n" HOST CLOSE "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n";
    harness_send(&h, fd, head, strlen(head));
    char *got = harness_read(&h, fd, "\r\n\r\n", 1, NULL);
    cr_assert(strcmp(got, "HTTP/1.1 100 Continue\r\n\r\n") == 0, "%s", got);
    harness_send(&h, fd, "body", 4);
    got = harness_read(&h, fd, NULL, 0, NULL);
    cr_assert(starts(got, "HTTP/1.1 200") && strstr(got, "\r\n\r\nbody"), "%s", got);
    close(fd);
}

Test(server, expect_with_a_refused_request_gets_no_continue, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "POST /nowhere HTTP/1.1\r\n" HOST
                                     "Expect: 100-continue\r\nContent-Length: 4\r\n\r\n");
    cr_assert(starts(got, "HTTP/1.1 404") && !strstr(got, "100 Continue"), "%s", got);
    got =
        harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Expect: a-miracle\r\nContent-Length: 4\r\n\r\n");
    cr_assert(starts(got, "HTTP/1.1 417"), "%s", got);
}

Test(server, a_continue_waits_for_the_answers_before_it, .init = start, .fini = stop)
{
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA"
                       "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 1\r\n\r\n";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 1)
        harness_turn(&h, fd);
    for (int i = 0; i < 5; i++)
        harness_turn(&h, -1);
    char early[8];
    cr_assert(recv(fd, early, sizeof early, 0) < 0, "something came before the first answer");
    echo_now(app.held[0]);
    char *got = harness_read(&h, fd, "100 Continue", 1, NULL);
    cr_assert(starts(got, "HTTP/1.1 200"), "%s", got);
    close(fd);
}

/* ------------------------------------------------------------------ refusals */

Test(server, unknown_paths_methods_and_escapes_are_told, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "GET /nowhere HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 404 Not Found") &&
                  strstr(got, "{\"error\":\"GET /nowhere is not served here\"}"),
              "%s", got);
    got = harness_exchange(&h, "DELETE /hello/x HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 405 ") && strstr(got, "\r\nAllow: GET, HEAD\r\n"), "%s", got);
    got = harness_exchange(&h, "GET /hello/%zz HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 400 "), "%s", got);
    got = harness_exchange(&h, "GET /hello/%00 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 400 "), "%s", got);
    got = harness_exchange(&h, "GET /hello/ HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 404 "), "%s", got);
}

Test(server, a_refused_small_body_keeps_the_connection, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "POST /nowhere HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n12345"
                                     "GET /hello/again HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 404") && strstr(got, "hello again"), "%s", got);
}

Test(server, a_handler_may_refuse_before_the_body, .init = start, .fini = stop)
{
    app.refuse_early = 503;
    char *got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999\r\n\r\nabc");
    cr_assert(starts(got, "HTTP/1.1 413") || starts(got, "HTTP/1.1 503"), "%s", got);
    got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1000000\r\n\r\nabc");
    cr_assert(starts(got, "HTTP/1.1 503") && strstr(got, "Connection: close"), "%s", got);
    cr_assert(app.closed == 0);
}

static const struct {
    const char *text;
    int status;
} refusals[] = {
    {"garbage\r\n\r\n", 400},
    {"\x16\x03\x01\x02garbage of a TLS hello\r\n\r\n", 400},
    {"GET /hello/x HTTP/1.1\r\n\r\n", 400}, /* no Host */
    {"GET /hello/x HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400},
    {"GET /hello/x HTTP/1.1\r\nHost : a\r\n\r\n", 400},
    {"GET /hello/x HTTP/1.1\r\nHost: a\r\nX\x01: b\r\n\r\n", 400},
    {"GET /hello/x HTTP/2.0\r\nHost: a\r\n\r\n", 505},
    {"GET /hello/x HTTP/9.9\r\nHost: a\r\n\r\n", 400},
    {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
     400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n12345", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n12345", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: +5\r\n\r\n12345", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 5,5\r\n\r\n12345", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n12345", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 67108865\r\n\r\n", 413},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", 400},
    {"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n", 400},
    {"GET /hello/x HTTP/1.1\r\nHost: x\r\nA: b\rX: smuggled\r\n\r\n", 400},
    {"GET /hello/\x7f\x01 HTTP/1.1\r\nHost: x\r\n\r\n", 400},
};

Test(server, malformed_and_ambiguous_messages_are_refused_and_closed, .init = start, .fini = stop)
{
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        char *got = harness_exchange(&h, refusals[i].text);
        char want[32];
        sprintf(want, "HTTP/1.1 %d ", refusals[i].status);
        cr_expect(starts(got, want), "case %zu (%s) got: %s", i, refusals[i].text, got);
        cr_expect(strstr(got, "Connection: close\r\n") && strstr(got, "{\"error\":\""), "case %zu: %s", i,
                  got);
    }
    char *got = harness_exchange(&h, "GET /hello/alive HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(strstr(got, "hello alive"));
}

Test(server, a_bad_message_behind_good_ones_does_not_hurt_them, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "GET /hello/one HTTP/1.1\r\n" HOST "\r\n"
                                     "nonsense\r\n\r\n");
    char *one = strstr(got, "hello one"), *bad = strstr(got, "HTTP/1.1 400");
    cr_assert(one && bad && one < bad, "%s", got);
}

/* Its answer would be reset away with what the client still sends, and a client that has gone would not be seen. */
Test(server, after_a_bad_message_behind_a_full_pipeline_input_is_read_on, .fini = stop)
{
    start_with((http_server_config_t){.pipeline_max = 2});
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA"
                       "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nB"
                       "nonsense\r\n\r\n";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 2)
        harness_turn(&h, -1);
    echo_now(app.held[0]);
    echo_now(app.held[1]);
    cr_assert(strstr(harness_read(&h, fd, NULL, 0, NULL), "HTTP/1.1 400"));
    char more[1000] = "";
    harness_send(&h, fd, more, sizeof more);
    const http_server_counters_t *counters = http_server_counters(h.server);
    while (counters->bytes_in < strlen(text) + sizeof more && counters->connections_open > 0)
        harness_turn(&h, -1);
    cr_expect_eq(counters->bytes_in, strlen(text) + sizeof more);
    close(fd);
}

Test(server, a_handler_is_told_when_its_body_turns_out_bad, .init = start, .fini = stop)
{
    char *got = harness_exchange(&h, "POST /count HTTP/1.1\r\n" HOST
                                     "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nQ");
    cr_assert(starts(got, "HTTP/1.1 400"), "%s", got);
    cr_assert(app.closed == 1);
}

/* ------------------------------------------------------------------ limits */

Test(server, header_limits, .fini = stop)
{
    start_with((http_server_config_t){.header_bytes_max = 512});
    static char text[200000];
    sprintf(text, "GET /hello/x HTTP/1.1\r\nHost: x\r\nA: %0600d\r\n\r\n", 1);
    char *got = harness_exchange(&h, text);
    cr_assert(starts(got, "HTTP/1.1 431"), "%s", got);
    sprintf(text, "GET /hello/%0600d HTTP/1.1\r\nHost: x\r\n\r\n", 1);
    got = harness_exchange(&h, text);
    cr_assert(starts(got, "HTTP/1.1 414"), "%s", got);
    strcpy(text, "GET /hello/x HTTP/1.1\r\nHost: x\r\n");
    for (int i = 0; i < 70; i++)
        strcat(text, "a:b\r\n");
    got = harness_exchange(&h, text);
    cr_assert(starts(got, "HTTP/1.1 431"), "%s", got);
    sprintf(text,
            "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: %0600d\r\n\r\n", 1);
    got = harness_exchange(&h, text);
    cr_assert(starts(got, "HTTP/1.1 431"), "%s", got);
}

Test(server, body_limits, .fini = stop)
{
    start_with((http_server_config_t){.body_bytes_max = 10});
    char *got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n12345678901");
    cr_assert(starts(got, "HTTP/1.1 413"), "%s", got);
    got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 10\r\n\r\n1234567890");
    cr_assert(starts(got, "HTTP/1.1 200"), "%s", got);
    got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                               "6\r\n123456\r\n6\r\n123456\r\n0\r\n\r\n");
    cr_assert(starts(got, "HTTP/1.1 413"), "%s", got);
    got =
        harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551615\r\n\r\nx");
    cr_assert(starts(got, "HTTP/1.1 413"), "%s", got);
}

Test(server, too_many_connections_are_told_so, .fini = stop)
{
    start_with((http_server_config_t){.connections_max = 2});
    int one = harness_connect(&h), two = harness_connect(&h);
    harness_turn(&h, -1);
    char *got = harness_exchange(&h, "GET /hello/x HTTP/1.1\r\n" HOST "\r\n");
    cr_assert(starts(got, "HTTP/1.1 503"), "%s", got);
    close(one);
    while (http_server_counters(h.server)->connections_open > 1)
        harness_turn(&h, -1);
    got = harness_exchange(&h, "GET /hello/x HTTP/1.1\r\n" HOST CLOSE "\r\n");
    cr_assert(starts(got, "HTTP/1.1 200"), "%s", got);
    close(two);
}

/* ------------------------------------------------------------------ slow clients */

Test(server, slow_headers_and_bodies_time_out, .fini = stop)
{
    start_with(
        (http_server_config_t){.header_timeout_ms = 60, .body_timeout_ms = 60, .idle_timeout_ms = 5000});
    char *got = harness_exchange(&h, "GET /hello/x HTTP/1.1\r\nHo");
    cr_assert(starts(got, "HTTP/1.1 408") && strstr(got, "headers"), "%s", got);
    got = harness_exchange(&h, "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\n12");
    cr_assert(starts(got, "HTTP/1.1 408") && strstr(got, "body"), "%s", got);
    cr_assert(app.closed == 1);
}

Test(server, a_drip_of_bytes_does_not_extend_the_time, .fini = stop)
{
    start_with((http_server_config_t){.header_timeout_ms = 100});
    int fd = harness_connect(&h);
    harness_send(&h, fd, "GET /hello/x HTTP/1.1\r\n", 23);
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    char text[4096];
    ssize_t n = 0;
    while (n <= 0 && harness_now_ms() < end) {
        send(fd, "a", 1, MSG_NOSIGNAL);
        harness_turn(&h, fd);
        n = recv(fd, text, sizeof text - 1, 0);
    }
    cr_assert(n > 0 && starts(text, "HTTP/1.1 408"));
    close(fd);
}

Test(server, idle_connections_are_closed_in_silence, .fini = stop)
{
    start_with((http_server_config_t){.idle_timeout_ms = 50});
    cr_assert(strcmp(harness_exchange(&h, ""), "") == 0);
    char *got = harness_exchange(&h, "GET /hello/x HTTP/1.1\r\n" HOST "\r\n");
    cr_assert(strstr(got, "hello x"), "%s", got);
}

Test(server, a_client_that_does_not_read_is_closed, .fini = stop)
{
    start_with((http_server_config_t){.write_timeout_ms = 80});
    int fd = harness_connect(&h);
    const char *text = "GET /big HTTP/1.1\r\n" HOST "\r\n";
    harness_send(&h, fd, text, strlen(text));
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    while (http_server_counters(h.server)->connections_open > 0 && harness_now_ms() < end)
        harness_turn(&h, -1);
    cr_assert(http_server_counters(h.server)->connections_open == 0);
    cr_assert(app.released == 1);
    close(fd);
}

/* ------------------------------------------------------------------ clients that leave, stopping */

Test(server, a_client_that_leaves_is_reported_once_and_late_answers_are_dropped, .init = start, .fini = stop)
{
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA"
                       "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nB"
                       "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 9\r\n\r\nhalf";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 2)
        harness_turn(&h, -1);
    close(fd);
    while (app.closed < 3)
        harness_turn(&h, -1);
    cr_assert(app.closed == 3); /* the third was seen by on_headers only */
    echo_now(app.held[0]);
    echo_now(app.held[1]);
}

Test(server, a_stop_lets_running_requests_end, .init = start)
{
    app.hold = true;
    int fd = harness_connect(&h), idle = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 1)
        harness_turn(&h, -1);
    http_server_stop(h.server, 5000, harness_on_stopped, &h);
    for (int i = 0; i < 3; i++)
        harness_turn(&h, -1);
    cr_assert(!h.stopped);
    echo_now(app.held[0]);
    char *got = harness_read(&h, fd, NULL, 0, NULL);
    cr_assert(starts(got, "HTTP/1.1 200") && strstr(got, "Connection: close"), "%s", got);
    harness_stop(&h, 5000);
    close(fd);
    close(idle);
}

/* The answer behind was made before the stop, without `close`: the connection ends with it all the same. */
Test(server, a_stop_closes_behind_the_last_answer, .init = start)
{
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA"
                       "GET /hello/you HTTP/1.1\r\n" HOST "\r\n";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 1)
        harness_turn(&h, -1);
    for (int i = 0; i < 3; i++)
        harness_turn(&h, -1);
    http_server_stop(h.server, 60000, harness_on_stopped, &h);
    echo_now(app.held[0]);
    char *got = harness_read(&h, fd, NULL, 0, NULL);
    cr_assert(strstr(got, "hello you"), "%s", got);
    harness_stop(&h, 60000);
    close(fd);
}

Test(server, a_stop_without_patience_tells_the_handler, .init = start)
{
    app.hold = true;
    int fd = harness_connect(&h);
    const char *text = "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 1\r\n\r\nA";
    harness_send(&h, fd, text, strlen(text));
    while (app.held_count < 1)
        harness_turn(&h, -1);
    http_server_stop(h.server, 10, harness_on_stopped, &h);
    http_server_stop(h.server, 3600000, harness_on_stopped, &h); /* shortens the grace, or changes nothing */
    while (app.closed < 1)
        harness_turn(&h, -1);
    harness_turn(&h, -1);
    cr_assert(!h.stopped, "an answer is still owed");
    echo_now(app.held[0]);
    harness_stop(&h, 0);
    close(fd);
}

Test(server, a_taken_port_and_a_bad_address_are_errors, .init = start, .fini = stop)
{
    http_server_t *other = NULL;
    err_t err = {0};
    http_server_config_t config = {.listen = http_server_address(h.server)};
    cr_assert(http_server_create(&h.loop, &config, routes, 1, &other, &err) == STATUS_IO);
    cr_assert(strstr(err.text, "cannot listen on 127.0.0.1:"), "%s", err.text);
    config.listen = "no port";
    cr_assert(http_server_create(&h.loop, &config, routes, 1, &other, &err) == STATUS_INVALID_ARGUMENT);
}

/* ------------------------------------------------------------------ no descriptor left */

enum { DESCRIPTORS = 64 };

/* Whoever comes while there is none hears at once; those who are there, and those who come later, are served. */
Test(server, goes_on_when_descriptors_run_out, .init = start, .fini = stop)
{
    const struct rlimit limit = {.rlim_cur = DESCRIPTORS, .rlim_max = DESCRIPTORS};
    const char *get = "GET /hello/you HTTP/1.1\r\nHost: x\r\n\r\n";
    int filler[DESCRIPTORS], fillers = 0;
    bool closed;
    int before = harness_connect(&h);
    harness_send(&h, before, get, strlen(get));
    harness_read(&h, before, "hello you", 1, NULL);
    int late = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
    while ((filler[fillers] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        fillers++;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_server_port(h.server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert_eq(connect(late, (struct sockaddr *)&to, sizeof to), 0);
    fcntl(late, F_SETFL, O_NONBLOCK);
    cr_expect_str_eq(harness_read(&h, late, NULL, 0, &closed), "");
    cr_expect(closed);
    cr_expect_eq(acceptors_turned_away(), 1);
    harness_send(&h, before, get, strlen(get));
    harness_read(&h, before, "hello you", 1, NULL);
    while (fillers > 0)
        close(filler[--fillers]);
    int after = harness_connect(&h);
    harness_send(&h, after, get, strlen(get));
    harness_read(&h, after, "hello you", 1, NULL);
    close(before);
    close(late);
    close(after);
}
