/*
 * The server as a whole: listening, the work put off to the next turn of the loop, stopping.
 */
#include "base/log.h"
#include "http/address.h"
#include "http/internal.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------ work put off */

/*
 * Closing a connection or resuming its parser calls handlers. Neither may happen inside of http_respond,
 * which handlers call with their own affairs half done, so both wait for the loop.
 */
static void on_deferring(uv_idle_t *idle)
{
    http_server_t *server = idle->data;
    http_connection_t *connection, *next = server->deferred;
    server->deferred = NULL; /* what is put off from here on is for the next turn */
    while ((connection = next)) {
        next = connection->deferred_next;
        connection->deferred = false;
        if (connection->broken)
            connection_close(connection);
        else if (connection->state == CONNECTION_OPEN)
            connection_resume(connection);
        connection_unref(connection);
    }
    if (!server->deferred)
        uv_idle_stop(&server->deferring);
    server_check_stopped(server);
}

/* ------------------------------------------------------------------ listening */

#define DEFAULT(field, value) config->field = config->field ? config->field : (value)
static void fill_defaults(http_server_config_t *config)
{
    DEFAULT(backlog, 1024);
    DEFAULT(connections_max, 4096);
    DEFAULT(pipeline_max, 16);
    DEFAULT(header_bytes_max, 16 << 10);
    DEFAULT(body_bytes_max, 64 << 20);
    DEFAULT(header_timeout_ms, 10000);
    DEFAULT(body_timeout_ms, 20000);
    DEFAULT(idle_timeout_ms, 120000);
    DEFAULT(write_timeout_ms, 20000);
}

static void on_listener(uv_poll_t *poll, int status, int events);

static void on_accept_again(uv_timer_t *timer)
{
    http_server_t *server = timer->data;
    if (!server->stopping)
        uv_poll_start(&server->listener, UV_READABLE, on_listener);
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    http_server_t *server = poll->data;
    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT && !server->stopping; i++) {
        struct sockaddr_storage from;
        int fd = acceptor_take(&server->acceptor, server->listen_fd, &from);
        if (fd >= 0)
            connection_accept(server, fd);
        else if (fd == ACCEPTOR_EMPTY)
            return;
        if (fd == ACCEPTOR_STUCK) { /* it would report without end */
            uv_poll_stop(poll);
            uv_timer_start(&server->accept_timer, on_accept_again, ACCEPT_PAUSE_MS, 0);
            return;
        }
    }
}

static bool bind_to(const http_server_t *server, int fd, const struct sockaddr_storage *address)
{
    int one = 1, none = 0;
    bool six = address->ss_family == AF_INET6;
    socklen_t len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
           (!server->config.reuse_port || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one) == 0) &&
           (!six || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &none, sizeof none) == 0) &&
           bind(fd, (const struct sockaddr *)address, len) == 0 && listen(fd, server->config.backlog) == 0;
}

/* Nothing is left open after a failure. */
static status_t listen_on(http_server_t *server, const struct sockaddr_storage *address, const char *named,
                          err_t *err)
{
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int rc = fd >= 0 && bind_to(server, fd, address) ? uv_poll_init(server->loop, &server->listener, fd)
                                                     : uv_translate_sys_error(errno);
    server->listen_fd = fd;
    if (rc == 0)
        return STATUS_OK;
    if (fd >= 0)
        close(fd);
    return err_set(err, STATUS_IO, "cannot listen on %s: %s", named, uv_strerror(rc));
}

static void note_address(http_server_t *server)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof address;
    getsockname(server->listen_fd, (struct sockaddr *)&address, &len);
    address_print(&address, server->address, sizeof server->address);
    server->port = ntohs(address.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&address)->sin6_port
                                                       : ((struct sockaddr_in *)&address)->sin_port);
}

static void start(http_server_t *server)
{
    acceptor_init(&server->acceptor, server->address);
    server->open_handles = 4;
    server->listener.data = server->stop_timer.data = server->accept_timer.data = server->deferring.data =
        server;
    uv_timer_init(server->loop, &server->stop_timer);
    uv_timer_init(server->loop, &server->accept_timer);
    uv_idle_init(server->loop, &server->deferring);
    uv_poll_start(&server->listener, UV_READABLE, on_listener);
}

status_t http_server_create(uv_loop_t *loop, const http_server_config_t *config, const http_route_t *routes,
                            size_t route_count, http_server_t **server, err_t *err)
{
    struct sockaddr_storage address;
    status_t status = address_parse(config->listen, &address, err);
    if (status != STATUS_OK)
        return status;
    http_server_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an HTTP server");
    status = router_create(routes, route_count, &made->router, err);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    made->cipher_buffer = config->tls ? malloc(READ_BUFFER_BYTES) : NULL;
    if (config->tls && !made->cipher_buffer) {
        router_destroy(made->router);
        free(made);
        return err_set(err, STATUS_NO_MEMORY, "no memory for an HTTP server");
    }
    made->loop = loop;
    made->config = *config;
    made->on_deferring = on_deferring;
    made->on_timer = connection_on_timer;
    made->config.listen = NULL; /* the caller's text; ours is `address` */
    fill_defaults(&made->config);
    receive_settings(&made->parser_settings);
    status = listen_on(made, &address, config->listen, err);
    if (status != STATUS_OK) {
        server_free(made);
        return status;
    }
    note_address(made);
    start(made);
    *server = made;
    return STATUS_OK;
}

const char *http_server_address(const http_server_t *server)
{
    return server->address;
}

uint16_t http_server_port(const http_server_t *server)
{
    return server->port;
}

const http_server_counters_t *http_server_counters(const http_server_t *server)
{
    return &server->counters;
}

/* ------------------------------------------------------------------ stopping */

static void close_connections(http_server_t *server, bool idle_only)
{
    http_connection_t *next;
    for (http_connection_t *connection = server->connections; connection; connection = next) {
        next = connection->next; /* closing frees from the loop only */
        if (!idle_only || connection_is_idle(connection))
            connection_close(connection);
    }
}

static void on_grace_over(uv_timer_t *timer)
{
    close_connections(timer->data, false);
}

void http_server_part(http_server_t *server)
{
    server->parting = true;
}

void http_server_stop(http_server_t *server, uint32_t grace_ms, http_server_stopped_fn done, void *user)
{
    server->stop_done = done;
    server->stop_user = user;
    if (server->finishing)
        return;
    if (!server->stopping) {
        server->stopping = server->parting = true;
        server_close_listener(server, server_on_closed);
        close_connections(server, true);
    }
    if (!uv_is_active((uv_handle_t *)&server->stop_timer) ||
        uv_timer_get_due_in(&server->stop_timer) > grace_ms)
        uv_timer_start(&server->stop_timer, on_grace_over, grace_ms, 0);
    uv_idle_start(&server->deferring, on_deferring); /* with nothing left, done still comes from the loop */
}

void http_server_destroy(http_server_t *server)
{
    if (!server)
        return;
    if (server->stopped) {
        server_free(server);
        return;
    }
    server->abandoned = true; /* freed when the loop has closed its handles */
    http_server_stop(server, 0, NULL, NULL);
    close_connections(server, false);
}
