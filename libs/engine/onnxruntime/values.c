#include "engine/onnxruntime/values.h"

#include <stdlib.h>
#include <string.h>

/* ---- In ---- */

static status_t bind_numbers(const tensor_t *tensor, OrtValue **value, err_t *err)
{
    OrtMemoryInfo *memory;
    OrtStatus *failed = ort->CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &memory);
    if (failed)
        return library_check(failed, "a tensor", err);
    failed =
        ort->CreateTensorWithDataAsOrtValue(memory, tensor->data, tensor_bytes(tensor), tensor->dims,
                                            tensor->rank, (ONNXTensorElementDataType)tensor->dtype, value);
    ort->ReleaseMemoryInfo(memory);
    return library_check(failed, "a tensor", err);
}

/* Without the zeros behind it. */
static size_t text_len(const char *room, size_t room_bytes)
{
    while (room_bytes > 0 && room[room_bytes - 1] == '\0')
        room_bytes--;
    return room_bytes;
}

static OrtStatus *put_text(OrtValue *value, size_t index, const char *room, size_t room_bytes)
{
    size_t len = text_len(room, room_bytes);
    char *to;
    OrtStatus *failed = ort->GetResizedStringTensorElementBuffer(value, index, len, &to);
    if (!failed)
        memcpy(to, room, len);
    return failed;
}

static status_t bind_text(const tensor_t *tensor, OrtValue **value, err_t *err)
{
    uint32_t rank = tensor->rank - 1;
    size_t room_bytes = (size_t)tensor->dims[rank], count = tensor_count_range(tensor, 0, rank);
    OrtAllocator *allocator;
    OrtStatus *failed = ort->GetAllocatorWithDefaultOptions(&allocator);
    if (!failed)
        failed = ort->CreateTensorAsOrtValue(allocator, tensor->dims, rank,
                                             ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, value);
    for (size_t i = 0; !failed && i < count; i++)
        failed = put_text(*value, i, (const char *)tensor->data + i * room_bytes, room_bytes);
    return library_check(failed, "a tensor of strings", err);
}

status_t value_bind(const tensor_t *tensor, bool text, OrtValue **value, err_t *err)
{
    *value = NULL;
    return text ? bind_text(tensor, value, err) : bind_numbers(tensor, value, err);
}

/* ---- Tensors out ---- */

static status_t make_room(value_read_t *read, err_t *err)
{
    status_t status = tensor_check(&read->tensor, err);
    if (status != STATUS_OK)
        return status;
    read->made = read->tensor.data = calloc(tensor_bytes(&read->tensor) + 1, 1);
    return read->made ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for an output");
}

static status_t take_text(const OrtValue *value, const char *name, size_t index, char *room,
                          size_t room_bytes, err_t *err)
{
    size_t len;
    OrtStatus *failed = ort->GetStringTensorElementLength(value, index, &len);
    if (!failed && len > room_bytes)
        return err_set(err, STATUS_TOO_LARGE,
                       "output '%.80s' has a string of %zu bytes where there is room for %zu (string_bytes)",
                       name, len, room_bytes);
    if (!failed)
        failed = ort->GetStringTensorElement(value, len, index, room);
    return library_check(failed, name, err);
}

static status_t read_text(const OrtValue *value, const char *name, size_t text_bytes, value_read_t *read,
                          err_t *err)
{
    tensor_t *t = &read->tensor;
    size_t count = tensor_count(t);
    t->dtype = DTYPE_U8;
    t->dims[t->rank++] = (int64_t)text_bytes;
    status_t status = make_room(read, err);
    for (size_t i = 0; status == STATUS_OK && i < count; i++)
        status = take_text(value, name, i, (char *)read->made + i * text_bytes, text_bytes, err);
    return status;
}

/* Type and shape. */
static status_t read_head(const OrtTensorTypeAndShapeInfo *info, const char *name, tensor_t *tensor,
                          err_t *err)
{
    ONNXTensorElementDataType type;
    size_t rank;
    OrtStatus *failed = ort->GetTensorElementType(info, &type);
    if (!failed)
        failed = ort->GetDimensionsCount(info, &rank);
    if (failed)
        return library_check(failed, name, err);
    if (rank >= ENGINE_MAX_RANK || (!dtype_size((dtype_t)type) && (dtype_t)type != DTYPE_STRING))
        return err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as %zu dimensions of %s", name, rank,
                       dtype_name((dtype_t)type));
    *tensor = (tensor_t){.dtype = (dtype_t)type, .rank = (uint32_t)rank};
    return library_check(ort->GetDimensions(info, tensor->dims, rank), name, err);
}

