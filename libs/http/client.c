/*
 * The client: calls wait in one queue, each connection carries one call at a time.
 */
#include "http/client.h"
#include "http/address.h"
#include "tls/session.h"

#include <llhttp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    CLIENT_READ_BYTES = 64 << 10,
    CLIENT_IOVS_INLINE = 8,
    SECURE_STEP_BYTES = 80 << 10, /* of a request that are encrypted before they are sent: whole records */
};

typedef struct call call_t;
typedef struct client_connection client_connection_t;

struct http_client_response {
    int status;
    char *text; /* names and values, each terminated */
    size_t text_len, text_cap;
    struct {
        uint32_t name, value;
    } headers[HTTP_HEADERS_MAX];
    unsigned header_count;
    uint8_t *body;
    size_t body_len, body_cap;
};

struct call {
    call_t *next;
    http_client_done_fn done;
    void *user;
    bool head_only, retried;
    uint64_t deadline_ms;
    size_t iov_count;
    size_t cut_index, cut_bytes; /* the piece to be sent next, and what of it was: a retry can undo the cut */
    uv_buf_t iov_inline[CLIENT_IOVS_INLINE];
    uv_buf_t *iov; /* [0] is the head */
    char head[];
};

struct client_connection {
    uv_tcp_t tcp;
    uv_timer_t timer; /* connect and call time-outs */
    uv_connect_t connect;
    uv_write_t write;
    http_client_t *client;
    client_connection_t *prev, *next; /* all */
    client_connection_t *idle_next;   /* client->idle */
    call_t *call;
    llhttp_t parser;
    http_client_response_t response;
    tls_session_t *tls; /* NULL: plain */
    uint8_t *flight;    /* with TLS: what uv_write is writing */
    unsigned open_handles;
    bool connected, writing, closing;
    bool used; /* an earlier call was answered on it */
    bool complete, keep_alive, idle;
};

struct http_client {
    uv_loop_t *loop;
    http_client_config_t config;
    char authorization[HTTP_BEARER_BYTES + 32]; /* a line, or "" */
    struct sockaddr_storage address;
    char host[128];
    char name[256]; /* as the caller gave it: what the certificate of the server must name */
    llhttp_settings_t parser_settings;
    uv_idle_t kick; /* starts queued calls from the loop */
    client_connection_t *connections, *idle;
    unsigned connection_count, waiting_count, in_flight;
    call_t *first, *last;
    bool destroyed, kick_closed;
    uint8_t read_buffer[CLIENT_READ_BYTES], plain_buffer[CLIENT_READ_BYTES];
};

static void client_start_calls(http_client_t *client);

/* ------------------------------------------------------------------ calls */

static void call_free(call_t *call)
{
    if (call->iov != call->iov_inline)
        free(call->iov);
    free(call);
}

static void call_finish(http_client_t *client, call_t *call, const http_client_response_t *response,
                        const err_t *err)
{
    client->in_flight--;
    call->done(response, err, call->user);
    call_free(call);
}

static void queue_call(http_client_t *client, call_t *call, bool front)
{
    if (front) {
        call->next = client->first;
        client->first = call;
        if (!client->last)
            client->last = call;
    } else {
        call->next = NULL;
        if (client->last)
            client->last->next = call;
        else
            client->first = call;
        client->last = call;
    }
    client->waiting_count++;
}

static void uncut(call_t *call)
{
    if (call->cut_bytes == 0)
        return;
    call->iov[call->cut_index].base -= call->cut_bytes;
    call->iov[call->cut_index].len += call->cut_bytes;
    call->cut_bytes = 0;
}

/* So many bytes more are sent, or encrypted. True: all of them. */
static bool call_advance(call_t *call, size_t bytes)
{
    for (; call->cut_index < call->iov_count; call->cut_index++) {
        uv_buf_t *piece = &call->iov[call->cut_index];
        size_t step = bytes < piece->len ? bytes : piece->len;
        piece->base += step;
        piece->len -= step;
        call->cut_bytes += step;
        bytes -= step;
        if (piece->len > 0)
            return false;
        uncut(call);
    }
    return true;
}

