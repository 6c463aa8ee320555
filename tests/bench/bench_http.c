/*
 * The HTTP server alone: a child process serves, this one keeps many connections busy with a client that does
 * nothing but count bytes (every answer has the same length). Requests per second, both sides on the same
 * machine.
 *
 *   bench_http [SECONDS_EACH]      default 2
 */
#include "base/clock.h"
#include "http/server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 256, REQUEST_MAX = 1 << 20, LARGE_BYTES = 150528 };

static uint8_t large[LARGE_BYTES];

/* ------------------------------------------------------------------ the server */

static void on_small(http_request_t *request, void *user)
{
    (void)user;
    http_respond_copy(request, 200, "text/plain", NULL, "ok", 2);
}

static void on_echo(http_request_t *request, void *user)
{
    size_t len;
    const uint8_t *body = http_request_body(request, &len);
    (void)user;
    http_respond_copy(request, 200, "application/json", NULL, body, len);
}

static void on_large_headers(http_request_t *request, void *user)
{
    (void)user;
    http_request_set_body_buffer(request, large, sizeof large);
}

static void on_large_closed(http_request_t *request, void *user)
{
    (void)user;
    http_respond_error(request, 499, NULL, "gone");
}

static void serve(int report)
{
    static const http_handler_ops_t small = {.on_request = on_small}, echo = {.on_request = on_echo};
    static const http_handler_ops_t into = {
        .on_headers = on_large_headers, .on_request = on_small, .on_close = on_large_closed};
    static const http_route_t routes[] = {{HTTP_METHOD_GET, "/small", &small, NULL},
                                          {HTTP_METHOD_POST, "/echo", &echo, NULL},
                                          {HTTP_METHOD_POST, "/large", &into, NULL}};
    uv_loop_t loop;
    http_server_t *server;
    err_t err;
    const http_server_config_t config = {.listen = "127.0.0.1:0"};
    uv_loop_init(&loop);
    if (http_server_create(&loop, &config, routes, 3, &server, &err) != STATUS_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    uint16_t port = http_server_port(server);
    if (write(report, &port, sizeof port) != sizeof port)
        _exit(1);
    uv_run(&loop, UV_RUN_DEFAULT);
    _exit(0);
}

/* ------------------------------------------------------------------ the client */

typedef struct {
    int fd;
    size_t to_send, expected; /* of the present burst */
} peer_t;

typedef struct {
    uint16_t port;
    const char *request;
    size_t request_bytes, answer_bytes; /* of one burst of `depth` requests */
    unsigned connections, depth;
} load_t;

static int connect_to(uint16_t port)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
        perror("connect");
        exit(1);
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void push(const load_t *load, peer_t *peer)
{
    while (peer->to_send > 0) {
        ssize_t n =
            send(peer->fd, load->request + load->request_bytes - peer->to_send, peer->to_send, MSG_DONTWAIT);
        if (n < 0)
            return;
        peer->to_send -= (size_t)n;
    }
}

/* True when the answers of the burst are all in. */
static bool pull(peer_t *peer)
{
    static char sink[1 << 18];
    ssize_t n = recv(peer->fd, sink, sizeof sink, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) {
        fprintf(stderr, "the server closed\n");
        exit(1);
    }
    peer->expected -= n > 0 ? (size_t)n : 0;
    return peer->expected == 0;
}

static size_t answer_size(const load_t *load)
{
    char text[REQUEST_MAX / 4];
    int fd = connect_to(load->port);
    size_t len = 0;
    if (send(fd, load->request, load->request_bytes / load->depth, 0) < 0)
        exit(1);
    for (;;) {
        ssize_t n = recv(fd, text + len, sizeof text - 1 - len, 0);
        if (n <= 0)
            exit(1);
        len += (size_t)n;
        text[len] = '\0';
        const char *length = strstr(text, "Content-Length: "), *body = strstr(text, "\r\n\r\n");
        if (length && body && len == (size_t)(body - text) + 4 + strtoul(length + 16, NULL, 10))
            break;
    }
    close(fd);
    return len;
}

static double run(load_t *load, double seconds)
{
    peer_t peers[CONNECTIONS_MAX];
    struct epoll_event events[CONNECTIONS_MAX];
    int epoll = epoll_create1(0);
    uint64_t bursts = 0;
    load->answer_bytes = answer_size(load) * load->depth;
    for (unsigned i = 0; i < load->connections; i++) {
        peers[i] = (peer_t){connect_to(load->port), load->request_bytes, load->answer_bytes};
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &peers[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, peers[i].fd, &event);
        push(load, &peers[i]);
    }
    int64_t begin_ns = clock_now_ns(), end_ns = begin_ns + (int64_t)(seconds * 1e9);
    while (clock_now_ns() < end_ns) {
        int count = epoll_wait(epoll, events, CONNECTIONS_MAX, 100);
        for (int i = 0; i < count; i++) {
            peer_t *peer = events[i].data.ptr;
            push(load, peer);
            if (!(events[i].events & EPOLLIN) || !pull(peer))
                continue;
            bursts++;
            peer->to_send = load->request_bytes;
            peer->expected = load->answer_bytes;
            push(load, peer);
        }
    }
    double took = (double)(clock_now_ns() - begin_ns) / 1e9;
    for (unsigned i = 0; i < load->connections; i++)
        close(peers[i].fd);
    close(epoll);
    return (double)(bursts * load->depth) / took;
}

static void bench(uint16_t port, const char *name, const char *head, size_t body_bytes, unsigned connections,
                  unsigned depth, double seconds)
{
    static char request[REQUEST_MAX];
    size_t len = 0;
    for (unsigned i = 0; i < depth; i++) {
        len += (size_t)snprintf(request + len, sizeof request - len, "%s", head);
        memset(request + len, 'x', body_bytes);
        len += body_bytes;
    }
    load_t load = {
        .port = port, .request = request, .request_bytes = len, .connections = connections, .depth = depth};
    double rate = run(&load, seconds);
    printf("http %-34s %4u connections  %9.0f requests/s  %7.1f MB/s in\n", name, connections, rate,
           rate * (double)len / depth / 1e6);
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 2;
    int pipes[2];
    uint16_t port;
    if (pipe(pipes) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        serve(pipes[1]);
    if (child < 0 || read(pipes[0], &port, sizeof port) != sizeof port)
        return 1;
    char echo[128], into[128];
    snprintf(
        echo, sizeof echo,
        "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 600\r\n\r\n");
    snprintf(into, sizeof into, "POST /large HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n", LARGE_BYTES);
    const char *get = "GET /small HTTP/1.1\r\nHost: x\r\n\r\n";
    bench(port, "GET, one client", get, 0, 1, 1, seconds);
    bench(port, "GET", get, 0, 64, 1, seconds);
    bench(port, "GET, pipelined by 16", get, 0, 64, 16, seconds);
    bench(port, "POST 600 B echo", echo, 600, 64, 1, seconds);
    bench(port, "POST 150 KB to the handler's buffer", into, LARGE_BYTES, 8, 1, seconds);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return 0;
}
