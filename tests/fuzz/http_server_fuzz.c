/*
 * Input: one byte that says where the rest is cut in two (the reads of the server), then what a client sends.
 * The server must answer with HTTP or close, and give everything back.
 */
#include "http/server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static uv_loop_t loop;
static http_server_t *server;

static void on_request(http_request_t *request, void *user)
{
    size_t len;
    const uint8_t *body = http_request_body(request, &len);
    (void)user;
    http_respond_copy(request, 200, "text/plain", NULL, body, len);
}

static void on_closed(http_request_t *request, void *user)
{
    (void)user;
    http_respond_error(request, 499, NULL, "gone");
}

static void on_headers(http_request_t *request, void *user)
{
    static uint8_t room[4096];
    (void)user;
    http_request_set_body_buffer(request, room, sizeof room);
}

static void start(void)
{
    static const http_handler_ops_t plain = {.on_request = on_request};
    static const http_handler_ops_t placed = {
        .on_headers = on_headers, .on_request = on_request, .on_close = on_closed};
    static const http_route_t routes[] = {{HTTP_METHOD_GET, "/", &plain, NULL},
                                          {HTTP_METHOD_POST, "/{name}", &placed, NULL},
                                          {HTTP_METHOD_POST, "/", &plain, NULL}};
    const http_server_config_t config = {
        .listen = "127.0.0.1:0", .header_bytes_max = 1024, .body_bytes_max = 4096};
    uv_loop_init(&loop);
    if (http_server_create(&loop, &config, routes, 3, &server, NULL) != STATUS_OK)
        abort();
}

static void turn(int turns)
{
    while (turns-- > 0)
        uv_run(&loop, UV_RUN_NOWAIT);
}

static void check_answer(int fd)
{
    char text[1 << 16];
    ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);
    if (n >= 9 && memcmp(text, "HTTP/1.1 ", 9) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (!server)
        start();
    size_t cut = data[0] < size - 1 ? data[0] : size - 1;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct linger reset = {.l_onoff = 1, .l_linger = 0}; /* else the ports run out */
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(http_server_port(server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    if (connect(fd, (struct sockaddr *)&to, sizeof to) != 0) { /* the machine is short of ports */
        close(fd);
        return 0;
    }
    send(fd, data + 1, cut, MSG_NOSIGNAL);
    turn(2);
    send(fd, data + 1 + cut, size - 1 - cut, MSG_NOSIGNAL);
    turn(3);
    check_answer(fd);
    close(fd);
    turn(2);
    for (int i = 0; i < 500 && http_server_counters(server)->connections_open > 0; i++) {
        struct pollfd ready = {.fd = uv_backend_fd(&loop), .events = POLLIN};
        poll(&ready, 1, 10); /* the reset may take a while on a busy machine */
        turn(2);
    }
    if (http_server_counters(server)->connections_open > 0)
        abort();
    return 0;
}
