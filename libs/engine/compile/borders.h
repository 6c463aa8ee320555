/*
 * Where a model of an engine that compiles can be cut, and the borders that hold what is alive there. Each value at a cut
 * has an *edge*: how the engine lays it out on a border, for all batch sizes.
 */
#ifndef ENGINE_COMPILE_BORDERS_H
#define ENGINE_COMPILE_BORDERS_H

#include "engine/compile/blueprint.h"

/* What an engine says of its edges, and the memory that its borders are in. */
struct border_ops {
    size_t edge_bytes;
    /* Compiles for a batch whose layouts borders shall have. NULL in made: they are row-major. */
    status_t (*make)(engine_model_t *model, uint32_t batch, const tensor_t *inputs, void **made, err_t *err);
    void (*drop)(engine_model_t *model, void *made);
    /* How a value lies there at the cut before op; edge is all zeros before. False: nothing behind looks for it. */
    bool (*lay_out)(const void *made, int32_t value, uint32_t op, void *edge);
    /* Bytes that a value like t takes for each of `batch` rows. */
    size_t (*row_bytes)(const void *edge, const tensor_t *t, uint32_t batch);
    /* The engine's memory; NO_MEMORY. */
    status_t (*take)(engine_model_t *model, uint64_t len_bytes, void **data, err_t *err);
    void (*give)(engine_model_t *model, void *data, uint64_t len_bytes);
};

/* Values of one cut after the other, each with room for all rows. */
struct engine_border {
    engine_model_t *model;
    const border_ops_t *ops;
    uint32_t rows;
    uint64_t len_bytes;
    char *data; /* in the engine's memory */
};

/* These are those of engine.h, of models that begin with a blueprint_t. */
status_t border_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err);
status_t border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                       const engine_shape_t *largest_shapes, engine_border_t **border, err_t *err);
void border_destroy(engine_border_t *border);
uint64_t border_bytes(const engine_border_t *border);

/* The edges of what a border holds at a cut; none at the ends. */
const void *border_edges(const blueprint_t *b, uint32_t op, uint32_t *count);

/* INVALID_ARGUMENT unless the rows of the job are inside the border of its model, UNSUPPORTED when they
 * are larger than those it was made for; NULL is fine. */
status_t border_check(const engine_border_t *border, const engine_job_t *job, size_t row_bytes, err_t *err);

#endif
