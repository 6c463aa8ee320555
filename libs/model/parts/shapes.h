/*
 * What a model whose dimensions vary has beyond the others: its axes, and a latency for each shape, measured at a few
 * reference sizes and interpolated between them (profile/family.h).
 *
 * Filled by the loader thread while the model loads; then the loop's.
 */
#ifndef MODEL_SHAPES_H
#define MODEL_SHAPES_H

#include "model/parts/axes.h"
#include "profile/correction.h"
#include "profile/family.h"

#include <stdatomic.h>

typedef struct {
    axes_t axes;
    /* of these sizes, by their elements, rising; member i of the families was measured at i */
    uint32_t reference_count;
    uint32_t references[REFERENCES_MAX][AXES_MAX];
    bool wanted; /* the config asked for these references, or pads to them: requests will have their shapes */
    family_t family; /* follows what batches take */
    family_t measured;
    correction_t corrections[FAMILY_MAX];
} model_shapes_t;

_Static_assert((int)REFERENCES_MAX == (int)FAMILY_MAX, "every reference is a member");

/*
 * Chooses where to measure: profile_shapes of the config, else the sizes it pads to, else those of the picture pipeline
 * (picture_width > 0, for the input of that name), else what suits the kind of model, with sizes that fit together where axes
 * depend on one another (engine/compile/fit.h). Those that the model cannot take are left out where they were not asked for. model must be loaded on the engine.
 */
typedef struct {
    const engine_ops_t *ops;
    engine_model_t *model;
    const shape_config_t *config;
    const char *picture_input;
    uint32_t picture_width, picture_height;
    bool channels_last;
    /* Runs a row of these sizes; NULL: what the engine says when it prepares them is enough. */
    status_t (*takes)(void *arg, const uint32_t *sizes, err_t *err);
    void *takes_arg;
} shapes_choice_t;
status_t shapes_choose(model_shapes_t *shapes, const shapes_choice_t *choice, err_t *err);

/* Prepares every batch size at every reference, where the config wants them. */
status_t shapes_prepare(const model_shapes_t *shapes, const engine_ops_t *ops, engine_model_t *model,
                        const _Atomic(int) *stop, err_t *err);

/* The largest reference: what execution modes are measured at, and what their memory is made for. There is one. */
static inline const uint32_t *shapes_largest(const model_shapes_t *shapes)
{
    return shapes->references[shapes->reference_count - 1];
}

/* No axis is beyond that of the largest reference. */
bool shapes_fit(const model_shapes_t *shapes, const uint32_t *sizes);

static inline int64_t shapes_latency_ns(const model_shapes_t *shapes, const uint32_t *sizes, uint32_t batch)
{
    return family_latency_ns(&shapes->family, axes_elements(&shapes->axes, sizes), batch);
}

/* After the measurements: from now on the family follows what batches take. */
void shapes_start(model_shapes_t *shapes);
/* A reference has been measured once more: what batches near to it took is forgotten. */
void shapes_take(model_shapes_t *shapes, uint32_t reference, const profile_t *profile);
/* A batch took so long: moves the reference that is the closest. True: its profile is worth telling others of. */
bool shapes_took(model_shapes_t *shapes, const uint32_t *sizes, uint32_t batch, int64_t exec_ns);
/* Takes over what shapes_took has gathered. */
void shapes_correct(model_shapes_t *shapes);

/* "16x128", for file names and messages. */
enum { SHAPES_TEXT_BYTES = 8 * AXES_MAX };
const char *shapes_text(const axes_t *axes, const uint32_t *sizes, char text[SHAPES_TEXT_BYTES]);

#endif
