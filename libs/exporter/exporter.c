#include "exporter/exporter.h"

/* Scrapers and people; each needs one. */
enum { CONNECTIONS_MAX = 64 };

static void get_metrics(http_request_t *request, void *user)
{
    strbuf_t text;
    strbuf_init(&text, METRICS_TEXT_MAX_BYTES);
    metrics_write(user, &text);
    if (text.failed)
        http_respond_error(request, 503, NULL, "the metrics do not fit into memory");
    else
        http_respond_copy(request, 200, METRICS_CONTENT_TYPE, NULL, text.data, text.len_bytes);
    strbuf_dispose(&text);
}

static void get_health(http_request_t *request, void *user)
{
    (void)user;
    http_respond_copy(request, 200, "text/plain", NULL, "ok\n", 3);
}

status_t exporter_create(uv_loop_t *loop, const char *listen, tls_context_t *tls, metrics_t *metrics,
                         http_server_t **server, err_t *err)
{
    static const http_handler_ops_t metrics_ops = {.on_request = get_metrics};
    static const http_handler_ops_t health_ops = {.on_request = get_health};
    const http_server_config_t config = {.listen = listen, .tls = tls, .connections_max = CONNECTIONS_MAX};
    const http_route_t routes[] = {{HTTP_METHOD_GET, "/metrics", &metrics_ops, metrics},
                                   {HTTP_METHOD_GET, "/health", &health_ops, NULL}};
    return http_server_create(loop, &config, routes, 2, server, err);
}
