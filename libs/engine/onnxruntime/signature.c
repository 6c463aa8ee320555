#include "engine/onnxruntime/signature.h"

#include "engine/onnxruntime/session.h"

#include <stdlib.h>

enum { TRIAL_ROWS = 2 };

/* Inputs or outputs as they are declared. */
typedef struct {
    uint32_t count;
    engine_tensor_t tensors[ENGINE_MAX_IO]; /* names are the allocator's, symbols the types' */
    OrtTypeInfo *types[ENGINE_MAX_IO];
} declared_t;

typedef struct {
    OrtSession *session;
    OrtAllocator *allocator;
    declared_t inputs, outputs;
} signature_t;

/* ---- What is declared ---- */

static status_t read_tensor(engine_tensor_t *t, const OrtTensorTypeAndShapeInfo *tensor, err_t *err)
{
    ONNXTensorElementDataType type;
    size_t rank;
    OrtStatus *failed = ort->GetTensorElementType(tensor, &type);
    if (!failed)
        failed = ort->GetDimensionsCount(tensor, &rank);
    if (failed)
        return library_check(failed, t->name, err);
    if (rank > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has %zu dimensions; at most %d are supported",
                       t->name, rank, ENGINE_MAX_RANK);
    t->dtype = (dtype_t)type;
    t->rank = (uint32_t)rank;
    failed = ort->GetDimensions(tensor, t->dims, rank);
    if (!failed)
        failed = ort->GetSymbolicDimensions(tensor, t->symbols, rank);
    for (size_t i = 0; i < rank; i++)
        if (t->symbols[i] && !*t->symbols[i])
            t->symbols[i] = NULL;
    return library_check(failed, t->name, err);
}

static status_t read_declared(const signature_t *s, bool input, uint32_t i, declared_t *d, err_t *err)
{
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    char *name = NULL;
    OrtStatus *failed = input ? ort->SessionGetInputName(s->session, i, s->allocator, &name)
                              : ort->SessionGetOutputName(s->session, i, s->allocator, &name);
    d->tensors[i].name = name;
    if (!failed)
        failed = input ? ort->SessionGetInputTypeInfo(s->session, i, &d->types[i])
                       : ort->SessionGetOutputTypeInfo(s->session, i, &d->types[i]);
    if (!failed)
        failed = ort->CastTypeInfoToTensorInfo(d->types[i], &tensor);
    status_t status = library_check(failed, "inputs and outputs", err);
    if (status != STATUS_OK)
        return status;
    if (!tensor)
        return err_set(err, STATUS_UNSUPPORTED,
                       "%s '%.80s' is no tensor but a sequence, a map or an optional",
                       input ? "input" : "output", name);
    return read_tensor(&d->tensors[i], tensor, err);
}

static void dispose(const signature_t *s, declared_t *d)
{
    for (uint32_t i = 0; i < d->count; i++) {
        if (d->tensors[i].name)
            s->allocator->Free(s->allocator, (void *)(uintptr_t)d->tensors[i].name);
        if (d->types[i])
            ort->ReleaseTypeInfo(d->types[i]);
    }
}

static status_t read_list(const signature_t *s, bool input, declared_t *d, err_t *err)
{
    size_t all;
    status_t status = library_check(input ? ort->SessionGetInputCount(s->session, &all)
                                          : ort->SessionGetOutputCount(s->session, &all),
                                    "inputs and outputs", err);
    if (status == STATUS_OK && all > ENGINE_MAX_IO)
        status = err_set(err, STATUS_UNSUPPORTED, "%zu %s; at most %d are supported", all,
                         input ? "inputs" : "outputs", ENGINE_MAX_IO);
    for (size_t i = 0; status == STATUS_OK && i < all; i++) {
        d->count = (uint32_t)i + 1;
        status = read_declared(s, input, (uint32_t)i, d, err);
    }
    return status;
}

/* ---- A run of zeros ---- */

static void trial_shape(const engine_tensor_t *d, int64_t rows, int64_t size, tensor_t *shape)
{
    *shape = (tensor_t){.dtype = d->dtype, .rank = d->rank};
    for (uint32_t k = 0; k < d->rank; k++)
        shape->dims[k] = d->dims[k] >= 0 ? d->dims[k] : k == 0 ? rows : size;
}

