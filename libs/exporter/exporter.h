/*
 * GET /metrics (Prometheus text) and GET /health on a port of their own, for a service whose other ports
 * speak to clients or to nobody. Loop thread only.
 */
#ifndef EXPORTER_EXPORTER_H
#define EXPORTER_EXPORTER_H

#include "http/server.h"
#include "metrics/metrics.h"

/* listen is "host:port", port 0 picks one (http_server_address). metrics outlives the server. STATUS_IO:
 * not to be bound. tls: a server's, which outlives it; NULL: plain. */
status_t exporter_create(uv_loop_t *loop, const char *listen, tls_context_t *tls, metrics_t *metrics,
                         http_server_t **server, err_t *err);

#endif
