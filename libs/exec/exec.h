/*
 * Execution modes inside one device: how the rows that reached a GPU are run (DESIGN.md 2.1).
 *
 * Pure: no clock, I/O or threads; all memory is allocated by exec_create_*. The worker, the simulator and the tests
 * drive this same object:
 *
 *     exec_submit / exec_finished / exec_preempt   tell what happened at `now_ns`   (never call back)
 *     wake_at = exec_run(now_ns, sink)             decides; every action comes out of here, through the sink
 *
 * Several events may be told before one exec_run; those of one moment are told queries first, so that a query which
 * comes when a stage ends can still join. Times are nanoseconds on one monotonic clock of the caller; `now_ns` never
 * runs backwards. One thread at a time.
 *
 * A mode is one file that ends in one `static const exec_ops_t` and has one exec_create_NAME in its own header:
 * exec/whole.h, exec/staged.h, exec/overlap.h, exec/preempt.h.
 */
#ifndef EXEC_EXEC_H
#define EXEC_EXEC_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define EXEC_NEVER INT64_MAX

enum {
    EXEC_ROWS_MAX = 128, /* rows of a batch: twice the papers' largest */
    EXEC_PARTS_MAX = 8,  /* queries that run side by side in one launch: twice Abacus's quadruplets */
    EXEC_QUERIES_MAX = 1 << 20,
};

/* A query whose inputs are on the device. The tag is the caller's and comes back in the actions. */
typedef struct {
    uint64_t tag;
    uint32_t model;
    uint32_t rows;   /* staged: 1; whole and preempt: a batch is all queries of one submit */
    uint32_t length; /* of a sequence; 0 or 1 where inputs are all alike */
    /* staged: rows of different shapes share no batch; those of one are padded to the longest */
    uint32_t shape;
    int64_t arrival_ns;
    int64_t deadline_ns;
} exec_query_t;

typedef enum {
    EXEC_LAUNCH, /* put this on the device; exec_finished(launch) when all of it has ended */
    EXEC_MERGE, /* rows of one buffer pair have joined those of another (they were written there: nothing to copy) */
    EXEC_SPLIT,    /* a batch went on as several; one action per part */
    EXEC_COMPLETE, /* the outputs of these queries are ready; copy them before the next exec_run */
    EXEC_DROP,     /* these queries cannot meet their deadline and will not run */
    EXEC_STOP, /* let this launch end at its next exit point, then exec_stopped; or exec_finished if it was past the last */
    EXEC_REQUEUE, /* of a stopped batch: these queries have not run, or not to their end, and are the scheduler's again */
} exec_action_kind_t;

/* A range of the operators (overlap) or stages (staged) of one model on some rows. */
typedef struct {
    uint32_t model;
    uint32_t stream;   /* launches of one stream run in order, those of several side by side */
    uint32_t from, to; /* from <= x < to */
    uint32_t rows, length;
    uint64_t tag; /* overlap: the query; else 0 */
} exec_part_t;

typedef struct {
    exec_action_kind_t kind;
    uint64_t batch; /* of the exec object; 0 for EXEC_DROP of queries that never were in one */
    union {
        struct {
            uint64_t launch;
            exec_part_t parts[EXEC_PARTS_MAX]; /* staged, whole and preempt: exactly one */
            uint32_t count;
            uint32_t start;             /* first row within the buffers */
            uint32_t in_pair, out_pair; /* buffers of the border `from` and `to` */
            /* Whose rows they are, in order; not overlap, where each part has its tag. Valid during the sink call. */
            const exec_query_t *queries;
            uint32_t query_count;
        } launch;
        struct {
            uint32_t stage, start, rows; /* the rows that joined, at the border behind `stage` */
        } merge;
        struct {
            uint64_t part;
            uint32_t stage, start, rows;
        } split;
        struct { /* complete, drop, requeue; valid during the sink call */
            const exec_query_t *queries;
            uint32_t count;
            uint32_t start,
                pair; /* complete, staged: where in the buffers of the last border the outputs lie */
        } done;
        struct {
            uint64_t launch;
        } stop;
    };
} exec_action_t;

/* Called inside exec_run, in the order of the decisions. Must not call into the same exec_t. */
typedef void (*exec_sink_fn)(void *ctx, const exec_action_t *action);

typedef struct exec exec_t;

typedef struct {
    status_t (*submit)(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                       uint64_t batch, err_t *err);
    bool (*finished)(exec_t *exec, int64_t now_ns, uint64_t launch);
    bool (*preempt)(exec_t *exec, int64_t now_ns,
                    uint64_t batch); /* may be NULL: a batch cannot be stopped */
    bool (*stopped)(exec_t *exec, int64_t now_ns, uint64_t launch); /* with preempt */
    int64_t (*run)(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx);
    uint32_t (*room)(const exec_t *exec);
    const char *(*validate)(const exec_t *exec);
} exec_ops_t;

/* First member of every mode's object. */
struct exec {
    const exec_ops_t *ops;
};

void exec_destroy(exec_t *exec);

/* INVALID_ARGUMENT: a query this mode cannot run (see the mode's header). UNAVAILABLE: no room. Nothing is taken then.
 * batch: the caller's name of these queries together, for exec_preempt; 0 where none is asked for. */
status_t exec_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                     uint64_t batch, err_t *err);
/* False: no such launch (harmless). */
bool exec_finished(exec_t *exec, int64_t now_ns, uint64_t launch);
/* Stops a submitted batch at its next exit point, or before it starts: EXEC_REQUEUE says when. False: it
 * has just ended, is unknown, or the mode cannot stop it (any more: see the mode's header); it then
 * completes as usual. */
bool exec_preempt(exec_t *exec, int64_t now_ns, uint64_t batch);

/* In place of exec_finished: the launch ended at an exit point, before its end, after EXEC_STOP. */
bool exec_stopped(exec_t *exec, int64_t now_ns, uint64_t launch);

/* Decides all that is due and returns when to be called again at the latest. */
int64_t exec_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx);

/* How many further queries (whole, preempt: batches) it can take now. */
uint32_t exec_room(const exec_t *exec);

/* NULL when every invariant holds, else the one that is broken: for tests. */
const char *exec_validate(const exec_t *exec);

#endif