static call_t *next_call(http_client_t *client)
{
    call_t *call = client->first;
    client->first = call->next;
    if (!client->first)
        client->last = NULL;
    client->waiting_count--;
    return call;
}

/* ------------------------------------------------------------------ connections */

static void maybe_free(http_client_t *client)
{
    if (client->destroyed && client->kick_closed && !client->connections)
        free(client);
}

static void on_kick(uv_idle_t *idle);

static void kick(http_client_t *client)
{
    if (!client->destroyed)
        uv_idle_start(&client->kick, on_kick);
}

static void on_connection_closed(uv_handle_t *handle)
{
    client_connection_t *connection = handle->data;
    if (--connection->open_handles > 0)
        return;
    http_client_t *client = connection->client;
    if (connection->prev)
        connection->prev->next = connection->next;
    else
        client->connections = connection->next;
    if (connection->next)
        connection->next->prev = connection->prev;
    free(connection->response.text);
    free(connection->response.body);
    tls_session_destroy(connection->tls);
    free(connection->flight);
    free(connection);
    client->connection_count--;
    if (client->first)
        kick(client);
    maybe_free(client);
}

static void idle_remove(client_connection_t *connection)
{
    client_connection_t **at = &connection->client->idle;
    while (*at && *at != connection)
        at = &(*at)->idle_next;
    if (*at)
        *at = connection->idle_next;
    connection->idle = false;
}

/* The call under way, if any, is left to the caller. */
static void connection_drop(client_connection_t *connection)
{
    if (connection->closing)
        return;
    connection->closing = true;
    if (connection->idle)
        idle_remove(connection);
    uv_close((uv_handle_t *)&connection->tcp, on_connection_closed);
    uv_close((uv_handle_t *)&connection->timer, on_connection_closed);
}

static void connection_fail(client_connection_t *connection, status_t status, const char *reason)
{
    http_client_t *client = connection->client;
    call_t *call = connection->call;
    connection->call = NULL;
    connection_drop(connection);
    if (!call)
        return;
    bool stale = connection->used && status == STATUS_UNAVAILABLE && connection->response.status == 0;
    if (stale && !call->retried && !client->destroyed) {
        call->retried = true;
        uncut(call);
        call->cut_index = 0;
        queue_call(client, call, true);
        kick(client);
        return;
    }
    err_t err;
    err_set(&err, status, "%s: %s", client->host, reason);
    call_finish(client, call, NULL, &err);
}

static void connection_rest(client_connection_t *connection)
{
    http_client_t *client = connection->client;
    uv_timer_stop(&connection->timer);
    connection->idle = true;
    connection->idle_next = client->idle;
    client->idle = connection;
}

/* ------------------------------------------------------------------ parsing */

static int add_text(client_connection_t *connection, const char *at, size_t len)
{
    http_client_response_t *response = &connection->response;
    if (response->text_len + len + 1 > response->text_cap) {
        size_t cap = response->text_cap ? response->text_cap * 2 : 1024;
        while (cap < response->text_len + len + 1)
            cap *= 2;
        char *text = cap <= 256 << 10 ? realloc(response->text, cap) : NULL;
        if (!text)
            return HPE_USER;
        response->text = text;
        response->text_cap = cap;
    }
    memcpy(response->text + response->text_len, at, len);
    response->text_len += len;
    return 0;
}

static int on_message_begin(llhttp_t *parser)
{
    client_connection_t *connection = parser->data;
    http_client_response_t *response = &connection->response;
    response->status = 0;
    response->text_len = response->body_len = 0;
    response->header_count = 0;
    return 0;
}

static int on_header_text(llhttp_t *parser, const char *at, size_t len)
{
    return add_text(parser->data, at, len);
}

