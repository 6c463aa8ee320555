/*
 * Rows of granted batches in the batches of the stages: which may be in one together, of which shape that is, where their
 * inputs come from and their outputs go.
 *
 * Where the model's axes can be padded each row belongs to the smallest reference that holds it, and a batch runs at the
 * largest reference of its rows. The stages were prepared for it when the model was loaded: nothing is compiled
 * in the path, the engine has the operators for it, and libs/exec, for which a row is as long as its reference, knows
 * what it costs. References are not always in each other (16x64, 32x32): rows share a batch only if theirs are.
 *
 * Only policy I pads: its batches neither grow nor split, so that each stage runs the same rows.
 */
#include "worker/modes/executor_staged.h"
#include "worker/modes/pads.h"

#include <string.h>

/* ---- who can share a batch ---- */

static bool are_alike(const staged_t *staged, const batch_t *a, const batch_t *b)
{
    uint32_t count = staged->shapes ? staged->model->shapes->axes.count : 0;

    return count == 0 || memcmp(a->shapes->sizes, b->shapes->sizes, count * sizeof(uint32_t)) == 0;
}

static bool can_share(const staged_t *staged, const batch_t *a, const batch_t *b)
{
    if (are_alike(staged, a, b))
        return true;
    const axes_t *axes = &staged->model->shapes->axes;
    return a->pad_to && b->pad_to &&
           (axes_nest(axes, a->pad_to, b->pad_to) || axes_nest(axes, b->pad_to, a->pad_to));
}

static bool can_share_with_all(const staged_t *staged, const batch_t *batch, uint32_t shape)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const batch_t *other = staged->slots[i];
        if (other && other != batch && other->shape == shape && !can_share(staged, other, batch))
            return false;
    }
    return true;
}

/* A number that no other batch has is a shape of its own. */
static uint32_t shape_of(staged_t *staged, const batch_t *batch)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const batch_t *other = staged->slots[i];
        if (other && other != batch && can_share_with_all(staged, batch, other->shape))
            return other->shape;
    }
    return ++staged->last_shape;
}

static uint32_t length_of(const staged_t *staged, const batch_t *batch)
{
    if (!staged->shapes)
        return 1;
    const uint32_t *sizes = batch->pad_to ? batch->pad_to : batch->shapes->sizes;
    uint64_t elements = axes_elements(&staged->model->shapes->axes, sizes);
    return elements < UINT32_MAX ? (uint32_t)elements : UINT32_MAX;
}

void staged_rows_come(staged_t *staged, batch_t *batch)
{
    batch->pad_to = staged->shapes ? model_stages_pad_to(staged->stages, batch->shapes->sizes) : NULL;
    batch->length = length_of(staged, batch);
    batch->shape = shape_of(staged, batch);
}

/* ---- shapes of what runs ---- */

static const uint32_t *sizes_of(const staged_t *staged, const stage_t *stage)
{
    const batch_t *longest = batch_of(staged, stage->tags[0]);

    for (uint32_t i = 1; i < stage->count; i++) {
        const batch_t *batch = batch_of(staged, stage->tags[i]);
        if (batch->length > longest->length)
            longest = batch;
    }
    return longest->pad_to ? longest->pad_to : longest->shapes->sizes;
}

void staged_rows_shape(staged_t *staged, stage_t *stage)
{
    const axes_t *axes = &staged->model->shapes->axes;
    stage_shapes_t *shapes = &staged->shapes[stage - staged->stage];

    memcpy(shapes->sizes, sizes_of(staged, stage), axes->count * sizeof(shapes->sizes[0]));
    axes_input_shapes(axes, shapes->sizes, stage->count, shapes->inputs);
    for (uint32_t k = 0; k < staged->model->info->output_count; k++)
        shapes->outputs[k].rank = BATCH_RANK_UNKNOWN;
    stage->launch.job.input_shapes = shapes->inputs;
    stage->launch.job.output_shapes = shapes->outputs;
    if (stage->ends)
        stage->launch.job.output_capacity_bytes = stage->ends->capacity + staged->model->info->input_count;
}

/* NULL: its rows are as long there as they came. */
static const uint32_t *padded_to(const staged_t *staged, const stage_t *stage, const batch_t *batch)
{
    if (!staged->shapes)
        return NULL;
    const uint32_t *sizes = staged->shapes[stage - staged->stage].sizes;
    size_t len_bytes = staged->model->shapes->axes.count * sizeof(*sizes);
    return memcmp(sizes, batch->shapes->sizes, len_bytes) == 0 ? NULL : sizes;
}

/* ---- inputs ---- */

/* They lie where they were fetched as they are to lie in the border. */
static bool in_place(const staged_t *staged, const stage_t *stage, uint32_t start)
{
    const batch_t *batch = batch_of(staged, stage->tags[0]);

    for (uint32_t i = 0; i < stage->count; i++)
        if (batch_of(staged, stage->tags[i]) != batch || row_of(stage->tags[i]) != start + i)
            return false;
    return !padded_to(staged, stage, batch);
}

