#include "engine/onnxruntime/signature.h"

#include "engine/onnxruntime/session.h"

#include <stdlib.h>
#include <string.h>

/* Sizes to try for open dimensions, as libs/engine/compile tries them. */
static const int64_t trials[] = {16, 24, 224, 256, 1, 2, 512, 640};
enum { TRIALS = sizeof trials / sizeof trials[0], TRIAL_ROWS = 2 };

/* An input or output as it is declared. */
typedef struct {
    char *name;
    dtype_t dtype;
    uint32_t rank;
    int64_t dims[ENGINE_MAX_RANK];        /* -1: open */
    const char *symbols[ENGINE_MAX_RANK]; /* the type's */
    OrtTypeInfo *type;
} declared_t;

typedef struct {
    OrtSession *session;
    OrtAllocator *allocator;
    declared_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
    uint32_t input_count, output_count;
} signature_t;

/* ---- What is declared ---- */

static status_t read_tensor(declared_t *d, const OrtTensorTypeAndShapeInfo *tensor, err_t *err)
{
    ONNXTensorElementDataType type;
    size_t rank;
    OrtStatus *failed = ort->GetTensorElementType(tensor, &type);
    if (!failed)
        failed = ort->GetDimensionsCount(tensor, &rank);
    if (failed)
        return library_check(failed, d->name, err);
    if (rank > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has %zu dimensions; at most %d are supported",
                       d->name, rank, ENGINE_MAX_RANK);
    d->dtype = (dtype_t)type;
    d->rank = (uint32_t)rank;
    failed = ort->GetDimensions(tensor, d->dims, rank);
    if (!failed)
        failed = ort->GetSymbolicDimensions(tensor, d->symbols, rank);
    for (size_t i = 0; i < rank; i++)
        if (d->symbols[i] && !*d->symbols[i])
            d->symbols[i] = NULL;
    return library_check(failed, d->name, err);
}

static status_t read_declared(const signature_t *s, bool input, uint32_t i, declared_t *d, err_t *err)
{
    const OrtTensorTypeAndShapeInfo *tensor = NULL;
    *d = (declared_t){0};
    OrtStatus *failed = input ? ort->SessionGetInputName(s->session, i, s->allocator, &d->name)
                              : ort->SessionGetOutputName(s->session, i, s->allocator, &d->name);
    if (!failed)
        failed = input ? ort->SessionGetInputTypeInfo(s->session, i, &d->type)
                       : ort->SessionGetOutputTypeInfo(s->session, i, &d->type);
    if (!failed)
        failed = ort->CastTypeInfoToTensorInfo(d->type, &tensor);
    status_t status = library_check(failed, "inputs and outputs", err);
    if (status != STATUS_OK)
        return status;
    if (!tensor)
        return err_set(err, STATUS_UNSUPPORTED,
                       "%s '%.80s' is no tensor but a sequence, a map or an optional",
                       input ? "input" : "output", d->name);
    return read_tensor(d, tensor, err);
}

static void dispose(signature_t *s, declared_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (list[i].name)
            s->allocator->Free(s->allocator, list[i].name);
        if (list[i].type)
            ort->ReleaseTypeInfo(list[i].type);
    }
}

static status_t read_list(signature_t *s, bool input, declared_t *list, uint32_t *count, err_t *err)
{
    size_t all;
    status_t status = library_check(input ? ort->SessionGetInputCount(s->session, &all)
                                          : ort->SessionGetOutputCount(s->session, &all),
                                    "inputs and outputs", err);
    if (status == STATUS_OK && all > ENGINE_MAX_IO)
        status = err_set(err, STATUS_UNSUPPORTED, "%zu %s; at most %d are supported", all,
                         input ? "inputs" : "outputs", ENGINE_MAX_IO);
    for (size_t i = 0; status == STATUS_OK && i < all; i++) {
        *count = (uint32_t)i + 1;
        status = read_declared(s, input, (uint32_t)i, &list[i], err);
    }
    return status;
}

/* ---- A run of zeros ---- */

static void trial_shape(const declared_t *d, int64_t rows, int64_t size, tensor_t *shape)
{
    *shape = (tensor_t){.dtype = d->dtype, .rank = d->rank};
    for (uint32_t k = 0; k < d->rank; k++)
        shape->dims[k] = d->dims[k] >= 0 ? d->dims[k] : k == 0 ? rows : size;
}