static int on_field_complete(llhttp_t *parser)
{
    client_connection_t *connection = parser->data;
    http_client_response_t *response = &connection->response;
    if (response->header_count == HTTP_HEADERS_MAX)
        return HPE_USER;
    int rc = add_text(connection, "", 1);
    response->headers[response->header_count].value = (uint32_t)response->text_len;
    return rc;
}

static int on_value_complete(llhttp_t *parser)
{
    client_connection_t *connection = parser->data;
    http_client_response_t *response = &connection->response;
    int rc = add_text(connection, "", 1);
    response->header_count++;
    if (response->header_count < HTTP_HEADERS_MAX)
        response->headers[response->header_count].name = (uint32_t)response->text_len;
    return rc;
}

static int on_headers_complete(llhttp_t *parser)
{
    client_connection_t *connection = parser->data;
    http_client_response_t *response = &connection->response;
    response->status = parser->status_code;
    size_t want = parser->flags & F_CONTENT_LENGTH ? (size_t)parser->content_length : 0;
    if (want > connection->client->config.response_bytes_max)
        return HPE_USER;
    if (want > response->body_cap) {
        uint8_t *body = realloc(response->body, want);
        if (!body)
            return HPE_USER;
        response->body = body;
        response->body_cap = want;
    }
    return connection->call && connection->call->head_only ? 1 : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    client_connection_t *connection = parser->data;
    http_client_response_t *response = &connection->response;
    if (response->body_len + len > connection->client->config.response_bytes_max)
        return HPE_USER;
    if (response->body_len + len > response->body_cap) {
        size_t cap = (response->body_len + len) * 2;
        uint8_t *body = realloc(response->body, cap);
        if (!body)
            return HPE_USER;
        response->body = body;
        response->body_cap = cap;
    }
    memcpy(response->body + response->body_len, at, len);
    response->body_len += len;
    return 0;
}

static int on_message_complete(llhttp_t *parser)
{
    client_connection_t *connection = parser->data;
    if (connection->response.status / 100 == 1) /* 100 Continue: the real answer follows */
        return 0;
    connection->complete = true;
    connection->keep_alive = llhttp_should_keep_alive(parser);
    return HPE_PAUSED;
}

static void answer_complete(client_connection_t *connection, bool more_input)
{
    http_client_t *client = connection->client;
    call_t *call = connection->call;
    connection->call = NULL;
    connection->used = true;
    bool reuse = connection->keep_alive && !more_input && !connection->writing && !client->destroyed;
    /* The connection rests only after done, whose own next call must not overwrite the response it reads. */
    call_finish(client, call, &connection->response, NULL);
    if (reuse && !client->destroyed && !connection->closing) {
        llhttp_resume(&connection->parser);
        connection_rest(connection);
    } else {
        connection_drop(connection);
    }
    if (client->first && !client->destroyed)
        kick(client);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *buf)
{
    (void)suggested;
    client_connection_t *connection = handle->data;
    *buf = uv_buf_init((char *)connection->client->read_buffer, CLIENT_READ_BYTES);
}

static void take_input(client_connection_t *connection, const char *data, size_t len)
{
    if (!connection->call) {
        connection_drop(connection); /* bytes that nobody asked for */
        return;
    }
    llhttp_errno_t rc = llhttp_execute(&connection->parser, data, len);
    if (rc == HPE_PAUSED && connection->complete) {
        bool more = llhttp_get_error_pos(&connection->parser) != data + len;
        answer_complete(connection, more);
    } else if (rc != HPE_OK) {
        connection_fail(connection, STATUS_INTERNAL,
                        rc == HPE_USER ? "the answer is too large" : "the answer is not HTTP");
    }
}

/* An answer without a length ends here. */
static void input_ended(client_connection_t *connection, const char *reason)
{
    if (connection->call && llhttp_finish(&connection->parser) == HPE_PAUSED && connection->complete)
        answer_complete(connection, true);
    else
        connection_fail(connection, STATUS_UNAVAILABLE, reason);
}

static void decrypt(client_connection_t *connection);

