#include "http/router.h"

#include <stdlib.h>
#include <string.h>

struct router {
    size_t count;
    compiled_route_t routes[];
};

/* Collects the names of the {name} segments and checks that the pattern is well formed. */
static bool compile(compiled_route_t *compiled)
{
    const char *at = compiled->route.pattern;
    if (*at != '/')
        return false;
    while (*at == '/') {
        at++;
        size_t len = strcspn(at, "/");
        if (len > 0 && at[0] == '{') {
            if (len < 3 || len - 2 >= sizeof compiled->param_names[0] || at[len - 1] != '}' ||
                compiled->param_count == HTTP_PARAMS_MAX)
                return false;
            memcpy(compiled->param_names[compiled->param_count++], at + 1, len - 2);
        }
        at += len;
    }
    return true;
}

status_t router_create(const http_route_t *routes, size_t count, router_t **router, err_t *err)
{
    router_t *made = calloc(1, sizeof *made + count * sizeof *made->routes);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu routes", count);
    made->count = count;
    for (size_t i = 0; i < count; i++) {
        made->routes[i].index = i;
        const http_handler_ops_t *ops = routes[i].ops;
        made->routes[i].route = routes[i];
        if (!compile(&made->routes[i]) || !ops->on_request ||
            ((ops->on_headers || ops->on_body) && !ops->on_close)) {
            free(made);
            return err_set(err, STATUS_INVALID_ARGUMENT, "route %s is not well formed", routes[i].pattern);
        }
    }
    *router = made;
    return STATUS_OK;
}

void router_destroy(router_t *router)
{
    free(router);
}

static bool path_matches(const compiled_route_t *compiled, const char *path, router_span_t *params)
{
    const char *want = compiled->route.pattern;
    size_t param = 0;
    while (*want == '/' && *path == '/') {
        size_t want_len = strcspn(++want, "/"), path_len = strcspn(++path, "/");
        if (want_len > 0 && want[0] == '{') {
            if (path_len == 0)
                return false;
            params[param++] = (router_span_t){path, path_len};
        } else if (want_len != path_len || memcmp(want, path, want_len) != 0) {
            return false;
        }
        want += want_len;
        path += path_len;
    }
    return *want == '\0' && *path == '\0';
}

static bool method_matches(const compiled_route_t *compiled, http_method_t method)
{
    http_method_t want = compiled->route.method;
    return want == method || (want == HTTP_METHOD_GET && method == HTTP_METHOD_HEAD);
}

static void allow_add(char text[64], http_method_t method)
{
    const char *name = http_method_name(method);
    size_t len = strlen(text);
    if (strstr(text, name) || len + strlen(name) + 3 > 64)
        return;
    if (len > 0) {
        memcpy(text + len, ", ", 2);
        len += 2;
    }
    memcpy(text + len, name, strlen(name) + 1);
}

const compiled_route_t *router_find(const router_t *router, http_method_t method, const char *path,
                                    router_span_t params[HTTP_PARAMS_MAX], char allow_text[64],
                                    const char **allow)
{
    allow_text[0] = '\0';
    *allow = NULL;
    for (size_t i = 0; i < router->count; i++) {
        const compiled_route_t *compiled = &router->routes[i];
        if (!path_matches(compiled, path, params))
            continue;
        if (method_matches(compiled, method))
            return compiled;
        allow_add(allow_text, compiled->route.method);
        if (compiled->route.method == HTTP_METHOD_GET)
            allow_add(allow_text, HTTP_METHOD_HEAD);
        *allow = allow_text;
    }
    return NULL;
}
