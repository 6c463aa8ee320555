/*
 * Answers: the head is written into a recycled buffer, the body stays where it is, and whatever is ready at
 * the front of the queue leaves with one writev. Hot path.
 */
#include "http/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ------------------------------------------------------------------ making an answer */

static bool add_str(textbuf_t *buf, const char *text)
{
    return textbuf_add(buf, text, strlen(text));
}

static bool add_number(textbuf_t *buf, uint64_t number)
{
    char text[24];
    size_t at = sizeof text;
    do
        text[--at] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return textbuf_add(buf, text + at, sizeof text - at);
}

static const char *date_line(http_server_t *server)
{
    time_t now = time(NULL);
    if (server->date_s != (uint64_t)now) {
        struct tm utc;
        gmtime_r(&now, &utc);
        strftime(server->date_text, sizeof server->date_text, "\r\nDate: %a, %d %b %Y %H:%M:%S GMT\r\n",
                 &utc);
        server->date_s = (uint64_t)now;
    }
    return server->date_text;
}

static bool write_head(http_request_t *request, const http_response_t *response, size_t body_bytes)
{
    textbuf_t *head = &request->head;
    head->len = 0;
    bool ok = add_str(head, "HTTP/1.1 ") && add_number(head, (unsigned)response->status) &&
              add_str(head, " ") && add_str(head, http_status_text(response->status)) &&
              add_str(head, date_line(request->server));
    if (response->content_type)
        ok = ok && add_str(head, "Content-Type: ") && add_str(head, response->content_type) &&
             add_str(head, "\r\n");
    if (response->status != 204)
        ok = ok && add_str(head, "Content-Length: ") && add_number(head, body_bytes) && add_str(head, "\r\n");
    if (response->extra_headers)
        ok = ok && add_str(head, response->extra_headers);
    if (request->close)
        ok = ok && add_str(head, "Connection: close\r\n");
    else if (request->http10)
        ok = ok && add_str(head, "Connection: keep-alive\r\n");
    return ok && add_str(head, "\r\n");
}

/* A body that nobody wants any more is read only while that is cheaper than a new connection. */
static bool must_close(const http_request_t *request, const http_response_t *response)
{
    const http_connection_t *connection = request->connection;
    if (response->close || request->close || !request->keep_alive)
        return true;
    if (!request->complete) {
        int64_t left = request->content_length - (int64_t)request->body_len;
        if (request->content_length < 0 || left > DISCARD_MAX_BYTES || (request->continue_wanted && left > 0))
            return true;
    }
    return request->server->parting && request == connection->last && request->complete;
}

static bool place_body(http_request_t *request, const http_response_t *response)
{
    bool silent = request->method == HTTP_METHOD_HEAD || response->status == 204 || response->status == 304;
    size_t count = silent ? 0 : response->body_count;
    request->iov = request->iov_inline;
    if (count + 1 > INLINE_IOVS) {
        request->iov = malloc((count + 1) * sizeof *request->iov);
        if (!request->iov) {
            request->iov = request->iov_inline;
            return false;
        }
    }
    if (count > 0)
        memcpy(request->iov + 1, response->body, count * sizeof *response->body);
    request->iov_next = 0;
    request->iov_count = count + 1;
    return true;
}

static size_t body_bytes(const http_response_t *response)
{
    size_t sum = 0;
    for (size_t i = 0; i < response->body_count; i++)
        sum += response->body[i].iov_len;
    return sum;
}

/* True when the answer may leave now. */
static bool answer(http_request_t *request, const http_response_t *response)
{
    http_server_t *server = request->server;
    http_connection_t *connection = request->connection;
    if (request->handed)
        server->owed--;
    request->answered = true;
    request->release = response->release;
    request->release_arg = response->release_arg;
    if (!connection) {
        server->counters.responses[0]++;
        request_release(request);
        request_recycle(request);
        server_check_stopped(server);
        return false;
    }
    request->status = response->status;
    request->close = must_close(request, response);
    if (request->close)
        connection->no_more = true;
    if (!place_body(request, response) || !write_head(request, response, body_bytes(response))) {
        connection->broken = true;
        server_defer(server, connection);
        return false;
    }
    return true;
}

static void send_now(http_request_t *request)
{
    request->iov[0] = (struct iovec){request->head.data, request->head.len};
    if (!request->connection->corked)
        connection_flush(request->connection);
}

void http_respond(http_request_t *request, const http_response_t *response)
{
    if (answer(request, response))
        send_now(request);
}