static void on_read(uv_stream_t *stream, ssize_t nread, const uv_buf_t *buf)
{
    client_connection_t *connection = stream->data;
    if (nread == 0 || connection->closing)
        return;
    if (nread < 0) {
        if (nread == UV_EOF && !connection->tls) /* with TLS somebody else may have cut it off */
            input_ended(connection, uv_strerror((int)nread));
        else
            connection_fail(connection, STATUS_UNAVAILABLE, uv_strerror((int)nread));
        return;
    }
    if (connection->tls) {
        tls_session_feed(connection->tls, buf->base, (size_t)nread);
        decrypt(connection);
    } else {
        take_input(connection, buf->base, (size_t)nread);
    }
}

/* ------------------------------------------------------------------ sending */

static void on_call_timeout(uv_timer_t *timer)
{
    client_connection_t *connection = timer->data;
    connection_fail(connection, STATUS_DEADLINE_EXCEEDED,
                    connection->connected ? "no answer in time" : "no connection in time");
}

static void push_encrypted(client_connection_t *connection);
static void send_encrypted(client_connection_t *connection);

static void on_written(uv_write_t *write, int rc)
{
    client_connection_t *connection = write->data;
    connection->writing = false;
    if (connection->closing)
        return;
    if (rc < 0) {
        connection_fail(connection, STATUS_UNAVAILABLE, uv_strerror(rc));
    } else if (connection->tls) {
        push_encrypted(connection);
        send_encrypted(connection);
    }
}

/* What the session has to send; what the socket does not take now leaves the session, and is written by libuv. */
static void push_encrypted(client_connection_t *connection)
{
    size_t len;
    const uint8_t *out = tls_session_output(connection->tls, &len);
    if (len == 0 || connection->writing || connection->closing)
        return;
    uv_buf_t buf = uv_buf_init((char *)(uintptr_t)out, (unsigned)len);
    int sent = uv_try_write((uv_stream_t *)&connection->tcp, &buf, 1);
    tls_session_output_sent(connection->tls, sent > 0 ? (size_t)sent : 0);
    out = tls_session_output(connection->tls, &len);
    if (len == 0)
        return;
    free(connection->flight);
    connection->flight = malloc(len);
    if (!connection->flight) {
        connection_fail(connection, STATUS_NO_MEMORY, "no memory for a request");
        return;
    }
    buf = uv_buf_init(memcpy(connection->flight, out, len), (unsigned)len);
    tls_session_output_sent(connection->tls, len);
    connection->write.data = connection;
    connection->writing = true;
    if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &buf, 1, on_written) != 0)
        connection->writing = false;
}

/* Step by step, so that the server decrypts the first while the next is encrypted; what the socket does not take is waited for. */
static void send_encrypted(client_connection_t *connection)
{
    call_t *call = connection->call;
    bool more = call && call->cut_index < call->iov_count;
    while (more && !connection->writing && !connection->closing) {
        struct iovec pieces[CLIENT_IOVS_INLINE];
        size_t count = 0;
        for (size_t i = call->cut_index; i < call->iov_count && count < CLIENT_IOVS_INLINE; i++)
            pieces[count++] = (struct iovec){call->iov[i].base, call->iov[i].len};
        size_t taken = tls_session_write(connection->tls, pieces, count, SECURE_STEP_BYTES);
        if (taken == 0) {
            connection_fail(connection, STATUS_UNAVAILABLE, tls_session_reason(connection->tls));
            return;
        }
        more = !call_advance(call, taken);
        push_encrypted(connection);
    }
}

static void send_plain(client_connection_t *connection, call_t *call)
{
    int sent = uv_try_write((uv_stream_t *)&connection->tcp, call->iov, (unsigned)call->iov_count);
    if (call_advance(call, sent > 0 ? (size_t)sent : 0))
        return;
    connection->write.data = connection;
    connection->writing = true;
    /* On a broken socket the read side tells. */
    if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, call->iov + call->cut_index,
                 (unsigned)(call->iov_count - call->cut_index), on_written) != 0)
        connection->writing = false;
}

