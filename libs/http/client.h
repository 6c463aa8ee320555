/*
 * A small HTTP/1.1 client on a libuv loop, for our own tools: keep-alive connections to one server, one call
 * in flight on each. Calls beyond connections_max wait in order, up to waiting_max.
 *
 * Everything here runs on the thread of the loop. done is called exactly once for each accepted call, never
 * from within http_client_call. A kept-alive connection that the server closed before a byte of the answer
 * came is replaced and the call sent again, once; nothing else is retried.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/status.h"
#include "http/http.h"
#include "tls/context.h"

#include <sys/uio.h>
#include <uv.h>

typedef struct http_client http_client_t;

enum { HTTP_BEARER_BYTES = 200 };

/* Zero in any field but `server` takes the default in the comment. */
typedef struct {
    const char *server;          /* "127.0.0.1:8000", "localhost:8000", "http://host:port", "https://…" */
    unsigned connections_max;    /* 64 */
    unsigned waiting_max;        /* 65,536 calls without a connection */
    size_t response_bytes_max;   /* 64 MiB */
    uint32_t connect_timeout_ms; /* 3,000 */
    tls_context_t *tls; /* a client's, which an address "https://…" needs; outlives it. NULL: plain */
    const char *bearer; /* an API key that goes with each request; up to HTTP_BEARER_BYTES; copied */
} http_client_config_t;

/* Resolves the name (blocking); connects with the first call. */
status_t http_client_create(uv_loop_t *loop, const http_client_config_t *config, http_client_t **client,
                            err_t *err);

/* Calls under way end with STATUS_CANCELLED, from the loop; the memory is freed when the last handle is
 * closed. */
void http_client_destroy(http_client_t *client); /* NULL is fine */

typedef struct {
    http_method_t method;
    const char *target;        /* "/v2/models/digits/infer?x=y"; copied */
    const char *content_type;  /* NULL: none; copied */
    const char *extra_headers; /* NULL or whole lines, each with its "\r\n"; copied */
    const struct iovec *body;  /* the bytes must live until done; the array is copied */
    size_t body_count;
    uint32_t timeout_ms; /* from the call to the last byte of the answer; 0 = 60,000 */
} http_client_request_t;

typedef struct http_client_response http_client_response_t; /* valid during done */

/* response is NULL when there was none; err then says why. */
typedef void (*http_client_done_fn)(const http_client_response_t *response, const err_t *err, void *user);

/* STATUS_UNAVAILABLE when too many calls wait (done is not called then). */
status_t http_client_call(http_client_t *client, const http_client_request_t *request,
                          http_client_done_fn done, void *user, err_t *err);

int http_client_response_status(const http_client_response_t *response);
const char *http_client_response_header(const http_client_response_t *response, const char *name);
const uint8_t *http_client_response_body(const http_client_response_t *response, size_t *len_bytes);

#endif
