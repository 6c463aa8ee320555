/* The end of a server, and what its connections put off to the next turn of the loop, which a stop waits for. */
#include "http/internal.h"

#include <stdlib.h>
#include <unistd.h>

void server_defer(http_server_t *server, http_connection_t *connection)
{
    if (!connection->deferred) {
        connection->deferred = true;
        connection->refs++;
        connection->deferred_next = server->deferred;
        server->deferred = connection;
    }
    uv_idle_start(&server->deferring, server->on_deferring);
}

void server_free(http_server_t *server)
{
    request_dispose_all(server);
    router_destroy(server->router);
    free(server->cipher_buffer);
    free(server);
}

void server_close_listener(http_server_t *server, uv_close_cb closed)
{
    uv_close((uv_handle_t *)&server->listener, closed);
    close(server->listen_fd);
    acceptor_dispose(&server->acceptor);
}

static void server_close_handles(http_server_t *server, uv_close_cb closed)
{
    if (!uv_is_closing((uv_handle_t *)&server->listener))
        server_close_listener(server, closed);
    uv_close((uv_handle_t *)&server->stop_timer, closed);
    uv_close((uv_handle_t *)&server->accept_timer, closed);
    uv_close((uv_handle_t *)&server->deferring, closed);
}

void server_on_closed(uv_handle_t *handle)
{
    http_server_t *server = handle->data;
    if (--server->open_handles > 0)
        return;
    server->stopped = true;
    if (server->abandoned)
        server_free(server);
    else if (server->stop_done)
        server->stop_done(server, server->stop_user);
}

void server_check_stopped(http_server_t *server)
{
    bool owed = server->owed > 0 && !server->abandoned;
    if (!server->stopping || server->finishing || server->connections || owed || server->deferred)
        return;
    server->finishing = true;
    server_close_handles(server, server_on_closed);
}
