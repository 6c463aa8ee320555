#include "oip/classification.h"
#include "oip/request.h"
#include "oip/text.h"
#include "oip/unknown.h"

#include <string.h>

static status_t invalid_shape(const oip_input_t *input, const oip_shape_t *wanted, err_t *err)
{
    char got_text[OIP_SHAPE_TEXT_BYTES], wanted_text[OIP_SHAPE_TEXT_BYTES];
    return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has shape %s, expected %s", input->name,
                   oip_shape_format(&input->shape, got_text), oip_shape_format(wanted, wanted_text));
}

static status_t check_size(const oip_input_t *input, err_t *err)
{
    uint64_t wanted;
    char text[OIP_SHAPE_TEXT_BYTES];
    if (!input->data && !input->memory.region)
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has no data", input->name);
    if (input->datatype == OIP_BYTES)
        return STATUS_OK;
    if (!oip_shape_bytes(&input->shape, input->datatype, &wanted))
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has the impossible shape %s", input->name,
                       oip_shape_format(&input->shape, text));
    if (wanted != input->len_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has %zu bytes, shape %s of %s needs %llu",
                       input->name, input->len_bytes, oip_shape_format(&input->shape, text),
                       oip_datatype_name(input->datatype), (unsigned long long)wanted);
    return STATUS_OK;
}

status_t oip_validate_elements(const oip_input_t *input, const oip_model_spec_t *spec, err_t *err)
{
    uint64_t wanted;
    char text[OIP_SHAPE_TEXT_BYTES];
    const oip_tensor_spec_t *tensor = &spec->inputs[input->spec_index];
    if (input->datatype != OIP_BYTES)
        return STATUS_OK;
    int64_t count = oip_bytes_count(input->data, input->len_bytes);
    if (count < 0)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has broken BYTES data: element lengths and size disagree", input->name);
    if (!oip_shape_elements(&input->shape, &wanted) || (uint64_t)count != wanted)
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has %lld elements, shape %s needs others",
                       input->name, (long long)count, oip_shape_format(&input->shape, text));
    return tensor->text_bytes > 0
               ? oip_text_check(input->name, input->data, input->len_bytes, tensor->text_bytes, err)
               : STATUS_OK;
}

/* Encoded pictures have no dims of their own: [n] and [n,1] both mean n of them, [1] one also without batching. */
static bool is_picture(const oip_model_spec_t *spec, const oip_input_t *input)
{
    return input->spec_index == spec->picture_input && input->datatype == OIP_BYTES &&
           spec->inputs[input->spec_index].datatype != OIP_BYTES;
}

static status_t check_picture(const oip_model_spec_t *spec, oip_input_t *input, int64_t *rows, err_t *err)
{
    const oip_shape_t *shape = &input->shape;
    bool shaped = shape->rank == 1 || (shape->rank == 2 && shape->dims[1] == 1);
    if (!shaped || (spec->max_batch == 0 && shape->dims[0] != 1)) {
        oip_shape_t wanted = {.rank = 2, .dims = {spec->max_batch > 0 ? -1 : 1, 1}};
        return invalid_shape(input, &wanted, err);
    }
    input->picture = true;
    *rows = shape->dims[0];
    return STATUS_OK;
}

static status_t check_tensor(const oip_model_spec_t *spec, const oip_input_t *input, int64_t *rows,
                             err_t *err)
{
    const oip_tensor_spec_t *tensor = &spec->inputs[input->spec_index];
    if (input->datatype != tensor->datatype)
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has datatype %s, expected %s", input->name,
                       oip_datatype_name(input->datatype), oip_datatype_name(tensor->datatype));
    oip_shape_t wanted = oip_model_spec_public_shape(spec, tensor);
    if (!oip_shape_matches(&wanted, &input->shape))
        return invalid_shape(input, &wanted, err);
    *rows = spec->max_batch > 0 ? input->shape.dims[0] : 1;
    return STATUS_OK;
}

static status_t check_input(const oip_model_spec_t *spec, oip_input_t *input, int64_t *rows, err_t *err)
{
    input->picture = false;
    status_t status = is_picture(spec, input) ? check_picture(spec, input, rows, err)
                                              : check_tensor(spec, input, rows, err);
    if (status)
        return status;
    if (*rows < 1 || *rows > (spec->max_batch > 0 ? spec->max_batch : 1))
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has a batch of %lld, 1 to %u are possible",
                       input->name, (long long)*rows, spec->max_batch);
    status = check_size(input, err);
    return status == STATUS_OK && input->data ? oip_validate_elements(input, spec, err) : status;
}