static status_t make_zeros(const declared_t *d, int64_t rows, int64_t size, OrtValue **value, void **data,
                           err_t *err)
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
    for (uint32_t i = 0; came && i < s->output_count; i++) {
        tensor_t out;
        came = session_look(values[i], s->outputs[i].name, &out, NULL) == STATUS_OK && out.rank >= 1 &&
               out.dims[0] == rows;
    }
    return came;
}

static status_t try_rows(const signature_t *s, int64_t rows, int64_t size, bool *came, err_t *err)
{
    OrtValue *inputs[ENGINE_MAX_IO] = {NULL}, *outputs[ENGINE_MAX_IO] = {NULL};
    void *data[ENGINE_MAX_IO] = {NULL};
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->input_count; i++) {
        input_names[i] = s->inputs[i].name;
        status = make_zeros(&s->inputs[i], rows, size, &inputs[i], &data[i], err);
    }
    for (uint32_t i = 0; i < s->output_count; i++)
        output_names[i] = s->outputs[i].name;
    if (status == STATUS_OK)
        status = library_check(ort->Run(s->session, NULL, input_names, (const OrtValue *const *)inputs,
                                        s->input_count, output_names, s->output_count, outputs),
                               "a try", err);
    *came = status == STATUS_OK && rows_came(s, outputs, rows);
    for (uint32_t i = 0; i < s->output_count; i++)
        if (outputs[i])
            ort->ReleaseValue(outputs[i]);
    for (uint32_t i = 0; i < s->input_count; i++) {
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
    for (uint32_t t = 0; t < TRIALS; t++)
        if (try_rows(s, TRIAL_ROWS, trials[t], &came, NULL) == STATUS_OK)
            return came;
    return false;
}

/* ---- The description ---- */

static bool all_lead(const declared_t *list, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].rank < 1 || list[i].dims[0] >= 0)
            return false;
    return count > 0;
}

static status_t decide_batching(const signature_t *s, const engine_load_t *what, bool *batchable, err_t *err)
{
    *batchable = what->batching != ENGINE_BATCH_NONE && all_lead(s->inputs, s->input_count) &&
                 all_lead(s->outputs, s->output_count) && grows(s);
    if (what->batching == ENGINE_BATCH_FORCE && !*batchable)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "max_batch is given, but not every input and output has an open leading dimension that "
            "grows with the batch");
    return STATUS_OK;
}

static status_t set_all(engine_tensor_t *tensors, const declared_t *list, uint32_t count, bool batchable,
                        err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        status = description_set(&tensors[i], list[i].name, list[i].dtype, list[i].rank - batchable,
                                 list[i].dims + batchable, list[i].symbols + batchable, err);
    return status;
}

static status_t fill(description_t *d, const signature_t *s, const engine_load_t *what, err_t *err)
{
    bool batchable;
    status_t status = decide_batching(s, what, &batchable, err);
    if (status == STATUS_OK)
        status = description_init(d, s->input_count, s->output_count, err);
    if (status != STATUS_OK)
        return status;
    status = set_all(d->inputs, s->inputs, s->input_count, batchable, err);
    if (status == STATUS_OK)
        status = set_all(d->outputs, s->outputs, s->output_count, batchable, err);
    if (status != STATUS_OK) {
        description_dispose(d);
        return status;
    }
    d->info.batchable = batchable;
    d->info.max_batch = !batchable ? 1 : what->max_batch ? what->max_batch : ENGINE_DEFAULT_MAX_BATCH;
    return STATUS_OK;
}

status_t signature_read(description_t *d, OrtSession *session, const engine_load_t *what, err_t *err)
{
    if (what->max_batch > ENGINE_MAX_BATCH)
        return err_set(err, STATUS_INVALID_ARGUMENT, "max_batch %u is above %d", what->max_batch,
                       ENGINE_MAX_BATCH);
    signature_t *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    s->session = session;
    status_t status = library_check(ort->GetAllocatorWithDefaultOptions(&s->allocator), what->name, err);
    if (status == STATUS_OK)
        status = read_list(s, true, s->inputs, &s->input_count, err);
    if (status == STATUS_OK)
        status = read_list(s, false, s->outputs, &s->output_count, err);
    if (status == STATUS_OK)
        status = fill(d, s, what, err);
    dispose(s, s->inputs, s->input_count);
    dispose(s, s->outputs, s->output_count);
    free(s);
    return status;
}
