/* The command line of the gateway (docs/configuration.md). */
#ifndef GATEWAY_OPTIONS_H
#define GATEWAY_OPTIONS_H

#include "config/config.h"
#include "config/exposure.h"
#include "tls/options.h"

typedef struct {
    config_address_t scheduler, http_address, grpc_address, metrics_address, data_address;
    const char *advertise_data_address, *name, *keys, *address_limits, *cluster_secret;
    config_list_t model_limits;
    tls_server_options_t tls;
    tls_cluster_options_t cluster;
    int64_t arena_bytes, max_body_bytes, max_connections, max_requests, preprocess_threads, gateway_threads;
    int64_t drain_timeout, drain_delay, header_timeout, body_timeout, idle_timeout, write_timeout;
    bool reuse_port, client_shared_memory, keep_awake, transfer_spin, insecure;
    int transfer;
    int log_level, log_format;
} gateway_options_t;

extern const config_schema_t gateway_options_schema;

/* By what its ports are protected. */
exposure_guards_t gateway_options_guards(const gateway_options_t *options);

/* Refuses listeners that others reach unprotected (config/exposure.h). */
status_t gateway_options_check(const gateway_options_t *options, err_t *err);

#endif
