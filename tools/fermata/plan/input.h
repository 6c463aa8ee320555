/*
 * The models of `fermata plan`: a CSV file with a header line, or a YAML file with a list `models` of maps.
 * Columns and keys are the same, in any order:
 *
 *   name, rate            always; rate in requests/s
 *   memory, work_memory   bytes ("98MB"): of the weights, and of running the model
 *   alpha_ms, beta_ms, slo_ms, max_batch
 *   cluster, move_cost    the sub-cluster that it is on now, and what moving it costs
 */
#ifndef FERMATA_PLAN_INPUT_H
#define FERMATA_PLAN_INPUT_H

#include "profile/profile.h"

enum { PLAN_NAME_BYTES = 64, PLAN_MODELS_MAX = 65536 };

typedef struct {
    char name[PLAN_NAME_BYTES];
    double rate, move_cost;
    int64_t memory_bytes, work_bytes;
    double alpha_ms, beta_ms, slo_ms; /* slo_ms 0: not given */
    int64_t max_batch;                /* 0: not given */
    int64_t cluster;                  /* -1: on none */
    profile_t profile;
} plan_model_t;

typedef struct {
    plan_model_t *models; /* owned */
    uint32_t count;
} plan_input_t;

/* INVALID_ARGUMENT: "FILE:LINE: …". NOT_FOUND or IO when the file cannot be read. */
status_t plan_input_read(const char *path, plan_input_t *input, err_t *err);
void plan_input_dispose(plan_input_t *input);

#endif
