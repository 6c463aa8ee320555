#include "engine/onnxruntime/signature.h"

#include "engine/compile/fit.h"
#include "engine/onnxruntime/rows.h"
#include "engine/onnxruntime/values.h"
#include "engine/onnxruntime/words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    uint32_t text_bytes; /* room for a string */
    words_t words;       /* to try it with */
    bool with_words;     /* instead of empty strings */
    void *samples[ENGINE_MAX_IO];
    declared_t inputs, outputs;
    fit_axes_t axes; /* of the inputs, whose leading dimensions are rows */
    fit_t fit;
} signature_t;

/* ---- What is declared ---- */

/* Strings are bytes, with one more dimension. */
static void declare_text(engine_tensor_t *t, uint32_t text_bytes)
{
    t->text = true;
    t->dtype = DTYPE_U8;
    t->dims[t->rank] = text_bytes;
    t->symbols[t->rank++] = NULL;
}

static status_t read_tensor(engine_tensor_t *t, uint32_t text_bytes, const OrtTensorTypeAndShapeInfo *tensor,
                            err_t *err)
{
    ONNXTensorElementDataType type;
    size_t rank;
    OrtStatus *failed = ort->GetTensorElementType(tensor, &type);
    if (!failed)
        failed = ort->GetDimensionsCount(tensor, &rank);
    if (failed)
        return library_check(failed, t->name, err);
    bool text = type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    if (rank + text > ENGINE_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has %zu dimensions; at most %d are supported",
                       t->name, rank, ENGINE_MAX_RANK - text);
    t->dtype = (dtype_t)type;
    t->rank = (uint32_t)rank;
    failed = ort->GetDimensions(tensor, t->dims, rank);
    if (!failed)
        failed = ort->GetSymbolicDimensions(tensor, t->symbols, rank);
    for (size_t i = 0; i < rank; i++)
        if (t->symbols[i] && !*t->symbols[i])
            t->symbols[i] = NULL;
    if (!failed && text)
        declare_text(t, text_bytes);
    return library_check(failed, t->name, err);
}

/* Into *maps: a sequence of maps to numbers, as classifiers have it. */
static OrtStatus *is_maps(const OrtTypeInfo *type, bool *maps)
{
    const OrtSequenceTypeInfo *sequence;
    OrtTypeInfo *element;
    const OrtMapTypeInfo *map = NULL;
    *maps = false;
    OrtStatus *failed = ort->CastTypeInfoToSequenceTypeInfo(type, &sequence);
    if (failed || !sequence)
        return failed;
    failed = ort->GetSequenceElementType(sequence, &element);
    if (failed)
        return failed;
    failed = ort->CastTypeInfoToMapTypeInfo(element, &map);
    *maps = map;
    ort->ReleaseTypeInfo(element);
    return failed;
}

