#include "engine/onnxruntime/session.h"

#include "base/mapped.h"
#include "engine/compile/describe.h"
#include "engine/onnxruntime/providers.h"
#include "onnx.pb-c.h"
#include "onnx/pack.h"

#include <libgen.h>
#include <onnxruntime_session_options_config_keys.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { AFFINITY_BYTES = 4096 };

/* Mutable: the options hold no reference to what they were given. */
static char batch_name[] = "fermata_batch";

/* ---- Options ---- */

/* "3;5;7": one CPU, counted from 1, for each thread but the first. */
static status_t pin(OrtSessionOptions *options, const session_threads_t *how, err_t *err)
{
    char text[AFFINITY_BYTES] = "";
    size_t len = 0;
    if (!how->cpu_count || how->threads < 2)
        return STATUS_OK;
    for (uint32_t i = 1; i < how->threads && len < sizeof text; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%d", i > 1 ? ";" : "",
                                how->cpus[i % how->cpu_count] + 1);
    return library_check(
        ort->AddSessionConfigEntry(options, kOrtSessionOptionsConfigIntraOpThreadAffinities, text), "threads",
        err);
}

static status_t set_options(OrtSessionOptions *options, const engine_load_t *what,
                            const session_threads_t *how, err_t *err)
{
    OrtStatus *failed = ort->SetIntraOpNumThreads(options, (int)how->threads);
    if (!failed)
        failed = ort->SetSessionGraphOptimizationLevel(options, ORT_ENABLE_ALL);
    if (!failed)
        failed = ort->AddSessionConfigEntry(options, kOrtSessionOptionsConfigAllowIntraOpSpinning, "0");
    if (!failed)
        failed = ort->SetSessionLogId(options, what->name);
    status_t status = library_check(failed, what->name, err);
    if (status == STATUS_OK)
        status = pin(options, how, err);
    return status == STATUS_OK ? providers_append(options, what->providers ? what->providers : how->providers,
                                                  how->device, err)
                               : status;
}

/* ---- A batch where the file says one ---- */

static void open_leading(Onnx__ValueInfoProto **values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Onnx__TypeProto *type = values[i]->type;
        bool dense = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
        Onnx__TensorShapeProto *shape = dense ? type->tensor_type->shape : NULL;
        if (!shape || !shape->n_dim)
            continue;
        Onnx__TensorShapeProto__Dimension *dim = shape->dim[0];
        if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE || dim->dim_value != 1)
            continue;
        dim->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        dim->dim_param = batch_name;
    }
}

/* protobuf-c would free the name. */
static void close_leading(Onnx__ValueInfoProto **values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const Onnx__TypeProto *type = values[i]->type;
        bool dense = type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && type->tensor_type;
        Onnx__TensorShapeProto *shape = dense ? type->tensor_type->shape : NULL;
        if (shape && shape->n_dim && shape->dim[0]->dim_param == batch_name)
            shape->dim[0]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    }
}

/* With open leading dimensions of its inputs and outputs, and without what it says of shapes between. */
static status_t pack_open(const onnx_model_t *model, onnx_text_t *text, err_t *err)
{
    Onnx__GraphProto *graph = onnx_model_proto(model)->graph;
    size_t said = graph->n_value_info;
    graph->n_value_info = 0;
    open_leading(graph->input, graph->n_input);
    open_leading(graph->output, graph->n_output);
    status_t status = onnx_model_pack(model, text, err);
    close_leading(graph->input, graph->n_input);
    close_leading(graph->output, graph->n_output);
    graph->n_value_info = said;
    return status;
}

/* By itself it reads a file into a string that it doubles as it goes, and keeps two copies of the weights until it has a third. */
static status_t write_text(const engine_load_t *what, bool open_batch, onnx_text_t *text, err_t *err)
{
    onnx_model_t *model;
    status_t status = describe_read(what, &model, err);
    if (status != STATUS_OK)
        return status;
    status = open_batch ? pack_open(model, text, err) : onnx_model_pack(model, text, err);
    onnx_model_destroy(model);
    return status;
}

/* ---- Sessions ---- */

/* It tells a file that is broken and an operator that it lacks with one code: what libs/onnx reads is not broken. */
static status_t lacks(const engine_load_t *what, status_t status, err_t *err)
{
    onnx_model_t *model;
    if (status == STATUS_OK || status == STATUS_NOT_FOUND)
        return status;
    status_t read = describe_read(what, &model, NULL);
    if (read == STATUS_OK)
        onnx_model_destroy(model);
    status = read == STATUS_OK ? STATUS_UNSUPPORTED : STATUS_INVALID_ARGUMENT;
    if (err)
        err->code = status;
    return status;
}

