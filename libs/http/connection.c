/*
 * A connection: accepted, read, and what becomes of it when its time is over.
 */
#include "http/address.h"
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ------------------------------------------------------------------ time-outs */

static void on_deadline(http_connection_t *connection, wait_t wait)
{
    connection->corked = true;
    if (wait == WAIT_HEADERS)
        receive_fail(connection, 408, "the headers did not arrive in time");
    else if (wait == WAIT_BODY)
        receive_fail(connection, 408, "the body did not arrive in time");
    else
        connection_close(connection);
    connection->corked = false;
    if (connection->state == CONNECTION_OPEN)
        connection_flush(connection);
}

/* The rest of a blocked write got shorter since the last look: the client is alive. */
static void note_write_progress(http_connection_t *connection, uint64_t now_ms)
{
    size_t left = uv_stream_get_write_queue_size((uv_stream_t *)&connection->tcp);
    if (connection->writing && left < connection->write_seen)
        connection->write_ms = now_ms;
    connection->write_seen = left;
}

void connection_on_timer(uv_timer_t *timer)
{
    http_connection_t *connection = timer->data;
    uint64_t now_ms = uv_now(connection->server->loop), deadline_ms;
    connection->timer_at_ms = 0;
    note_write_progress(connection, now_ms);
    wait_t wait = connection_next_deadline(connection, &deadline_ms);
    if (wait != WAIT_NOTHING && deadline_ms <= now_ms)
        on_deadline(connection, wait);
    else
        connection_arm_timer(connection);
}

/* ------------------------------------------------------------------ reading */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    http_connection_t *connection = handle->data;
    if (connection->tls)
        *buf = uv_buf_init((char *)connection->server->cipher_buffer, READ_BUFFER_BYTES);
    else
        *buf = receive_buffer(connection);
}

static void take_input(http_connection_t *connection, const uint8_t *data, size_t len)
{
    if (connection->no_more)
        connection->drain_input = true;
    else
        connection_parse(connection, data, len);
}

/* Of what was fed to the session, until it wants more or the pipeline is full; the rest waits within it. */
static void decrypt(http_connection_t *connection)
{
    tls_read_t result = TLS_READ_BYTES;
    while (result == TLS_READ_BYTES && connection->state == CONNECTION_OPEN && !connection->parser_paused) {
        size_t len;
        uv_buf_t to = receive_buffer(connection);
        result = tls_session_read(connection->tls, to.base, to.len, &len);
        if (result == TLS_READ_BYTES)
            take_input(connection, (const uint8_t *)to.base, len);
    }
    if (connection->state != CONNECTION_OPEN)
        return;
    if (result == TLS_READ_WANT) {
        connection_flush(connection);
    } else if (result == TLS_READ_BYTES) {
        if (tls_session_keep(connection->tls) != STATUS_OK)
            connection_close(connection);
    } else {
        if (result == TLS_READ_FAILED)
            secure_refused(connection);
        connection_close(connection);
    }
}

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    http_connection_t *connection = stream->data;
    if (nread == 0)
        return;
    if (nread < 0) {
        connection_close(connection);
        return;
    }
    connection->server->counters.bytes_in += (uint64_t)nread;
    if (connection->state != CONNECTION_OPEN)
        return;
    connection->active_ms = uv_now(connection->server->loop);
    if (connection->tls) {
        tls_session_feed(connection->tls, buf->base, (size_t)nread);
        decrypt(connection);
    } else {
        take_input(connection, (const uint8_t *)buf->base, (size_t)nread);
    }
}

/* The queue has room again: parses what was put aside, then reads on. */
void connection_resume(http_connection_t *connection)
{
    if (!connection->parser_paused || connection->pending >= connection->server->config.pipeline_max)
        return;
    connection->parser_paused = false;
    if (connection->stash)
        connection_parse(connection, connection->stash + connection->stash_at,
                         connection->stash_len - connection->stash_at);
    if (!connection->parser_paused) {
        free(connection->stash);
        connection->stash = NULL;
    }
    if (connection->tls && connection->state == CONNECTION_OPEN && !connection->parser_paused)
        decrypt(connection);
    /* Also where what was put aside was bad: lingering is reading on. */
    if (connection->state != CONNECTION_CLOSED && !connection->parser_paused)
        uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
}

/* ------------------------------------------------------------------ accepting */

static void name_peer(http_connection_t *connection)
{
    struct sockaddr_storage address = {0};
    int len = sizeof address;
    uv_tcp_getpeername(&connection->tcp, (struct sockaddr *)&address, &len);
    address_print(&address, connection->peer, sizeof connection->peer);
}

static http_connection_t *connection_create(http_server_t *server)
{
    http_connection_t *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    connection->server = server;
    connection->tcp.data = connection->timer.data = connection;
    connection->refs = 2;
    connection->active_ms = connection->opened_ms = uv_now(server->loop);
    uv_tcp_init(server->loop, &connection->tcp);
    uv_timer_init(server->loop, &connection->timer);
    llhttp_init(&connection->parser, HTTP_REQUEST, &server->parser_settings);
    connection->parser.data = connection;
    connection->next = server->connections;
    if (connection->next)
        connection->next->prev = connection;
    server->connections = connection;
    server->counters.connections_open++;
    server->counters.connections_total++;
    return connection;
}

static void refuse(http_connection_t *connection)
{
    http_server_t *server = connection->server;
    connection->refused = true;
    server->refused_count++;
    server->counters.connections_refused++;
    if (server->refused_count > REFUSED_MAX ||
        server->config.tls) { /* a handshake costs more than it is worth */
        connection_close(connection);
        return;
    }
    connection->corked = true;
    receive_fail(connection, 503, "the server has no room for another connection");
    connection->corked = false;
    connection_flush(connection);
}

void connection_accept(http_server_t *server, int fd)
{
    http_connection_t *connection = connection_create(server);
    if (!connection) { /* no memory for it */
        server->counters.connections_refused++;
        close(fd);
        return;
    }
    bool full = server->connection_count >= server->config.connections_max;
    if (!full)
        server->connection_count++;
    if (uv_tcp_open(&connection->tcp, fd) != 0) {
        close(fd);
        connection->refused = full;
        server->refused_count += full;
        connection_close(connection);
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    name_peer(connection);
    if (!full && !secure_open(connection)) {
        connection_close(connection);
        return;
    }
    uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
    if (full)
        refuse(connection);
    else
        connection_arm_timer(connection);
}
