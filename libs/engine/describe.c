#include "engine/describe.h"

#include <stdlib.h>
#include <string.h>

/* One row above this is a broken description rather than a tensor. */
#define MAX_ROW_BYTES ((size_t)1 << 36)

status_t description_init(description_t *d, uint32_t input_count, uint32_t output_count, err_t *err)
{
    *d = (description_t){0};
    if (input_count > ENGINE_MAX_IO || output_count > ENGINE_MAX_IO)
        return err_set(err, STATUS_UNSUPPORTED, "%u inputs and %u outputs; at most %d of each are supported",
                       input_count, output_count, ENGINE_MAX_IO);
    d->inputs = calloc(input_count + 1, sizeof *d->inputs);
    d->outputs = calloc(output_count + 1, sizeof *d->outputs);
    if (!d->inputs || !d->outputs) {
        description_dispose(d);
        return err_set(err, STATUS_NO_MEMORY, "no memory for the description of a model");
    }
    d->info = (engine_model_info_t){.inputs = d->inputs,
                                    .outputs = d->outputs,
                                    .input_count = input_count,
                                    .output_count = output_count,
                                    .max_batch = 1};
    return STATUS_OK;
}

void description_dispose(description_t *d)
{
    for (uint32_t i = 0; d->inputs && i < d->info.input_count; i++)
        free((char *)d->inputs[i].name);
    for (uint32_t i = 0; d->outputs && i < d->info.output_count; i++)
        free((char *)d->outputs[i].name);
    free(d->inputs);
    free(d->outputs);
    *d = (description_t){0};
}

status_t description_set(engine_tensor_t *tensor, const char *name, dtype_t dtype, uint32_t rank,
                         const int64_t *dims, err_t *err)
{
    size_t bytes = dtype_size(dtype);
    if (!bytes)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%s' has the element type %s, which no engine takes",
                       name, dtype_name(dtype));
    if (rank > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%s' has %u dimensions; at most %d are supported",
                       name, rank, ENGINE_MAX_RANK);
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] < -1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%s': dimension %u is negative", name, i);
        if (dims[i] > 0 && bytes > MAX_ROW_BYTES / (size_t)dims[i])
            return err_set(err, STATUS_TOO_LARGE, "tensor '%s' is larger than %zu GiB", name,
                           MAX_ROW_BYTES >> 30);
        bytes = dims[i] < 0 ? 0 : bytes * (size_t)dims[i];
        tensor->dims[i] = dims[i];
    }
    char *copy = strdup(name);
    if (!copy)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the description of tensor '%s'", name);
    tensor->name = copy;
    tensor->dtype = dtype;
    tensor->rank = rank;
    tensor->row_bytes = bytes;
    return STATUS_OK;
}

static status_t copy_tensors(engine_tensor_t *to, const engine_tensor_t *from, uint32_t count, err_t *err)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!from[i].name || !*from[i].name)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a tensor has no name");
        status_t status =
            description_set(&to[i], from[i].name, from[i].dtype, from[i].rank, from[i].dims, err);
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

status_t description_from_tensors(description_t *d, const engine_load_t *what, err_t *err)
{
    status_t status = description_init(d, what->input_count, what->output_count, err);
    if (status == STATUS_OK)
        status = copy_tensors(d->inputs, what->inputs, what->input_count, err);
    if (status == STATUS_OK)
        status = copy_tensors(d->outputs, what->outputs, what->output_count, err);
    if (status != STATUS_OK) {
        description_dispose(d);
        return status;
    }
    d->info.batchable = what->batching != ENGINE_BATCH_NONE;
    d->info.max_batch = !d->info.batchable ? 1 : what->max_batch ? what->max_batch : ENGINE_DEFAULT_MAX_BATCH;
    if (d->info.max_batch > ENGINE_MAX_BATCH) {
        description_dispose(d);
        return err_set(err, STATUS_INVALID_ARGUMENT, "max_batch %u is above %d", what->max_batch,
                       ENGINE_MAX_BATCH);
    }
    return STATUS_OK;
}

status_t describe(description_t *d, const engine_load_t *what, err_t *err)
{
    return description_from_tensors(d, what, err);
}
