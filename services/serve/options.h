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
    const char *policy, *policy_params;
    bool json;
    int log_to; /* log_to_t */
    const char *log_dir;
    int log_level, log_format;
} serve_options_t;

/* Made at the first call, from the tables of both. */
const config_schema_t *serve_options_schema(void);

/* Refuses listeners that others reach unprotected (config/exposure.h). */
status_t serve_options_check(const serve_options_t *options, err_t *err);

#endif
