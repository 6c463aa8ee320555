/* The server and the client with TLS between them, and a client that does what ours would not. */
#include "harness.h"
#include "http/client.h"
#include "tls/session.h"
#include "unit/tls/pki.h"

#include <signal.h>

enum { BIG_BYTES = 3 << 20 };

typedef struct {
    harness_t h;
    pki_t pki;
    tls_context_t *server, *client;
    http_client_t *http;
} world_t;

static void echo(http_request_t *request, void *user)
{
    size_t len;
    const uint8_t *body = http_request_body(request, &len);
    (void)user;
    http_respond_copy(request, 200, "application/octet-stream", NULL, body, len);
}

static void who(http_request_t *request, void *user)
{
    (void)user;
    const char *role = http_request_peer_role(request);
    http_respond_copy(request, 200, "text/plain", NULL, role, strlen(role));
}

static const http_handler_ops_t echo_ops = {.on_request = echo}, who_ops = {.on_request = who};
static const http_route_t routes[] = {{HTTP_METHOD_POST, "/echo", &echo_ops, NULL},
                                      {HTTP_METHOD_GET, "/who", &who_ops, NULL}};

static tls_context_t *context_of(tls_config_t config)
{
    tls_context_t *context;
    err_t err;
    cr_assert(tls_context_create(&config, &context, &err) == STATUS_OK, "%s", err.text);
    return context;
}

static void open_world(world_t *w, http_server_config_t config, bool mutual, bool shows)
{
    pki_open(&w->pki);
    tls_pair_t server = pki_issue(&w->pki, "server", "gateway"),
               client = pki_issue(&w->pki, "client", "client");
    w->server = context_of((tls_config_t){
        .server = true, .cert = server.cert, .key = server.key, .ca = mutual ? w->pki.ca.cert : NULL});
    w->client = context_of((tls_config_t){
        .ca = w->pki.ca.cert, .cert = shows ? client.cert : NULL, .key = shows ? client.key : NULL});
    config.tls = w->server;
    harness_start(&w->h, config, routes, 2);
    char address[64];
    snprintf(address, sizeof address, "https://localhost:%u", http_server_port(w->h.server));
    const http_client_config_t http = {.server = address, .tls = w->client};
    err_t err;
    cr_assert(http_client_create(&w->h.loop, &http, &w->http, &err) == STATUS_OK, "%s", err.text);
}

static void close_world(world_t *w)
{
    http_client_destroy(w->http);
    harness_stop(&w->h, 1000);
    tls_context_destroy(w->server);
    tls_context_destroy(w->client);
    pki_close(&w->pki);
}

/* ---- through our client ---- */

typedef struct {
    bool done;
    int status;
    size_t len;
    uint8_t *body;
    char reason[ERR_TEXT_BYTES];
} answer_t;

static void on_done(const http_client_response_t *response, const err_t *err, void *user)
{
    answer_t *answer = user;
    answer->done = true;
    if (!response) {
        snprintf(answer->reason, sizeof answer->reason, "%s", err->text);
        return;
    }
    const uint8_t *body = http_client_response_body(response, &answer->len);
    answer->status = http_client_response_status(response);
    answer->body = malloc(answer->len + 1);
    if (answer->len > 0)
        memcpy(answer->body, body, answer->len);
    answer->body[answer->len] = 0;
}

static void call(http_client_t *http, http_method_t method, const char *target, const void *body, size_t len,
                 answer_t *answer)
{
    err_t err;
    const struct iovec piece = {(void *)(uintptr_t)body, len};
    const http_client_request_t request = {.method = method,
                                           .target = target,
                                           .body = &piece,
                                           .body_count = body ? 1 : 0,
                                           .timeout_ms = HARNESS_WAIT_MS};
    *answer = (answer_t){0};
    cr_assert(http_client_call(http, &request, on_done, answer, &err) == STATUS_OK);
}

static answer_t ask(world_t *w, http_method_t method, const char *target, const void *body, size_t len)
{
    answer_t answer;
    call(w->http, method, target, body, len, &answer);
    while (!answer.done)
        harness_turn(&w->h, -1);
    return answer;
}

Test(http_secure, carries_small_and_large_bodies_on_one_connection)
{
    world_t w;
    open_world(&w, (http_server_config_t){0}, false, false);
    uint8_t *big = malloc(BIG_BYTES);
    for (size_t i = 0; i < BIG_BYTES; i++)
        big[i] = (uint8_t)(i * 31 + i / 977);
    const size_t sizes[] = {1, BIG_BYTES, 0, 16384, 150528, BIG_BYTES};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        answer_t answer = ask(&w, HTTP_METHOD_POST, "/echo", big, sizes[i]);
        cr_assert(answer.status == 200, "%s", answer.reason);
        cr_assert(answer.len == sizes[i] && memcmp(answer.body, big, sizes[i]) == 0);
        free(answer.body);
    }
    cr_assert(http_server_counters(w.h.server)->connections_total == 1);
    free(big);
    close_world(&w);
}

