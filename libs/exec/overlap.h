/*
 * `overlap`: Abacus's deterministic overlap of the operators of several models (papers/abacus.txt 6).
 *
 * One group of operators runs at a time: all remaining operators of the query with the least headroom, and
 * beside them as many operators of the next queries as a duration model says fit into that headroom. What was
 * not finished goes on in a later group from where it stopped (the segmental executor keeps its intermediate
 * tensors). While a group runs the next one is planned, with the predicted rest of the running one taken off
 * the headroom (equation 3). A query whose headroom is too short for itself alone is dropped. Three things go
 * beyond the paper when asked for: groups of limited length, a choice of who is served when not all can
 * be, and groups of what saves time side by side only (overlap_config_t).
 *
 * FCFS, SJF and EDF are the baselines: one query at a time, whole, dropped when its deadline has passed
 * before it begins, or already when by prediction it would end behind it (drop_predicted).
 *
 * A group holds at most one query of a model, as the duration model knows it.
 *
 * exec_preempt of the batch of an exec_submit gives its queries back (EXEC_REQUEUE, one for each) that have
 * operators left: at once, or when the group that they are in has ended.
 */
#ifndef EXEC_OVERLAP_H
#define EXEC_OVERLAP_H

#include "exec/exec.h"

enum { OVERLAP_MODELS_MAX = 8, OVERLAP_WAYS_MAX = 8, OVERLAP_QUERIES_MAX = 4096 };

typedef enum { OVERLAP_ABACUS, OVERLAP_FCFS, OVERLAP_SJF, OVERLAP_EDF } overlap_order_t;

typedef struct {
    exec_part_t parts[EXEC_PARTS_MAX]; /* by model */
    uint32_t count;
} overlap_group_t;

/* Durations of several groups at once: the multi-way search asks for `count` <= OVERLAP_WAYS_MAX together. */
typedef void (*overlap_predict_fn)(void *ctx, const overlap_group_t *groups, uint32_t count, int64_t *ns);

typedef struct {
    overlap_order_t order;
    bool drop_predicted; /* FCFS, SJF and EDF; ABACUS always does */
    uint32_t models;
    uint32_t ops[OVERLAP_MODELS_MAX]; /* operators of each */
    uint32_t ways;                    /* 1..OVERLAP_WAYS_MAX; 4 in the paper */
    uint32_t queries_max;             /* in all, waiting or begun */
    /* part of a predicted duration that is added to it: about the error of the duration model */
    double margin;
    /* ABACUS only; all 0 is the paper's controller. */
    /* a group's first query goes only as far as this part of what queries of the most pressed model are
                          given, and what runs beside it at most makes that twice as long, so that one that comes while
                          it runs can still be served; then a query may take several groups */
    double group_part;
    /* when not all can end in time those go behind that take longest (for a row, with by_rows), so that few
                          are late; and a query that cannot make it even alone is dropped at once */
    bool triage;
    bool by_rows;
    /* what joins a group must make it longer by less than it would take alone, by at least this
                            part; else it waits, and those that are in the group end sooner */
    double least_saving;
    overlap_predict_fn predict; /* ABACUS, SJF and drop_predicted */
    void *predict_ctx;
} overlap_config_t;

exec_t *exec_create_overlap(const overlap_config_t *config, err_t *err);

#endif