void http_respond_copy(http_request_t *request, int status, const char *content_type,
                       const char *extra_headers, const void *body, size_t len_bytes)
{
    struct iovec piece = {(void *)(uintptr_t)body, len_bytes};
    http_response_t response = {.status = status,
                                .content_type = content_type,
                                .extra_headers = extra_headers,
                                .body = &piece,
                                .body_count = 1};
    if (!answer(request, &response))
        return;
    bool silent = request->iov_count == 1;
    request->iov_count = 1; /* the copy follows the head in the same buffer */
    if (!silent && !textbuf_add(&request->head, body, len_bytes)) {
        request->connection->broken = true;
        server_defer(request->server, request->connection);
        return;
    }
    send_now(request);
}

void http_respond_error(http_request_t *request, int status, const char *extra_headers, const char *fmt, ...)
{
    char text[ERR_TEXT_BYTES * 2], json[sizeof text * 6 + 32];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    size_t n = (size_t)snprintf(json, sizeof json, "{\"error\":\"");
    for (const char *at = text; *at; at++) {
        unsigned char c = (unsigned char)*at;
        if (c == '"' || c == '\\')
            n += (size_t)snprintf(json + n, sizeof json - n, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f) /* bytes as Latin-1: bad UTF-8 from outside stays valid JSON */
            n += (size_t)snprintf(json + n, sizeof json - n, "\\u%04x", c);
        else
            json[n++] = (char)c;
    }
    memcpy(json + n, "\"}", 2);
    http_respond_copy(request, status, "application/json", extra_headers, json, n + 2);
}

void http_respond_err(http_request_t *request, const err_t *err)
{
    http_respond_error(request, status_to_http(err->code), NULL, "%s", err->text);
}

/* ------------------------------------------------------------------ writing */

static size_t gather(const http_connection_t *connection, uv_buf_t bufs[WRITE_IOVS_MAX], size_t *bytes)
{
    size_t count = 0;
    *bytes = 0;
    for (const http_request_t *r = connection->first; r && r->answered; r = r->next) {
        for (size_t i = r->iov_next; i < r->iov_count && count < WRITE_IOVS_MAX; i++) {
            if (r->iov[i].iov_len == 0)
                continue;
            size_t len = r->iov[i].iov_len < 1u << 30 ? r->iov[i].iov_len : 1u << 30;
            bufs[count++] = uv_buf_init(r->iov[i].iov_base, (unsigned)len);
            *bytes += len;
            if (len < r->iov[i].iov_len)
                return count;
        }
        if (r->close)
            break;
    }
    return count;
}

/* Moves the answer on by up to *bytes; true when all of it is out. */
static bool advance(http_request_t *request, size_t *bytes)
{
    while (request->iov_next < request->iov_count) {
        struct iovec *iov = &request->iov[request->iov_next];
        if (*bytes < iov->iov_len) {
            iov->iov_base = (char *)iov->iov_base + *bytes;
            iov->iov_len -= *bytes;
            *bytes = 0;
            return false;
        }
        *bytes -= iov->iov_len;
        request->iov_next++;
    }
    return true;
}

static void finish_request(http_connection_t *connection)
{
    http_request_t *request = queue_pop(connection);
    http_server_t *server = connection->server;
    request->sent = true;
    server->counters.responses[request->status >= 100 && request->status < 600 ? request->status / 100 : 0]++;
    request_release(request);
    connection->active_ms = uv_now(server->loop);
    if (request->complete)
        request_recycle(request); /* else it is `current`, and the parser throws its body away */
    if (connection->parser_paused)
        server_defer(server, connection);
}

/* Takes written bytes off the queue; true when an answer with `close` has gone out. */
static bool consume(http_connection_t *connection, size_t bytes)
{
    connection->server->counters.bytes_out += bytes;
    while (connection->first && connection->first->answered && advance(connection->first, &bytes)) {
        bool close = connection->first->close;
        finish_request(connection);
        if (close)
            return true;
    }
    return false;
}

/* The last answer is out. Requests behind it are told later, not from within somebody's http_respond. */
static void connection_end(http_connection_t *connection)
{
    connection->no_more = true;
    if (connection->pending > 0) {
        connection->broken = true;
        server_defer(connection->server, connection);
    } else if (connection->drain_input || connection->current) {
        connection_linger(connection);
    } else {
        connection_close(connection);
    }
}

static void on_written(uv_write_t *write, int rc)
{
    http_connection_t *connection = write->data;
    connection->writing = false;
    if (connection->state == CONNECTION_CLOSED)
        return;
    if (rc < 0) {
        connection_close(connection);
        return;
    }
    if (connection->ending || consume(connection, connection->write_left))
        connection_end(connection);
    else
        connection_flush(connection);
}

