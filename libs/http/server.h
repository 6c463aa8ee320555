/*
 * HTTP/1.1 server on a libuv loop: keep-alive, pipelining (answers leave in the order of the requests),
 * chunked and fixed-length bodies, Expect: 100-continue, limits and slow-client time-outs.
 *
 * Everything here runs on the thread of the loop. A request is handed to the handler of its route and must be
 * answered exactly once with one of the http_respond functions, at once or later; also after on_close, when
 * the answer is thrown away. The request object is dead once it has been answered.
 *
 * Hot path: a request whose message arrives in one read costs one read(2) and one writev(2) and allocates
 * nothing (request objects and their header buffers are recycled).
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "base/status.h"
#include "http/http.h"
#include "tls/context.h"

#include <sys/uio.h>
#include <uv.h>

typedef struct http_server http_server_t;
typedef struct http_request http_request_t;

/* ------------------------------------------------------------------ handlers and routes */

/*
 * What a route does. Only on_request is needed. The order is on_headers, on_body …, on_request; on_close at
 * any time between on_headers and the answer.
 */
typedef struct {
    /*
     * The headers are in, the body is not. May name the place of the body (http_request_set_body_buffer) or
     * refuse by answering, after which nothing but the discarding of the body follows.
     */
    void (*on_headers)(http_request_t *request, void *user);
    /* Streams the body instead of collecting it; data is valid during the call. */
    void (*on_body)(http_request_t *request, const void *data, size_t len_bytes, void *user);
    /* The whole message is in. */
    void (*on_request)(http_request_t *request, void *user);
    /* The client is gone (or a stop ran out of patience) and the request is not answered: cancel the work,
     * then answer. */
    void (*on_close)(http_request_t *request, void *user);
} http_handler_ops_t;

typedef struct {
    http_method_t method; /* a GET route serves HEAD too */
    /* "/v2/models/{model}/infer": a {name} matches one non-empty segment, percent-decoded */
    const char *pattern;
    const http_handler_ops_t *ops;
    void *user;
} http_route_t;

/* ------------------------------------------------------------------ server */

/* Zero in any field but `listen` takes the default in the comment. */
typedef struct {
    const char *listen;       /* "0.0.0.0:8000", "[::]:0", "localhost:8000"; port 0 picks a free one */
    int backlog;              /* 1024 */
    bool reuse_port;          /* SO_REUSEPORT: several processes on one port */
    unsigned connections_max; /* 4096; one more gets 503 and is closed */
    unsigned pipeline_max;    /* 16 requests of one connection in work; then its socket is not read */
    size_t header_bytes_max;  /* 16 KiB of request line and headers; 431 */
    uint64_t body_bytes_max;  /* 64 MiB; 413 */
    /* 10,000 from the first byte of a request to the end of its headers; 408. Also from the connection to the end of TLS's handshake. */
    uint32_t header_timeout_ms;
    uint32_t body_timeout_ms;  /* 20,000 for every 64 KiB (or the rest) of a body; 408 */
    uint32_t idle_timeout_ms;  /* 120,000 between requests; closed */
    uint32_t write_timeout_ms; /* 20,000 without the client taking any byte of an answer; closed */
    /*
     * Asked of each request that has a route, once its headers are in and before its handler hears of it. False: it was refused, by
     * answering it; its body is thrown away. NULL: all are admitted.
     */
    bool (*admit)(http_request_t *request, void *user);
    void *admit_user;
    tls_context_t *tls; /* a server's; outlives it. NULL: plain */
} http_server_config_t;

/* Binds and listens; connections are served as soon as the loop runs. Routes are copied, patterns and ops are
 * not. */
status_t http_server_create(uv_loop_t *loop, const http_server_config_t *config, const http_route_t *routes,
                            size_t route_count, http_server_t **server, err_t *err);

/* "127.0.0.1:41234": the address with the real port. Lives as long as the server. */
const char *http_server_address(const http_server_t *server);
uint16_t http_server_port(const http_server_t *server);

/* From now on each answer that is the last of its connection says that it is (Connection: close); it is served and accepts as before. */
void http_server_part(http_server_t *server);

/*
 * Stops accepting, closes idle connections, lets running requests be answered (with Connection: close) for up
 * to grace_ms, then closes what is left (on_close). done comes once, from the loop, when no connection and no
 * unanswered request is left; then http_server_destroy may be called. Calling it again only shortens the
 * grace.
 */
