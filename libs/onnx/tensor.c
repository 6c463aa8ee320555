#include "onnx/internal.h"
#include "onnx/model.h"

#include <string.h>

const char *tensor_name(const Onnx__TensorProto *t)
{
    return t->name && *t->name ? t->name : "(unnamed)";
}

static status_t check_dims(const Onnx__TensorProto *t, onnx_tensor_info_t *info, err_t *err)
{
    if (t->n_dims > ONNX_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has %zu dimensions; at most %d are supported",
                       tensor_name(t), t->n_dims, ONNX_MAX_RANK);
    info->rank = (uint32_t)t->n_dims;
    info->count = 1;
    size_t size = dtype_size(info->dtype);
    for (uint32_t i = 0; i < info->rank; i++) {
        int64_t dim = info->dims[i] = t->dims[i];
        if (dim < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s': dimension %u is negative",
                           tensor_name(t), i);
        if (dim > 0 && info->count > ONNX_MAX_TENSOR_BYTES / size / (size_t)dim)
            return err_set(err, STATUS_TOO_LARGE, "tensor '%.80s' is larger than %zu GiB", tensor_name(t),
                           ONNX_MAX_TENSOR_BYTES >> 30);
        info->count *= (size_t)dim;
    }
    info->len_bytes = info->count * size;
    return STATUS_OK;
}

/* Elements in the typed field that this type is kept in when there is no raw_data. */
static size_t field_count(const Onnx__TensorProto *t, dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return t->n_float_data;
    case DTYPE_F64:
        return t->n_double_data;
    case DTYPE_I64:
        return t->n_int64_data;
    case DTYPE_U32:
    case DTYPE_U64:
        return t->n_uint64_data;
    default:
        return t->n_int32_data;
    }
}

bool tensor_is_external(const Onnx__TensorProto *t)
{
    return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

status_t onnx_tensor_info(const onnx_model_t *model, const struct Onnx__TensorProto *t,
                          onnx_tensor_info_t *info, err_t *err)
{
    *info = (onnx_tensor_info_t){.dtype = t->has_data_type ? (dtype_t)t->data_type : DTYPE_NONE};
    if (!dtype_size(info->dtype))
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has the unsupported element type %d",
                       tensor_name(t), t->has_data_type ? (int)t->data_type : 0);
    if (t->segment)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' is stored in segments", tensor_name(t));
    status_t status = check_dims(t, info, err);
    if (status != STATUS_OK)
        return status;
    if (tensor_is_external(t)) {
        if (!model || !model->folder)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "tensor '%.80s' is in an external file, and there is no folder", tensor_name(t));
        return STATUS_OK;
    }
    size_t have = t->has_raw_data ? t->raw_data.len : field_count(t, info->dtype);
    size_t want = t->has_raw_data ? info->len_bytes : info->count;
    if (have != want)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "tensor '%.80s' holds %zu %s where its dimensions want %zu", tensor_name(t), have,
                       t->has_raw_data ? "bytes" : "elements", want);
    return STATUS_OK;
}

#define NARROW(T, field)                     \
    for (size_t i = 0; i < info->count; i++) \
    ((T *)to)[i] = (T)t->field[i]

static void read_fields(const Onnx__TensorProto *t, const onnx_tensor_info_t *info, void *to)
{
    switch (info->dtype) {
    case DTYPE_F32:
        NARROW(float, float_data);
        break;
    case DTYPE_F64:
        NARROW(double, double_data);
        break;
    case DTYPE_I64:
        NARROW(int64_t, int64_data);
        break;
    case DTYPE_U64:
        NARROW(uint64_t, uint64_data);
        break;
    case DTYPE_U32:
        NARROW(uint32_t, uint64_data);
        break;
    case DTYPE_I32:
        NARROW(int32_t, int32_data);
        break;
    case DTYPE_BOOL:
    case DTYPE_U8:
    case DTYPE_I8:
        NARROW(uint8_t, int32_data);
        break;
    default: /* the 16-bit types, bit patterns of the floats included */
        NARROW(uint16_t, int32_data);
        break;
    }
}

status_t onnx_tensor_read(const onnx_model_t *model, const struct Onnx__TensorProto *t,
                          const onnx_tensor_info_t *info, void *to, err_t *err)
{
    if (tensor_is_external(t))
        return external_read(model, t, info, to, err);
    if (t->has_raw_data && info->len_bytes)
        memcpy(to, t->raw_data.data, info->len_bytes);
    else if (info->count)
        read_fields(t, info, to);
    return STATUS_OK;
}