/* folder: of external data. */
static status_t create(const engine_load_t *what, const void *bytes, size_t len_bytes, const char *folder,
                       OrtSessionOptions *options, OrtSession **session, err_t *err)
{
    OrtStatus *failed = NULL;
    if (folder)
        failed = ort->AddSessionConfigEntry(
            options, kOrtSessionOptionsModelExternalInitializersFileFolderPath, folder);
    if (!failed)
        failed = ort->CreateSessionFromArray(library_env(), bytes, len_bytes, options, session);
    return lacks(what, library_check(failed, what->name, err), err);
}

/* What it keeps mapped of a file is ours before anybody can change it. */
static status_t create_of_text(const engine_load_t *what, const onnx_text_t *text, OrtSessionOptions *options,
                               OrtSession **session, err_t *err)
{
    const char *folder = text->folder[0] ? text->folder : NULL;
    mapped_watch_t watch;
    mapped_begin(&watch);
    status_t status = create(what, text->bytes, text->len_bytes, folder, options, session, err);
    bool made = status == STATUS_OK;
    status_t ended = mapped_end(&watch, folder, made ? err : NULL);
    if (made)
        status = ended == STATUS_OK ? onnx_text_check(text, err) : ended;
    if (made && status != STATUS_OK)
        ort->ReleaseSession(*session);
    return status;
}

static status_t create_of_file(const engine_load_t *what, bool open_batch, OrtSessionOptions *options,
                               OrtSession **session, err_t *err)
{
    onnx_text_t text;
    status_t status = write_text(what, open_batch, &text, err);
    if (status != STATUS_OK)
        return status;
    status = create_of_text(what, &text, options, session, err);
    onnx_text_dispose(&text);
    return status;
}

/* A part of a model, whose external data lies where the whole has it. */
static status_t create_of_part(const engine_load_t *what, OrtSessionOptions *options, OrtSession **session,
                               err_t *err)
{
    char *copy = what->path ? strdup(what->path) : NULL;
    status_t status =
        copy || !what->path
            ? create(what, what->bytes, what->len_bytes, copy ? dirname(copy) : NULL, options, session, err)
            : err_set(err, STATUS_NO_MEMORY, "no memory for model '%.80s'", what->name);
    free(copy);
    return status;
}

status_t session_create(const engine_load_t *what, const session_threads_t *threads, bool open_batch,
                        OrtSession **session, err_t *err)
{
    OrtSessionOptions *options;
    status_t status = library_check(ort->CreateSessionOptions(&options), what->name, err);
    if (status != STATUS_OK)
        return status;
    status = set_options(options, what, threads, err);
    if (status == STATUS_OK && what->bytes && !open_batch)
        status = create_of_part(what, options, session, err);
    else if (status == STATUS_OK)
        status = create_of_file(what, open_batch, options, session, err);
    ort->ReleaseSessionOptions(options);
    return status;
}

/* ---- Types ---- */

/* Of the elements; UNDEFINED: no dense tensor. */
static OrtStatus *element_of(const OrtTypeInfo *type, ONNXTensorElementDataType *element)
{
    const OrtTensorTypeAndShapeInfo *tensor;
    *element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    OrtStatus *failed = ort->CastTypeInfoToTensorInfo(type, &tensor);
    return failed || !tensor ? failed : ort->GetTensorElementType(tensor, element);
}

static OrtStatus *element_at(const OrtSession *session, bool input, size_t i,
                             ONNXTensorElementDataType *element)
{
    OrtTypeInfo *type;
    OrtStatus *failed = input ? ort->SessionGetInputTypeInfo(session, i, &type)
                              : ort->SessionGetOutputTypeInfo(session, i, &type);
    if (failed)
        return failed;
    failed = element_of(type, element);
    ort->ReleaseTypeInfo(type);
    return failed;
}

static OrtStatus *list_has_text(const OrtSession *session, bool input, bool *text)
{
    size_t count;
    OrtStatus *failed =
        input ? ort->SessionGetInputCount(session, &count) : ort->SessionGetOutputCount(session, &count);
    for (size_t i = 0; !failed && i < count; i++) {
        ONNXTensorElementDataType element;
        failed = element_at(session, input, i, &element);
        *text |= !failed && element == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    }
    return failed;
}

status_t session_has_text(const OrtSession *session, bool *text, err_t *err)
{
    *text = false;
    OrtStatus *failed = list_has_text(session, true, text);
    if (!failed)
        failed = list_has_text(session, false, text);
    return library_check(failed, "inputs and outputs", err);
}

status_t session_output_binds(const OrtSession *session, uint32_t output, bool *binds, err_t *err)
{
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    OrtStatus *failed = element_at(session, false, output, &element);
    *binds =
        element != ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED && element != ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING;
    return library_check(failed, "outputs", err);
}