static void copy_rows(void *to, uint32_t to_row, const void *from, uint32_t from_row, uint32_t count,
                      size_t row_bytes)
{
    memcpy((char *)to + to_row * row_bytes, (const char *)from + from_row * row_bytes, count * row_bytes);
}

static void lay_row(const staged_t *staged, const batch_t *batch, uint32_t row, const uint32_t *wide,
                    model_buffers_t *ends, uint32_t to_row)
{
    const axes_t *axes = wide ? &staged->model->shapes->axes : NULL;

    for (uint32_t k = 0; k < staged->model->info->input_count; k++) {
        const char *from = batch->buffers->inputs[k];
        if (wide)
            pads_lay(axes, k, batch->shapes->sizes, wide, from + row * batch->in_bytes[k],
                     (char *)ends->inputs[k] + to_row * axes_row_bytes(axes, k, wide));
        else
            copy_rows(ends->inputs[k], to_row, from, row, 1, batch->in_bytes[k]);
    }
}

uint32_t staged_rows_gather(staged_t *staged, stage_t *stage, uint32_t start, uint32_t pair)
{
    bool there = in_place(staged, stage, start);
    model_buffers_t *from = there ? batch_of(staged, stage->tags[0])->buffers : staged->ends[pair];
    uint32_t padded = 0;

    for (uint32_t k = 0; k < staged->model->info->input_count; k++)
        stage->inputs[k] = from->inputs[k];
    for (uint32_t i = 0; i < stage->count && !there; i++) {
        const batch_t *batch = batch_of(staged, stage->tags[i]);
        const uint32_t *wide = padded_to(staged, stage, batch);
        lay_row(staged, batch, row_of(stage->tags[i]), wide, staged->ends[pair], start + i);
        padded += wide ? 1 : 0;
    }
    return padded;
}

/* ---- outputs ---- */

bool staged_rows_grow(staged_t *staged, const stage_t *stage)
{
    const engine_model_info_t *info = staged->model->info;
    const engine_shape_t *outputs = stage->launch.job.output_shapes;
    bool grown = false;

    if (stage->launch.status != STATUS_TOO_LARGE || !staged->shapes || !stage->ends)
        return false;
    for (uint32_t k = 0; k < info->output_count; k++) {
        if (outputs[k].rank == BATCH_RANK_UNKNOWN)
            return false;
        uint64_t bytes = axes_output_row_bytes(info, k, &outputs[k]);
        if (bytes > MODEL_ROW_BYTES_MAX)
            return false;
        uint32_t i = info->input_count + k;
        bytes *= staged->stages->rows_max;
        grown |= bytes > stage->ends->capacity[i];
        if (!model_buffers_reserve(staged->stages->devices, stage->ends, i, bytes))
            return false;
    }
    return grown;
}

/* The shapes that the outputs of a batch have without the padding. */
static status_t follow_shapes(const staged_t *staged, batch_t *batch, const uint32_t *wide,
                              const engine_shape_t *outputs)
{
    const axes_t *axes = &staged->model->shapes->axes;
    engine_shape_t own[ENGINE_MAX_IO];
    status_t status = STATUS_OK;

    for (uint32_t k = 0; wide && k < axes->info->output_count && status == STATUS_OK; k++)
        status = pads_cut_shape(axes, k, batch->shapes->sizes, wide, &outputs[k], &own[k], &batch->err);
    if (status != STATUS_OK)
        return status;
    return batch_follow_shapes(batch, staged->stages->devices, wide ? own : outputs);
}

static void cut_rows(const staged_t *staged, batch_t *batch, uint32_t row, uint32_t count, uint32_t from_row,
                     const uint32_t *wide, const stage_t *stage)
{
    const axes_t *axes = &staged->model->shapes->axes;

    for (uint32_t k = 0; k < axes->info->output_count; k++) {
        size_t wide_bytes =
            axes_output_row_bytes(axes->info, k, &staged->shapes[stage - staged->stage].outputs[k]);
        for (uint32_t i = 0; i < count; i++)
            pads_cut(axes, k, batch->shapes->sizes, wide,
                     (const char *)stage->ends->outputs[k] + (from_row + i) * wide_bytes,
                     (char *)batch->buffers->outputs[k] + (row + i) * batch->out_bytes[k]);
    }
}

status_t staged_rows_take(staged_t *staged, batch_t *batch, uint32_t row, uint32_t count, uint32_t from_row,
                          uint32_t pair)
{
    uint32_t last = stage_at(staged->stages->count - 1, pair);
    const stage_t *stage = &staged->stage[last];
    const uint32_t *wide = padded_to(staged, stage, batch);
    status_t status = STATUS_OK;

    if (staged->shapes)
        status = follow_shapes(staged, batch, wide, staged->shapes[last].outputs);
    if (status == STATUS_OK && wide)
        cut_rows(staged, batch, row, count, from_row, wide, stage);
    for (uint32_t k = 0; k < staged->model->info->output_count && status == STATUS_OK && !wide; k++)
        copy_rows(batch->buffers->outputs[k], row, stage->ends->outputs[k], from_row, count,
                  batch->out_bytes[k]);
    for (uint32_t i = row; i < row + count && status != STATUS_OK; i++)
        batch_lose_row(batch, i, status);
    return status;
}
