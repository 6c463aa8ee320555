/*
 * The options of fermata-load, one table for flags, environment and file (docs/load-generator.md).
 */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "config/config.h"
#include "load/model.h"
#include "tls/options.h"

typedef struct {
    int protocol; /* protocol_t */
    config_list_t addresses;
    const char *api_key;
    tls_client_options_t tls;
    int64_t connections;
    config_list_t models; /* NAME or NAME:RATE */
    const char *pictures, *picture_input, *input_region;
    config_list_t shapes; /* load/shapes.h */
    int64_t variants, rows, classes;
    double rate;
    int arrivals; /* arrivals_kind_t */
    const char *steps;
    int64_t concurrency;
    int64_t duration_ns, warmup_ns, requests;
    int64_t deadline_ns, timeout_ns;
    int64_t seed;
    bool json;
    const char *results;
    int log_level;
} load_options_t;

extern const config_schema_t load_schema;

typedef struct {
    char name[MODEL_NAME_BYTES];
    double rate_per_s;
    int64_t deadline_ns;
} model_load_t;

/* Splits "NAME:RATE:DEADLINE"; what is not given is left alone, and all of it on a mistake. */
status_t load_parse_model(const char *text, model_load_t *model, err_t *err);

/* What the table cannot check. */
status_t load_options_check(const load_options_t *options, err_t *err);

#endif
