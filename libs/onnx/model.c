#include "onnx/model.h"

#include "base/file.h"
#include "onnx.pb-c.h"
#include "onnx/internal.h"
#include "onnx/scan.h"

#include <errno.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

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

/* Not the bytes. */
static void destroy(onnx_model_t *model)
{
    if (model->proto)
        onnx__model_proto__free_unpacked(model->proto, &model->allocator);
    strbuf_dispose(&model->outline.text);
    free(model->folder);
    free(model);
}

static status_t unpack(onnx_model_t *model, const void *bytes, size_t len_bytes, err_t *err)
{
    outline_t *outline = model->outline.from ? &model->outline : NULL;
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

/* stays: the bytes live as long as the model. */
static status_t parse(const void *bytes, size_t len_bytes, bool stays, const char *folder, onnx_model_t **out,
                      err_t *err)
{
    if (len_bytes > MAX_FILE_BYTES)
        return err_set(err, STATUS_TOO_LARGE, "the file has %zu bytes; at most %zu are read", len_bytes,
                       MAX_FILE_BYTES);
    onnx_model_t *model = calloc(1, sizeof *model);
    if (!model)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the model");
    if (stays)
        outline_init(
            &model->outline,
            protobuf_c_message_descriptor_get_field_by_name(&onnx__tensor_proto__descriptor, "raw_data"),
            bytes, len_bytes);
    status_t status = unpack(model, bytes, len_bytes, err);
    if (status == STATUS_OK && folder && !(model->folder = realpath(folder, NULL)))
        status = err_set(err, STATUS_IO, "the folder '%s' cannot be resolved: %s", folder, strerror(errno));
    if (status == STATUS_OK)
        *out = model;
    else
        destroy(model);
    return status;
}

status_t onnx_model_parse(const void *bytes, size_t len_bytes, const char *folder, onnx_model_t **model,
                          err_t *err)
{
    return parse(bytes, len_bytes, false, folder, model, err);
}

status_t onnx_model_load(const char *path, onnx_model_t **model, err_t *err)
{
    void *bytes;
    size_t len;
    status_t status = file_map(path, &bytes, &len, err);
    if (status != STATUS_OK)
        return status;
    char *copy = strdup(path);
    status = copy ? parse(bytes, len, true, dirname(copy), model, err)
                  : err_set(err, STATUS_NO_MEMORY, "no memory for the model");
    free(copy);
    if (status != STATUS_OK)
        munmap(bytes, len);
    return status;
}

void onnx_model_destroy(onnx_model_t *model)
{
    if (!model)
        return;
    void *bytes = (void *)(uintptr_t)model->outline.from;
    size_t len = model->outline.from_bytes;
    destroy(model);
    if (bytes)
        munmap(bytes, len);
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
