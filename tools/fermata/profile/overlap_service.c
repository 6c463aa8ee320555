#include "fermata/profile/overlap_service.h"

#include "model/measure/profiler_modes.h"

#include <stdlib.h>
#include <string.h>

/* Fills the shapes of a job of so many rows; NULL: they do not vary. */
static const engine_shape_t *put_inputs(const overlap_service_t *s, uint32_t shape, uint32_t rows,
                                        engine_shape_t shapes[ENGINE_MAX_IO])
{
    if (!s->mix)
        return NULL;
    axes_input_shapes(s->mix->axes, s->mix->shapes[shape].sizes, rows, shapes);
    return shapes;
}

uint32_t overlap_service_length(const overlap_service_t *s, uint32_t shape)
{
    return s->mix ? axes_length(s->mix->axes, s->mix->shapes[shape].sizes) : 1;
}

/* Lengths rise from shape to shape. */
static uint32_t shape_of(const overlap_service_t *s, uint32_t length)
{
    uint32_t shape = 0;
    while (s->mix && shape + 1 < s->mix->count && overlap_service_length(s, shape) < length)
        shape++;
    return shape;
}

/* ---- memory ---- */

/* Bytes of a row of each output, whatever its shape is. */
static status_t measure_outputs(const overlap_service_t *s, size_t row_bytes[ENGINE_MAX_IO], err_t *err)
{
    const profiler_t profiler = {.ops = s->ops, .engine = s->engine, .model = s->model};
    size_t bytes[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < s->info->output_count; i++)
        row_bytes[i] = s->info->outputs[i].row_bytes;
    for (uint32_t shape = 0; s->mix && status == STATUS_OK && shape < s->mix->count; shape++) {
        profiler_t at = profiler;
        at.axes = s->mix->axes;
        at.axis_sizes = s->mix->shapes[shape].sizes;
        status = profiler_output_bytes(&at, bytes, err);
        for (uint32_t i = 0; status == STATUS_OK && i < s->info->output_count; i++)
            row_bytes[i] = bytes[i] > row_bytes[i] ? bytes[i] : row_bytes[i];
    }
    return status;
}

static void *take_buffer(const overlap_service_t *s, uint64_t row_bytes, size_t *len)
{
    void *buffer;
    if (__builtin_mul_overflow(row_bytes, (uint64_t)s->info->max_batch, len) ||
        !(buffer = s->ops->buffer_alloc(s->engine, *len + 1)))
        return NULL;
    return memset(buffer, 0, *len);
}

static status_t take_buffers(overlap_service_t *s, err_t *err)
{
    size_t row_bytes[ENGINE_MAX_IO], len;
    bool taken = true;
    status_t status = measure_outputs(s, row_bytes, err);
    for (uint32_t i = 0; status == STATUS_OK && taken && i < s->info->input_count; i++) {
        uint64_t bytes = s->mix ? axes_row_bytes(s->mix->axes, i, profile_mix_largest(s->mix))
                                : s->info->inputs[i].row_bytes;
        taken = (s->inputs[i] = take_buffer(s, bytes, &len));
    }
    for (uint32_t i = 0; status == STATUS_OK && taken && i < s->info->output_count; i++)
        taken = (s->outputs[i] = take_buffer(s, row_bytes[i], &s->capacity[i]));
    if (status == STATUS_OK && !taken)
        return err_set(err, STATUS_NO_MEMORY, "no memory for batches of %u", s->info->max_batch);
    return status;
}

/* ---- cuts ---- */

static status_t make_borders(overlap_service_t *s, err_t *err)
{
    engine_shape_t shapes[ENGINE_MAX_IO];
    const engine_shape_t *largest = put_inputs(s, s->mix ? s->mix->count - 1 : 0, 1, shapes);
    engine_border_t **borders[] = {&s->source, &s->target};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < 2; i++)
        status = s->ops->border_create(s->model, s->at + 1, s->pieces - 1, s->info->max_batch, largest,
                                       borders[i], err);
    return status;
}

/* Where dimensions vary the cuts are those of the shapes that were prepared last. */
static status_t prepare_largest(const overlap_service_t *s, err_t *err)
{
    engine_shape_t shapes[ENGINE_MAX_IO];
    if (!s->mix || !s->ops->prepare_shapes)
        return STATUS_OK;
    return s->ops->prepare_shapes(s->model, 1, put_inputs(s, s->mix->count - 1, 1, shapes), err);
}

