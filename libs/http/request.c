/*
 * The request object: its buffers, its recycling, its place in the connection's queue, and what handlers may
 * ask of it.
 */
#include "http/internal.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool textbuf_reserve(textbuf_t *buf, size_t more)
{
    if (buf->cap - buf->len >= more)
        return true;
    size_t cap = buf->cap ? buf->cap : 1024;
    while (cap - buf->len < more)
        cap *= 2;
    char *data = realloc(buf->data, cap);
    if (!data)
        return false;
    buf->data = data;
    buf->cap = cap;
    return true;
}

bool textbuf_add(textbuf_t *buf, const void *data, size_t len)
{
    if (!textbuf_reserve(buf, len))
        return false;
    if (len > 0)
        memcpy(buf->data + buf->len, data, len);
    buf->len += len;
    return true;
}

static void textbuf_dispose(textbuf_t *buf)
{
    free(buf->data);
    *buf = (textbuf_t){0};
}

/* Empties; gives big memory back. */
static void textbuf_recycle(textbuf_t *buf)
{
    buf->len = 0;
    if (buf->cap > SPARE_BUFFER_BYTES)
        textbuf_dispose(buf);
}

http_request_t *request_create(http_server_t *server, http_connection_t *connection)
{
    http_request_t *request = server->spare;
    if (request) {
        server->spare = request->next;
        server->spare_count--;
    } else {
        request = calloc(1, sizeof *request);
        if (!request || !textbuf_reserve(&request->text, 1) || !textbuf_reserve(&request->head, 1)) {
            if (request)
                textbuf_dispose(&request->text);
            free(request);
            return NULL;
        }
    }
    request->server = server;
    request->connection = connection;
    request->next = NULL;
    return request;
}

static void request_free(http_request_t *request)
{
    textbuf_dispose(&request->text);
    textbuf_dispose(&request->head);
    free(request->owned);
    free(request);
}

void request_recycle(http_request_t *request)
{
    http_server_t *server = request->server;
    if (request->iov != request->iov_inline)
        free(request->iov);
    if (server->spare_count >= SPARE_REQUESTS_MAX) {
        request_free(request);
        return;
    }
    textbuf_t text = request->text, head = request->head;
    textbuf_recycle(&text);
    textbuf_recycle(&head);
    uint8_t *owned = request->owned;
    size_t owned_cap = request->owned_cap;
    if (owned_cap > SPARE_BUFFER_BYTES) {
        free(owned);
        owned = NULL;
        owned_cap = 0;
    }
    memset(request, 0, sizeof *request);
    request->text = text;
    request->head = head;
    request->owned = owned;
    request->owned_cap = owned_cap;
    request->next = server->spare;
    server->spare = request;
    server->spare_count++;
}

void request_dispose_all(http_server_t *server)
{
    while (server->spare) {
        http_request_t *request = server->spare;
        server->spare = request->next;
        request_free(request);
    }
}

void request_release(http_request_t *request)
{
    void (*release)(void *) = request->release;
    request->release = NULL;
    if (release)
        release(request->release_arg);
}

/* The connection is done with it. What a handler still owes is waited for, the rest goes now. */
void request_orphan(http_request_t *request)
{
    request->connection = NULL;
    request->next = NULL;
    if (request->answered) {
        if (!request->sent)
            request->server->counters.responses[0]++;
        request_release(request);
        request_recycle(request);
    } else if (!request->handed) {
        request_recycle(request);
    } else if (request->route->route.ops->on_close) {
        request->route->route.ops->on_close(request, request->route->route.user);
    }
}

void queue_push(http_connection_t *connection, http_request_t *request)
{
    if (connection->last)
        connection->last->next = request;
    else
        connection->first = request;
    connection->last = request;
    connection->pending++;
}

http_request_t *queue_pop(http_connection_t *connection)
{
    http_request_t *request = connection->first;
    connection->first = request->next;
    if (!connection->first)
        connection->last = NULL;
    connection->pending--;
    request->next = NULL;
    return request;
}

const char *http_request_path(const http_request_t *request)
{
    return request->text.data + request->path;
}

const char *http_request_query(const http_request_t *request)
{
    return request->text.data + request->query;
}

/* From header line `from` on; header_count when there is none. */
static unsigned find_header(const http_request_t *request, const char *name, unsigned from)
{
    size_t len = strlen(name);

    while (from < request->header_count) {
        uint32_t at = request->headers[from].name, value = request->headers[from].value;
        if (value - at == len + 1 && strcasecmp(request->text.data + at, name) == 0)
            break;
        from++;
    }
    return from;
}

const char *http_request_header(const http_request_t *request, const char *name)
{
    unsigned at = find_header(request, name, 0);
    return at < request->header_count ? request->text.data + request->headers[at].value : NULL;
}

bool http_request_header_repeats(const http_request_t *request, const char *name)
{
    return find_header(request, name, find_header(request, name, 0) + 1) < request->header_count;
}

size_t http_request_route(const http_request_t *request)
{
    return request->route->index;
}

http_method_t http_request_method(const http_request_t *request)
{
    return request->method;
}

const char *http_request_peer(const http_request_t *request)
{
    return request->connection ? request->connection->peer : "";
}

const char *http_request_peer_role(const http_request_t *request)
{
    const http_connection_t *connection = request->connection;
    return connection && connection->tls ? tls_session_peer_role(connection->tls) : "";
}

void http_request_set_caller(http_request_t *request, void *caller)
{
    request->caller = caller;
}

void *http_request_caller(const http_request_t *request)
{
    return request->caller;
}

const char *http_request_param(const http_request_t *request, const char *name)
{
    for (size_t i = 0; i < request->route->param_count; i++)
        if (strcmp(request->route->param_names[i], name) == 0)
            return request->text.data + request->params[i];
    return NULL;
}

int64_t http_request_content_length(const http_request_t *request)
{
    return request->content_length;
}

const uint8_t *http_request_body(const http_request_t *request, size_t *len_bytes)
{
    *len_bytes = request->body_len;
    return request->body;
}

status_t http_request_keep_body(http_request_t *request)
{
    if (request->body_place != BODY_IN_READ_BUFFER)
        return STATUS_OK;
    if (request->owned_cap < request->body_len) {
        uint8_t *owned = realloc(request->owned, request->body_len);
        if (!owned)
            return STATUS_NO_MEMORY;
        request->owned = owned;
        request->owned_cap = request->body_len;
    }
    memcpy(request->owned, request->body, request->body_len);
    request->body = request->owned;
    request->body_cap = request->owned_cap;
    request->body_place = BODY_OWNED;
    return STATUS_OK;
}

void http_request_set_body_buffer(http_request_t *request, void *buf, size_t cap_bytes)
{
    if (request->content_length < 0 || cap_bytes < (size_t)request->content_length || request->complete)
        return; /* a wrong call costs a copy, never an overrun */
    request->body = buf;
    request->body_cap = cap_bytes;
    request->body_place = BODY_OF_HANDLER;
}

void http_request_set_context(http_request_t *request, void *context)
{
    request->context = context;
}

void *http_request_context(const http_request_t *request)
{
    return request->context;
}
