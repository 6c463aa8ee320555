#include "engine/openvino/signature.h"

#include <stdlib.h>
#include <string.h>

enum { TRIAL_ROWS = 2 };

typedef struct {
    network_t *network;
    declared_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
} signature_t;

static status_t read_list(const network_t *network, bool input, declared_t *list, err_t *err)
{
    uint32_t count = input ? network->input_count : network->output_count;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        status = network_declared(network, input, i, &list[i], err);
    return status;
}

/* ---- Whether it can be batched ---- */

static bool leads(const declared_t *d, engine_batching_t batching)
{
    return d->rank >= 1 && (d->dims[0] < 0 || (batching == ENGINE_BATCH_FORCE && d->dims[0] == 1));
}

static bool all_lead(const declared_t *list, uint32_t count, engine_batching_t batching)
{
    for (uint32_t i = 0; i < count; i++)
        if (!leads(&list[i], batching))
            return false;
    return count > 0;
}

/* Inputs of so many rows, -1 for any; all else as declared. */
static status_t give_rows(const signature_t *s, int64_t rows, err_t *err)
{
    tensor_t shapes[ENGINE_MAX_IO];
    int which[ENGINE_MAX_IO];
    for (uint32_t i = 0; i < s->network->input_count; i++) {
        const declared_t *d = &s->inputs[i];
        which[i] = (int)i;
        shapes[i] = (tensor_t){.dtype = d->dtype, .rank = d->rank};
        for (uint32_t k = 0; k < d->rank; k++)
            shapes[i].dims[k] = k ? d->dims[k] : rows;
    }
    return network_reshape(s->network, which, shapes, s->network->input_count, err);
}

static bool rows_come_out(const signature_t *s, int64_t rows)
{
    for (uint32_t i = 0; i < s->network->output_count; i++) {
        declared_t out;
        if (network_declared(s->network, false, i, &out, NULL) != STATUS_OK || out.rank < 1 ||
            out.dims[0] != rows)
            return false;
    }
    return true;
}

/* The outputs are then those of any number of rows. */
static status_t grow(signature_t *s, bool *grows, err_t *err)
{
    *grows = give_rows(s, TRIAL_ROWS, NULL) == STATUS_OK && rows_come_out(s, TRIAL_ROWS);
    if (!*grows)
        return STATUS_OK;
    status_t status = give_rows(s, -1, err);
    return status == STATUS_OK ? read_list(s->network, false, s->outputs, err) : status;
}

static status_t decide_batching(signature_t *s, const engine_load_t *what, bool *batchable, err_t *err)
{
    status_t status = STATUS_OK;
    *batchable = what->batching != ENGINE_BATCH_NONE &&
                 all_lead(s->inputs, s->network->input_count, what->batching) &&
                 all_lead(s->outputs, s->network->output_count, what->batching);
    if (*batchable)
        status = grow(s, batchable, err);
    if (status == STATUS_OK && what->batching == ENGINE_BATCH_FORCE && !*batchable)
        status = err_set(err, STATUS_INVALID_ARGUMENT,
                         "max_batch is given, but not every input and output has a leading dimension that "
                         "grows with the batch");
    return status;
}

/* ---- The description ---- */

static void declare(const declared_t *list, uint32_t count, engine_tensor_t *tensors)
{
    for (uint32_t i = 0; i < count; i++) {
        tensors[i] = (engine_tensor_t){.name = list[i].name, .dtype = list[i].dtype, .rank = list[i].rank};
        memcpy(tensors[i].dims, list[i].dims, sizeof list[i].dims);
    }
}

static status_t describe_declared(description_t *d, signature_t *s, const engine_load_t *what, err_t *err)
{
    engine_load_t declared = *what;
    engine_tensor_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
    bool batchable;
    status_t status = decide_batching(s, what, &batchable, err);
    if (status != STATUS_OK)
        return status;
    declare(s->inputs, s->network->input_count, inputs);
    declare(s->outputs, s->network->output_count, outputs);
    declared.inputs = inputs;
    declared.outputs = outputs;
    declared.input_count = s->network->input_count;
    declared.output_count = s->network->output_count;
    return description_from_declared(d, &declared, batchable, err);
}

status_t signature_read(description_t *d, network_t *network, const engine_load_t *what, err_t *err)
{
    status_t status = describe_check(what, err);
    if (status == STATUS_OK)
        status = describe_check_file(what, err);
    if (status != STATUS_OK)
        return status;
    signature_t *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    s->network = network;
    status = read_list(network, true, s->inputs, err);
    if (status == STATUS_OK)
        status = read_list(network, false, s->outputs, err);
    if (status == STATUS_OK)
        status = describe_declared(d, s, what, err);
    free(s);
    return status;
}
