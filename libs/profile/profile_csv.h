/*
 * Model files: CSV with a header line, or (NAME.yaml, NAME.yml) YAML with a list `models` of maps with the same keys. Columns
 * name,alpha_ms,beta_ms and by choice slo_ms, weight, exit_points, max_batch, timeout_ms, rate, in any order; those that
 * only `fermata plan` uses (memory, work_memory, cluster, move_cost) are let pass. A cell of a choice that is empty is not
 * given. Lines that are empty or start with '#' are skipped. Errors name file and line.
 */
#ifndef PROFILE_PROFILE_CSV_H
#define PROFILE_PROFILE_CSV_H

#include "profile/profile.h"

enum { PROFILE_NAME_BYTES = 64 };

typedef struct {
    char name[PROFILE_NAME_BYTES];
    profile_t profile;
    int64_t slo_ns; /* 0: no such column */
    double rate;    /* requests/s; 0: no such column */
    double weight;  /* without such a column the rate, and without that 1 */
    uint32_t
        exit_points;    /* places inside where a running batch can be preempted (Shepherd Table 4); 0: none */
    int64_t timeout_ns; /* for the policy `timeout`; 0: no such column */
} profile_entry_t;

/* On STATUS_OK *entries is malloc'ed (free it) and holds *count > 0 models. INVALID_ARGUMENT with "FILE:LINE:
 * …" for a missing or unknown column, a value that is no number, negative, infinite or NaN, a doubled name,
 * no models, or an SLO below the latency of a batch of one; NOT_FOUND or IO when the file cannot be read. */
status_t profile_csv_read(const char *path, profile_entry_t **entries, uint32_t *count, err_t *err);

#endif
