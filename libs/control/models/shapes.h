/*
 * Rows of a model whose dimensions vary can share a batch only when they are of one shape. Each shape in use
 * is therefore a model of its own to the core, with a number beyond those of the catalogue and a profile
 * interpolated for its size; nobody else sees more than the one model.
 */
#ifndef CONTROL_MODELS_SHAPES_H
#define CONTROL_MODELS_SHAPES_H

#include "control/models/model.h"

enum { SHAPE_AXES_MAX = 16 }; /* as workers have it */

/* The tasks of one model whose rows are alike. */
struct shape {
    struct shape *next; /* of the same model, or of those that are free */
    model_t *model;     /* NULL: free */
    subcluster_t *home; /* whose core knows it; NULL: none does */
    uint32_t core_id;
    uint32_t tasks;   /* that refer to it */
    uint64_t used;    /* when last; counts, not a time */
    int64_t alone_ns; /* what one row takes at home; 0: not known yet */
    double quicker;   /* as of a model */
    uint32_t axis_count, sizes[SHAPE_AXES_MAX];
};

status_t shapes_init(models_t *models, err_t *err);
void shapes_dispose(models_t *models);
/* Elements of one row, as workers count them when they measure; UINT64_MAX when that is no number. */
uint64_t shapes_elements(const Control__ModelReport *report, const uint32_t *sizes);
/* How many sizes a task of the model comes with; 0 = none. */
uint32_t shapes_axis_count(const model_t *model);
/* The model of a core's number: of a shape its model's. */
uint32_t shapes_model(const models_t *models, uint32_t core_id);

/* ---- By task. Hot. ---- */

/* The shape of these sizes, made if need be, and one more task refers to it. NULL: too many are in use. */
shape_t *shapes_hold(models_t *models, model_t *model, const uint32_t *sizes, uint32_t count);
void shapes_release(shape_t *shape);
/* False: the core of its model's home does not take it. */
bool shapes_enter(shape_t *shape);

/* ---- As the model does ---- */

/* The model's profiles, its devices or its home have changed. */
void shapes_update_profiles(model_t *model);
void shapes_allow(const model_t *model, uint32_t gpu, bool allowed);
void shapes_follow_inside(const model_t *model);
void shapes_move_out(model_t *model);
void shapes_add_stats(const model_t *model, sched_model_stats_t *stats);
void shapes_widen_scatter(const model_t *model, sched_scatter_t *scatter);

#endif
