/* The command line of the worker (docs/configuration.md). */
#ifndef WORKER_OPTIONS_H
#define WORKER_OPTIONS_H

#include "config/config.h"
#include "config/exposure.h"
#include "tls/options.h"
#include "worker/models/lifecycle.h"

typedef struct {
    config_address_t scheduler, metrics_address;
    tls_cluster_options_t cluster;
    const char *models, *profile, *name, *device_class, *overlap_plan, *cluster_secret;
    int model_control; /* model_control_t */
    config_list_t load_model;
    int64_t poll_interval;
    int engine;               /* index into model_engines */
    int mode;                 /* model_mode_t */
    char *providers, *loader; /* fermata-loader: "beside", "none", or its path */
    int log_level, log_format;
    int64_t devices, threads, streams, memory_limit, emulated_elements, emulated_max_batch, profile_budget;
    int64_t drain_timeout, load_timeout;
    double emulated_jitter;
    int transfer; /* transfer_choice_t */
    bool pin, profile_cache, transfer_spin, insecure;
} worker_options_t;

extern const config_schema_t worker_options_schema;

/* What the table of options cannot say; NULL: nothing is wrong. */
const char *worker_options_mistake(const worker_options_t *options);

/* Refuses a listener that others reach unprotected (config/exposure.h). */
status_t worker_options_check(const worker_options_t *options, err_t *err);

#endif
