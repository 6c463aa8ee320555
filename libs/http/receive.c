/*
 * From bytes to requests: the parser's callbacks and the placing of bodies. Hot path: nothing is allocated
 * for a message that fits into one read.
 *
 * A callback that wants to stop the parser notes why in fail_status and returns HPE_USER; the answer is made
 * after the parser has returned, so that no connection changes its state under the parser's feet.
 */
#include "http/internal.h"
#include "http/url.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static int stop_parser(http_connection_t *connection, int status, const char *text)
{
    connection->stopped = true;
    connection->fail_status = status;
    connection->fail_text = text;
    return HPE_USER;
}

/* ------------------------------------------------------------------ request line and headers */

static int on_message_begin(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    connection->current = request_create(connection->server, connection);
    if (!connection->current)
        return stop_parser(connection, 503, "no memory for one more request");
    connection->receive_ms = uv_now(connection->server->loop);
    return 0;
}

static int add_text(llhttp_t *parser, const char *at, size_t len, int too_large_status)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    size_t limit = connection->server->config.header_bytes_max;
    if (request->headers_done) { /* trailers are read and ignored */
        request->trailer_bytes += len;
        return request->trailer_bytes > limit ? stop_parser(connection, 431, "the trailers are too large")
                                              : 0;
    }
    if (request->text.len + len + 4 > limit)
        return stop_parser(connection, too_large_status,
                           too_large_status == 414 ? "the request target is too long"
                                                   : "the headers are too large");
    if (!textbuf_add(&request->text, at, len))
        return stop_parser(connection, 503, "no memory for the headers");
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    return add_text(parser, at, len, 414);
}

static int on_header_text(llhttp_t *parser, const char *at, size_t len)
{
    return add_text(parser, at, len, 431);
}

static int on_url_complete(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    int rc = add_text(parser, "", 1, 414);
    connection->current->headers[0].name = (uint32_t)connection->current->text.len;
    return rc;
}

static int on_header_field_complete(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    if (request->headers_done)
        return 0;
    if (request->header_count == HTTP_HEADERS_MAX)
        return stop_parser(connection, 431, "too many header lines");
    uint32_t name = request->headers[request->header_count].name;
    if (memchr(request->text.data + name, ' ', request->text.len - name))
        return stop_parser(connection, 400, "malformed HTTP: the name of a header has a space");
    int rc = on_header_text(parser, "", 1);
    request->headers[request->header_count].value = (uint32_t)request->text.len;
    return rc;
}

static int on_header_value_complete(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    if (request->headers_done)
        return 0;
    uint32_t value = request->headers[request->header_count].value;
    while (request->text.len > value && strchr(" \t", request->text.data[request->text.len - 1]))
        request->text.len--;
    int rc = on_header_text(parser, "", 1);
    request->header_count++;
    if (request->header_count < HTTP_HEADERS_MAX)
        request->headers[request->header_count].name = (uint32_t)request->text.len;
    return rc;
}

static int on_method_complete(llhttp_t *parser)
{
    static const struct {
        uint8_t llhttp;
        http_method_t ours;
    } methods[] = {{HTTP_GET, HTTP_METHOD_GET},       {HTTP_POST, HTTP_METHOD_POST},
                   {HTTP_HEAD, HTTP_METHOD_HEAD},     {HTTP_PUT, HTTP_METHOD_PUT},
                   {HTTP_DELETE, HTTP_METHOD_DELETE}, {HTTP_OPTIONS, HTTP_METHOD_OPTIONS},
                   {HTTP_PATCH, HTTP_METHOD_PATCH}};
    http_connection_t *connection = parser->data;
    connection->current->method = HTTP_METHOD_OTHER;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].llhttp == parser->method)
            connection->current->method = methods[i].ours;
    return 0;
}

/* Leaves path and query as offsets of terminated texts; takes the absolute form ("http://host/path") too. */
static void split_target(http_request_t *request)
{
    char *url = request->text.data;
    uint32_t path = 0;
    char *scheme = *url != '/' ? strstr(url, "://") : NULL;
    if (scheme)
        path = (uint32_t)(scheme - url) + 3 + (uint32_t)strcspn(scheme + 3, "/");
    size_t len = strcspn(url + path, "?#");
    uint32_t end = path + (uint32_t)len;
    request->path = path;
    request->query = end + (url[end] == '?');
    url[end] = '\0';
    char *fragment = strchr(url + request->query, '#');
    if (fragment)
        *fragment = '\0';
}