static void send_call(client_connection_t *connection, call_t *call)
{
    uint64_t now_ms = uv_now(connection->client->loop);
    connection->call = call;
    connection->complete = false;
    connection->response.status = 0;
    uv_timer_start(&connection->timer, on_call_timeout,
                   call->deadline_ms > now_ms ? call->deadline_ms - now_ms : 0, 0);
    if (connection->tls)
        send_encrypted(connection);
    else
        send_plain(connection, call);
}

/* It may carry calls. */
static void connection_is_up(client_connection_t *connection)
{
    connection->connected = true;
    uv_timer_stop(&connection->timer);
    connection_rest(connection);
    client_start_calls(connection->client);
}

/* The oldest call learns of it; the others try again. */
static void connection_not_made(client_connection_t *connection, const char *reason)
{
    if (!connection->call && connection->client->first)
        connection->call = next_call(connection->client);
    connection_fail(connection, STATUS_UNAVAILABLE, reason);
}

static void broken_off(client_connection_t *connection, tls_read_t result)
{
    if (result == TLS_READ_END)
        input_ended(connection, "closed by the server");
    else if (connection->connected)
        connection_fail(connection, STATUS_UNAVAILABLE, tls_session_reason(connection->tls));
    else
        connection_not_made(connection, tls_session_reason(connection->tls));
}

/* Of what was fed, all. */
static void decrypt(client_connection_t *connection)
{
    http_client_t *client = connection->client;
    tls_read_t result = TLS_READ_BYTES;
    while (result == TLS_READ_BYTES && !connection->closing) {
        size_t len;
        result = tls_session_read(connection->tls, client->plain_buffer, CLIENT_READ_BYTES, &len);
        if (result == TLS_READ_BYTES)
            take_input(connection, (const char *)client->plain_buffer, len);
    }
    if (connection->closing)
        return;
    push_encrypted(connection);
    if (result != TLS_READ_WANT)
        broken_off(connection, result);
    else if (!connection->connected && tls_session_is_ready(connection->tls))
        connection_is_up(connection);
}

static void on_connected(uv_connect_t *connect, int rc)
{
    client_connection_t *connection = connect->data;
    http_client_t *client = connection->client;
    if (connection->closing)
        return;
    if (rc < 0) {
        connection_not_made(connection, uv_strerror(rc));
        return;
    }
    uv_tcp_nodelay(&connection->tcp, 1);
    uv_read_start((uv_stream_t *)&connection->tcp, on_alloc, on_read);
    if (!client->config.tls) {
        connection_is_up(connection);
        return;
    }
    err_t err;
    if (tls_session_create(client->config.tls, client->name, &connection->tls, &err) == STATUS_OK)
        decrypt(connection);
    else
        connection_not_made(connection, err.text);
}

static void on_connect_timeout(uv_timer_t *timer)
{
    connection_not_made(timer->data, "no connection in time");
}

static bool open_connection(http_client_t *client)
{
    client_connection_t *connection = calloc(1, sizeof *connection);
    if (!connection)
        return false;
    connection->client = client;
    connection->tcp.data = connection->timer.data = connection->connect.data = connection;
    connection->open_handles = 2;
    uv_tcp_init(client->loop, &connection->tcp);
    uv_timer_init(client->loop, &connection->timer);
    llhttp_init(&connection->parser, HTTP_RESPONSE, &client->parser_settings);
    connection->parser.data = connection;
    connection->next = client->connections;
    if (connection->next)
        connection->next->prev = connection;
    client->connections = connection;
    client->connection_count++;
    int rc = uv_tcp_connect(&connection->connect, &connection->tcp, (const struct sockaddr *)&client->address,
                            on_connected);
    if (rc == 0)
        uv_timer_start(&connection->timer, on_connect_timeout, client->config.connect_timeout_ms, 0);
    else
        connection_fail(connection, STATUS_UNAVAILABLE, uv_strerror(rc));
    return rc == 0;
}

