/*
 * The inside of the overlap mode.
 */
#ifndef EXEC_OVERLAP_CORE_H
#define EXEC_OVERLAP_CORE_H

#include "exec/overlap.h"

typedef struct {
    exec_query_t query;
    uint64_t batch;   /* of exec_submit */
    uint32_t next_op; /* behind what runs */
    bool stop;        /* it goes back as soon as no part of it runs */
} overlap_active_t;

#define OVERLAP_GONE UINT32_MAX /* dropped while a part of it ran */

typedef struct {
    overlap_group_t group;
    uint32_t at[EXEC_PARTS_MAX]; /* index of the active query of each part */
    int64_t predicted_ns;
} overlap_plan_t;

typedef struct {
    exec_t exec;
    overlap_config_t config;
    overlap_active_t *active; /* in the order in which they came */
    uint32_t active_count;
    overlap_plan_t running, next;
    bool busy, ended, planned;
    int64_t until_ns; /* predicted end of the running group */
    uint64_t launch;
} overlap_t;

extern const exec_ops_t overlap_ops;

#endif