/* What the parser lets through and a server should not. 0, or the status to refuse with. */
static int check_headers(http_connection_t *connection, http_request_t *request)
{
    const llhttp_t *parser = &connection->parser;
    unsigned hosts = 0;
    if (parser->http_major != 1)
        return stop_parser(connection, 505, "only HTTP/1.0 and HTTP/1.1 are served here");
    for (unsigned i = 0; i < request->header_count; i++) {
        const char *name = request->text.data + request->headers[i].name;
        const char *value = request->text.data + request->headers[i].value;
        if (strcasecmp(name, "host") == 0)
            hosts++;
        else if (strcasecmp(name, "transfer-encoding") == 0 && request->http10)
            return stop_parser(connection, 400, "HTTP/1.0 has no Transfer-Encoding");
        else if (strcasecmp(name, "transfer-encoding") == 0 && strcasecmp(value, "chunked") != 0)
            return stop_parser(connection, 501, "the only Transfer-Encoding served here is chunked");
        else if (strcasecmp(name, "expect") == 0 && strcasecmp(value, "100-continue") != 0)
            return stop_parser(connection, 417, "the only Expect served here is 100-continue");
        else if (strcasecmp(name, "expect") == 0)
            request->continue_wanted = !request->http10;
    }
    if (hosts > 1 || (hosts == 0 && !request->http10))
        return stop_parser(connection, 400, "exactly one Host header is needed");
    return 0;
}

/* ------------------------------------------------------------------ routing */

static bool decode_params(http_request_t *request, const router_span_t *spans)
{
    size_t count = request->route->param_count, from[HTTP_PARAMS_MAX];
    for (size_t i = 0; i < count; i++) /* as offsets, since the text may move */
        from[i] = (size_t)(spans[i].text - request->text.data);
    for (size_t i = 0; i < count; i++) {
        if (!textbuf_reserve(&request->text, spans[i].len + 1))
            return false;
        char *out = request->text.data + request->text.len;
        if (url_decode(request->text.data + from[i], spans[i].len, out, spans[i].len + 1) != STATUS_OK)
            return false;
        request->params[i] = (uint32_t)request->text.len;
        request->text.len += strlen(out) + 1;
    }
    return true;
}

static void route_request(http_connection_t *connection, http_request_t *request)
{
    http_server_t *server = connection->server;
    router_span_t spans[HTTP_PARAMS_MAX];
    char allow_text[64];
    const char *allow;
    request->route =
        router_find(server->router, request->method, http_request_path(request), spans, allow_text, &allow);
    if (!request->route) {
        char header[96] = "";
        if (allow)
            snprintf(header, sizeof header, "Allow: %s\r\n", allow);
        http_respond_error(request, allow ? 405 : 404, header, "%s %s is not served here",
                           llhttp_method_name(connection->parser.method), http_request_path(request));
    } else if (!decode_params(request, spans)) {
        http_respond_error(request, 400, NULL, "the path has a broken percent escape");
    } else if (request->content_length > 0 &&
               (uint64_t)request->content_length > server->config.body_bytes_max) {
        request->close = true;
        http_respond_error(request, 413, NULL, "the body of %lld bytes is over the limit of %llu",
                           (long long)request->content_length,
                           (unsigned long long)server->config.body_bytes_max);
    }
}

static void hand(http_request_t *request)
{
    if (!request->handed)
        request->server->owed++;
    request->handed = true;
}

static bool is_admitted(http_request_t *request)
{
    const http_server_config_t *config = &request->server->config;
    return !config->admit || config->admit(request, config->admit_user);
}

static int on_headers_complete(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    parser->upgrade = 0; /* an upgrade may be declined by just answering */
    request->http10 = parser->http_major == 1 && parser->http_minor == 0;
    request->keep_alive = llhttp_should_keep_alive(parser);
    request->content_length = parser->flags & F_CHUNKED            ? -1
                              : parser->content_length > INT64_MAX ? INT64_MAX
                                                                   : (int64_t)parser->content_length;
    split_target(request);
    int refused = check_headers(connection, request);
    if (refused)
        return refused;
    request->headers_done = true;
    connection->receive_ms = uv_now(connection->server->loop);
    connection->receive_step = 0;
    connection->server->counters.requests_total++;
    queue_push(connection, request);
    route_request(connection, request);
    if (!request->answered && !is_admitted(request))
        return connection->no_more ? stop_parser(connection, 0, NULL) : 0;
    if (!request->answered && request->route->route.ops->on_headers) {
        hand(request);
        request->route->route.ops->on_headers(request, request->route->route.user);
    }
    return connection->no_more ? stop_parser(connection, 0, NULL) : 0;
}

