/*
 * `staged`: DVABatch's multi-entry multi-exit batching of one model (papers/dvabatch.txt 4-7).
 *
 * The model is cut into stages. A batch table says how many rows of each batch every stage has done, a queue before
 * each stage says what it runs next, and three operations change batches on their way: new, stretch (rows that come
 * later catch up and join) and split. Each stage has an executor with the four states of Figure 11, and buffers at the
 * borders of the stages, in pairs, that say whether it may run (Figures 9 and 10):
 *
 *     border 0      border 1      border 2          buffer (border, pair); executor i reads border i - 1
 *     [0,0] ─ ex 1 ─ [1,0] ─ ex 2 ─ [2,0]           and writes border i, both of the pair of its batch
 *     [0,1]          [1,1]          [2,1]
 *
 * A Schedule() table (Figure 12) decides which operation is done; the three policies of 7.2 are such tables.
 *
 * Queries have one row each. A row that is longer than its batch, or of another shape, never joins it. Those
 * of one exec_submit are given back by exec_preempt of its batch (EXEC_REQUEUE, one for each) while none of
 * them has entered a batch of the table.
 */
#ifndef EXEC_STAGED_H
#define EXEC_STAGED_H

#include "exec/exec.h"

enum {
    STAGED_STAGES_MAX = 32, /* DVABatch 8.7: more than 20 only cost */
    STAGED_PAIRS_MAX = 4,   /* 8.6: two are best */
    STAGED_WIDTH_MAX = 4,
    STAGED_STREAMS_MAX = STAGED_STAGES_MAX * STAGED_WIDTH_MAX, /* one for each executor */
    STAGED_BATCHES_MAX = 256, /* rows of the batch table: two batches split into single rows */
};

/* What a batch costs, as profiled: the time it takes alone, and the share of it that the device is used
 * (time x occupancy; the same as the time when it fills the device). */
typedef struct {
    int64_t ns;
    int64_t busy_ns;
} staged_cost_t;

typedef staged_cost_t (*staged_cost_fn)(void *ctx, uint32_t stage, uint32_t rows, uint32_t length);

typedef struct staged_schedule staged_schedule_t;

typedef struct {
    uint32_t stages;
    uint32_t pairs; /* 2 by default */
    /* of these, those that new batches may use: 1 = one batch after the other, as the operator
                           policy wants it (the other pair is then for rows that catch up); > 1 = side by side */
    uint32_t new_pairs;
    uint32_t width; /* executors per stage; the paper has 1. 2 let two batches be in the same stage */
    /* Of the device: a launch goes to the one that its batch ran on if nothing else does, else to the one with the
     * fewest. 0: as many as executors, each with its own. */
    uint32_t streams;
    uint32_t rows_max;
    uint32_t queries_max; /* that wait */
    int64_t window_ns;    /* a batch that is not full waits this long for more rows */
    bool eager;           /* but not while nothing runs */
    int64_t comp_wait_ns; /* T_comp_wait: no stretch of a batch older than this */
    /* how much more the parts may cost in all than the whole batch: measured times are not exact */
    double split_slack;
    staged_cost_fn cost; /* from stage .. of `rows` rows of `length`; stages >= `stages` cost nothing */
    void *cost_ctx;
    const staged_schedule_t *schedule;
} staged_config_t;

/* A batch in the stages, or rows of it that run. */
typedef struct {
    uint32_t stage, rows, length;
    int64_t waited_ns; /* since its oldest row came */
    bool older;        /* than the batch asked about */
} staged_beside_t;

/* What a Schedule() table sees. */
typedef struct {
    const staged_config_t *config;
    int64_t now_ns;
    const exec_query_t *waiting[EXEC_ROWS_MAX]; /* oldest first */
    uint32_t waiting_count;                     /* stretch: at most rows_max; enter: maybe more */
    uint32_t active_rows;                       /* in the stages */
    uint32_t free_pairs;                        /* that new batches may take now */
    uint32_t empty_pairs; /* of these, those on which no batch is: one there can overtake all others */
    /* The batch asked about: the latest (enter, stretch) or the one that has just passed `stage` (split). */
    uint64_t batch; /* 0: none */
    uint32_t rows, length, stage;
    int64_t age_ns;
    /* start: what runs now of other batches; enter: all batches in the stages */
    const staged_beside_t *beside;
    uint32_t beside_count;
} staged_view_t;

enum { STAGED_LATER = 0xff };

/*
 * One policy. NULL = never. What is returned is checked again: a stretch that does not fit, or a split for which the
 * table has no room, is not done; of a new batch only the oldest rows_max rows of its oldest one's shape are taken, the
 * others wait.
 */
struct staged_schedule {
    const char *name;
    /* New: group[i] = number of the batch that waiting query i starts, or STAGED_LATER. Returns the number of batches,
     * at most free_pairs. *wake_ns (preset to never): when to ask again if nothing else happens. */
    uint32_t (*enter)(const staged_view_t *view, uint8_t *group, int64_t *wake_ns);
    /* Stretch: how many of the oldest queries join. Those of another shape than the batch's are not among
     * view->waiting. */
    uint32_t (*stretch)(const staged_view_t *view);
    /* Split: rows of each part, 0 or >= view->rows for no split. Depends only on rows, length and stage. */
    uint32_t (*split)(const staged_view_t *view);
    /* Whether the batch may begin `stage` beside what others run; never asked while nothing of theirs runs, nor
     * for rows that catch up. A batch that waits is asked about again when something has ended. NULL: always.
     * A schedule without `rank` is asked for those that wait, too, before they enter. */
    bool (*start)(const staged_view_t *view);
    /* Of batches that could begin a stage now the one with the least rank does, and the others are asked about
     * after it: a batch overtakes those in front where there are as many executors per stage as pairs. NULL: the one
     * in the later stage. */
    double (*rank)(const staged_config_t *config, const staged_beside_t *batch);
};

extern const staged_schedule_t staged_schedule_input;    /* Policy I */
extern const staged_schedule_t staged_schedule_operator; /* Policy II */
extern const staged_schedule_t staged_schedule_load;     /* Policy III */
extern const staged_schedule_t
    staged_schedule_combined; /* II and III, for models with operator diversity (7.2) */
const staged_schedule_t *staged_schedule_find(const char *name); /* NULL: unknown */

/* Building stones for other tables. */
uint32_t staged_enter_together(const staged_view_t *view, uint8_t *group, int64_t *wake_ns);

/*
 * What a scheduler is told that grants rows to running batches: how many stages, and the part of the latency, of `whole`,
 * that has passed behind each, of a quarter of the largest batch: where the parts differ with the size, operators that
 * small batches do not fill count for little in the largest, which is seldom one that rows join. `length`: of a row. 0: it may grant none, since policy II would
 * split some batch, and one that will be split takes no more rows (DVABatch 5.2.2): a model does either. Of the
 * configuration stages, rows_max, split_slack and cost count.
 */
uint32_t staged_joinable(const staged_config_t *config, uint32_t length, uint32_t whole, uint32_t *until);

/* INVALID_ARGUMENT names what is wrong; one stage is not an error: nothing is then stretched or split. */
exec_t *exec_create_staged(const staged_config_t *config, err_t *err);

typedef struct {
    uint64_t batches, stretches, stretched_rows, splits, parts;
} staged_counts_t;
staged_counts_t staged_counts(const exec_t *exec);

#endif
