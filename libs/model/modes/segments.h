/*
 * A model as mode overlap runs it: the segments between its cuts, and borders for the queries that are half
 * done. Where shapes vary, cuts and borders are those of the longest rows that its plan was measured with.
 *
 * Made by the loader thread, read by the loop, destroyed before the model leaves its devices.
 */
#ifndef MODEL_SEGMENTS_H
#define MODEL_SEGMENTS_H

#include "model/modes/overlap_plan.h"
#include "model/parts/devices.h"
#include "model/parts/shapes.h"

enum {
    SEGMENTS_QUERIES =
        2, /* of one model on one device at a time: as many batches as a scheduler grants ahead */
    SEGMENTS_SLOTS =
        4, /* batches that a device is granted at most: two that run, and two for the next group */
    SEGMENTS_SIDES = 2, /* what a query reads from and what it writes to */
};

typedef struct model model_t;
typedef struct model_load_options model_load_options_t;

typedef struct {
    const model_devices_t *devices;
    const overlap_plan_t *plan;
    uint32_t service;             /* number of the model in the plan */
    const model_shapes_t *shapes; /* NULL: nothing but the batch varies */
    /* Per mille of its device that a batch of b keeps busy beside those of the other models: busy_fixed +
     * b * busy_row. */
    uint32_t busy_fixed, busy_row;
    uint32_t *from;            /* operator with which each segment begins; behind the last: their number */
    engine_border_t **borders; /* see model_segments_border */
} model_segments_t;

enum { SEGMENTS_WHOLE = 1000 }; /* all of a device */

/* No axis of these rows is beyond what was measured: else their batches run whole. */
bool model_segments_fit(const model_segments_t *segments, const uint32_t *sizes);

/* How many elements the longest rows of its plan have. */
static inline uint32_t model_segments_longest(const model_segments_t *segments)
{
    return segments->plan->models[segments->service].length_max;
}

/* The length of these rows (NULL: the model has no shapes) in exec/exec.h. */
uint32_t model_segments_length(const model_segments_t *segments, const uint32_t *sizes);

/* The model has the cuts of the plan, and its shapes are those of the plan. NO_MEMORY names what did not fit. */
status_t model_segments_create(model_t *model, const model_load_options_t *options, const engine_cuts_t *cuts,
                               uint32_t service, model_segments_t **segments, err_t *err);
void model_segments_destroy(model_segments_t *segments); /* NULL is fine */

static inline engine_border_t *model_segments_border(const model_segments_t *segments, uint32_t device,
                                                     uint32_t query, uint32_t side)
{
    return segments->borders[(device * SEGMENTS_QUERIES + query) * SEGMENTS_SIDES + side];
}

#endif
