/*
 * A connection's deadlines and its end. Whoever has something to do with a connection may end it, so this calls nothing above it.
 */
#include "http/internal.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ time-outs */

/* What the client owes us most urgently, and until when (ms of the loop). */
wait_t connection_next_deadline(const http_connection_t *connection, uint64_t *deadline_ms)
{
    const http_server_config_t *config = &connection->server->config;
    const http_request_t *current = connection->current;
    wait_t wait = WAIT_NOTHING;
    *deadline_ms = UINT64_MAX;
    if (secure_shaking_hands(connection)) {
        *deadline_ms = connection->opened_ms + config->header_timeout_ms;
        return WAIT_HANDSHAKE;
    }
    if (connection->state == CONNECTION_LINGERING) {
        *deadline_ms = connection->linger_ms + LINGER_MS;
        return WAIT_LINGER;
    }
    if (current && !connection->no_more) {
        wait = current->headers_done ? WAIT_BODY : WAIT_HEADERS;
        *deadline_ms = connection->receive_ms +
                       (current->headers_done ? config->body_timeout_ms : config->header_timeout_ms);
    } else if (connection->pending == 0) {
        wait = WAIT_IDLE;
        *deadline_ms = connection->active_ms + config->idle_timeout_ms;
    }
    if (connection->writing && connection->write_ms + config->write_timeout_ms < *deadline_ms) {
        wait = WAIT_WRITE;
        *deadline_ms = connection->write_ms + config->write_timeout_ms;
    }
    return wait;
}

/* The timer may fire too early, which costs one look, but moving a deadline back costs nothing. */
void connection_arm_timer(http_connection_t *connection)
{
    uint64_t deadline_ms, now_ms = uv_now(connection->server->loop);
    if (connection_next_deadline(connection, &deadline_ms) == WAIT_NOTHING)
        return;
    if (connection->timer_at_ms != 0 && connection->timer_at_ms <= deadline_ms)
        return;
    connection->timer_at_ms = deadline_ms;
    uv_timer_start(&connection->timer, connection->server->on_timer,
                   deadline_ms > now_ms ? deadline_ms - now_ms : 0, 0);
}

/* ------------------------------------------------------------------ closing */

void connection_unref(http_connection_t *connection)
{
    if (--connection->refs > 0)
        return;
    http_server_t *server = connection->server;
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        server->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    if (connection->refused)
        server->refused_count--;
    else
        server->connection_count--;
    server->counters.connections_open--;
    free(connection->stash);
    free(connection->flight);
    tls_session_destroy(connection->tls);
    free(connection);
    server_check_stopped(server);
}

static void on_handle_closed(uv_handle_t *handle)
{
    connection_unref(handle->data);
}

void connection_close(http_connection_t *connection)
{
    if (connection->state == CONNECTION_CLOSED)
        return;
    if (connection->state == CONNECTION_OPEN)
        secure_end(connection);
    connection->state = CONNECTION_CLOSED;
    uv_close((uv_handle_t *)&connection->tcp, on_handle_closed);
    uv_close((uv_handle_t *)&connection->timer, on_handle_closed);
    http_request_t *current = connection->current;
    connection->current = NULL;
    if (current && (!current->headers_done || current->sent)) /* else it is in the queue */
        request_recycle(current);
    while (connection->first)
        request_orphan(queue_pop(connection));
}

static void on_shutdown(uv_shutdown_t *shutdown, int rc)
{
    (void)shutdown;
    (void)rc;
}

/* A close with unread input would reset the connection and could take the answer with it. */
void connection_linger(http_connection_t *connection)
{
    if (connection->state != CONNECTION_OPEN)
        return;
    secure_end(connection);
    connection->state = CONNECTION_LINGERING;
    connection->linger_ms = uv_now(connection->server->loop);
    if (uv_shutdown(&connection->shutdown, (uv_stream_t *)&connection->tcp, on_shutdown) != 0)
        connection_close(connection);
    else
        connection_arm_timer(connection);
}

bool connection_is_idle(const http_connection_t *connection)
{
    return connection->pending == 0 && !connection->current;
}