/* ------------------------------------------------------------------ body */

static bool body_grow(http_request_t *request, size_t need)
{
    if (request->owned_cap < need) {
        size_t cap = request->owned_cap * 2 > need ? request->owned_cap * 2 : need;
        if (request->content_length > 0 && cap > (size_t)request->content_length)
            cap = (size_t)request->content_length > need ? (size_t)request->content_length : need;
        uint8_t *owned = realloc(request->owned, cap);
        if (!owned)
            return false;
        request->owned = owned;
        request->owned_cap = cap;
    }
    request->body = request->owned;
    request->body_cap = request->owned_cap;
    request->body_place = BODY_OWNED;
    return true;
}

static bool body_add(http_request_t *request, const char *at, size_t len)
{
    if (request->body && (const uint8_t *)at == request->body + request->body_len) {
        request->body_len += len; /* received in place */
        return true;
    }
    if (request->body_place == BODY_NONE && (int64_t)len == request->content_length) {
        request->body = (uint8_t *)(uintptr_t)at;
        request->body_place = BODY_IN_READ_BUFFER;
        request->body_len = len;
        return true;
    }
    if (request->body_len + len > request->body_cap && !body_grow(request, request->body_len + len))
        return false;
    memcpy(request->body + request->body_len, at, len);
    request->body_len += len;
    return true;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    const compiled_route_t *route = request->route;
    if (request->body_len + len > connection->server->config.body_bytes_max && !request->answered)
        return stop_parser(connection, 413, "the body is over the limit");
    if (request->answered) {
        request->body_len += len;
    } else if (route->route.ops->on_body) {
        request->body_len += len;
        hand(request);
        route->route.ops->on_body(request, at, len, route->route.user);
    } else if (!body_add(request, at, len)) {
        return stop_parser(connection, 503, "no memory for the body");
    }
    if (request->body_len - connection->receive_step >= BODY_STEP_BYTES) {
        connection->receive_step = request->body_len;
        connection->receive_ms = uv_now(connection->server->loop);
    }
    return connection->no_more ? stop_parser(connection, 0, NULL) : 0;
}

/* A body of known length is read straight to its place. */
uv_buf_t receive_buffer(http_connection_t *connection)
{
    http_server_t *server = connection->server;
    http_request_t *request = connection->current;
    if (connection->state == CONNECTION_OPEN && !connection->no_more && request && request->headers_done &&
        !request->answered && request->content_length > (int64_t)request->body_len &&
        !request->route->route.ops->on_body) {
        size_t left = (size_t)request->content_length - request->body_len;
        bool ours = request->body_place == BODY_NONE || request->body_place == BODY_OWNED;
        if (ours && request->body_len == request->body_cap) {
            size_t step = left < BODY_STEP_BYTES ? left : BODY_STEP_BYTES;
            if (!body_grow(request, request->body_len + step))
                left = 0;
        }
        size_t room = request->body_cap - request->body_len;
        if (left > 0 && room > 0)
            return uv_buf_init((char *)request->body + request->body_len,
                               (unsigned)(left < room ? left : room));
    }
    return uv_buf_init((char *)server->read_buffer, READ_BUFFER_BYTES);
}

static int on_message_complete(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    http_request_t *request = connection->current;
    connection->current = NULL;
    request->complete = true;
    request->continue_wanted = false;
    if (!request->keep_alive)
        connection->no_more = true;
    if (request->answered && request->sent) {
        request_recycle(request);
    } else if (!request->answered) {
        hand(request);
        request->route->route.ops->on_request(request, request->route->route.user);
    }
    connection->head = HEAD_BEFORE;
    return HPE_PAUSED; /* the next head is looked at before it is parsed */
}

/* Behind the last chunk, of no bytes, are the trailers. */
static int on_chunk_header(llhttp_t *parser)
{
    http_connection_t *connection = parser->data;
    if (parser->content_length > 0)
        return 0;
    connection->head = HEAD_START;
    return HPE_PAUSED;
}

void receive_settings(llhttp_settings_t *settings)
{
    llhttp_settings_init(settings);
    settings->on_message_begin = on_message_begin;
    settings->on_url = on_url;
    settings->on_url_complete = on_url_complete;
    settings->on_method_complete = on_method_complete;
    settings->on_header_field = on_header_text;
    settings->on_header_field_complete = on_header_field_complete;
    settings->on_header_value = on_header_text;
    settings->on_header_value_complete = on_header_value_complete;
    settings->on_headers_complete = on_headers_complete;
    settings->on_body = on_body;
    settings->on_chunk_header = on_chunk_header;
    settings->on_message_complete = on_message_complete;
}

