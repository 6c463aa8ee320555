/*
 * A segment: a range of the operators of a plan, run on one stream, with its fork of the plan; what comes out
 * is, bit by bit, what the whole plan computes.
 *
 * What is alive at a cut is copied from the border into the work space before, and out of it behind. A border
 * holds each value in one layout for all batch sizes; a plan that has it in another one reorders it on the
 * way:
 *
 *     border:  | value 0: row 0, row 1, …, row capacity - 1 | value 1: row 0, … | …
 */
#ifndef ENGINE_ONEDNN_RUN_SEGMENT_H
#define ENGINE_ONEDNN_RUN_SEGMENT_H

#include "engine/compile/borders.h"
#include "engine/onednn/run/fork.h"

#include <stdatomic.h>

/* Its fork has the loads of range.from and the stores of range.to; range.to is set. */
typedef struct {
    fork_t *fork;
    engine_range_t range;
} segment_t;

typedef struct {
    dnnl_stream_t stream;
    void *work; /* the plan's work_bytes */
    const atomic_bool *stop;
} segment_run_t;

/* CANCELLED when it stopped at an exit. One thread at a time for each stream. */
status_t segment_run(const segment_t *segment, const segment_run_t *how, engine_job_t *job, err_t *err);

#endif