static status_t find_cuts(overlap_service_t *s, err_t *err)
{
    engine_cuts_t cuts = {0};
    err_t why;
    status_t status = prepare_largest(s, err);
    if (status != STATUS_OK)
        return status;
    status = s->ops->cuts ? s->ops->cuts(s->model, &cuts, &why) : STATUS_UNSUPPORTED;
    if (status != STATUS_OK && status != STATUS_UNSUPPORTED) {
        *err = why;
        return status;
    }
    s->pieces = cuts.cut_count + 1; /* one that cannot be cut is one piece */
    s->op_count = cuts.ops;
    s->at = calloc(s->pieces + 1, sizeof(*s->at));
    if (!s->at)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < cuts.cut_count; i++)
        s->at[i + 1] = cuts.cuts[i].op;
    return STATUS_OK;
}

/* ---- shapes ---- */

/* UNSUPPORTED: with this shape the model has other operators. */
static status_t try_shape(const overlap_service_t *s, uint32_t shape, const uint32_t *rows,
                          uint32_t row_count, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < row_count; i++) {
        exec_part_t part = {.to = 1, .rows = rows[i], .length = overlap_service_length(s, shape)};
        status = overlap_service_prepare(s, &part, err);
    }
    return status;
}

/* The largest is the one that was cut. */
static status_t choose_shapes(overlap_service_t *s, const uint32_t *rows, uint32_t row_count, err_t *err)
{
    for (uint32_t shape = 0; s->mix && s->pieces > 1 && shape < s->mix->count;) {
        status_t status = try_shape(s, shape, rows, row_count, err);
        if (status == STATUS_UNSUPPORTED && shape + 1 < s->mix->count)
            profile_mix_remove(s->mix, shape);
        else if (status != STATUS_OK)
            return status;
        else
            shape++;
    }
    return STATUS_OK;
}

/* ---- life ---- */

status_t overlap_service_open(overlap_service_t *s, const uint32_t *rows, uint32_t row_count, err_t *err)
{
    s->info = s->ops->info(s->model);
    status_t status = find_cuts(s, err);
    if (status == STATUS_OK && s->pieces > 1)
        status = make_borders(s, err);
    if (status == STATUS_OK)
        status = choose_shapes(s, rows, row_count, err);
    return status == STATUS_OK ? take_buffers(s, err) : status;
}

void overlap_service_close(overlap_service_t *s)
{
    if (s->source)
        s->ops->border_destroy(s->source);
    if (s->target)
        s->ops->border_destroy(s->target);
    for (uint32_t i = 0; s->ops && i < ENGINE_MAX_IO; i++) {
        s->ops->buffer_free(s->engine, s->inputs[i]);
        s->ops->buffer_free(s->engine, s->outputs[i]);
    }
    free(s->at);
}

/* ---- jobs ---- */

engine_job_t overlap_service_job(overlap_service_t *s, const exec_part_t *part, uint32_t from, uint32_t to)
{
    engine_job_t job = {.model = s->model,
                        .batch = part->rows,
                        .range = {.stream = part->stream, .from = s->at[from], .to = s->at[to]},
                        .inputs = (const void *const *)s->inputs,
                        .outputs = s->outputs,
                        .source = from ? s->source : NULL,
                        .target = to < s->pieces ? s->target : NULL};
    job.input_shapes = put_inputs(s, shape_of(s, part->length), part->rows, s->in_shapes);
    if (s->mix) {
        job.output_shapes = s->out_shapes;
        job.output_capacity_bytes = s->capacity;
    }
    return job;
}

status_t overlap_service_prepare(const overlap_service_t *s, const exec_part_t *part, err_t *err)
{
    engine_shape_t shapes[ENGINE_MAX_IO];
    engine_range_t range = {.stream = part->stream, .from = s->at[part->from], .to = s->at[part->to]};
    if (!s->ops->prepare_range)
        return STATUS_OK;
    return s->ops->prepare_range(s->model, &range, part->rows,
                                 put_inputs(s, shape_of(s, part->length), part->rows, shapes), err);
}