static unsigned connecting_count(const http_client_t *client)
{
    unsigned count = 0;
    for (const client_connection_t *c = client->connections; c; c = c->next)
        count += !c->connected && !c->closing;
    return count;
}

/* Gives waiting calls to idle connections and opens as many new ones as the rest needs. */
static void client_start_calls(http_client_t *client)
{
    while (client->first && client->idle && !client->destroyed) {
        client_connection_t *connection = client->idle;
        client->idle = connection->idle_next;
        connection->idle = false;
        send_call(connection, next_call(client));
    }
    if (!client->first || client->connection_count >= client->config.connections_max)
        return;
    for (unsigned connecting = connecting_count(client);
         connecting < client->waiting_count && client->connection_count < client->config.connections_max;
         connecting++)
        if (!open_connection(client))
            break;
}

/* Calls that waited longer than they may. Looked at only while they wait. */
static void expire_waiting(http_client_t *client)
{
    uint64_t now_ms = uv_now(client->loop);
    while (client->first && client->first->deadline_ms <= now_ms) {
        call_t *call = next_call(client);
        err_t err;
        err_set(&err, STATUS_DEADLINE_EXCEEDED, "%s: no free connection in time", client->host);
        call_finish(client, call, NULL, &err);
    }
}

static void on_kick(uv_idle_t *idle)
{
    http_client_t *client = idle->data;
    uv_idle_stop(idle);
    expire_waiting(client);
    client_start_calls(client);
}

/* ------------------------------------------------------------------ the interface */

/* What would end the line early, or is too long, is no key. */
static status_t set_bearer(http_client_t *client, const char *key, err_t *err)
{
    size_t len = key ? strlen(key) : 0;
    for (size_t i = 0; i < len; i++)
        if (key[i] <= ' ' || key[i] == 127 || len > HTTP_BEARER_BYTES)
            return err_set(err, STATUS_INVALID_ARGUMENT, "an API key is up to %d letters, digits and signs",
                           HTTP_BEARER_BYTES);
    if (len > 0)
        snprintf(client->authorization, sizeof client->authorization, "Authorization: Bearer %s\r\n", key);
    return STATUS_OK;
}

status_t http_client_create(uv_loop_t *loop, const http_client_config_t *config, http_client_t **client,
                            err_t *err)
{
    http_client_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for an HTTP client");
    status_t status = address_parse(config->server, &made->address, err);
    if (status == STATUS_OK)
        status = address_host(config->server, made->name, sizeof made->name, err);
    if (status == STATUS_OK && address_is_secure(config->server) && !config->tls)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "%s needs TLS", config->server);
    if (status == STATUS_OK)
        status = set_bearer(made, config->bearer, err);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    made->loop = loop;
    made->config = *config;
    made->config.server = made->config.bearer = NULL;
    address_print(&made->address, made->host, sizeof made->host);
    http_client_config_t *c = &made->config;
    c->connections_max = c->connections_max ? c->connections_max : 64;
    c->waiting_max = c->waiting_max ? c->waiting_max : 65536;
    c->response_bytes_max = c->response_bytes_max ? c->response_bytes_max : 64 << 20;
    c->connect_timeout_ms = c->connect_timeout_ms ? c->connect_timeout_ms : 3000;
    llhttp_settings_t *s = &made->parser_settings;
    llhttp_settings_init(s);
    s->on_message_begin = on_message_begin;
    s->on_header_field = s->on_header_value = on_header_text;
    s->on_header_field_complete = on_field_complete;
    s->on_header_value_complete = on_value_complete;
    s->on_headers_complete = on_headers_complete;
    s->on_body = on_body;
    s->on_message_complete = on_message_complete;
    uv_idle_init(loop, &made->kick);
    made->kick.data = made;
    *client = made;
    return STATUS_OK;
}

