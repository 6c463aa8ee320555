#include "onnx/dtype.h"

#include <string.h>

static const struct {
    dtype_t dtype;
    size_t size;
    const char *name, *oip_name;
} types[] = {
    {DTYPE_F32, 4, "f32", "FP32"},   {DTYPE_U8, 1, "u8", "UINT8"},      {DTYPE_I8, 1, "i8", "INT8"},
    {DTYPE_U16, 2, "u16", "UINT16"}, {DTYPE_I16, 2, "i16", "INT16"},    {DTYPE_I32, 4, "i32", "INT32"},
    {DTYPE_I64, 8, "i64", "INT64"},  {DTYPE_STRING, 0, "str", "BYTES"}, {DTYPE_BOOL, 1, "bool", "BOOL"},
    {DTYPE_F16, 2, "f16", "FP16"},   {DTYPE_F64, 8, "f64", "FP64"},     {DTYPE_U32, 4, "u32", "UINT32"},
    {DTYPE_U64, 8, "u64", "UINT64"}, {DTYPE_BF16, 2, "bf16", "BF16"},
};
enum { TYPES = sizeof types / sizeof types[0] };

size_t dtype_size(dtype_t dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].size;
    return 0;
}

const char *dtype_name(dtype_t dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].name;
    return "?";
}

const char *dtype_oip_name(dtype_t dtype)
{
    for (size_t i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype)
            return types[i].oip_name;
    return "";
}
