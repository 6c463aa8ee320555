/*
 * The inside of the staged mode, shared by its source files only.
 */
#ifndef EXEC_STAGED_CORE_H
#define EXEC_STAGED_CORE_H

#include "exec/queries.h"
#include "exec/staged.h"

/* A row of the batch table. */
typedef struct {
    uint64_t id; /* 0: unused */
    int64_t created_ns;
    uint32_t rows; /* bs */
    uint32_t length, shape;
    uint32_t base; /* first row within the buffers: parts of a split batch stay where they were */
    uint32_t pair;
    uint32_t stream;                       /* that it ran on last; of no use without config.streams */
    uint32_t catchup_pair;                 /* of the rows from catchup_start on, while catching_up */
    uint32_t catchup_start, catchup_stage; /* they join at the border behind this stage */
    bool catching_up;
    bool sealed;                        /* it will be split, or is a part: no stretch */
    uint32_t issued[STAGED_STAGES_MAX]; /* rows handed to each stage */
    uint32_t done[STAGED_STAGES_MAX];   /* status_map */
    exec_query_t queries[EXEC_ROWS_MAX];
} staged_batch_t;

/* A row of a batch queue. */
typedef struct {
    uint32_t slot; /* of the batch table */
    uint32_t start, num;
} staged_item_t;

/* Those that run are no more than this. */
enum { STAGED_BESIDE_MAX = STAGED_STAGES_MAX * STAGED_WIDTH_MAX };

/* One entry per batch, and rows that catch up. */
enum { STAGED_QUEUE_SLOTS = 2 * STAGED_BATCHES_MAX };

typedef struct {
    staged_item_t items[STAGED_QUEUE_SLOTS];
    uint32_t head, tail;
} staged_queue_t;

typedef enum { STAGED_INACTIVE, STAGED_ACTIVE, STAGED_CHECKING, STAGED_WORKING } staged_state_t;

typedef struct {
    staged_state_t state;
    staged_item_t item; /* checking, working */
    uint64_t launch;    /* working */
    bool ended;         /* working: the device is through, exec_run has not seen it */
    uint32_t in_pair, out_pair, stream;
} staged_executor_t;

/* Figure 9's states are `use` and, when unused, `valid`; apart, so that "restores to its previous state"
 * needs no memory. */
typedef struct {
    bool valid;
    uint32_t readers, writers;
    uint32_t pending; /* rows written and not read yet */
} staged_border_t;

typedef struct {
    exec_t exec;
    staged_config_t config;
    queries_t waiting;
    staged_batch_t table[STAGED_BATCHES_MAX];
    uint32_t used;   /* of the table */
    uint64_t latest; /* id of the last batch made by new */
    uint32_t latest_slot;
    uint32_t active_rows;
    uint64_t next_batch, next_launch;
    staged_queue_t queues[STAGED_STAGES_MAX];
    staged_executor_t executors[STAGED_STAGES_MAX][STAGED_WIDTH_MAX];
    staged_border_t borders[STAGED_STAGES_MAX + 1][STAGED_PAIRS_MAX];
    bool owed[STAGED_STAGES_MAX]
             [STAGED_PAIRS_MAX];           /* stage must tell its predecessor that the pair may be used */
    uint32_t launches[STAGED_STREAMS_MAX]; /* under way on each stream */
    staged_counts_t counts;
    const char *fault; /* a hazard that was about to happen; staged_validate reports it */
} staged_t;

static inline uint32_t staged_queue_len(const staged_queue_t *queue)
{
    return queue->tail - queue->head;
}

static inline const staged_item_t *staged_queue_at(const staged_queue_t *queue, uint32_t i)
{
    return &queue->items[(queue->head + i) % STAGED_QUEUE_SLOTS];
}

void staged_init(staged_t *staged, const staged_config_t *config, queries_slot_t *slots, uint32_t slot_count);
extern const exec_ops_t staged_ops;

/* What runs (staged_beside.c). */
bool staged_is_older(const staged_batch_t *a, const staged_batch_t *b);
/* This item in this stage, as schedules see it. */
staged_beside_t staged_beside_of(const staged_t *staged, const staged_item_t *item, uint32_t stage,
                                 int64_t now_ns);
/* What runs of batches other than `batch`; NULL: of all. Returns how many. */
uint32_t staged_running(const staged_t *staged, const staged_batch_t *batch, int64_t now_ns,
                        staged_beside_t beside[STAGED_BESIDE_MAX]);

/* Batch table (staged_table.c). */
typedef struct {
    exec_sink_fn sink;
    void *ctx;
    int64_t now_ns;
} staged_out_t;

int64_t staged_enter(staged_t *staged,
                     const staged_out_t *out); /* new and stretch; returns when to ask again */
/* A stage has done these rows: split, push on, or complete. */
void staged_leave(staged_t *staged, uint32_t stage, const staged_item_t *item, const staged_out_t *out);
staged_item_t staged_queue_pop(staged_queue_t *queue);
/* The rows behind this stage with which `item` joins its batch. */
static inline bool staged_item_joins(const staged_batch_t *batch, uint32_t stage, const staged_item_t *item)
{
    return batch->catching_up && stage == batch->catchup_stage && item->start >= batch->catchup_start;
}

/* What the stages from `stage` on cost (staged_policy.c). */
staged_cost_t staged_remaining(const staged_config_t *config, uint32_t stage, uint32_t rows, uint32_t length);
/* Of the device; what is not known fills it. */
double staged_occupancy(staged_cost_t cost);
/* Whether the waiting queries should wait on; then *wake_ns says until when. */
bool staged_window_open(const staged_view_t *view, int64_t *wake_ns);
/* Of the device: less than a twentieth free is no room. */
#define STAGED_ROOM 0.95

/* Buffer pairs (staged_buffers.c). */
bool staged_pair_legitimate(const staged_t *staged, uint32_t stage, const staged_item_t *item);
bool staged_pair_free(const staged_t *staged, uint32_t pair);  /* for rows that enter */
bool staged_pair_empty(const staged_t *staged, uint32_t pair); /* no batch is on it */
void staged_pair_begin(staged_t *staged, uint32_t stage, staged_executor_t *executor); /* chooses its pairs */
void staged_pair_end(staged_t *staged, uint32_t stage, const staged_executor_t *executor);
bool staged_stage_legitimate(const staged_t *staged, uint32_t stage); /* with any pair that new batches use */
void staged_pair_tell(staged_t *staged, uint32_t stage);              /* line 10 of Figure 12 */

#endif
