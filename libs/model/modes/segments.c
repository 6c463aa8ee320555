#include "model/modes/segments.h"

#include "exec/overlap_share.h"
#include "model/model.h"
#include "model/parts/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Of the longest rows. */
static const uint32_t *sizes_of(const model_segments_t *segments)
{
    return segments->plan->models[segments->service].sizes;
}

bool model_segments_fit(const model_segments_t *segments, const uint32_t *sizes)
{
    return axes_within(&segments->shapes->axes, sizes, sizes_of(segments));
}

uint32_t model_segments_length(const model_segments_t *segments, const uint32_t *sizes)
{
    uint64_t elements = sizes ? axes_elements(&segments->shapes->axes, sizes) : 1;

    return overlap_plan_length(segments->plan, segments->service, elements);
}

/* As much on each device: counted as those of the first are made. */
static status_t make_borders(model_segments_t *segments, model_t *model, const engine_cuts_t *cuts,
                             err_t *err)
{
    const engine_ops_t *ops = segments->devices->ops;
    uint32_t count = segments->devices->count * SEGMENTS_QUERIES * SEGMENTS_SIDES;
    engine_shape_t largest[ENGINE_MAX_IO];

    if (segments->shapes)
        axes_input_shapes(&segments->shapes->axes, sizes_of(segments), 1, largest);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t device = i / (SEGMENTS_QUERIES * SEGMENTS_SIDES);
        status_t status = ops->border_create(model->on_device[device], segments->from + 1, cuts->cut_count,
                                             model->info->max_batch, segments->shapes ? largest : NULL,
                                             &segments->borders[i], err);
        if (status == STATUS_OK && device == 0)
            status = memory_take_more(model, segments->devices, ops->border_bytes(segments->borders[i]),
                                      "the memory between its segments needs", err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

/* busy_fixed and busy_row of a model of the plan, by its duration model at batches from one to rows_max, all
 * of their longest rows (exec/overlap_share.h). */
static void model_segments_find_busy(model_segments_t *segments, uint32_t rows_max)
{
    overlap_config_t config = overlap_plan_config(segments->plan);
    uint32_t lengths[OVERLAP_MODELS_MAX];

    for (uint32_t i = 0; i < config.models; i++)
        lengths[i] = segments->plan->models[i].length_max;
    overlap_busy_t busy = overlap_busy(&config, segments->service, rows_max, lengths, SEGMENTS_WHOLE);
    segments->busy_fixed = busy.fixed;
    segments->busy_row = busy.row;
}

/* Whatever a group asks for is there then: a range of segments needs no more than its two ends. */
static status_t prepare_rows(const model_segments_t *segments, engine_model_t *model, uint32_t stream,
                             uint32_t cut_count, const uint32_t *sizes, uint32_t rows, err_t *err)
{
    engine_shape_t inputs[ENGINE_MAX_IO];
    status_t status = STATUS_OK;

    if (sizes)
        axes_input_shapes(&segments->shapes->axes, sizes, rows, inputs);
    for (uint32_t i = 0; i <= cut_count && status == STATUS_OK; i++) {
        engine_range_t range = {.stream = stream, .from = segments->from[i], .to = segments->from[i + 1]};
        status = segments->devices->ops->prepare_range(model, &range, rows, sizes ? inputs : NULL, err);
    }
    return status;
}

/* sizes: NULL where nothing but the batch varies. Rows with which the model has other operators run whole. */
static status_t prepare_shape(const model_segments_t *segments, const model_t *model, uint32_t cut_count,
                              const uint32_t *sizes, const _Atomic(int) *stop, err_t *err)
{
    status_t status = STATUS_OK;

    for (uint32_t d = 0; d < segments->devices->count; d++)
        for (uint32_t stream = 0; stream < segments->devices->streams; stream++)
            for (uint32_t rows = 1; rows <= model->info->max_batch && status == STATUS_OK; rows++)
                status = atomic_load(stop) ? err_set(err, STATUS_CANCELLED, "stopped")
                                           : prepare_rows(segments, model->on_device[d], stream, cut_count,
                                                          sizes, rows, err);
    return sizes && status == STATUS_UNSUPPORTED ? STATUS_OK : status;
}

/* Of shapes that nobody asked for the first batch prepares what it needs. */
static status_t prepare_all(const model_segments_t *segments, const model_t *model, uint32_t cut_count,
                            const _Atomic(int) *stop, err_t *err)
{
    const model_shapes_t *shapes = segments->shapes;
    status_t status = STATUS_OK;

    if (!shapes)
        return prepare_shape(segments, model, cut_count, NULL, stop, err);
    for (uint32_t i = 0; shapes->wanted && i < shapes->reference_count && status == STATUS_OK; i++)
        if (model_segments_fit(segments, shapes->references[i]))
            status = prepare_shape(segments, model, cut_count, shapes->references[i], stop, err);
    return status;
}

status_t model_segments_create(model_t *model, const model_load_options_t *options, const engine_cuts_t *cuts,
                               uint32_t service, model_segments_t **out, err_t *err)
{
    model_segments_t *segments = calloc(1, sizeof(*segments));
    status_t status = STATUS_OK;

    if (!segments)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    segments->devices = options->devices;
    segments->plan = options->overlap;
    segments->service = service;
    segments->shapes = model->shapes;
    segments->from = calloc(cuts->cut_count + 2, sizeof(*segments->from));
    segments->borders = calloc((size_t)options->devices->count * SEGMENTS_QUERIES * SEGMENTS_SIDES,
                               sizeof(*segments->borders));
    if (!segments->from || !segments->borders) {
        status = err_set(err, STATUS_NO_MEMORY, "out of memory");
    } else {
        for (uint32_t i = 0; i < cuts->cut_count; i++)
            segments->from[i + 1] = cuts->cuts[i].op;
        segments->from[cuts->cut_count + 1] = cuts->ops;
        status = make_borders(segments, model, cuts, err);
    }
    if (status == STATUS_OK)
        status = prepare_all(segments, model, cuts->cut_count, options->stop, err);
    if (status == STATUS_OK)
        model_segments_find_busy(segments, model->info->max_batch);
    if (status == STATUS_OK)
        *out = segments;
    else
        model_segments_destroy(segments);
    return status;
}

void model_segments_destroy(model_segments_t *segments)
{
    if (!segments)
        return;
    model_borders_free(segments->devices, segments->borders,
                       segments->devices->count * SEGMENTS_QUERIES * SEGMENTS_SIDES);
    free(segments->from);
    free(segments);
}
