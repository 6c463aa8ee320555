/*
 * From output items to the response. An item holds one row of all outputs side by side, so an output is one
 * piece when it is the model's only one, else one piece per row.
 */
#include "gateway/sessions/session_private.h"

#include "gateway/sessions/postprocess.h"

#include <string.h>

static bool needs_postprocessing(const oip_request_t *request, const oip_model_spec_t *spec)
{
    for (uint32_t i = 0; i < request->requested_count; i++)
        if (request->requested[i].classification > 0)
            return true;
    for (uint32_t i = 0; i < spec->output_count; i++)
        if (spec->outputs[i].text_bytes > 0)
            return true;
    return spec->softmax_output >= 0;
}

static oip_shape_t public_shape(const slot_t *slot, const oip_shape_t *row)
{
    oip_shape_t shape = {0};
    if (slot->session.model->spec.max_batch > 0)
        shape.dims[shape.rank++] = slot->rows;
    for (uint32_t i = 0; i < row->rank && shape.rank < OIP_MAX_RANK; i++)
        shape.dims[shape.rank++] = row->dims[i];
    return shape;
}

/* pieces: room for one per row, or for one when one is enough. */
static void fill_output(slot_t *slot, uint32_t spec_index, const output_layout_t *layout,
                        const oip_requested_t *wanted, struct iovec *pieces, oip_output_t *output)
{
    const oip_model_spec_t *spec = &slot->session.model->spec;
    uint8_t *at = slot->output + layout->offset_bytes;
    uint32_t count = layout->bytes == slot->item_out_bytes ? 1 : slot->rows;
    for (uint32_t i = 0; i < count; i++)
        pieces[i] = (struct iovec){at + i * slot->item_out_bytes,
                                   count == 1 ? slot->rows * layout->bytes : layout->bytes};
    *output = (oip_output_t){.name = spec->outputs[spec_index].name,
                             .datatype = spec->outputs[spec_index].datatype,
                             .shape = public_shape(slot, &layout->dims),
                             .pieces = pieces,
                             .piece_count = count,
                             .binary = oip_request_is_binary(&slot->session.request, wanted),
                             .memory = wanted && wanted->memory.region ? &wanted->memory : NULL};
}

static status_t fill_outputs(slot_t *slot, err_t *err)
{
    const oip_request_t *request = &slot->session.request;
    const oip_model_spec_t *spec = &slot->session.model->spec;
    oip_response_t *response = &slot->session.response;
    uint32_t count = request->requested_count > 0 ? request->requested_count : spec->output_count;
    struct iovec *pieces = slot->pieces;
    output_layout_t layouts[OIP_MAX_TENSORS];
    status_t status = slot_layout_outputs(slot, layouts, err);
    if (status != STATUS_OK)
        return status;
    size_t each = layouts[0].bytes < slot->item_out_bytes ? slot->rows : 1;
    if (each > 1) {
        pieces = session_alloc(&slot->session, count * each * sizeof *pieces);
        if (!pieces)
            return err_set(err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
    }
    response->output_count = count;
    for (uint32_t i = 0; i < count; i++) {
        const oip_requested_t *wanted = request->requested_count > 0 ? &request->requested[i] : NULL;
        uint32_t spec_index = wanted ? (uint32_t)wanted->spec_index : i;
        fill_output(slot, spec_index, &layouts[spec_index], wanted, pieces + i * each, &response->outputs[i]);
    }
    return STATUS_OK;
}

status_t slot_answer(slot_t *slot, err_t *err)
{
    session_t *session = &slot->session;
    oip_response_t *response = &session->response;
    response->model = session->model->spec.name;
    response->version = session->model->spec.version;
    response->id = session->request.id;
    response->has_timing = session->request.wants_timing;
    response->batch_size = slot->timing.batch_size;
    response->queue_us = slot->timing.queue_ns / 1000;
    response->compute_us = slot->timing.exec_ns / 1000;
    status_t status = fill_outputs(slot, err);
    if (status == STATUS_OK && needs_postprocessing(&session->request, &session->model->spec))
        status =
            postprocess_apply(&session->model->spec, &session->request, &session->allocator, response, err);
    return status == STATUS_OK ? slot_fill_memory(slot, err) : status;
}
