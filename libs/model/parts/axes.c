#include "model/parts/axes.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

static bool varies(const engine_tensor_t *tensors, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < tensors[i].rank; k++)
            if (tensors[i].dims[k] < 0)
                return true;
    return false;
}

bool axes_present(const engine_model_info_t *info)
{
    return varies(info->inputs, info->input_count) || varies(info->outputs, info->output_count);
}

int32_t axes_index(const axes_t *axes, const char *name)
{
    for (uint32_t a = 0; a < axes->count; a++)
        if (strcmp(axes->list[a].name, name) == 0)
            return (int32_t)a;
    return -1;
}

/* ---- finding them ---- */

static status_t name_axis(const engine_tensor_t *tensor, uint32_t dim, bool batchable,
                          char name[AXIS_NAME_BYTES], err_t *err)
{
    const char *symbol = tensor->symbols[dim];
    int len = symbol ? snprintf(name, AXIS_NAME_BYTES, "%s", symbol)
                     : snprintf(name, AXIS_NAME_BYTES, "%s[%u]", tensor->name, dim + batchable);

    if (len >= AXIS_NAME_BYTES)
        return err_set(err, STATUS_UNSUPPORTED, "input '%.60s' has a dimension whose name is too long",
                       tensor->name);
    return STATUS_OK;
}

static status_t find_input(axes_t *axes, uint32_t input, err_t *err)
{
    const engine_tensor_t *tensor = &axes->info->inputs[input];
    char name[AXIS_NAME_BYTES];

    for (uint32_t k = 0; k < tensor->rank; k++) {
        if (tensor->dims[k] >= 0)
            continue;
        if (name_axis(tensor, k, axes->info->batchable, name, err) != STATUS_OK)
            return err->code;
        int32_t known = axes_index(axes, name);
        if (known < 0 && axes->count == AXES_MAX)
            return err_set(err, STATUS_UNSUPPORTED, "more than %d dimensions vary beside the batch",
                           AXES_MAX);
        if (known < 0) {
            known = (int32_t)axes->count++;
            axes->list[known].size_max = AXIS_SIZE_MAX;
            memcpy(axes->list[known].name, name, sizeof(name));
        }
        axes->of_input[input][k] = (uint32_t)known + 1;
    }
    return STATUS_OK;
}

static void find_outputs(axes_t *axes)
{
    for (uint32_t o = 0; o < axes->info->output_count; o++) {
        const engine_tensor_t *tensor = &axes->info->outputs[o];
        for (uint32_t k = 0; k < tensor->rank; k++) {
            if (tensor->dims[k] >= 0)
                continue;
            axes->open_outputs++;
            if (tensor->symbols[k])
                axes->of_output[o][k] = (uint32_t)(axes_index(axes, tensor->symbols[k]) + 1);
        }
    }
}

static status_t apply_dims(axes_t *axes, const shape_config_t *config, err_t *err)
{
    for (uint32_t i = 0; i < config->dim_count; i++) {
        const dim_config_t *dim = &config->dims[i];
        int32_t known = axes_index(axes, dim->name);
        if (known < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "dims: no dimension '%s' varies in this model",
                           dim->name);
        axes->list[known].size_max = dim->size_max;
        axes->list[known].pad_to_count = dim->pad_to_count;
        memcpy(axes->list[known].pad_to, dim->pad_to, sizeof(dim->pad_to));
    }
    return STATUS_OK;
}

static status_t apply_pad_values(axes_t *axes, const shape_config_t *config, err_t *err)
{
    for (uint32_t i = 0; i < config->pad_value_count; i++) {
        uint32_t input = 0;
        while (input < axes->info->input_count &&
               strcmp(axes->info->inputs[input].name, config->pad_values[i].input) != 0)
            input++;
        if (input == axes->info->input_count)
            return err_set(err, STATUS_INVALID_ARGUMENT, "pad_value: the model has no input '%s'",
                           config->pad_values[i].input);
        axes->pad_value[input] = config->pad_values[i].value;
    }
    return STATUS_OK;
}

status_t axes_find(axes_t *axes, const engine_model_info_t *info, const shape_config_t *config, err_t *err)
{
    status_t status = STATUS_OK;

    *axes = (axes_t){.info = info};
    for (uint32_t i = 0; status == STATUS_OK && i < info->input_count; i++)
        status = find_input(axes, i, err);
    if (status == STATUS_OK)
        status = apply_dims(axes, config, err);
    if (status == STATUS_OK)
        status = apply_pad_values(axes, config, err);
    find_outputs(axes);
    return status;
}

/* ---- using them ---- */

