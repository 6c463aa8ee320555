/* The command line of `serve`: what its gateway and its worker take, but for what only stands between processes. */
#ifndef SERVE_OPTIONS_H
#define SERVE_OPTIONS_H

#include "gateway/options.h"
#include "worker/options.h"

typedef struct {
    gateway_options_t gateway;
    worker_options_t worker;
    config_address_t metrics_address;
    config_address_t join; /* port 0: by itself */
    /* In a cluster it shows two certificates: as a gateway that of `cluster`, as a worker this. */
    tls_cluster_options_t cluster;
    const char *worker_cert, *worker_key;
    const char *policy, *policy_params;
    bool json;
    int log_to; /* log_to_t */
    const char *log_dir;
    int log_level, log_format;
} serve_options_t;

/* Made at the first call, from the tables of both. */
const config_schema_t *serve_options_schema(void);

/* After config_start: hands the gateway and the worker what has one row for both. Refuses what the table alone cannot say, listeners that
 * others reach unprotected (config/exposure.h) among it. */
status_t serve_options_finish(serve_options_t *options, err_t *err);

#endif
