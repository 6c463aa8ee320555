/*
 * The side of a connection with TLS that meets the network; what is read and answered through it is read and answered as without.
 */
#include "base/log.h"
#include "http/internal.h"

bool secure_open(http_connection_t *connection)
{
    err_t err;
    http_server_t *server = connection->server;
    if (!server->config.tls)
        return true;
    if (tls_session_create(server->config.tls, NULL, &connection->tls, &err) == STATUS_OK)
        return true;
    log_warn_limited("tls_refused", LOG_STR("peer", connection->peer), LOG_ERR(&err));
    return false;
}

bool secure_shaking_hands(const http_connection_t *connection)
{
    return connection->tls && !tls_session_is_ready(connection->tls);
}

bool secure_push(http_connection_t *connection)
{
    size_t len;
    const uint8_t *out = tls_session_output(connection->tls, &len);
    if (len == 0)
        return true;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)out, (unsigned)len);
    int rc = uv_try_write((uv_stream_t *)&connection->tcp, &buf, 1);
    if (rc < 0 && rc != UV_EAGAIN) {
        connection->broken = true;
        server_defer(connection->server, connection);
        return false;
    }
    tls_session_output_sent(connection->tls, rc > 0 ? (size_t)rc : 0);
    return rc >= 0 && (size_t)rc == len;
}

void secure_end(http_connection_t *connection)
{
    if (!connection->tls || connection->writing || connection->broken)
        return;
    tls_session_end(connection->tls);
    secure_push(connection);
}

void secure_refused(http_connection_t *connection)
{
    http_server_t *server = connection->server;
    server->counters.tls_refused++;
    if (!connection->writing && !connection->broken)
        secure_push(connection); /* the alert says why */
    log_warn_limited("tls_refused", LOG_STR("listen", server->address), LOG_STR("peer", connection->peer),
                     LOG_STR("reason", tls_session_reason(connection->tls)));
}