static void send_continue(http_connection_t *connection)
{
    static char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    http_request_t *request = connection->first;
    if (!request || request->answered || !request->continue_wanted)
        return;
    request->continue_wanted = false;
    if (request->body_len > 0)
        return;
    uv_buf_t buf = uv_buf_init(line, sizeof line - 1);
    if (connection->tls) {
        const struct iovec piece = {line, sizeof line - 1};
        tls_session_write(connection->tls, &piece, 1, SIZE_MAX);
        return;
    }
    int rc = uv_try_write((uv_stream_t *)&connection->tcp, &buf, 1);
    if (rc != (int)buf.len) { /* a socket that cannot take 25 bytes at the start of an answer */
        connection->broken = true;
        server_defer(connection->server, connection);
    }
}

/* A blocked socket: libuv writes the rest. */
static void write_rest(http_connection_t *connection)
{
    uv_buf_t bufs[WRITE_IOVS_MAX];
    size_t count = gather(connection, bufs, &connection->write_left);
    connection->write.data = connection;
    connection->write_ms = uv_now(connection->server->loop);
    connection->write_seen = connection->write_left;
    connection->writing = true;
    if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, bufs, (unsigned)count, on_written) !=
        0) {
        connection->writing = false;
        connection->broken = true;
        server_defer(connection->server, connection);
    }
}

static void flush_plain(http_connection_t *connection)
{
    while (connection->state == CONNECTION_OPEN && !connection->writing && !connection->broken) {
        uv_buf_t bufs[WRITE_IOVS_MAX];
        size_t bytes, count = gather(connection, bufs, &bytes);
        if (count == 0) {
            send_continue(connection);
            break;
        }
        int rc = uv_try_write((uv_stream_t *)&connection->tcp, bufs, (unsigned)count);
        if (rc < 0 && rc != UV_EAGAIN) {
            connection->broken = true;
            server_defer(connection->server, connection);
            return;
        }
        if (consume(connection, rc > 0 ? (size_t)rc : 0)) {
            connection_end(connection);
            return;
        }
        if (rc < 0 || (size_t)rc < bytes)
            write_rest(connection);
    }
}

/* A blocked socket: what is encrypted leaves the session, which may go on, and is written by libuv. */
static void write_encrypted(http_connection_t *connection)
{
    size_t len;
    const uint8_t *out = tls_session_output(connection->tls, &len);
    uint8_t *copy = malloc(len);
    if (copy) {
        memcpy(copy, out, len);
        tls_session_output_sent(connection->tls, len);
        free(connection->flight);
        connection->flight = copy;
        uv_buf_t buf = uv_buf_init((char *)copy, (unsigned)len);
        connection->write.data = connection;
        connection->write_ms = uv_now(connection->server->loop);
        connection->write_left = 0; /* of answers: they count as sent once they are encrypted */
        connection->write_seen = len;
        connection->writing = true;
        if (uv_write(&connection->write, (uv_stream_t *)&connection->tcp, &buf, 1, on_written) == 0)
            return;
    }
    connection->writing = false;
    connection->broken = true;
    server_defer(connection->server, connection);
}

/* The next step of the answers into the session; false: there is none. */
static bool encrypt(http_connection_t *connection)
{
    uv_buf_t bufs[WRITE_IOVS_MAX];
    size_t bytes, count = gather(connection, bufs, &bytes);
    if (count == 0)
        return false;
    struct iovec pieces[WRITE_IOVS_MAX];
    for (size_t i = 0; i < count; i++)
        pieces[i] = (struct iovec){bufs[i].base, bufs[i].len};
    size_t taken = tls_session_write(connection->tls, pieces, count, SECURE_STEP_BYTES);
    if (taken == 0) {
        connection->broken = true;
        server_defer(connection->server, connection);
    }
    connection->ending = consume(connection, taken);
    return taken > 0;
}

static void flush_secure(http_connection_t *connection)
{
    bool more = true;
    while (connection->state == CONNECTION_OPEN && !connection->writing && !connection->broken && more) {
        more = !connection->ending && encrypt(connection);
        if (!more && !connection->ending)
            send_continue(connection);
        if (connection->broken)
            return;
        if (!secure_push(connection) && !connection->broken)
            write_encrypted(connection);
        else if (connection->ending && !connection->broken)
            connection_end(connection);
    }
}

void connection_flush(http_connection_t *connection)
{
    if (connection->tls)
        flush_secure(connection);
    else
        flush_plain(connection);
    if (connection->state != CONNECTION_OPEN)
        return;
    /* The last answer may have been made before the stop, and then it did not say `close`. */
    if (connection->server->stopping && !connection->writing && !connection->broken &&
        connection_is_idle(connection))
        connection_close(connection);
    else
        connection_arm_timer(connection);
}
