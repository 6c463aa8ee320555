/*
 * What a plan is to decide, gathered from what was measured since the last one: for each class of devices with two sub-clusters
 * or more, which models it has, what load they are, and where they are. And whether an answer is worth its moves.
 */
#ifndef CONTROL_PLAN_PROBLEM_H
#define CONTROL_PLAN_PROBLEM_H

#include "control/models/model.h"

enum { PLAN_NOTE_BYTES = 192 };

typedef struct {
    const model_t *model;
    const subcluster_t *from, *to; /* NULL: on none; to NULL: the note says why */
    double load;                   /* devices that it keeps busy */
    char note[PLAN_NOTE_BYTES];
} plan_row_t;

typedef struct {
    uint64_t number; /* counts the plans that were made */
    bool apply;
    int64_t made_ns, solve_ns;
    plan_row_t *rows; /* the models of classes with more than one sub-cluster */
    uint32_t row_count;
    uint32_t moves; /* rows whose `to` is another place than `from` */
    double imbalance_before,
        imbalance_after;        /* of load, (max - min) / mean against what is due; the worst class */
    char note[PLAN_NOTE_BYTES]; /* why there is nothing to do, or what went wrong */
} plan_report_t;

/* One class of devices: a problem of its own. Who solves it sees the job, and the arrays that it points to. */
typedef struct {
    plan_job_t *job;
    uint32_t clusters[SUBCLUSTERS_MAX]; /* index of the sub-cluster */
    double shares[SUBCLUSTERS_MAX];
    uint32_t *model; /* catalogue ids, [models_max] */
    uint32_t *current;
    partition_model_t *cost;
    double load, variance; /* of all, as measured */
    bool valid;            /* what is there breaks no bound */
    partition_t now;       /* its measures; the places are `current` */
    bool keep;             /* the gain is not worth the moves */
} class_plan_t;

typedef struct {
    class_plan_t classes[SUBCLUSTERS_MAX / 2];
    plan_job_t jobs[SUBCLUSTERS_MAX / 2]; /* one of each class */
    uint32_t class_count;
} plan_problem_t;

/* since_ns: when counting began. stop: of the jobs. A model that no device has room for stays, and its row of the report, which
 * has rows_max, says so. */
void problem_gather(plan_problem_t *problem, models_t *models, int64_t since_ns, const _Atomic bool *stop,
                    plan_report_t *report, uint32_t rows_max);
/* With the class's job solved: a plan that gains too little becomes what is there. */
void problem_weigh(class_plan_t *class);
void problem_dispose(plan_problem_t *problem);

#endif
