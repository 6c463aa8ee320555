/*
 * A shape is made at its first task and kept, so that the core's rates stay known, until its place is needed:
 * then the one that was used the longest ago among those without tasks goes.
 */
#include "control/models/shapes.h"

#include "control/models/instance.h"

#include <stdlib.h>
#include <string.h>

enum {
    SHAPES_PER_MODEL_MAX = 64, /* with more under way at once no two rows would share a batch any more */
};

status_t shapes_init(models_t *models, err_t *err)
{
    models->shapes = calloc(SHAPES_MAX, sizeof *models->shapes);
    if (!models->shapes)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %d shapes", SHAPES_MAX);
    for (uint32_t i = SHAPES_MAX; i-- > 0;) {
        models->shapes[i].core_id = models->turn->options.models_max + i;
        models->shapes[i].next = models->free_shapes;
        models->free_shapes = &models->shapes[i];
    }
    return STATUS_OK;
}

void shapes_dispose(models_t *models)
{
    free(models->shapes);
}

uint32_t shapes_model(const models_t *models, uint32_t core_id)
{
    return core_id < models->turn->options.models_max
               ? core_id
               : models->shapes[core_id - models->turn->options.models_max].model->id;
}

uint32_t shapes_axis_count(const model_t *model)
{
    return model->canonical && model->canonical->report ? (uint32_t)model->canonical->report->n_axes : 0;
}

/* ---- Latency ---- */

