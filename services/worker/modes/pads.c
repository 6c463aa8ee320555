#include "worker/modes/pads.h"

#include "base/box.h"

static box_element_t element_of(dtype_t dtype)
{
    size_t bytes = dtype_size(dtype);

    switch (dtype) {
    case DTYPE_BOOL:
        return (box_element_t){BOX_BOOL, bytes};
    case DTYPE_BF16:
        return (box_element_t){BOX_BFLOAT, bytes};
    case DTYPE_F16:
    case DTYPE_F32:
    case DTYPE_F64:
        return (box_element_t){BOX_FLOAT, bytes};
    case DTYPE_U8:
    case DTYPE_U16:
    case DTYPE_U32:
    case DTYPE_U64:
        return (box_element_t){BOX_UNSIGNED, bytes};
    default:
        return (box_element_t){BOX_SIGNED, bytes};
    }
}

/* The dims of one row; axis_of: 1 + axis of each that varies. */
static void row_dims(const engine_tensor_t *tensor, const uint32_t *axis_of, const uint32_t *sizes,
                     int64_t dims[ENGINE_MAX_RANK])
{
    for (uint32_t k = 0; k < tensor->rank; k++)
        dims[k] = axis_of[k] ? sizes[axis_of[k] - 1] : tensor->dims[k];
}

void pads_lay(const axes_t *axes, uint32_t input, const uint32_t *sizes, const uint32_t *wide,
              const void *from, void *to)
{
    const engine_tensor_t *tensor = &axes->info->inputs[input];
    box_element_t element = element_of(tensor->dtype);
    int64_t own_dims[ENGINE_MAX_RANK], wide_dims[ENGINE_MAX_RANK];
    uint64_t wide_bytes = axes_row_bytes(axes, input, wide);

    row_dims(tensor, axes->of_input[input], sizes, own_dims);
    row_dims(tensor, axes->of_input[input], wide, wide_dims);
    if (axes_row_bytes(axes, input, sizes) != wide_bytes)
        box_fill(to, wide_bytes / element.bytes, element, axes->pad_value[input]);
    box_copy(to, wide_dims, from, own_dims, own_dims, tensor->rank, element.bytes);
}

status_t pads_cut_shape(const axes_t *axes, uint32_t output, const uint32_t *sizes, const uint32_t *wide,
                        const engine_shape_t *shape, engine_shape_t *cut, err_t *err)
{
    const engine_tensor_t *tensor = &axes->info->outputs[output];
    bool batchable = axes->info->batchable;

    *cut = *shape;
    for (uint32_t k = 0; k < tensor->rank && shape->rank == tensor->rank + batchable; k++) {
        uint32_t axis = axes->of_output[output][k];
        if (!axis)
            continue;
        if (shape->dims[k + batchable] != wide[axis - 1])
            return err_set(err, STATUS_INTERNAL,
                           "output '%.80s' has %lld where '%s' was %u, so its padding is not known",
                           tensor->name, (long long)shape->dims[k + batchable], axes->list[axis - 1].name,
                           wide[axis - 1]);
        cut->dims[k + batchable] = sizes[axis - 1];
    }
    return STATUS_OK;
}

void pads_cut(const axes_t *axes, uint32_t output, const uint32_t *sizes, const uint32_t *wide,
              const void *from, void *to)
{
    const engine_tensor_t *tensor = &axes->info->outputs[output];
    int64_t own_dims[ENGINE_MAX_RANK], wide_dims[ENGINE_MAX_RANK];

    row_dims(tensor, axes->of_output[output], sizes, own_dims);
    row_dims(tensor, axes->of_output[output], wide, wide_dims);
    box_copy(to, own_dims, from, wide_dims, own_dims, tensor->rank, dtype_size(tensor->dtype));
}
