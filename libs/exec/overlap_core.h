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
    uint32_t solo_op; /* the operator from which solo_ns counts */
    int64_t solo_ns;  /* predicted for the rest of it alone; 0: not asked yet */
    bool behind;      /* not all can end in time: this one is run after those that can */
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
    double given_ns
        [OVERLAP_MODELS_MAX]; /* until their deadline, queries of a model in the mean of late; 0: none came */
    double gain; /* how much longer the parts of a group would take alone, in the mean of late: 1 and above */
    uint64_t launch;
} overlap_t;

extern const exec_ops_t overlap_ops;

/* overlap_groups.c */
uint32_t overlap_ops_left(const overlap_t *overlap, uint32_t at);
/* The next so many operators of it. */
exec_part_t overlap_part_of(const overlap_t *overlap, uint32_t at, uint32_t op_count);
/* The parts stay in the order of the models: one group looks the same however it came about. */
void overlap_add_part(overlap_plan_t *plan, exec_part_t part, uint32_t at);
/* Sets predicted_ns of each, the margin with it; up to OVERLAP_WAYS_MAX. */
void overlap_predict(overlap_t *overlap, overlap_plan_t *plans, uint32_t count);
/* Predicted for all that is left of it alone, the margin with it. */
int64_t overlap_solo_ns(overlap_t *overlap, uint32_t at);
/* Sets `behind` (overlap_triage.c), for groups that begin at start_ns. */
void overlap_triage(overlap_t *overlap, int64_t start_ns);

#endif