static status_t read_tensor(const OrtValue *value, const char *name, size_t text_bytes, value_read_t *read,
                            err_t *err)
{
    OrtTensorTypeAndShapeInfo *info;
    OrtStatus *failed = ort->GetTensorTypeAndShape(value, &info);
    if (failed)
        return library_check(failed, name, err);
    status_t status = read_head(info, name, &read->tensor, err);
    ort->ReleaseTensorTypeAndShapeInfo(info);
    if (status != STATUS_OK)
        return status;
    if (read->tensor.dtype == DTYPE_STRING)
        return read_text(value, name, text_bytes, read, err);
    return library_check(ort->GetTensorMutableData((OrtValue *)value, &read->tensor.data), name, err);
}

/* ---- Maps out ---- */

/* The numbers of one map. Whoever gets it releases it. */
static status_t numbers_of(const OrtValue *maps, int row, OrtAllocator *allocator, const char *name,
                           OrtValue **numbers, value_read_t *read, err_t *err)
{
    enum { KEYS_OF_A_MAP, NUMBERS_OF_A_MAP };
    OrtValue *map;
    status_t status = library_check(ort->GetValue(maps, row, allocator, &map), name, err);
    if (status != STATUS_OK)
        return status;
    *numbers = NULL;
    status = library_check(ort->GetValue(map, NUMBERS_OF_A_MAP, allocator, numbers), name, err);
    ort->ReleaseValue(map);
    *read = (value_read_t){0};
    return status == STATUS_OK ? read_tensor(*numbers, name, 0, read, err) : status;
}

/* Row `row` of what was read before, or the first, which says how large the others are. */
static status_t put_map(value_read_t *all, const tensor_t *one, size_t rows, size_t row, const char *name,
                        err_t *err)
{
    status_t status = STATUS_OK;
    if (row == 0) {
        all->tensor = (tensor_t){.dtype = one->dtype, .rank = 2, .dims = {(int64_t)rows, one->dims[0]}};
        status = make_room(all, err);
    } else if (one->dtype != all->tensor.dtype || one->dims[0] != all->tensor.dims[1]) {
        status = err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as maps of different sizes", name);
    }
    if (status == STATUS_OK)
        memcpy((char *)all->made + row * tensor_bytes(one), one->data, tensor_bytes(one));
    return status;
}

static status_t read_map(const OrtValue *maps, size_t rows, size_t row, const char *name, value_read_t *all,
                         err_t *err)
{
    OrtAllocator *allocator;
    OrtValue *numbers = NULL;
    value_read_t one = {0};
    status_t status = library_check(ort->GetAllocatorWithDefaultOptions(&allocator), name, err);
    if (status == STATUS_OK)
        status = numbers_of(maps, (int)row, allocator, name, &numbers, &one, err);
    if (status == STATUS_OK && (one.made || one.tensor.rank != 1))
        status = err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as maps to no numbers", name);
    if (status == STATUS_OK)
        status = put_map(all, &one.tensor, rows, row, name, err);
    free(one.made);
    if (numbers)
        ort->ReleaseValue(numbers);
    return status;
}

static status_t read_maps(const OrtValue *maps, const char *name, value_read_t *all, err_t *err)
{
    size_t rows;
    status_t status = library_check(ort->GetValueCount(maps, &rows), name, err);
    if (status == STATUS_OK && rows == 0)
        status = err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as an empty sequence", name);
    for (size_t row = 0; status == STATUS_OK && row < rows; row++)
        status = read_map(maps, rows, row, name, all, err);
    return status;
}

status_t value_read(const OrtValue *value, const char *name, size_t text_bytes, value_read_t *read,
                    err_t *err)
{
    enum ONNXType type;
    *read = (value_read_t){0};
    status_t status = library_check(ort->GetValueType(value, &type), name, err);
    if (status != STATUS_OK)
        return status;
    if (type != ONNX_TYPE_TENSOR && type != ONNX_TYPE_SEQUENCE)
        return err_set(err, STATUS_UNSUPPORTED, "output '%.80s' came out as no dense tensor", name);
    status = type == ONNX_TYPE_TENSOR ? read_tensor(value, name, text_bytes, read, err)
                                      : read_maps(value, name, read, err);
    if (status != STATUS_OK) {
        free(read->made);
        read->made = NULL;
    }
    return status;
}