/* A row for each map; how many numbers it has, and of which type, a try shows. */
static status_t read_maps(engine_tensor_t *t, const OrtTypeInfo *type, bool input, err_t *err)
{
    bool maps;
    status_t status = library_check(is_maps(type, &maps), t->name, err);
    if (status != STATUS_OK)
        return status;
    if (input || !maps)
        return err_set(err, STATUS_UNSUPPORTED,
                       "%s '%.80s' is no tensor but a sequence, a map or an optional",
                       input ? "input" : "output", t->name);
    t->dtype = DTYPE_NONE;
    t->rank = 2;
    t->dims[0] = t->dims[1] = -1;
    return STATUS_OK;
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
    return tensor ? read_tensor(&d->tensors[i], s->text_bytes, tensor, err)
                  : read_maps(&d->tensors[i], d->types[i], input, err);
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

/* ---- A run of zeros, or of words ---- */

static void trial_shape(const signature_t *s, uint32_t input, int64_t rows, int64_t size, tensor_t *shape)
{
    const engine_tensor_t *d = &s->inputs.tensors[input];
    *shape = (tensor_t){.dtype = d->dtype, .rank = d->rank};
    for (uint32_t k = 0; k < d->rank; k++)
        shape->dims[k] = d->dims[k] >= 0 ? d->dims[k]
                         : k == 0        ? rows
                                         : fit_size(&s->fit, s->axes.of[input][k] - 1, size);
}

/* Each row has the same words; those of an input go on where the input before has ended. */
static void lay_words(const signature_t *s, uint32_t input, const tensor_t *shape)
{
    size_t room_bytes = s->text_bytes, first = 0, each = tensor_count_range(shape, 1, shape->rank - 1);
    for (uint32_t i = 0; i < input; i++)
        first += s->inputs.tensors[i].text;
    for (int64_t row = 0; row < shape->dims[0]; row++)
        words_lay(&s->words, first, (char *)shape->data + (size_t)row * each * room_bytes, each, room_bytes);
}

static status_t make_input(const signature_t *s, uint32_t i, int64_t rows, int64_t size, OrtValue **value,
                           void **data, err_t *err)
{
    const engine_tensor_t *d = &s->inputs.tensors[i];
    tensor_t shape;
    trial_shape(s, i, rows, size, &shape);
    status_t status = tensor_check(&shape, err);
    if (status == STATUS_OK && !(shape.data = *data = calloc(tensor_bytes(&shape) + 1, 1)))
        status = err_set(err, STATUS_NO_MEMORY, "no memory to try the model");
    if (status == STATUS_OK && d->text && s->with_words && shape.rank > 1)
        lay_words(s, i, &shape);
    return status == STATUS_OK ? value_bind(&shape, d->text, value, err) : status;
}

/* What a try shows of an output: whether it has so many rows, and how wide maps are. */
static bool learn_output(engine_tensor_t *output, const OrtValue *value, uint32_t text_bytes, int64_t rows)
{
    value_read_t read;
    if (value_read(value, output->name, text_bytes, &read, NULL) != STATUS_OK)
        return false;
    if (output->dtype == DTYPE_NONE) {
        output->dtype = read.tensor.dtype;
        output->dims[1] = read.tensor.dims[1];
    }
    free(read.made);
    return read.tensor.rank >= 1 && read.tensor.dims[0] == rows;
}

/* True: every output of this try has so many rows. */
static bool rows_came(signature_t *s, OrtValue *const *values, int64_t rows)
{
    bool came = true;
    for (uint32_t i = 0; i < s->outputs.count; i++)
        came &= learn_output(&s->outputs.tensors[i], values[i], s->text_bytes, rows);
    return came;
}

static status_t try_rows(signature_t *s, int64_t rows, int64_t size, bool *came, err_t *err)
{
    OrtValue *inputs[ENGINE_MAX_IO] = {NULL}, *outputs[ENGINE_MAX_IO] = {NULL};
    void *data[ENGINE_MAX_IO] = {NULL};
    const char *input_names[ENGINE_MAX_IO], *output_names[ENGINE_MAX_IO];
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->inputs.count; i++) {
        input_names[i] = s->inputs.tensors[i].name;
        status = make_input(s, i, rows, size, &inputs[i], &data[i], err);
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

/* By the first size that the model takes, of the first pattern of sizes; what it says of the last when it takes none. */
static status_t try_sizes(signature_t *s, int64_t rows, bool *came, err_t *err)
{
    status_t status = STATUS_OK;
    *came = false;
    do {
        for (uint32_t t = 0; t < DESCRIBE_TRIALS; t++) {
            status = try_rows(s, rows, describe_trials[t], came, err);
            if (status == STATUS_OK)
                return status;
        }
    } while (fit_next(&s->fit));
    return status;
}

static bool has_text(const signature_t *s)
{
    for (uint32_t i = 0; i < s->inputs.count; i++)
        if (s->inputs.tensors[i].text)
            return true;
    return false;
}

/* Empty strings, where there are any, unless only words are taken. */
static void choose_words(signature_t *s)
{
    bool came;
    if (!has_text(s) || !s->words.count || try_sizes(s, 1, &came, NULL) == STATUS_OK)
        return;
    s->with_words = true;
    s->with_words = try_sizes(s, 1, &came, NULL) == STATUS_OK;
}

static status_t keep_samples(signature_t *s, err_t *err)
{
    for (uint32_t i = 0; s->with_words && i < s->inputs.count; i++) {
        engine_tensor_t *t = &s->inputs.tensors[i];
        OrtValue *value = NULL;
        void *data = NULL;
        if (!t->text)
            continue;
        status_t status = make_input(s, i, 1, describe_trials[0], &value, &data, err);
        if (value)
            ort->ReleaseValue(value);
        s->samples[i] = data;
        t->sample = data;
        if (status != STATUS_OK)
            return status;
    }
    return STATUS_OK;
}

static bool has_maps(const signature_t *s)
{
    for (uint32_t i = 0; i < s->outputs.count; i++)
        if (s->outputs.tensors[i].dtype == DTYPE_NONE)
            return true;
    return false;
}

/* What maps are like must be known, batch or not. */
static status_t learn_maps(signature_t *s, err_t *err)
{
    bool came;
    if (!has_maps(s))
        return STATUS_OK;
    status_t status = try_sizes(s, 1, &came, err);
    if (status == STATUS_OK && has_maps(s))
        status = err_set(err, STATUS_UNSUPPORTED, "an output of maps whose size a try did not show");
    return status;
}

/* ---- The description ---- */

static bool all_lead(const declared_t *d)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->tensors[i].rank < 1 || d->tensors[i].dims[0] >= 0)
            return false;
    return d->count > 0;
}

