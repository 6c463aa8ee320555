/*
 * Finds the route of a request: method and path to handler, by segments. Built once, then read only; any
 * thread.
 */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/server.h"

typedef struct router router_t;

typedef struct {
    http_route_t route;
    size_t index; /* in the table */
    size_t param_count;
    char param_names[HTTP_PARAMS_MAX][24];
} compiled_route_t;

typedef struct {
    const char *text; /* raw, not terminated */
    size_t len;
} router_span_t;

/* Copies the table; STATUS_INVALID_ARGUMENT names a pattern that is none. */
status_t router_create(const http_route_t *routes, size_t count, router_t **router, err_t *err);
void router_destroy(router_t *router);

/*
 * The first route that fits, in the order of the table, with the raw text of its {name} segments. NULL when
 * there is none; *allow is then "GET, HEAD, POST" with what the path would take (in allow_text), or NULL when
 * no route has the path.
 */
const compiled_route_t *router_find(const router_t *router, http_method_t method, const char *path,
                                    router_span_t params[HTTP_PARAMS_MAX], char allow_text[64],
                                    const char **allow);

#endif