Test(http_secure, handlers_know_the_role_of_who_asks)
{
    world_t w;
    open_world(&w, (http_server_config_t){0}, true, true);
    answer_t answer = ask(&w, HTTP_METHOD_GET, "/who", NULL, 0);
    cr_assert(answer.status == 200 && strcmp((char *)answer.body, "client") == 0, "%s", answer.reason);
    free(answer.body);
    close_world(&w);
}

Test(http_secure, who_shows_no_certificate_is_refused_and_counted)
{
    world_t w;
    open_world(&w, (http_server_config_t){0}, true, false);
    answer_t answer = ask(&w, HTTP_METHOD_GET, "/who", NULL, 0);
    cr_assert(answer.status == 0 && strstr(answer.reason, "certificate required"), "%s", answer.reason);
    cr_assert(http_server_counters(w.h.server)->tls_refused >= 1);
    cr_assert(http_server_counters(w.h.server)->requests_total == 0);
    close_world(&w);
}

/* ---- by hand ---- */

static int64_t until_closed_ms(world_t *w, int fd)
{
    int64_t start = harness_now_ms(), end = start + HARNESS_WAIT_MS;
    char byte[512];
    ssize_t got;
    do {
        harness_turn(&w->h, fd);
        got = recv(fd, byte, sizeof byte, MSG_DONTWAIT);
    } while (got != 0 && !(got < 0 && errno != EAGAIN) && harness_now_ms() < end);
    cr_assert(harness_now_ms() < end, "it is not closed");
    close(fd);
    return harness_now_ms() - start;
}

Test(http_secure, half_a_handshake_ends_in_time_however_it_trickles)
{
    world_t w;
    open_world(&w, (http_server_config_t){.header_timeout_ms = 300, .connections_max = 1}, false, false);
    int fd = harness_connect(&w.h);
    /* The head of a ClientHello that goes on. */
    cr_assert(send(fd, "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11, 0) == 11);
    harness_turn(&w.h, -1);
    int other = harness_connect(&w.h);
    until_closed_ms(&w, other); /* the first counts against the limit */
    cr_assert(http_server_counters(w.h.server)->connections_refused == 1);
    send(fd, "x", 1, MSG_NOSIGNAL);
    until_closed_ms(&w, fd);
    answer_t answer = ask(&w, HTTP_METHOD_GET, "/who", NULL, 0);
    cr_assert(answer.status == 200, "%s", answer.reason);
    free(answer.body);
    close_world(&w);
}

Test(http_secure, plain_http_is_closed_and_counted)
{
    world_t w;
    open_world(&w, (http_server_config_t){0}, false, false);
    int fd = harness_connect(&w.h);
    cr_assert(send(fd, "GET /who HTTP/1.1\r\nHost: x\r\n\r\n", 30, 0) == 30);
    until_closed_ms(&w, fd);
    cr_assert(http_server_counters(w.h.server)->tls_refused == 1);
    close_world(&w);
}

/* Moves bytes between the socket and the session until the last text has come. */
static void converse(world_t *w, int fd, tls_session_t *session, char *text, size_t cap, const char *last)
{
    size_t len = 0, more;
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    text[0] = 0;
    while (!strstr(text, last)) {
        cr_assert(harness_now_ms() < end, "got %s", text);
        size_t out_len;
        const uint8_t *out = tls_session_output(session, &out_len);
        ssize_t sent = send(fd, out, out_len, MSG_DONTWAIT | MSG_NOSIGNAL);
        tls_session_output_sent(session, sent > 0 ? (size_t)sent : 0);
        harness_turn(&w->h, -1);
        char bytes[4096];
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got <= 0)
            continue;
        tls_session_feed(session, bytes, (size_t)got);
        tls_read_t result;
        while ((result = tls_session_read(session, text + len, cap - 1 - len, &more)) == TLS_READ_BYTES)
            text[len += more] = 0;
        cr_assert(result != TLS_READ_FAILED, "%s", tls_session_reason(session));
    }
}

static void shake(world_t *w, int fd, tls_session_t *session)
{
    size_t len;
    char none[16];
    cr_assert(tls_session_read(session, none, sizeof none, &len) == TLS_READ_WANT);
    while (!tls_session_is_ready(session)) {
        const uint8_t *out = tls_session_output(session, &len);
        ssize_t sent = send(fd, out, len, MSG_DONTWAIT | MSG_NOSIGNAL);
        tls_session_output_sent(session, sent > 0 ? (size_t)sent : 0);
        harness_turn(&w->h, -1);
        char bytes[4096];
        ssize_t got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        if (got > 0) {
            tls_session_feed(session, bytes, (size_t)got);
            cr_assert(tls_session_read(session, none, sizeof none, &len) == TLS_READ_WANT);
        }
    }
}

Test(http_secure, more_requests_than_the_pipeline_takes_wait_within_the_session)
{
    enum { REQUESTS = 60 };
    world_t w;
    open_world(&w, (http_server_config_t){.pipeline_max = 2}, false, false);
    int fd = harness_connect(&w.h);
    tls_session_t *session;
    err_t err;
    cr_assert(tls_session_create(w.client, "localhost", &session, &err) == STATUS_OK);
    shake(&w, fd, session);
    char request[128], *text = malloc(HARNESS_TEXT);
    for (int i = 0; i < REQUESTS; i++) {
        int len = snprintf(request, sizeof request,
                           "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n%s\r\n%04d",
                           i == REQUESTS - 1 ? "Connection: close\r\n" : "", i);
        const struct iovec piece = {request, (size_t)len};
        cr_assert(tls_session_write(session, &piece, 1, SIZE_MAX) == (size_t)len);
    }
    converse(&w, fd, session, text, HARNESS_TEXT, "0059");
    int seen = 0;
    for (const char *at = text; (at = strstr(at, "HTTP/1.1 200")); at++)
        seen++;
    cr_assert(seen == REQUESTS);
    for (int i = 0; i < REQUESTS; i++) {
        snprintf(request, sizeof request, "\r\n\r\n%04d", i);
        cr_assert(strstr(text, request), "%d is answered", i);
    }
    free(text);
    tls_session_destroy(session);
    close(fd);
    close_world(&w);
}

/* ---- a server by hand ---- */

static int listen_somewhere(char *address, size_t cap)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    cr_assert(bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 4) == 0);
    cr_assert(getsockname(fd, (struct sockaddr *)&at, &len) == 0);
    snprintf(address, cap, "https://localhost:%u", ntohs(at.sin_port));
    return fd;
}

