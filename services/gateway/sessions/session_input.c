/*
 * From tensors as the client sent them to items as workers fetch them: row i of all inputs, in the model's
 * order, side by side. A single tensor that already lies in the arena is that by itself.
 *
 *   inputs:  A = a0 a1 a2   B = b0 b1 b2        items:  a0 b0 | a1 b1 | a2 b2
 */
#include "gateway/sessions/session_private.h"

#include "oip/text.h"

#include <string.h>

static status_t no_memory(err_t *err)
{
    return err_set(err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
}

static void lay_strings(slot_t *slot, const oip_input_t *input, uint64_t at_bytes)
{
    uint32_t room_bytes = slot->session.model->spec.inputs[input->spec_index].text_bytes;
    size_t each = slot_input_bytes(slot, (uint32_t)input->spec_index) / room_bytes;
    const uint8_t *elements = input->data;
    for (uint32_t row = 0; row < slot->rows; row++)
        oip_text_lay(&elements, each, slot->input + row * slot->item_in_bytes + at_bytes, room_bytes);
}

static void copy_rows(slot_t *slot, const oip_input_t *input, uint64_t at_bytes)
{
    uint32_t index = (uint32_t)input->spec_index;
    uint64_t row_bytes = slot_input_bytes(slot, index), item_bytes = slot->item_in_bytes;
    if (row_bytes == 0)
        return;
    if (slot->session.model->spec.inputs[index].datatype == OIP_BYTES) {
        lay_strings(slot, input, at_bytes);
        return;
    }
    if (slot->padded) {
        size_t sent_bytes = input->len_bytes / slot->rows;
        for (uint32_t row = 0; row < slot->rows; row++)
            slot_pad_row(slot, index, input->data + row * sent_bytes,
                         slot->input + row * item_bytes + at_bytes);
        return;
    }
    if (row_bytes == item_bytes) {
        memcpy(slot->input, input->data, slot->rows * row_bytes);
        return;
    }
    for (uint32_t row = 0; row < slot->rows; row++)
        memcpy(slot->input + row * item_bytes + at_bytes, input->data + row * row_bytes, row_bytes);
}

/* The pictures are decoded after session_submit has returned, so they must lie in memory of the session. */
static status_t take_pictures(slot_t *slot, const oip_input_t *input, uint64_t at_bytes, err_t *err)
{
    model_entry_t *model = slot->session.model;
    const uint8_t *elements = input->data;
    if (!slot_owns(slot, elements, input->len_bytes)) {
        uint8_t *copy = session_alloc(&slot->session, input->len_bytes);
        if (!copy)
            return no_memory(err);
        memcpy(copy, elements, input->len_bytes);
        elements = copy;
    }
    slot->job = (preprocess_job_t){.pipeline = &model->pipeline,
                                   .client = clients_id(&slot->hold),
                                   .deadline_ns = slot->deadline_ns,
                                   .elements = elements,
                                   .elements_bytes = input->len_bytes,
                                   .rows = slot->rows,
                                   .dst = slot->input + at_bytes,
                                   .row_bytes = slot_input_bytes(slot, (uint32_t)input->spec_index),
                                   .stride_bytes = slot->item_in_bytes,
                                   .seconds = model->stats.preprocess_seconds};
    return STATUS_OK;
}

static const oip_input_t *input_of(const oip_request_t *request, uint32_t spec_index)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (request->inputs[i].spec_index == (int32_t)spec_index)
            return &request->inputs[i];
    return NULL;
}

status_t slot_gather(slot_t *slot, err_t *err)
{
    const oip_request_t *request = &slot->session.request;
    const model_entry_t *model = slot->session.model;
    const oip_input_t *only = &request->inputs[0];
    slot->job.rows = 0;
    if (request->input_count == 1 && only->datatype != OIP_BYTES && !slot->padded &&
        slot_owns(slot, only->data, only->len_bytes)) {
        slot->input = (uint8_t *)(uintptr_t)only->data;
        return STATUS_OK;
    }
    slot->input = session_alloc(&slot->session, slot->rows * slot->item_in_bytes);
    if (!slot->input)
        return no_memory(err);
    uint64_t at_bytes = 0;
    for (uint32_t i = 0; i < model->spec.input_count; i++) {
        const oip_input_t *input = input_of(request, i);
        if (!input)
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' is missing", model->spec.inputs[i].name);
        if (!input->picture)
            copy_rows(slot, input, at_bytes);
        else if (take_pictures(slot, input, at_bytes, err) != STATUS_OK)
            return err->code;
        at_bytes += slot_input_bytes(slot, i);
    }
    return STATUS_OK;
}

static void on_preprocessed(preprocess_job_t *job, const err_t *error)
{
    slot_t *slot = CONTAINER_OF(job, slot_t, job);
    if (slot->state == SESSION_PREPROCESSING) { /* else it was given up meanwhile */
        if (error->code == STATUS_OK)
            slot_dispatch(slot);
        else
            slot_finish(slot, error, 0);
    }
    slot_unref(slot);
}

status_t slot_preprocess(slot_t *slot, err_t *err)
{
    slot->job.done = on_preprocessed;
    slot->refs++;
    status_t status = preprocess_start(slot->owner->gateway->preprocess, &slot->job, err);
    if (status != STATUS_OK)
        slot->refs--;
    return status;
}