enum { UNSEEN = -1 };

/* dims: of one row. A size of 0 is one: a text that has no words yet. */
static status_t check_axes(oip_request_t *request, const oip_model_spec_t *spec, const oip_input_t *input,
                           const int64_t *dims, err_t *err)
{
    const oip_tensor_spec_t *tensor = &spec->inputs[input->spec_index];
    for (uint32_t i = 0; i < tensor->dims.rank; i++) {
        if (!tensor->axes[i])
            continue;
        const oip_axis_t *axis = &spec->axes[tensor->axes[i] - 1];
        int64_t *size = &request->axis_sizes[tensor->axes[i] - 1];
        if (dims[i] < 0 || dims[i] > axis->size_max)
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has %s %lld, 0 to %lld are possible",
                           input->name, axis->name, (long long)dims[i], (long long)axis->size_max);
        if (*size != UNSEEN && *size != dims[i])
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has %s %lld, another input has %lld",
                           input->name, axis->name, (long long)dims[i], (long long)*size);
        *size = dims[i];
    }
    return STATUS_OK;
}

/* Some inputs may have no elements, but a row of none at all is nothing to run. */
static status_t check_not_empty(const oip_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    for (uint32_t i = 0; i < request->input_count; i++)
        if (request->inputs[i].picture || request->inputs[i].len_bytes > 0)
            return STATUS_OK;
    for (uint32_t a = 0; a < spec->axis_count; a++)
        if (request->axis_sizes[a] == 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "every input is empty, with %s 0",
                           spec->axes[a].name);
    return STATUS_OK;
}

static status_t check_inputs(oip_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    const oip_input_t *seen[OIP_MAX_TENSORS] = {0};
    for (uint32_t a = 0; a < spec->axis_count; a++)
        request->axis_sizes[a] = UNSEEN;
    for (uint32_t i = 0; i < request->input_count; i++) {
        oip_input_t *input = &request->inputs[i];
        int64_t rows = 0;
        input->spec_index = oip_model_spec_input(spec, input->name);
        if (input->spec_index < 0)
            return oip_unknown_input(spec, input->name, err);
        if (seen[input->spec_index])
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' is there twice", input->name);
        seen[input->spec_index] = input;
        status_t status = check_input(spec, input, &rows, err);
        if (status)
            return status;
        if (i > 0 && rows != request->rows)
            return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has a batch of %lld, input '%s' of %u",
                           input->name, (long long)rows, request->inputs[0].name, request->rows);
        request->rows = (uint32_t)rows;
        status = check_axes(
            request, spec, input,
            input->picture ? spec->picture.dims : input->shape.dims + (spec->max_batch > 0 ? 1 : 0), err);
        if (status)
            return status;
    }
    for (uint32_t i = 0; i < spec->input_count; i++)
        if (!seen[i])
            return err_set(err, STATUS_INVALID_ARGUMENT, "missing input '%s' of model '%s'",
                           spec->inputs[i].name, spec->name);
    return check_not_empty(request, spec, err);
}

static status_t check_requested(oip_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    bool seen[OIP_MAX_TENSORS] = {0};
    for (uint32_t i = 0; i < request->requested_count; i++) {
        oip_requested_t *requested = &request->requested[i];
        requested->spec_index = oip_model_spec_output(spec, requested->name);
        if (requested->spec_index < 0)
            return oip_unknown_output(spec, requested->name, err);
        if (seen[requested->spec_index])
            return err_set(err, STATUS_INVALID_ARGUMENT, "output '%s' is requested twice", requested->name);
        seen[requested->spec_index] = true;
        if (requested->classification > 0 &&
            oip_classify_check(&spec->outputs[requested->spec_index], requested->classification, err))
            return err->code;
    }
    return STATUS_OK;
}

status_t oip_validate_request(oip_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    if (request->input_count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "missing input '%s' of model '%s'", spec->inputs[0].name,
                       spec->name);
    status_t status = check_inputs(request, spec, err);
    if (status == STATUS_OK)
        status = check_requested(request, spec, err);
    request->batched = spec->max_batch > 0;
    return status;
}
