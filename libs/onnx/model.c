#include "onnx/model.h"

#include "onnx.pb-c.h"
#include "onnx/internal.h"
#include "onnx/scan.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>

/* Protobuf itself stops at 2 GiB; larger models keep their weights in external files. */
#define MAX_FILE_BYTES ((size_t)1 << 31)

static status_t check_model(const Onnx__ModelProto *proto, err_t *err)
{
    if (!proto->graph)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the file holds no graph");
    if (!proto->graph->n_node && !proto->graph->n_output)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the graph is empty");
    return STATUS_OK;
}

void onnx_model_destroy(onnx_model_t *model)
{
    if (!model)
        return;
    if (model->proto)
        onnx__model_proto__free_unpacked(model->proto, &model->allocator);
    strbuf_dispose(&model->outline.text);
    if (model->file.bytes)
        mapped_close(&model->file);
    free(model->path);
    free(model->folder);
    free(model);
}

static status_t unpack(onnx_model_t *model, const void *bytes, size_t len_bytes, err_t *err)
{
    outline_t *outline = model->file.bytes ? &model->outline : NULL;
    model->allocator = outline_allocator(&model->outline);
    status_t status = scan_message(&onnx__model_proto__descriptor, bytes, len_bytes, ONNX_MAX_DEPTH,
                                   ONNX_MAX_MESSAGES, outline, err);
    if (status != STATUS_OK)
        return status;
    model->proto = onnx__model_proto__unpack(&model->allocator, outline ? outline->text.len_bytes : len_bytes,
                                             outline ? (const uint8_t *)outline->text.data : bytes);
    if (!model->proto)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the file is no ONNX model");
    if (outline)
        outline_fill(outline, &model->proto->base);
    strbuf_dispose(&model->outline.text);
    return check_model(model->proto, err);
}

static status_t parse(onnx_model_t *model, const void *bytes, size_t len_bytes, const char *folder,
                      err_t *err)
{
    if (len_bytes > MAX_FILE_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "the file has %zu bytes; at most %zu are read", len_bytes,
                       MAX_FILE_BYTES);
    status_t status = unpack(model, bytes, len_bytes, err);
    if (status == STATUS_OK && folder && !(model->folder = realpath(folder, NULL)))
        status = err_set(err, STATUS_IO, "the folder '%s' cannot be resolved: %s", folder, strerror(errno));
    return status;
}

/* What was changed while it was read may have become anything. */
static status_t parse_file(onnx_model_t *model, const char *path, const char *folder, err_t *err)
{
    status_t status = mapped_open(path, &model->file, err);
    if (status != STATUS_OK)
        return status;
    outline_init(&model->outline,
                 protobuf_c_message_descriptor_get_field_by_name(&onnx__tensor_proto__descriptor, "raw_data"),
                 model->file.bytes, model->file.len_bytes);
    model->path = realpath(path, NULL);
    status = parse(model, model->file.bytes, model->file.len_bytes, folder, err);
    status_t changed = mapped_check(&model->file.about, path, status == STATUS_OK ? err : NULL);
    return status == STATUS_OK ? changed : status;
}

static status_t create(onnx_model_t **model, err_t *err)
{
    *model = calloc(1, sizeof **model);
    return *model ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for the model");
}

static status_t give(onnx_model_t *model, status_t status, onnx_model_t **out)
{
    if (status == STATUS_OK)
        *out = model;
    else
        onnx_model_destroy(model);
    return status;
}

status_t onnx_model_parse(const void *bytes, size_t len_bytes, const char *folder, onnx_model_t **out,
                          err_t *err)
{
    onnx_model_t *model;
    status_t status = create(&model, err);
    return status == STATUS_OK ? give(model, parse(model, bytes, len_bytes, folder, err), out) : status;
}

status_t onnx_model_load(const char *path, onnx_model_t **out, err_t *err)
{
    onnx_model_t *model;
    char *copy = strdup(path);
    status_t status = copy ? create(&model, err) : err_set(err, STATUS_NO_MEMORY, "no memory for the model");
    if (status == STATUS_OK)
        status = give(model, parse_file(model, path, dirname(copy), err), out);
    free(copy);
    return status;
}

const struct Onnx__ModelProto *onnx_model_proto(const onnx_model_t *model)
{
    return model->proto;
}

static bool is_standard(const char *domain)
{
    return !domain || !*domain || !strcmp(domain, "ai.onnx");
}

int64_t onnx_model_opset(const onnx_model_t *model, const char *domain)
{
    for (size_t i = 0; i < model->proto->n_opset_import; i++) {
        const Onnx__OperatorSetIdProto *set = model->proto->opset_import[i];
        bool same =
            is_standard(domain) ? is_standard(set->domain) : set->domain && !strcmp(set->domain, domain);
        if (same)
            return set->version;
    }
    return 0;
}