const char *axes_objection(const axes_t *axes, const uint32_t *sizes, size_t count)
{
    if (count != axes->count)
        return "it has not one size for each of the model's variable dimensions";
    for (uint32_t a = 0; a < axes->count; a++)
        if (sizes[a] > axes->list[a].size_max)
            return "the size of a variable dimension is out of range";
    return NULL;
}

bool axes_within(const axes_t *axes, const uint32_t *sizes, const uint32_t *most)
{
    for (uint32_t a = 0; a < axes->count; a++)
        if (sizes[a] > most[a])
            return false;
    return true;
}

bool axes_can_pad(const axes_t *axes)
{
    bool padded = false;

    for (uint32_t a = 0; a < axes->count; a++)
        padded |= axes->list[a].pad_to_count > 0;
    for (uint32_t o = 0; o < axes->info->output_count; o++)
        for (uint32_t k = 0; k < axes->info->outputs[o].rank; k++)
            if (axes->info->outputs[o].dims[k] < 0 && !axes->of_output[o][k])
                return false;
    return padded;
}

bool axes_nest(const axes_t *axes, const uint32_t *sizes, const uint32_t *wide)
{
    for (uint32_t a = 0; a < axes->count; a++)
        if (sizes[a] > wide[a] || (sizes[a] < wide[a] && axes->list[a].pad_to_count == 0))
            return false;
    return true;
}

static int64_t input_dim(const axes_t *axes, uint32_t input, uint32_t dim, const uint32_t *sizes)
{
    uint32_t axis = axes->of_input[input][dim];

    return axis ? sizes[axis - 1] : axes->info->inputs[input].dims[dim];
}

static uint64_t input_elements(const axes_t *axes, uint32_t input, const uint32_t *sizes)
{
    uint64_t product = 1;

    for (uint32_t k = 0; k < axes->info->inputs[input].rank; k++)
        if (__builtin_mul_overflow(product, (uint64_t)input_dim(axes, input, k, sizes), &product))
            return UINT64_MAX;
    return product;
}

uint64_t axes_row_bytes(const axes_t *axes, uint32_t input, const uint32_t *sizes)
{
    uint64_t bytes, elements = input_elements(axes, input, sizes);

    if (__builtin_mul_overflow(elements, (uint64_t)dtype_size(axes->info->inputs[input].dtype), &bytes))
        return UINT64_MAX;
    return bytes;
}

uint64_t axes_elements(const axes_t *axes, const uint32_t *sizes)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < axes->info->input_count; i++)
        if (__builtin_add_overflow(sum, input_elements(axes, i, sizes), &sum))
            return UINT64_MAX;
    return sum;
}

uint32_t axes_length(const axes_t *axes, const uint32_t *sizes)
{
    uint64_t elements = axes_elements(axes, sizes);

    return elements < UINT32_MAX ? (uint32_t)elements : UINT32_MAX;
}

void axes_input_shapes(const axes_t *axes, const uint32_t *sizes, uint32_t batch, engine_shape_t *shapes)
{
    bool batchable = axes->info->batchable;

    for (uint32_t i = 0; i < axes->info->input_count; i++) {
        uint32_t rank = axes->info->inputs[i].rank;
        shapes[i].rank = rank + batchable;
        shapes[i].dims[0] = batch;
        for (uint32_t k = 0; k < rank; k++)
            shapes[i].dims[k + batchable] = input_dim(axes, i, k, sizes);
    }
}

uint64_t axes_output_row_bytes(const engine_model_info_t *info, uint32_t output, const engine_shape_t *shape)
{
    uint64_t bytes = dtype_size(info->outputs[output].dtype);

    for (uint32_t k = info->batchable; k < shape->rank; k++)
        if (__builtin_mul_overflow(bytes, (uint64_t)shape->dims[k], &bytes))
            return UINT64_MAX;
    return bytes;
}

bool axes_output_fits(const engine_model_info_t *info, uint32_t output, const engine_shape_t *shape,
                      uint32_t batch)
{
    const engine_tensor_t *tensor = &info->outputs[output];

    if (shape->rank != tensor->rank + info->batchable || (info->batchable && shape->dims[0] != batch))
        return false;
    for (uint32_t k = 0; k < tensor->rank; k++)
        if (tensor->dims[k] >= 0 ? shape->dims[k + info->batchable] != tensor->dims[k]
                                 : shape->dims[k + info->batchable] > UINT32_MAX)
            return false;
    return true;
}

void axes_output_sizes(const axes_t *axes, const engine_shape_t *shapes, uint32_t *sizes)
{
    uint32_t count = 0;

    for (uint32_t o = 0; o < axes->info->output_count; o++)
        for (uint32_t k = 0; k < axes->info->outputs[o].rank; k++)
            if (axes->info->outputs[o].dims[k] < 0)
                sizes[count++] = htole32((uint32_t)shapes[o].dims[k + axes->info->batchable]);
}
