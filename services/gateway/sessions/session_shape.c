/*
 * Requests of models whose dimensions vary. The sizes of the model's axes come from the inputs' shapes and
 * may be padded; they decide how long an item is. How long a result is the worker tells with the first one:
 *
 *   result:  | row of output 0 | row of output 1 | … | sizes of the outputs' variable dimensions, 32 bits each |
 */
#include "gateway/sessions/session_private.h"

#include <endian.h>
#include <string.h>

/* What the data plane takes as one item (transfer.h). */
enum { ITEM_BYTES_MAX = 64 << 20 };

static uint64_t times_sizes(const oip_tensor_spec_t *tensor, uint64_t bytes, const uint32_t *sizes)
{
    for (uint32_t i = 0; i < tensor->dims.rank; i++)
        if (tensor->axes[i] && __builtin_mul_overflow(bytes, (uint64_t)sizes[tensor->axes[i] - 1], &bytes))
            return UINT64_MAX;
    return bytes;
}

uint64_t slot_input_bytes(const slot_t *slot, uint32_t input)
{
    const model_entry_t *model = slot->session.model;
    return times_sizes(&model->spec.inputs[input], model->input_bytes[input], slot->sizes);
}

static status_t add_inputs(slot_t *slot, err_t *err)
{
    const oip_model_spec_t *spec = &slot->session.model->spec;
    slot->item_in_bytes = 0;
    for (uint32_t i = 0; i < spec->input_count; i++)
        if (__builtin_add_overflow(slot->item_in_bytes, slot_input_bytes(slot, i), &slot->item_in_bytes) ||
            slot->item_in_bytes > ITEM_BYTES_MAX)
            return err_set(err, STATUS_TOO_LARGE, "one row of the inputs has over %d MiB, from '%s' on",
                           ITEM_BYTES_MAX >> 20, spec->inputs[i].name);
    return STATUS_OK;
}

status_t slot_shape(slot_t *slot, err_t *err)
{
    const model_entry_t *model = slot->session.model;
    slot->padded = false;
    slot->item_out_bytes = 0;
    slot->item_in_bytes = model->input_row_bytes;
    for (uint32_t a = 0; a < model->spec.axis_count; a++) {
        int64_t asked = slot->session.request.axis_sizes[a];
        slot->sizes[a] = (uint32_t)oip_axis_padded(&model->spec.axes[a], asked);
        slot->padded |= slot->sizes[a] != asked;
    }
    return model->spec.axis_count > 0 ? add_inputs(slot, err) : STATUS_OK;
}

/* One row of a tensor with these sizes of the axes; dimensions that follow from no axis stay as they are. */
static oip_shape_t row_shape(const oip_tensor_spec_t *tensor, const oip_request_t *request,
                             const uint32_t *sizes)
{
    oip_shape_t shape = tensor->dims;
    for (uint32_t i = 0; i < shape.rank; i++)
        if (tensor->axes[i])
            shape.dims[i] = request ? request->axis_sizes[tensor->axes[i] - 1] : sizes[tensor->axes[i] - 1];
    return shape;
}

void slot_pad_row(const slot_t *slot, uint32_t input, const uint8_t *from, uint8_t *to)
{
    const oip_tensor_spec_t *tensor = &slot->session.model->spec.inputs[input];
    size_t element_bytes = oip_datatype_bytes(tensor->datatype);
    oip_shape_t sent = row_shape(tensor, &slot->session.request, NULL),
                wide = row_shape(tensor, NULL, slot->sizes);
    uint64_t bytes = slot_input_bytes(slot, input);
    box_fill(to, bytes / element_bytes, oip_datatype_element(tensor->datatype), tensor->pad_value);
    box_copy(to, wide.dims, from, sent.dims, sent.dims, wide.rank, element_bytes);
}