static bool grows(signature_t *s)
{
    bool came;
    return try_sizes(s, TRIAL_ROWS, &came, NULL) == STATUS_OK && came;
}

/* Why rows are run one by one: the inputs could be batched, but what comes out could not be given back. */
static void tell_alone(const signature_t *s, char alone[ENGINE_REASON_BYTES])
{
    for (uint32_t i = 0; i < s->outputs.count; i++)
        if (s->outputs.tensors[i].rank < 1 || s->outputs.tensors[i].dims[0] >= 0) {
            snprintf(alone, ENGINE_REASON_BYTES, "output '%.80s' does not grow with the batch",
                     s->outputs.tensors[i].name);
            return;
        }
    snprintf(alone, ENGINE_REASON_BYTES, "outputs do not grow with the batch");
}

static status_t decide_batching(signature_t *s, const engine_load_t *what, bool *batchable,
                                char alone[ENGINE_REASON_BYTES], err_t *err)
{
    bool wanted = what->batching != ENGINE_BATCH_NONE && all_lead(&s->inputs);
    *batchable = wanted && all_lead(&s->outputs) && grows(s);
    if (wanted && !*batchable)
        tell_alone(s, alone);
    if (*batchable && what->batching != ENGINE_BATCH_FORCE)
        rows_check(what, alone);
    *batchable &= !alone[0];
    if (what->batching == ENGINE_BATCH_FORCE && !*batchable)
        return err_set(
            err, STATUS_INVALID_ARGUMENT,
            "max_batch is given, but not every input and output has an open leading dimension that "
            "grows with the batch");
    return STATUS_OK;
}

static status_t describe_declared(description_t *d, signature_t *s, const engine_load_t *what, err_t *err)
{
    engine_load_t declared = *what;
    char alone[ENGINE_REASON_BYTES] = "";
    bool batchable;
    status_t status = decide_batching(s, what, &batchable, alone, err);
    if (status == STATUS_OK)
        status = keep_samples(s, err);
    declared.inputs = s->inputs.tensors;
    declared.outputs = s->outputs.tensors;
    declared.input_count = s->inputs.count;
    declared.output_count = s->outputs.count;
    if (status == STATUS_OK)
        status = description_from_declared(d, &declared, batchable, err);
    if (status == STATUS_OK)
        memcpy(d->info.alone, alone, sizeof alone);
    return status;
}

status_t signature_read(description_t *d, OrtSession *session, const engine_load_t *what, err_t *err)
{
    status_t status = describe_check(what, err);
    if (status == STATUS_OK)
        status = describe_check_file(what, err);
    if (status != STATUS_OK)
        return status;
    signature_t *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    s->session = session;
    s->text_bytes = what->text_bytes ? what->text_bytes : ENGINE_DEFAULT_TEXT_BYTES;
    status = library_check(ort->GetAllocatorWithDefaultOptions(&s->allocator), what->name, err);
    if (status == STATUS_OK)
        status = read_list(s, true, &s->inputs, err);
    if (status == STATUS_OK)
        status = read_list(s, false, &s->outputs, err);
    if (status == STATUS_OK)
        status = words_read(&s->words, what, err);
    if (status == STATUS_OK) {
        fit_axes(&s->axes, s->inputs.tensors, s->inputs.count, 1);
        fit_first(&s->fit, FIT_TO_DESCRIBE, s->axes.count);
    }
    if (status == STATUS_OK) {
        choose_words(s);
        status = learn_maps(s, err);
    }
    if (status == STATUS_OK)
        status = describe_declared(d, s, what, err);
    dispose(s, &s->inputs);
    dispose(s, &s->outputs);
    for (uint32_t i = 0; i < s->inputs.count; i++)
        free(s->samples[i]);
    words_dispose(&s->words);
    free(s);
    return status;
}