/* ------------------------------------------------------------------ driving the parser */

/* Takes the place of the last request of the queue, whose handler is told that nobody waits any more. */
static http_request_t *replace_last(http_connection_t *connection)
{
    http_request_t *old = connection->last;
    http_request_t *made = request_create(connection->server, connection);
    if (!made)
        return NULL;
    if (connection->first == old) {
        connection->first = made;
    } else {
        http_request_t *before = connection->first;
        while (before->next != old)
            before = before->next;
        before->next = made;
    }
    connection->last = made;
    request_orphan(old);
    return made;
}

void receive_fail(http_connection_t *connection, int status, const char *text)
{
    http_request_t *request = connection->current;
    connection->current = NULL;
    connection->no_more = connection->drain_input = true;
    if (request && request->answered) { /* it has its answer; only the rest of its body is bad */
        request->complete = request->close = true;
        if (request->sent) {
            request_recycle(request);
            connection_linger(connection);
        }
        return;
    }
    if (request && request->handed) {
        request = replace_last(connection);
    } else if (!request || !request->headers_done) {
        if (!request)
            request = request_create(connection->server, connection);
        if (request)
            queue_push(connection, request);
    }
    if (!request) {
        connection->broken = true;
        server_defer(connection->server, connection);
        return;
    }
    request->complete = request->close = true;
    http_respond_error(request, status, NULL, "%s", text);
}

/* Puts aside what is not parsed yet; it may be the rest of what was put aside before. */
static void stash_input(http_connection_t *connection, const uint8_t *data, size_t len)
{
    uv_read_stop((uv_stream_t *)&connection->tcp);
    if (connection->stash) {
        connection->stash_at = connection->stash_len - len;
        return;
    }
    connection->stash_at = connection->stash_len = 0;
    if (len == 0)
        return;
    connection->stash = malloc(len);
    if (!connection->stash) {
        connection->broken = true;
        server_defer(connection->server, connection);
        return;
    }
    memcpy(connection->stash, data, len);
    connection->stash_len = len;
}

static void stopped_by_callback(http_connection_t *connection)
{
    if (connection->fail_status != 0)
        receive_fail(connection, connection->fail_status, connection->fail_text);
    /* answered with close before the body was in */
    else
        connection->drain_input = true;
}

/* The parser shall have these bytes. */
static bool look_at_head(http_connection_t *connection, const uint8_t *data, size_t len)
{
    char text[128];
    const char *wrong = head_scan(&connection->head, data, len);
    if (!wrong)
        return true;
    snprintf(text, sizeof text, "malformed HTTP: %s", wrong);
    receive_fail(connection, 400, text);
    return false;
}

/* Why the parser has stopped for good. */
static void stopped_by_parser(http_connection_t *connection, llhttp_errno_t rc)
{
    char text[128];
    if (connection->stopped) {
        stopped_by_callback(connection);
    } else if (rc == HPE_PAUSED_H2_UPGRADE) {
        receive_fail(connection, 505, "only HTTP/1.0 and HTTP/1.1 are served here");
    } else {
        snprintf(text, sizeof text, "malformed HTTP: %s", llhttp_get_error_reason(&connection->parser));
        receive_fail(connection, 400, text);
    }
}

/* At the end of a message, or before its trailers. False: the rest waits. */
static bool go_on(http_connection_t *connection, const uint8_t *data, size_t len)
{
    llhttp_resume(&connection->parser);
    if (connection->no_more) {
        connection->drain_input = len > 0;
    } else if (!connection->current && connection->pending >= connection->server->config.pipeline_max) {
        connection->parser_paused = true;
        stash_input(connection, data, len);
        return false;
    }
    return true;
}

void connection_parse(http_connection_t *connection, const uint8_t *data, size_t len)
{
    llhttp_t *parser = &connection->parser;
    connection->corked = true;
    while (len > 0 && connection->state == CONNECTION_OPEN && !connection->no_more &&
           look_at_head(connection, data, len)) {
        llhttp_errno_t rc = llhttp_execute(parser, (const char *)data, len);
        if (rc == HPE_OK)
            break;
        if (rc != HPE_PAUSED) {
            stopped_by_parser(connection, rc);
            break;
        }
        const uint8_t *at = (const uint8_t *)llhttp_get_error_pos(parser);
        len -= (size_t)(at - data);
        data = at;
        if (!go_on(connection, data, len))
            break;
    }
    connection->corked = false;
    connection_flush(connection);
}
