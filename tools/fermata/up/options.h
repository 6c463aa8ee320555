/* What `fermata up` is asked to do. */
#ifndef FERMATA_UP_OPTIONS_H
#define FERMATA_UP_OPTIONS_H

#include "config/config.h"

enum { UP_OVERLAP = 2 }; /* of mode */

typedef struct {
    const char *models;
    int engine, mode;
    int64_t gateways, workers, gpus, threads;
    const char *policy, *profile, *overlap_plan;
    const char *host, *keys;
    bool any_port;
    int64_t http, grpc, metrics, data, scheduler_grpc, scheduler_http, worker_metrics;
    bool json, restart;
    bool tls, insecure;
    const char *tls_dir; /* of certificates; made if need be */
    int64_t ready_timeout_ns, grace_ns;
    int log_to; /* log_to_t */
    const char *log_dir, *bin_dir;
    const char *gateway_config, *scheduler_config, *worker_config;
    config_list_t gateway_flags, scheduler_flags, worker_flags;
    int log_level, log_format;
} up_options_t;

extern const config_schema_t up_schema;

/* After config_start: what the table alone cannot say. With any_port, ports that nobody chose become 0. */
status_t up_options_finish(up_options_t *options, const config_t *config, err_t *err);

/* Where neither a flag nor what is passed on names threads: of so many CPUs as many for each device of each worker as there are,
 * at least 1. A mode that runs several jobs side by side has threads enough with one for each. */
void up_options_share(up_options_t *options, uint32_t cpus);

const char *up_engine_name(const up_options_t *options);
const char *up_mode_name(const up_options_t *options);

#endif
