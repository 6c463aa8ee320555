/* What `fermata profile` is asked to do. */
#ifndef FERMATA_PROFILE_OPTIONS_H
#define FERMATA_PROFILE_OPTIONS_H

#include "config/config.h"

typedef struct {
    int engine;
    const char *loader, *batches, *out, *plot, *lengths;
    double seconds;
    int64_t load_timeout, threads, device_memory, seed, groups, streams;
    bool pin, json, csv, check, keep, stages, loads, exit_points, overlap;
} profile_options_t;

extern const config_schema_t profile_schema;

const char *profile_engine_name(const profile_options_t *options);

/* What the option table cannot say, of a command with so many MODELs. */
status_t profile_options_check(const profile_options_t *options, size_t models, err_t *err);

#endif
