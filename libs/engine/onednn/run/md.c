#include "engine/onednn/run/md.h"

#include <string.h>

bool md_of(const tensor_t *t, dnnl_memory_desc_t *md)
{
    static const dnnl_data_type_t types[] = {
        [DTYPE_F32] = dnnl_f32, [DTYPE_U8] = dnnl_u8,   [DTYPE_I8] = dnnl_s8,
        [DTYPE_I32] = dnnl_s32, [DTYPE_F16] = dnnl_f16, [DTYPE_BF16] = dnnl_bf16,
    };
    dnnl_data_type_t type =
        (size_t)t->dtype < sizeof types / sizeof types[0] ? types[t->dtype] : dnnl_data_type_undef;
    dnnl_dims_t dims = {1};
    if (type == dnnl_data_type_undef)
        return false;
    for (uint32_t d = 0; d < t->rank; d++)
        dims[d] = t->dims[d];
    return dnnl_memory_desc_init_by_strides(md, t->rank ? (int)t->rank : 1, dims, type, NULL) == dnnl_success;
}

bool md_of_place(const plan_t *plan, const place_t *place, dnnl_memory_desc_t *md)
{
    if (!place->described)
        return false;
    if (!place->md)
        return md_of(&plan->instance->values[place->value].t, md);
    *md = *place->md;
    return true;
}

dnnl_memory_desc_t md_strided(uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t d = {0}, s = {0};
    memcpy(d, dims, rank * sizeof *dims);
    if (strides)
        memcpy(s, strides, rank * sizeof *strides);
    if (dnnl_memory_desc_init_by_strides(&md, (int)rank, d, dnnl_f32, strides ? s : NULL) != dnnl_success)
        memset(&md, 0, sizeof md); /* no primitive takes it */
    return md;
}

dnnl_memory_desc_t md_any(uint32_t rank, const int64_t *dims)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t d = {0};
    memcpy(d, dims, rank * sizeof *dims);
    if (dnnl_memory_desc_init_by_tag(&md, (int)rank, d, dnnl_f32, dnnl_format_tag_any) != dnnl_success)
        memset(&md, 0, sizeof md);
    return md;
}
