/*
 * One server and raw client sockets on one thread: the loop turns while a client waits, so nothing sleeps.
 */
#ifndef TESTS_HTTP_HARNESS_H
#define TESTS_HTTP_HARNESS_H

#include "http/server.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HARNESS_WAIT_MS = 10000, HARNESS_TEXT = 1 << 20 };

typedef struct {
    uv_loop_t loop;
    http_server_t *server;
    bool stopped;
} harness_t;

static inline int64_t harness_now_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static inline void harness_turn(harness_t *h, int fd)
{
    uv_run(&h->loop, UV_RUN_NOWAIT);
    int backend = uv_backend_fd(&h->loop), timeout = uv_backend_timeout(&h->loop);
    struct pollfd fds[2] = {{.fd = backend, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    poll(fds, fd >= 0 ? 2 : 1, timeout < 0 || timeout > 50 ? 50 : timeout);
    uv_run(&h->loop, UV_RUN_NOWAIT);
}

static inline void harness_start(harness_t *h, http_server_config_t config, const http_route_t *routes,
                                 size_t count)
{
    memset(h, 0, sizeof *h);
    uv_loop_init(&h->loop);
    config.listen = "127.0.0.1:0";
    err_t err = {0};
    status_t status = http_server_create(&h->loop, &config, routes, count, &h->server, &err);
    cr_assert(status == STATUS_OK, "%s", err.text);
}

static inline void harness_on_stopped(http_server_t *server, void *user)
{
    (void)server;
    ((harness_t *)user)->stopped = true;
}

static inline void harness_stop(harness_t *h, uint32_t grace_ms)
{
    http_server_stop(h->server, grace_ms, harness_on_stopped, h);
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    while (!h->stopped && harness_now_ms() < end)
        harness_turn(h, -1);
    if (!h->stopped) { /* Criterion forgets what fails in a teardown */
        fprintf(stderr, "the server did not stop\n");
        abort();
    }
    http_server_destroy(h->server);
    while (uv_run(&h->loop, UV_RUN_NOWAIT))
        ;
    if (uv_loop_close(&h->loop) != 0)
        abort();
}

static inline int harness_connect(harness_t *h)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_server_port(h->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    cr_assert(connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static inline void harness_send(harness_t *h, int fd, const void *data, size_t len)
{
    const char *at = data;
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    while (len > 0 && harness_now_ms() < end) {
        ssize_t n = send(fd, at, len, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return; /* the server closed: the answer tells why */
        if (n > 0) {
            at += n;
            len -= (size_t)n;
        }
        harness_turn(h, fd);
    }
}

/* Reads until the text contains `until` `times` times, or the connection ends; *closed says so. */
static inline char *harness_read(harness_t *h, int fd, const char *until, int times, bool *closed)
{
    static char text[HARNESS_TEXT + 1];
    size_t len = 0;
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    if (closed)
        *closed = false;
    text[0] = '\0';
    while (harness_now_ms() < end && len < HARNESS_TEXT) {
        int found = 0;
        for (char *at = text; until && (at = strstr(at, until)); at += strlen(until))
            found++;
        if (until && found >= times)
            return text;
        ssize_t n = recv(fd, text + len, HARNESS_TEXT - len, 0);
        if (n > 0) {
            len += (size_t)n;
            text[len] = '\0';
            continue;
        }
        if (n == 0 || errno != EAGAIN) {
            if (closed)
                *closed = true;
            return text;
        }
        harness_turn(h, fd);
    }
    cr_assert_fail("nothing more came; so far: %s", text);
    return text;
}

/* Sends a text on a new connection and returns what came until the server closed it. */
static inline char *harness_exchange(harness_t *h, const char *text)
{
    bool closed;
    int fd = harness_connect(h);
    harness_send(h, fd, text, strlen(text));
    char *answer = harness_read(h, fd, NULL, 0, &closed);
    close(fd);
    return answer;
}

#endif
