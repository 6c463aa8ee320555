#include "engine/cuda/lower/constants.h"

#include "engine/cuda/device/kernel_body.h"

#include <stdlib.h>
#include <string.h>

void constants_dispose(constants_t *constants)
{
    for (uint32_t i = 0; i < constants->count; i++)
        blob_unref(constants->items[i].blob);
    free(constants->items);
    *constants = (constants_t){0};
}

static bool is_same(const constant_t *c, const value_t *value, dtype_t dtype, layout_kind_t layout)
{
    /* Folded reshapes share a blob under other dims, which only a layout other than row-major cares about. */
    return c->from.data == value->t.data && c->from.dtype == value->t.dtype && c->dtype == dtype &&
           c->layout == layout && tensor_count(&c->from) == tensor_count(&value->t) &&
           (layout == LAYOUT_PLAIN || tensor_same_shape(&c->from, &value->t));
}

uint32_t constants_add(constants_t *constants, const value_t *value, dtype_t dtype, layout_kind_t layout)
{
    for (uint32_t i = 0; i < constants->count; i++)
        if (is_same(&constants->items[i], value, dtype, layout))
            return i;
    if (constants->count == constants->capacity) {
        uint32_t larger = constants->capacity ? 2 * constants->capacity : 64;
        constant_t *moved = realloc(constants->items, larger * sizeof *moved);
        if (!moved)
            return UINT32_MAX;
        constants->items = moved;
        constants->capacity = larger;
    }
    constant_t *c = &constants->items[constants->count];
    *c = (constant_t){.blob = value->blob ? blob_ref(value->blob) : NULL,
                      .from = value->t,
                      .dtype = dtype,
                      .layout = layout,
                      .len_bytes = tensor_count(&value->t) * dtype_size(dtype)};
    constants->len_bytes += c->len_bytes;
    return constants->count++;
}

static void store_at(const constant_t *c, void *to, int64_t at, size_t from)
{
    size_t size = dtype_size(c->dtype);
    if (c->dtype == c->from.dtype)
        memcpy((char *)to + (size_t)at * size, (const char *)c->from.data + from * size, size);
    else
        k_store_f32(to, (int)c->dtype, at, k_load_f32(c->from.data, (int)c->from.dtype, (int64_t)from));
}

void constant_write(const constant_t *c, void *to)
{
    size_t count = tensor_count(&c->from);
    view_t view = {.rank = c->from.rank};
    int64_t at[TENSOR_MAX_RANK] = {0}, place = 0;
    if (c->layout == LAYOUT_PLAIN && c->dtype == c->from.dtype) {
        if (c->len_bytes)
            memcpy(to, c->from.data, c->len_bytes);
        return;
    }
    memcpy(view.dims, c->from.dims, sizeof view.dims);
    view_set_layout(&view, c->layout);
    for (size_t i = 0; i < count; i++) {
        store_at(c, to, place, i);
        for (uint32_t d = view.rank; d-- > 0;) {
            place += view.strides[d];
            if (++at[d] < view.dims[d])
                break;
            place -= at[d] * view.strides[d];
            at[d] = 0;
        }
    }
}
