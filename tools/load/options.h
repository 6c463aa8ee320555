/*
 * The options of fermata-load, one table for flags, environment and file (docs/load-generator.md).
 */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include "config/config.h"

typedef struct {
    int protocol; /* protocol_t */
    config_list_t addresses;
    int64_t connections;
    config_list_t models; /* NAME or NAME:RATE */
    const char *pictures, *picture_input;
    int64_t variants, rows, classes;
    double rate;
    int arrivals; /* arrivals_kind_t */
    int64_t concurrency;
    int64_t duration_ns, warmup_ns, requests;
    int64_t deadline_ns, timeout_ns;
    int64_t seed;
    bool json;
    const char *results;
    int log_level;
} load_options_t;

extern const config_schema_t load_schema;

/* Splits "NAME:RATE"; without a rate, rate_per_s is left alone. */
status_t load_parse_model(const char *text, char *name, size_t name_bytes, double *rate_per_s, err_t *err);

/* What the table cannot check. */
status_t load_options_check(const load_options_t *options, err_t *err);

#endif