static status_t make_zeros(const engine_tensor_t *d, int64_t rows, int64_t size, OrtValue **value,
                           void **data, err_t *err)
{
    tensor_t shape;
    trial_shape(d, rows, size, &shape);
    status_t status = tensor_check(&shape, err);
    size_t bytes = status == STATUS_OK ? tensor_bytes(&shape) : 0;
    if (status == STATUS_OK && !(shape.data = *data = calloc(bytes + 1, 1)))
        status = err_set(err, STATUS_NO_MEMORY, "no memory to try the model");
    return status == STATUS_OK ? session_bind(&shape, bytes, value, err) : status;
}

/* True: every output of this try has so many rows. */
static bool rows_came(const signature_t *s, OrtValue *const *values, int64_t rows)
{
    bool came = true;
    for (uint32_t i = 0; came && i < s->outputs.count; i++) {
        tensor_t out;
        came = session_look(values[i], s->outputs.tensors[i].name, &out, NULL) == STATUS_OK &&
               out.rank >= 1 && out.dims[0] == rows;
    }
    return came;
}

static status_t try_rows(const signature_t *s, int64_t rows, int64_t size, bool *came, err_t *err)
{
    OrtValue *inputs[ENGINE_MAX_IO] = {NULL}, *outputs[ENGINE_MAX_IO] = {NULL};
    void *data[ENGINE_MAX_IO] = {NULL};
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->inputs.count; i++) {
        input_names[i] = s->inputs.tensors[i].name;
        status = make_zeros(&s->inputs.tensors[i], rows, size, &inputs[i], &data[i], err);
    }
    for (uint32_t i = 0; i < s->outputs.count; i++)
        output_names[i] = s->outputs.tensors[i].name;
    if (status == STATUS_OK)
        status = library_check(ort->Run(s->session, NULL, input_names, (const OrtValue *const *)inputs,
                                        s->inputs.count, output_names, s->outputs.count, outputs),
                               "a try", err);
    *came = status == STATUS_OK && rows_came(s, outputs, rows);
    for (uint32_t i = 0; i < s->outputs.count; i++)
        if (outputs[i])
            ort->ReleaseValue(outputs[i]);
    for (uint32_t i = 0; i < s->inputs.count; i++) {
        if (inputs[i])
            ort->ReleaseValue(inputs[i]);
        free(data[i]);
    }
    return status;
}

/* By the first size that the model takes. */
static bool grows(const signature_t *s)
{
    bool came = false;
    for (uint32_t t = 0; t < DESCRIBE_TRIALS; t++)
        if (try_rows(s, TRIAL_ROWS, describe_trials[t], &came, NULL) == STATUS_OK)
            return came;
    return false;
}

/* ---- The description ---- */

static bool all_lead(const declared_t *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->tensors[i].rank < 1 || d->tensors[i].dims[0] >= 0)
            return false;
    return d->count > 0;
}

static status_t decide_batching(const signature_t *s, const engine_load_t *what, bool *batchable, err_t *err)
{
    *batchable =
        what->batching != ENGINE_BATCH_NONE && all_lead(&s->inputs) && all_lead(&s->outputs) && grows(s);
    if (what->batching == ENGINE_BATCH_FORCE && !*batchable)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "max_batch is given, but not every input and output has an open leading dimension that "
            "grows with the batch");
    return STATUS_OK;
}

static status_t describe_declared(description_t *d, const signature_t *s, const engine_load_t *what,
                                  err_t *err)
{
    engine_load_t declared = *what;
    bool batchable;
    status_t status = decide_batching(s, what, &batchable, err);
    declared.inputs = s->inputs.tensors;
    declared.outputs = s->outputs.tensors;
    declared.input_count = s->inputs.count;
    declared.output_count = s->outputs.count;
    return status == STATUS_OK ? description_from_declared(d, &declared, batchable, err) : status;
}

status_t signature_read(description_t *d, OrtSession *session, const engine_load_t *what, err_t *err)
{
    status_t status = describe_check(what, err);
    if (status != STATUS_OK)
        return status;
    signature_t *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    s->session = session;
    status = library_check(ort->GetAllocatorWithDefaultOptions(&s->allocator), what->name, err);
    if (status == STATUS_OK)
        status = read_list(s, true, &s->inputs, err);
    if (status == STATUS_OK)
        status = read_list(s, false, &s->outputs, err);
    if (status == STATUS_OK)
        status = describe_declared(d, s, what, err);
    dispose(s, &s->inputs);
    dispose(s, &s->outputs);
    free(s);
    return status;
}
