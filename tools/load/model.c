#include "load/model.h"

#include "open_inference.pb-c.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static status_t tensor_set(model_tensor_t *tensor, const char *name, const char *datatype, err_t *err)
{
    if ((size_t)snprintf(tensor->name, sizeof tensor->name, "%s", name) >= sizeof tensor->name)
        return err_set(err, STATUS_TOO_LARGE, "metadata: tensor name over %d bytes", MODEL_NAME_BYTES - 1);
    tensor->datatype = oip_datatype_parse(datatype, strlen(datatype));
    if (tensor->datatype == OIP_INVALID)
        return err_set(err, STATUS_UNSUPPORTED, "metadata: tensor %s has unknown datatype %s", name,
                       datatype);
    return STATUS_OK;
}

static status_t tensor_add_dim(model_tensor_t *tensor, int64_t dim, err_t *err)
{
    if (tensor->shape.rank == OIP_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "metadata: tensor %s has more than %d dimensions",
                       tensor->name, OIP_MAX_RANK);
    tensor->shape.dims[tensor->shape.rank++] = dim;
    return STATUS_OK;
}

static status_t tensor_parse_json(model_tensor_t *tensor, json_t *json, err_t *err)
{
    const char *name, *datatype;
    json_t *shape, *dim;
    size_t i;

    if (json_unpack(json, "{s:s, s:s, s:o}", "name", &name, "datatype", &datatype, "shape", &shape) != 0)
        return err_set(err, STATUS_INTERNAL, "metadata: a tensor lacks name, datatype or shape");
    status_t st = tensor_set(tensor, name, datatype, err);
    json_array_foreach(shape, i, dim)
    {
        if (st == STATUS_OK)
            st = tensor_add_dim(tensor, json_integer_value(dim), err);
    }
    return st;
}

static status_t tensors_parse_json(model_tensor_t *tensors, uint32_t *count, json_t *list, err_t *err)
{
    status_t st = STATUS_OK;
    json_t *item;
    size_t i;

    if (json_array_size(list) > MODEL_TENSORS_MAX)
        return err_set(err, STATUS_UNSUPPORTED, "metadata: more than %d tensors", MODEL_TENSORS_MAX);
    json_array_foreach(list, i, item)
    {
        if (st == STATUS_OK)
            st = tensor_parse_json(&tensors[(*count)++], item, err);
    }
    return st;
}

status_t model_parse_json(model_t *model, const void *json, size_t len_bytes, err_t *err)
{
    json_error_t reason;
    json_t *root = json_loadb(json, len_bytes, 0, &reason);
    if (!root)
        return err_set(err, STATUS_INTERNAL, "metadata is not JSON: %s", reason.text);
    model_t parsed = {0};
    snprintf(parsed.name, sizeof parsed.name, "%s", model->name);
    status_t st =
        tensors_parse_json(parsed.inputs, &parsed.input_count, json_object_get(root, "inputs"), err);
    if (st == STATUS_OK)
        st = tensors_parse_json(parsed.outputs, &parsed.output_count, json_object_get(root, "outputs"), err);
    json_decref(root);
    if (st == STATUS_OK)
        *model = parsed;
    return st;
}

static status_t tensors_parse_pb(model_tensor_t *tensors, uint32_t *count,
                                 Inference__ModelMetadataResponse__TensorMetadata **list, size_t len,
                                 err_t *err)
{
    if (len > MODEL_TENSORS_MAX)
        return err_set(err, STATUS_UNSUPPORTED, "metadata: more than %d tensors", MODEL_TENSORS_MAX);
    for (size_t i = 0; i < len; i++) {
        model_tensor_t *tensor = &tensors[(*count)++];
        status_t st = tensor_set(tensor, list[i]->name, list[i]->datatype, err);
        for (size_t j = 0; st == STATUS_OK && j < list[i]->n_shape; j++)
            st = tensor_add_dim(tensor, list[i]->shape[j], err);
        if (st != STATUS_OK)
            return st;
    }
    return STATUS_OK;
}

status_t model_parse_pb(model_t *model, const void *message, size_t len_bytes, err_t *err)
{
    Inference__ModelMetadataResponse *answer =
        inference__model_metadata_response__unpack(NULL, len_bytes, message);
    if (!answer)
        return err_set(err, STATUS_INTERNAL, "metadata is not a ModelMetadataResponse");
    model_t parsed = {0};
    snprintf(parsed.name, sizeof parsed.name, "%s", model->name);
    status_t st = tensors_parse_pb(parsed.inputs, &parsed.input_count, answer->inputs, answer->n_inputs, err);
    if (st == STATUS_OK)
        st = tensors_parse_pb(parsed.outputs, &parsed.output_count, answer->outputs, answer->n_outputs, err);
    inference__model_metadata_response__free_unpacked(answer, NULL);
    if (st == STATUS_OK)
        *model = parsed;
    return st;
}

oip_shape_t model_shape(const model_tensor_t *tensor, uint32_t rows)
{
    oip_shape_t shape = tensor->shape;
    for (uint32_t i = 0; i < shape.rank; i++) {
        if (shape.dims[i] < 0)
            shape.dims[i] = i == 0 ? rows : 1;
    }
    return shape;
}