/* Reads one request up to `last`, its text into text, and answers with 200. Returns the socket, open. */
static int serve_one(world_t *w, int listener, char *text, const char *last)
{
    static const struct iovec ok = {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", 38};
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    int fd;
    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0) {
        cr_assert(harness_now_ms() < end, "nobody connects");
        harness_turn(&w->h, listener);
    }
    tls_session_t *session;
    err_t err;
    cr_assert(tls_session_create(w->server, NULL, &session, &err) == STATUS_OK);
    converse(w, fd, session, text, HARNESS_TEXT, last);
    cr_assert(tls_session_write(session, &ok, 1, SIZE_MAX) == ok.iov_len);
    size_t len;
    const uint8_t *out = tls_session_output(session, &len);
    cr_assert(send(fd, out, len, MSG_NOSIGNAL) == (ssize_t)len);
    tls_session_destroy(session);
    return fd;
}

Test(http_secure, what_a_closed_connection_took_of_a_request_is_sent_again)
{
    enum { BODY = 400000 }; /* several steps */
    world_t w;
    open_world(&w, (http_server_config_t){0}, false, false);
    char address[64], *text = malloc(HARNESS_TEXT), *body = malloc(BODY);
    int listener = listen_somewhere(address, sizeof address);
    const http_client_config_t config = {.server = address, .tls = w.client, .connections_max = 1};
    http_client_t *http;
    err_t err;
    cr_assert(http_client_create(&w.h.loop, &config, &http, &err) == STATUS_OK, "%s", err.text);
    for (int i = 0; i < BODY; i++)
        body[i] = (char)('a' + i % 23);
    memcpy(body + BODY - 4, "last", 4);
    answer_t answer;
    signal(SIGPIPE, SIG_IGN); /* as programs do */
    call(http, HTTP_METHOD_GET, "/", NULL, 0, &answer);
    int fd = serve_one(&w, listener, text, "\r\n\r\n");
    while (!answer.done)
        harness_turn(&w.h, -1);
    close(fd); /* which the client learns only when it writes */
    call(http, HTTP_METHOD_POST, "/", body, BODY, &answer);
    fd = serve_one(&w, listener, text, "last");
    while (!answer.done)
        harness_turn(&w.h, -1);
    cr_assert(answer.status == 200, "%s", answer.reason);
    const char *got = strstr(text, "\r\n\r\n");
    cr_assert(got && strlen(got + 4) == BODY && memcmp(got + 4, body, BODY) == 0);
    http_client_destroy(http);
    close(fd);
    close(listener);
    free(text);
    free(body);
    close_world(&w);
}