uint64_t shapes_elements(const Control__ModelReport *report, const uint32_t *sizes)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < report->n_inputs; i++) {
        const Control__Tensor *tensor = report->inputs[i];
        uint64_t product = 1;
        for (size_t k = 0; k < tensor->n_dims; k++) {
            uint32_t axis = k < tensor->n_axes ? tensor->axes[k] : 0;
            int64_t dim = axis > 0 && axis <= report->n_axes ? sizes[axis - 1] : tensor->dims[k];
            if (dim < 0 || __builtin_mul_overflow(product, (uint64_t)dim, &product))
                return UINT64_MAX;
        }
        if (__builtin_add_overflow(sum, product, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* At the model's home: as slow as the slowest that was reported there. */
static void profile_of(const shape_t *shape, profile_t *profile)
{
    const model_t *model = shape->model;
    profile_t one;
    bool first = true;
    for (const instance_t *i = model->instances; i; i = i->next) {
        if (!i->family || !instance_counts(i, model->home))
            continue;
        family_profile(i->family, shapes_elements(i->report, shape->sizes), first ? profile : &one);
        if (!first)
            profile_merge_slower(profile, &one);
        first = false;
    }
    if (first)
        *profile = *model->profile;
}

void shapes_update_profiles(model_t *model)
{
    profile_t profile;
    for (shape_t *shape = model->shapes; shape; shape = shape->next) {
        if (!shape->home)
            continue;
        profile_of(shape, &profile);
        shape->alone_ns = profile_latency_ns(&profile, 1);
        subcluster_update_profile(shape->home, shape->core_id, &profile);
    }
}

/* ---- The core ---- */

/* What a worker's borders are made for, the largest of its references unless it says otherwise: what is larger runs
 * whole there. */
static uint64_t most_elements(const instance_t *i)
{
    uint64_t told = i->report->mode_elements;
    return told > 0 ? told : i->family->members[i->family->count - 1].elements;
}

static bool suits_mode(const shape_t *shape)
{
    const model_t *model = shape->model;
    for (const instance_t *i = model->instances; i; i = i->next) {
        if (!i->family || !instance_counts(i, model->home))
            continue;
        if (shapes_elements(i->report, shape->sizes) > most_elements(i))
            return false;
    }
    return true;
}

void shapes_follow_inside(const model_t *model)
{
    for (const shape_t *shape = model->shapes; shape; shape = shape->next)
        if (shape->home == model->home)
            model_tell_inside(model, shape->core_id, suits_mode(shape));
}

void shapes_allow(const model_t *model, uint32_t gpu, bool allowed)
{
    for (const shape_t *shape = model->shapes; shape; shape = shape->next)
        if (shape->home)
            subcluster_allow(shape->home, shape->core_id, gpu, allowed);
}

static void allow_devices(const shape_t *shape)
{
    const subcluster_t *home = shape->home;
    for (uint32_t gpu = 0; gpu < home->devices_max; gpu++)
        if (home->devices[gpu] && home->devices[gpu]->open)
            subcluster_allow(shape->home, shape->core_id, gpu,
                             model_runs_on(shape->model, home->devices[gpu]));
}

static void add_stats(sched_model_stats_t *sum, const sched_model_stats_t *part)
{
    sum->submitted += part->submitted;
    sum->granted += part->granted;
    sum->cancelled += part->cancelled;
    for (int reason = 0; reason < SCHED_DROP_REASONS; reason++)
        sum->dropped[reason] += part->dropped[reason];
    sum->batches += part->batches;
    sum->preempted_batches += part->preempted_batches;
    sum->stretches += part->stretches;
    sum->queued += part->queued;
    sum->in_flight += part->in_flight;
    sum->busy_ns += part->busy_ns;
}

void shapes_add_stats(const model_t *model, sched_model_stats_t *stats)
{
    add_stats(stats, &model->past);
    for (const shape_t *shape = model->shapes; shape; shape = shape->next) {
        sched_model_stats_t part;
        if (!shape->home)
            continue;
        subcluster_model_stats(shape->home, shape->core_id, &part);
        add_stats(stats, &part);
    }
}

void shapes_widen_scatter(const model_t *model, sched_scatter_t *scatter)
{
    for (const shape_t *shape = model->shapes; shape; shape = shape->next) {
        sched_scatter_t part;
        if (!shape->home)
            continue;
        subcluster_model_scatter(shape->home, shape->core_id, &part);
        if (part.guard > scatter->guard)
            *scatter = part;
    }
}

/* Its counts live on in the model's. */
static void leave(shape_t *shape)
{
    sched_model_stats_t last;
    if (!shape->home)
        return;
    subcluster_model_stats(shape->home, shape->core_id, &last);
    last.queued = last.in_flight = 0;
    add_stats(&shape->model->past, &last);
    subcluster_remove_model(shape->home, shape->core_id);
    shape->home = NULL;
}

bool shapes_enter(shape_t *shape)
{
    const model_t *model = shape->model;
    profile_t profile;
    err_t err = {0};
    if (shape->home == model->home)
        return true;
    leave(shape);
    profile_of(shape, &profile);
    shape->alone_ns = profile_latency_ns(&profile, 1);
    if (subcluster_add_model(model->home, shape->core_id, &profile, model->slo_ns, &err) != STATUS_OK) {
        note_error(model->home->turn, "shape_refused", LOG_STR("model", model->name), LOG_ERR(&err));
        return false;
    }
    shape->home = model->home;
    model_tell_inside(model, shape->core_id, suits_mode(shape));
    allow_devices(shape);
    return true;
}

void shapes_move_out(model_t *model)
{
    for (shape_t *shape = model->shapes; shape; shape = shape->next)
        leave(shape);
}

/* ---- Finding and making ---- */

static shape_t *longest_idle(const models_t *models, const model_t *of)
{
    shape_t *oldest = NULL;
    for (uint32_t i = 0; i < SHAPES_MAX; i++) {
        shape_t *shape = &models->shapes[i];
        bool candidate = shape->model && shape->tasks == 0 && (!of || shape->model == of);
        if (candidate && (!oldest || shape->used < oldest->used))
            oldest = shape;
    }
    return oldest;
}

static void unlink_shape(shape_t *shape)
{
    shape_t **at = &shape->model->shapes;
    while (*at != shape)
        at = &(*at)->next;
    *at = shape->next;
    shape->model->shape_count--;
}

/* A place: a free one, else that of a shape without tasks. */
static shape_t *take_place(models_t *models, const model_t *model)
{
    bool full = model->shape_count >= SHAPES_PER_MODEL_MAX;
    if (!full && models->free_shapes) {
        shape_t *shape = models->free_shapes;
        models->free_shapes = shape->next;
        return shape;
    }
    shape_t *shape = longest_idle(models, full ? model : NULL);
    if (!shape)
        return NULL;
    leave(shape);
    unlink_shape(shape);
    return shape;
}

shape_t *shapes_hold(models_t *models, model_t *model, const uint32_t *sizes, uint32_t count)
{
    shape_t *shape = model->shapes;
    while (shape && (shape->axis_count != count || memcmp(shape->sizes, sizes, count * sizeof *sizes) != 0))
        shape = shape->next;
    if (!shape) {
        shape = take_place(models, model);
        if (!shape)
            return NULL;
        *shape =
            (shape_t){.next = model->shapes, .model = model, .core_id = shape->core_id, .axis_count = count};
        memcpy(shape->sizes, sizes, count * sizeof *sizes);
        model->shapes = shape;
        model->shape_count++;
    }
    shape->tasks++;
    shape->used = ++models->shapes_used;
    return shape;
}

void shapes_release(shape_t *shape)
{
    shape->tasks--;
}
