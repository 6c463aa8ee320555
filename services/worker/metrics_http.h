/* GET /metrics and GET /health of a service that has no other HTTP. */
#ifndef WORKER_METRICS_HTTP_H
#define WORKER_METRICS_HTTP_H

#include "http/server.h"
#include "metrics/metrics.h"

status_t metrics_http_create(uv_loop_t *loop, const char *listen, metrics_t *metrics, http_server_t **server,
                             err_t *err);

#endif
