#include "engine/onnxruntime/parts.h"

#include <stdlib.h>
#include <string.h>

struct part {
    part_t *next;
    uint32_t from, to;
    bool timing; /* made to time operators: gone with the next job of another kind */
    OrtSession *session;
    uint64_t memory_bytes;
};

static void declare(const engine_model_info_t *info, const edge_t *ends, uint32_t count, onnx_edge_t *to)
{
    for (uint32_t i = 0; i < count; i++) {
        to[i] = (onnx_edge_t){.name = ends[i].name, .dtype = ends[i].t.dtype, .rank = ends[i].t.rank};
        memcpy(to[i].dims, ends[i].t.dims, ends[i].t.rank * sizeof to[i].dims[0]);
        if (info->batchable)
            to[i].dims[0] = -1;
    }
}

static bool is_among(const edge_t *ends, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(ends[i].name, name) == 0)
            return true;
    return false;
}

uint32_t part_makes(const edge_t *in, uint32_t in_count, const edge_t *out, uint32_t out_count,
                    uint32_t *makes)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < out_count; i++)
        if (!is_among(in, in_count, out[i].name))
            makes[count++] = i;
    return count;
}

static status_t make_session(const engine_model_t *model, const source_t *source, part_t *part, err_t *err)
{
    edge_t in[ENGINE_MAX_IO], out[ENGINE_MAX_IO], made[ENGINE_MAX_IO];
    onnx_edge_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
    uint32_t which[ENGINE_MAX_IO];
    uint32_t in_count = edges_at(model, part->from, in), out_count = edges_at(model, part->to, out);
    uint32_t count = part_makes(in, in_count, out, out_count, which);
    void *bytes;
    size_t len;
    if (!count) /* it all goes through */
        return STATUS_OK;
    for (uint32_t i = 0; i < count; i++)
        made[i] = out[which[i]];
    declare(model_info(model), in, in_count, inputs);
    declare(model_info(model), made, count, outputs);
    const onnx_part_t what = {
        .inputs = inputs, .outputs = outputs, .input_count = in_count, .output_count = count};
    status_t status = onnx_extract_pack(source->extract, &what, &bytes, &len, err);
    if (status != STATUS_OK)
        return status;
    engine_load_t load = model->load;
    load.bytes = bytes;
    load.len_bytes = len;
    status = session_create(&load, &model->engine->threads, false, &part->session, err);
    part->memory_bytes = MODEL_COPIES * (uint64_t)len;
    free(bytes);
    return status;
}

static status_t add_part(engine_model_t *model, const source_t *source, uint32_t from, uint32_t to,
                         bool timing, part_t **out, err_t *err)
{
    part_t *part = calloc(1, sizeof *part);
    if (!part)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a part of a model");
    *part = (part_t){.from = from, .to = to, .timing = timing};
    status_t status = make_session(model, source, part, err);
    if (status != STATUS_OK) {
        free(part);
        return err_prefix(err, "operators %u..%u", from, to);
    }
    part->next = model->parts.list;
    model->parts.list = part;
    model->blueprint.description.info.memory_bytes += part->memory_bytes;
    *out = part;
    return STATUS_OK;
}

static part_t *find_part(const engine_model_t *model, uint32_t from, uint32_t to)
{
    part_t *part = model->parts.list;
    while (part && (part->from != from || part->to != to))
        part = part->next;
    return part;
}

status_t parts_session(engine_model_t *model, source_t *source, const engine_range_t *range, bool timing,
                       OrtSession **session, err_t *err)
{
    source_t own = {.file = NULL};
    status_t status = STATUS_OK;
    pthread_mutex_lock(&model->parts.mutex);
    part_t *part = find_part(model, range->from, range->to);
    source = source ? source : &own;
    if (!part && !source->extract)
        status = source_open(model, source, err);
    if (!part && status == STATUS_OK)
        status = add_part(model, source, range->from, range->to, true, &part, err);
    if (status == STATUS_OK) {
        part->timing &= timing;
        *session = part->session;
    }
    pthread_mutex_unlock(&model->parts.mutex);
    source_close(&own);
    return status;
}

void parts_time(engine_model_t *model, int change)
{
    pthread_mutex_lock(&model->parts.mutex);
    model->parts.timers += (uint32_t)change;
    pthread_mutex_unlock(&model->parts.mutex);
}

static void release(engine_model_t *model, part_t *part)
{
    model->blueprint.description.info.memory_bytes -= part->memory_bytes;
    if (part->session)
        ort->ReleaseSession(part->session);
    free(part);
}

/* Those that were made to time operators, or all. */
void parts_drop(engine_model_t *model, bool all)
{
    pthread_mutex_lock(&model->parts.mutex);
    part_t **at = &model->parts.list;
    while (*at) {
        part_t *part = *at;
        if (!all && (!part->timing || model->parts.timers)) {
            at = &part->next;
            continue;
        }
        *at = part->next;
        release(model, part);
    }
    pthread_mutex_unlock(&model->parts.mutex);
}

void parts_dispose(engine_model_t *model)
{
    parts_drop(model, true);
    free(model->parts.names);
    pthread_mutex_destroy(&model->parts.mutex);
}

status_t parts_prepare_range(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                             const engine_shape_t *input_shapes, err_t *err)
{
    const blueprint_t *b = &model->blueprint;
    engine_range_t part = *range;
    tensor_t inputs[ENGINE_MAX_IO];
    OrtSession *made;
    if (batch < 1 || batch > model_info(model)->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "batch %u is outside 1..%u", batch,
                       model_info(model)->max_batch);
    status_t status = cpu_input_shapes(model_info(model), batch, input_shapes, inputs, err);
    part.to = part.to ? part.to : b->cuts.ops;
    if (status == STATUS_OK)
        status = blueprint_check_range(b, &part, model->engine->cpu.lane_count, b->cuts.ops, err);
    if (status != STATUS_OK || (part.from == 0 && part.to == b->cuts.ops))
        return status;
    return parts_session(model, NULL, &part, false, &made, err);
}
