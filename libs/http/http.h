/*
 * Words shared by the HTTP/1.1 server and client: methods, statuses, limits.
 */
#ifndef HTTP_HTTP_H
#define HTTP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum {
    HTTP_METHOD_GET,
    HTTP_METHOD_HEAD,
    HTTP_METHOD_POST,
    HTTP_METHOD_PUT,
    HTTP_METHOD_DELETE,
    HTTP_METHOD_OPTIONS,
    HTTP_METHOD_PATCH,
    HTTP_METHOD_OTHER, /* known to the parser, never routable */
} http_method_t;

const char *http_method_name(http_method_t method);

/* "Not Found"; "Unknown" for a status without a name. */
const char *http_status_text(int status);

enum {
    HTTP_HEADERS_MAX = 64, /* header lines of one message; stock clients send fewer than 15 */
    HTTP_PARAMS_MAX = 4,   /* {name} segments of one route */
};

#endif
