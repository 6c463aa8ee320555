#include "model/parts/shape_config.h"

#include "config/ydoc.h"

#include <stdio.h>
#include <string.h>

/* The key of a map's entry, which names a dimension or an input. */
static status_t read_name(const ydoc_node_t *entry, char name[AXIS_NAME_BYTES], err_t *err)
{
    size_t len = strlen(ydoc_key(entry));

    if (len == 0 || len >= AXIS_NAME_BYTES)
        return ydoc_error(entry, err, "a name of 1 to %d bytes is expected", AXIS_NAME_BYTES - 1);
    memcpy(name, ydoc_key(entry), len + 1);
    return STATUS_OK;
}

static status_t read_size(const ydoc_node_t *node, uint32_t *size, err_t *err)
{
    int64_t value;
    status_t status = ydoc_int64(node, 1, AXIS_SIZE_MAX, &value, err);

    if (status == STATUS_OK)
        *size = (uint32_t)value;
    return status;
}

static status_t check_count(const ydoc_node_t *node, ydoc_kind_t kind, size_t most, err_t *err)
{
    status_t status = ydoc_expect(node, kind, err);

    if (status == STATUS_OK && (ydoc_len(node) == 0 || ydoc_len(node) > most))
        return ydoc_error(node, err, "%zu entries, 1 to %zu are possible", ydoc_len(node), most);
    return status;
}

static status_t read_pad_to(const ydoc_node_t *node, dim_config_t *dim, err_t *err)
{
    if (check_count(node, YDOC_LIST, PAD_SIZES_MAX, err) != STATUS_OK)
        return err->code;
    for (size_t i = 0; i < ydoc_len(node); i++) {
        if (read_size(ydoc_at(node, i), &dim->pad_to[i], err) != STATUS_OK)
            return err->code;
        if (i > 0 && dim->pad_to[i] <= dim->pad_to[i - 1])
            return ydoc_error(ydoc_at(node, i), err, "the sizes of pad_to must rise");
    }
    dim->pad_to_count = (uint32_t)ydoc_len(node);
    dim->size_max = dim->pad_to[dim->pad_to_count - 1];
    return STATUS_OK;
}

static status_t read_dim(const ydoc_node_t *entry, dim_config_t *dim, err_t *err)
{
    static const char *const allowed[] = {"max", "pad_to", NULL};
    const ydoc_node_t *max = ydoc_get(entry, "max"), *pad_to = ydoc_get(entry, "pad_to");

    if (read_name(entry, dim->name, err) != STATUS_OK || ydoc_expect(entry, YDOC_MAP, err) != STATUS_OK ||
        ydoc_check_keys(entry, allowed, err) != STATUS_OK)
        return err->code;
    dim->size_max = AXIS_SIZE_MAX;
    if (pad_to && max)
        return ydoc_error(max, err, "with pad_to its last size is the largest; max has no place beside it");
    if (pad_to)
        return read_pad_to(pad_to, dim, err);
    return max ? read_size(max, &dim->size_max, err) : STATUS_OK;
}

static status_t read_dims(const ydoc_node_t *node, shape_config_t *config, err_t *err)
{
    if (check_count(node, YDOC_MAP, AXES_MAX, err) != STATUS_OK)
        return err->code;
    for (size_t i = 0; i < ydoc_len(node); i++)
        if (read_dim(ydoc_at(node, i), &config->dims[config->dim_count++], err) != STATUS_OK)
            return err->code;
    return STATUS_OK;
}

static status_t read_pad_values(const ydoc_node_t *node, shape_config_t *config, err_t *err)
{
    if (check_count(node, YDOC_MAP, PAD_VALUES_MAX, err) != STATUS_OK)
        return err->code;
    for (size_t i = 0; i < ydoc_len(node); i++) {
        pad_value_t *value = &config->pad_values[config->pad_value_count++];
        const ydoc_node_t *entry = ydoc_at(node, i);
        if (read_name(entry, value->input, err) != STATUS_OK ||
            ydoc_double(entry, -1e300, 1e300, &value->value, err) != STATUS_OK)
            return err->code;
    }
    return STATUS_OK;
}

static status_t read_reference(const ydoc_node_t *node, reference_config_t *reference, err_t *err)
{
    if (check_count(node, YDOC_MAP, AXES_MAX, err) != STATUS_OK)
        return err->code;
    for (size_t i = 0; i < ydoc_len(node); i++) {
        axis_size_t *size = &reference->sizes[reference->count++];
        if (read_name(ydoc_at(node, i), size->axis, err) != STATUS_OK ||
            read_size(ydoc_at(node, i), &size->size, err) != STATUS_OK)
            return err->code;
    }
    return STATUS_OK;
}

static status_t read_references(const ydoc_node_t *node, shape_config_t *config, err_t *err)
{
    if (check_count(node, YDOC_LIST, REFERENCES_MAX, err) != STATUS_OK)
        return err->code;
    for (size_t i = 0; i < ydoc_len(node); i++)
        if (read_reference(ydoc_at(node, i), &config->references[config->reference_count++], err) !=
            STATUS_OK)
            return err->code;
    return STATUS_OK;
}

status_t shape_config_read(const ydoc_node_t *root, shape_config_t *config, err_t *err)
{
    const ydoc_node_t *dims = ydoc_get(root, "dims"), *pad_value = ydoc_get(root, "pad_value");
    const ydoc_node_t *references = ydoc_get(root, "profile_shapes");
    status_t status = STATUS_OK;

    *config = (shape_config_t){0};
    if (dims)
        status = read_dims(dims, config, err);
    if (status == STATUS_OK && pad_value)
        status = read_pad_values(pad_value, config, err);
    if (status == STATUS_OK && references)
        status = read_references(references, config, err);
    return status;
}
