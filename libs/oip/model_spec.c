#include "oip/model_spec.h"

#include "oip/request.h"

#include <string.h>

oip_shape_t oip_model_spec_public_shape(const oip_model_spec_t *spec, const oip_tensor_spec_t *tensor)
{
    oip_shape_t shape = {0};
    if (spec->max_batch > 0)
        shape.dims[shape.rank++] = -1;
    for (uint32_t i = 0; i < tensor->dims.rank && shape.rank < OIP_MAX_RANK; i++)
        shape.dims[shape.rank++] = tensor->dims.dims[i];
    return shape;
}

int64_t oip_axis_padded(const oip_axis_t *axis, int64_t size)
{
    if (size < 0 || size > axis->size_max)
        return -1;
    for (uint32_t i = 0; i < axis->pad_to_count; i++)
        if (axis->pad_to[i] >= size)
            return axis->pad_to[i];
    return size;
}

size_t oip_tensor_spec_element_bytes(const oip_tensor_spec_t *tensor)
{
    return tensor->datatype == OIP_BYTES ? tensor->text_bytes : oip_datatype_bytes(tensor->datatype);
}

bool oip_tensor_spec_bytes(const oip_tensor_spec_t *tensor, const oip_shape_t *shape, uint64_t *len_bytes)
{
    return oip_shape_bytes_of(shape, oip_tensor_spec_element_bytes(tensor), len_bytes);
}

bool oip_tensor_spec_row_bytes(const oip_tensor_spec_t *tensor, uint64_t *len_bytes)
{
    return oip_tensor_spec_bytes(tensor, &tensor->dims, len_bytes);
}

static int32_t find_tensor(const oip_tensor_spec_t *tensors, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++)
        if (strcmp(tensors[i].name, name) == 0)
            return (int32_t)i;
    return -1;
}

int32_t oip_model_spec_input(const oip_model_spec_t *spec, const char *name)
{
    return find_tensor(spec->inputs, spec->input_count, name);
}

int32_t oip_model_spec_output(const oip_model_spec_t *spec, const char *name)
{
    return find_tensor(spec->outputs, spec->output_count, name);
}

static status_t check_name(const char *kind, const char *name, err_t *err)
{
    if (!name || !name[0])
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model has an %s without a name", kind);
    if (strlen(name) >= OIP_NAME_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s name of over %d bytes", kind, OIP_NAME_BYTES - 1);
    return STATUS_OK;
}

static status_t check_tensor(const oip_model_spec_t *spec, const char *kind, const oip_tensor_spec_t *tensor,
                             err_t *err)
{
    uint32_t max_rank = OIP_MAX_RANK - (spec->max_batch > 0 ? 1 : 0);
    status_t status = check_name(kind, tensor->name, err);
    if (status)
        return status;
    if (tensor->datatype <= OIP_INVALID || tensor->datatype >= OIP_DATATYPE_COUNT)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' has no valid datatype", kind, tensor->name);
    if (tensor->dims.rank > max_rank)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' has %u dimensions, over the limit of %u", kind,
                       tensor->name, tensor->dims.rank, max_rank);
    oip_shape_t known = tensor->dims;
    for (uint32_t i = 0; i < known.rank; i++) {
        if (known.dims[i] < -1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' has the dimension %lld", kind, tensor->name,
                           (long long)known.dims[i]);
        if (known.dims[i] == -1)
            known.dims[i] = 1;
    }
    uint64_t bytes;
    bool sized = tensor->datatype != OIP_BYTES || tensor->text_bytes > 0;
    if (!oip_shape_bytes_of(&known, sized ? oip_tensor_spec_element_bytes(tensor) : 1, &bytes))
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' is larger than memory", kind, tensor->name);
    return STATUS_OK;
}

static status_t check_axes(const oip_model_spec_t *spec, const char *kind, const oip_tensor_spec_t *tensor,
                           err_t *err)
{
    for (uint32_t i = 0; i < tensor->dims.rank; i++) {
        if (tensor->axes[i] > spec->axis_count || (tensor->dims.dims[i] != -1 && tensor->axes[i]))
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s': dimension %u has no valid axis", kind,
                           tensor->name, i);
    }
    return STATUS_OK;
}

static status_t check_tensors(const oip_model_spec_t *spec, const char *kind,
                              const oip_tensor_spec_t *tensors, uint32_t count, err_t *err)
{
    if (count == 0 || count > OIP_MAX_TENSORS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model has %u %ss, 1 to %d are possible", count,
                       kind, OIP_MAX_TENSORS);
    for (uint32_t i = 0; i < count; i++) {
        status_t status = check_tensor(spec, kind, &tensors[i], err);
        if (status == STATUS_OK)
            status = check_axes(spec, kind, &tensors[i], err);
        if (status)
            return status;
        if (find_tensor(tensors, i, tensors[i].name) >= 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s '%s' is there twice", kind, tensors[i].name);
    }
    return STATUS_OK;
}

status_t oip_model_spec_check(const oip_model_spec_t *spec, err_t *err)
{
    if (spec->axis_count > OIP_MAX_AXES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model has %u axes, at most %d are possible",
                       spec->axis_count, OIP_MAX_AXES);
    for (uint32_t i = 0; i < spec->axis_count; i++)
        if (spec->axes[i].size_max < 1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "axis '%s' has no sizes", spec->axes[i].name);
    status_t status = check_tensors(spec, "input", spec->inputs, spec->input_count, err);
    if (status == STATUS_OK)
        status = check_tensors(spec, "output", spec->outputs, spec->output_count, err);
    if (status)
        return status;
    if (!spec->name || !spec->name[0] || !spec->version || !spec->platform)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model has no name, version or platform");
    if (spec->picture_input < -1 || spec->picture_input >= (int32_t)spec->input_count)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the picture input is not an input of the model");
    if (spec->softmax_output < -1 || spec->softmax_output >= (int32_t)spec->output_count)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the softmax output is not an output of the model");
    if (spec->softmax_output >= 0 && spec->outputs[spec->softmax_output].datatype != OIP_FP32)
        return err_set(err, STATUS_INVALID_ARGUMENT, "softmax needs output '%s' to be FP32",
                       spec->outputs[spec->softmax_output].name);
    return STATUS_OK;
}