status_t slot_reserve_output(slot_t *slot, uint64_t len_bytes, err_t *err)
{
    if (slot->output)
        return STATUS_OK;
    slot->item_out_bytes = len_bytes;
    slot->output = session_alloc(&slot->session, slot->rows * len_bytes);
    return slot->output ? STATUS_OK
                        : err_set(err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
}

/* ------------------------------------------------------------------ what has come */

/* Takes the sizes of its variable dimensions from *sizes on. */
static status_t lay_out(const oip_tensor_spec_t *tensor, const uint8_t **sizes, output_layout_t *layout,
                        err_t *err)
{
    layout->dims = tensor->dims;
    for (uint32_t i = 0; i < tensor->dims.rank; i++) {
        uint32_t size;
        if (tensor->dims.dims[i] != -1)
            continue;
        memcpy(&size, *sizes, sizeof size);
        *sizes += sizeof size;
        layout->dims.dims[i] = le32toh(size);
    }
    if (!oip_tensor_spec_bytes(tensor, &layout->dims, &layout->bytes))
        return err_set(err, STATUS_INTERNAL, "the worker sent output '%s' in an impossible shape",
                       tensor->name);
    return STATUS_OK;
}

/* In place, row by row: each row of the output becomes shorter where it is. */
static status_t cut(slot_t *slot, const oip_tensor_spec_t *tensor, output_layout_t *layout, err_t *err)
{
    oip_shape_t asked = layout->dims;
    for (uint32_t i = 0; i < asked.rank; i++) {
        if (!tensor->axes[i])
            continue;
        if (asked.dims[i] != slot->sizes[tensor->axes[i] - 1])
            return err_set(
                err, STATUS_INTERNAL, "output '%s' has %lld where '%s' was %u, so its padding is not known",
                tensor->name, (long long)asked.dims[i],
                slot->session.model->spec.axes[tensor->axes[i] - 1].name, slot->sizes[tensor->axes[i] - 1]);
        asked.dims[i] = slot->session.request.axis_sizes[tensor->axes[i] - 1];
    }
    size_t element_bytes = oip_tensor_spec_element_bytes(tensor);
    for (uint32_t row = 0; row < slot->rows; row++) {
        uint8_t *at = slot->output + row * slot->item_out_bytes + layout->offset_bytes;
        box_copy(at, asked.dims, at, layout->dims.dims, asked.dims, asked.rank, element_bytes);
    }
    layout->dims = asked;
    return oip_tensor_spec_bytes(tensor, &asked, &layout->bytes) ? STATUS_OK : STATUS_INTERNAL;
}

/* Rows of one request have one shape: else they are no tensor together. */
static bool rows_alike(const slot_t *slot, uint64_t sizes_bytes)
{
    const uint8_t *first = slot->output + slot->item_out_bytes - sizes_bytes;
    for (uint32_t row = 1; row < slot->rows; row++)
        if (memcmp(first, first + row * slot->item_out_bytes, sizes_bytes) != 0)
            return false;
    return true;
}

status_t slot_layout_outputs(slot_t *slot, output_layout_t layouts[OIP_MAX_TENSORS], err_t *err)
{
    const model_entry_t *model = slot->session.model;
    uint64_t sizes_bytes = model->open_outputs * sizeof(uint32_t), offset_bytes = 0;
    const uint8_t *sizes = slot->output + slot->item_out_bytes - sizes_bytes;
    if (slot->item_out_bytes < sizes_bytes || !rows_alike(slot, sizes_bytes))
        return err_set(err, STATUS_INTERNAL, "the worker sent rows of different shapes");
    for (uint32_t i = 0; i < model->spec.output_count; i++) {
        if (lay_out(&model->spec.outputs[i], &sizes, &layouts[i], err) != STATUS_OK)
            return err->code;
        layouts[i].offset_bytes = offset_bytes;
        if (__builtin_add_overflow(offset_bytes, layouts[i].bytes, &offset_bytes))
            return err_set(err, STATUS_INTERNAL, "the worker sent impossible shapes");
    }
    if (offset_bytes + sizes_bytes != slot->item_out_bytes)
        return err_set(err, STATUS_INTERNAL, "the worker sent shapes that do not fit its bytes");
    for (uint32_t i = 0; slot->padded && i < model->spec.output_count; i++)
        if (cut(slot, &model->spec.outputs[i], &layouts[i], err) != STATUS_OK)
            return err->code;
    return STATUS_OK;
}