static void on_kick_closed(uv_handle_t *handle)
{
    http_client_t *client = handle->data;
    client->kick_closed = true;
    while (client->first) {
        call_t *call = next_call(client);
        err_t err;
        err_set(&err, STATUS_CANCELLED, "the HTTP client was closed");
        call_finish(client, call, NULL, &err);
    }
    client_connection_t *next;
    for (client_connection_t *connection = client->connections; connection; connection = next) {
        next = connection->next;
        connection_fail(connection, STATUS_CANCELLED, "the HTTP client was closed");
    }
    maybe_free(client);
}

void http_client_destroy(http_client_t *client)
{
    if (!client || client->destroyed)
        return;
    client->destroyed = true;
    uv_close((uv_handle_t *)&client->kick, on_kick_closed);
}

static char *put(char *at, const char *text)
{
    return stpcpy(at, text ? text : "");
}

static call_t *call_create(http_client_t *client, const http_client_request_t *request)
{
    static const char none[] = "";
    const char *type = request->content_type ? request->content_type : none;
    const char *extra = request->extra_headers ? request->extra_headers : none;
    size_t bytes = 0;
    for (size_t i = 0; i < request->body_count; i++)
        bytes += request->body[i].iov_len;
    size_t room = strlen(request->target) + strlen(client->host) + strlen(type) + strlen(extra) +
                  strlen(client->authorization) + 128;
    call_t *call = malloc(sizeof *call + room);
    if (!call)
        return NULL;
    memset(call, 0, sizeof *call);
    call->iov = call->iov_inline;
    if (request->body_count + 1 > CLIENT_IOVS_INLINE) {
        call->iov = malloc((request->body_count + 1) * sizeof *call->iov);
        if (!call->iov) {
            free(call);
            return NULL;
        }
    }
    char *at = put(call->head, http_method_name(request->method));
    at = put(put(put(at, " "), request->target), " HTTP/1.1\r\nHost: ");
    at = put(put(at, client->host), "\r\n");
    if (*type)
        at = put(put(put(at, "Content-Type: "), type), "\r\n");
    if (bytes > 0 || request->method == HTTP_METHOD_POST || request->method == HTTP_METHOD_PUT)
        at += sprintf(at, "Content-Length: %zu\r\n", bytes);
    at = put(put(put(at, client->authorization), extra), "\r\n");
    call->iov[0] = uv_buf_init(call->head, (unsigned)(at - call->head));
    for (size_t i = 0; i < request->body_count; i++)
        call->iov[i + 1] = uv_buf_init(request->body[i].iov_base, (unsigned)request->body[i].iov_len);
    call->iov_count = request->body_count + 1;
    return call;
}

status_t http_client_call(http_client_t *client, const http_client_request_t *request,
                          http_client_done_fn done, void *user, err_t *err)
{
    if (client->waiting_count >= client->config.waiting_max)
        return err_set(err, STATUS_UNAVAILABLE, "%u calls to %s wait already", client->waiting_count,
                       client->host);
    call_t *call = call_create(client, request);
    if (!call)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a call");
    call->done = done;
    call->user = user;
    call->head_only = request->method == HTTP_METHOD_HEAD;
    call->deadline_ms = uv_now(client->loop) + (request->timeout_ms ? request->timeout_ms : 60000);
    client->in_flight++;
    client_connection_t *connection = client->first ? NULL : client->idle;
    if (connection) {
        client->idle = connection->idle_next;
        connection->idle = false;
        send_call(connection, call);
    } else {
        queue_call(client, call, false);
        kick(client);
    }
    return STATUS_OK;
}

int http_client_response_status(const http_client_response_t *response)
{
    return response->status;
}

const char *http_client_response_header(const http_client_response_t *response, const char *name)
{
    for (unsigned i = 0; i < response->header_count; i++)
        if (strcasecmp(response->text + response->headers[i].name, name) == 0)
            return response->text + response->headers[i].value;
    return NULL;
}

const uint8_t *http_client_response_body(const http_client_response_t *response, size_t *len_bytes)
{
    *len_bytes = response->body_len;
    return response->body;
}