typedef void (*http_server_stopped_fn)(http_server_t *server, void *user);
void http_server_stop(http_server_t *server, uint32_t grace_ms, http_server_stopped_fn done, void *user);

/*
 * After done; NULL is fine. Without a stop (a start that failed half-way) everything is closed now, requests
 * that are not answered are lost, and the memory is freed when the loop has turned once more.
 */
void http_server_destroy(http_server_t *server);

typedef struct {
    uint64_t connections_open;
    uint64_t connections_total;
    uint64_t connections_refused;
    uint64_t tls_refused;    /* whose handshake, or anything else of TLS, failed */
    uint64_t requests_total; /* whole headers seen */
    uint64_t responses[6];   /* by hundreds: [2] = 2xx; [0] = never sent, the client was gone */
    uint64_t bytes_in, bytes_out;
} http_server_counters_t;
const http_server_counters_t *http_server_counters(const http_server_t *server);

/* ------------------------------------------------------------------ the request */

const char *http_request_path(const http_request_t *request); /* raw, without the query */
const char *
http_request_query(const http_request_t *request); /* raw, behind the '?'; "" when there is none */
/* Value of a header, by case-insensitive name; NULL when it is absent. The first one if it comes twice. */
const char *http_request_header(const http_request_t *request, const char *name);
/* True when it comes twice, with the same value or another. */
bool http_request_header_repeats(const http_request_t *request, const char *name);
/* Value of a {name} segment of the route, decoded; NULL when the route has no such segment. */
const char *http_request_param(const http_request_t *request, const char *name);
/* Which route it has: its place in the table of http_server_create. */
size_t http_request_route(const http_request_t *request);
http_method_t http_request_method(const http_request_t *request);
/* "127.0.0.1:43210"; "" when the client is gone. */
const char *http_request_peer(const http_request_t *request);
/* The role (tls/role.h) of the certificate that the client has shown; "": none, or the client is gone. */
const char *http_request_peer_role(const http_request_t *request);
/* -1 when the body is chunked. */
int64_t http_request_content_length(const http_request_t *request);

/*
 * The collected body (not with on_body). Valid until on_request returns, unless http_request_keep_body was
 * called (or the handler gave the buffer): then until the answer has been sent.
 */
const uint8_t *http_request_body(const http_request_t *request, size_t *len_bytes);
status_t http_request_keep_body(http_request_t *request);

/*
 * In on_headers, with a known Content-Length (≥ 0) of at most cap_bytes: the body is received straight into
 * buf, which must live until the request is answered.
 */
void http_request_set_body_buffer(http_request_t *request, void *buf, size_t cap_bytes);

/* Room of the handler, NULL at first. */
void http_request_set_context(http_request_t *request, void *context);
void *http_request_context(const http_request_t *request);
/* Who sends it, as admit found; for the handler, NULL at first. */
void http_request_set_caller(http_request_t *request, void *caller);
void *http_request_caller(const http_request_t *request);

/* ------------------------------------------------------------------ the answer */

typedef struct {
    int status;
    const char *content_type;  /* NULL: none */
    const char *extra_headers; /* NULL or whole lines, each with its "\r\n" */
    const struct iovec *body;  /* pieces are sent as they are, not copied; the array itself is copied */
    size_t body_count;
    bool close;                 /* close the connection afterwards */
    void (*release)(void *arg); /* the pieces may be freed; called once, always, NULL for none */
    void *release_arg;
} http_response_t;

/*
 * Sends the answer (Content-Length is added; the body is left out for HEAD and 204/304). From the loop
 * thread. release is called as soon as the kernel has taken all bytes, or when the client is gone; possibly
 * before this returns.
 */
void http_respond(http_request_t *request, const http_response_t *response);

/* The body is copied. */
void http_respond_copy(http_request_t *request, int status, const char *content_type,
                       const char *extra_headers, const void *body, size_t len_bytes);

/* {"error": "…"} with the text escaped; extra_headers may be NULL. */
void http_respond_error(http_request_t *request, int status, const char *extra_headers, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* The same from a status_t and its text, with the status of DESIGN.md 2.7. */
void http_respond_err(http_request_t *request, const err_t *err);

#endif
