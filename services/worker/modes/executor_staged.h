/*
 * The inside of the staged executor: executor_staged.c, which decides and launches, and staged_rows.c, which moves rows
 * into the stages and out of them.
 */
#ifndef WORKER_EXECUTOR_STAGED_H
#define WORKER_EXECUTOR_STAGED_H

#include "model/modes/stages.h"
#include "worker/batch/run.h"
#include "worker/modes/carrier.h"

enum { SLOTS = RUN_QUEUE_MAX }; /* granted batches that are in the stages or wait for them */

typedef struct staged staged_t;

/* Of the rows that a stage runs, where shapes vary. */
typedef struct {
    uint32_t sizes[AXES_MAX]; /* of each row, padded */
    engine_shape_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
} stage_shapes_t;

/* What one stage runs on one pair: there it does one thing at a time. */
typedef struct {
    launch_t launch;
    staged_t *staged;
    uint64_t id; /* of libs/exec */
    const void *inputs[ENGINE_MAX_IO];
    uint64_t tags[EXEC_ROWS_MAX];
    uint32_t count;
    model_buffers_t *ends; /* last stage: whose outputs it writes */
} stage_t;

struct staged {
    carrier_t carrier; /* first */
    model_t *model;
    const model_stages_t *stages;
    model_buffers_t *ends[STAGES_PAIRS]; /* inputs of the first and outputs of the last stage */
    batch_t *slots[SLOTS];
    stage_t stage[STAGED_STAGES_MAX * STAGES_PAIRS]; /* see stage_at */
    stage_shapes_t *shapes; /* of each of these; NULL: nothing but the batch varies */
    uint32_t last_shape;    /* that was given to a batch */
    staged_counts_t counted;
    exec_query_t entering[ENGINE_MAX_BATCH]; /* in staged_submit */
};

/* What stage `s` runs that writes to this pair. */
static inline uint32_t stage_at(uint32_t s, uint32_t pair)
{
    return s * STAGES_PAIRS + pair;
}

/* ---- rows, by their tag in libs/exec ---- */

static inline uint64_t tag_of(uint32_t slot, uint32_t row)
{
    return (uint64_t)slot << 32 | row;
}

static inline batch_t *batch_of(const staged_t *staged, uint64_t tag)
{
    return staged->slots[tag >> 32];
}

static inline uint32_t row_of(uint64_t tag)
{
    return (uint32_t)tag;
}

/* ---- staged_rows.c ---- */

/* Finds out with whom the rows of a batch, which is in a slot, can share one of the stages: its shape, length and pad_to. */
void staged_rows_come(staged_t *staged, batch_t *batch);

/* Where shapes vary: tells the job of a stage of which shape its rows are. */
void staged_rows_shape(staged_t *staged, stage_t *stage);

/* Lays the inputs of the rows of the first stage, which are to be there from row `start` on. How many of them it padded. */
uint32_t staged_rows_gather(staged_t *staged, stage_t *stage, uint32_t start, uint32_t pair);

/* True: the outputs of the last stage have more room now, for a full batch of rows like those that had too little. */
bool staged_rows_grow(staged_t *staged, const stage_t *stage);

/* Rows [row, row + count) of a batch lie from `from_row` on where the last stage wrote them, on this pair: copies them,
 * without padding, to the batch. Not OK: they are lost. */
status_t staged_rows_take(staged_t *staged, batch_t *batch, uint32_t row, uint32_t count, uint32_t from_row,
                          uint32_t pair);

#endif
