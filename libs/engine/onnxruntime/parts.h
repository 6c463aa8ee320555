/*
 * A model in parts: where it can be cut, as libs/graph finds it, and a session of each range of operators that is run, of a
 * sub-model that libs/onnx writes. A cut is one only where what lies behind it follows from what is alive at it.
 *
 * What is alive lies on a border row-major, each tensor for all rows.
 */
#ifndef ENGINE_ONNXRUNTIME_PARTS_H
#define ENGINE_ONNXRUNTIME_PARTS_H

#include "engine/onnxruntime/model.h"
#include "onnx/extract.h"

/* ---- source.c: the file, while parts are made of it ---- */

typedef struct {
    onnx_model_t *file;
    onnx_extract_t *extract;
} source_t;

status_t source_open(const engine_model_t *model, source_t *source, err_t *err);
void source_close(source_t *source); /* one of all zeros is fine */

/* Whether constants or inputs are of half precision. */
bool source_has_halves(const source_t *source);

/* ---- cuts.c ---- */

/* How a tensor lies at one end of a range. */
typedef struct {
    const char *name;
    tensor_t t; /* of so many rows: */
    uint32_t batch;
} edge_t;

static inline size_t edge_row_bytes(const edge_t *edge)
{
    return tensor_bytes(&edge->t) / edge->batch;
}

/* Inputs in front of the first operator, outputs behind the last, else what is alive; at most ENGINE_MAX_IO. */
uint32_t edges_at(const engine_model_t *model, uint32_t op, edge_t *edges);

void parts_init(engine_model_t *model);

/* Of engine.h. */
status_t parts_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err);

/* ---- parts.c: sessions ---- */

/* Which of the tensors behind a range it makes; the others go through it untouched, and its session does not give them. */
uint32_t part_makes(const edge_t *in, uint32_t in_count, const edge_t *out, uint32_t out_count,
                    uint32_t *makes);

/* The session of a range that is not the whole, made when it is not there; NULL in session: it makes nothing. timing: for the
 * times of operators, to be dropped when these are over. source: NULL, or one of several parts that are made one after the
 * other, which is opened when one is missing. */
status_t parts_session(engine_model_t *model, source_t *source, const engine_range_t *range, bool timing,
                       OrtSession **session, err_t *err);
void parts_time(engine_model_t *model, int change); /* 1, and -1: such a job begins, and is over */
void parts_drop(engine_model_t *model, bool all);   /* else those for times alone */
void parts_dispose(engine_model_t *model);

/* Of engine.h. */
status_t parts_prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                             const engine_shape_t *input_shapes, err_t *err);

/* ---- segments.c ---- */

/* A job of a range, with rows that begin at any one, or with times of operators. */
status_t parts_run(cpu_lane_t *lane, engine_job_t *job, err_t *err);

#endif
