/* Tensors whose elements lie in other files: in the folder of the model, and from nowhere else. */
#include "base/file.h"
#include "onnx/internal.h"
#include "onnx/model.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const char *location;
    uint64_t offset, length; /* length 0 = as the tensor says */
} external_t;

static status_t parse_u64(const Onnx__TensorProto *t, const char *key, const char *text, uint64_t *value,
                          err_t *err)
{
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s': external %s '%.40s' is no number",
                       tensor_name(t), key, text);
    *value = parsed;
    return STATUS_OK;
}

static status_t read_external_fields(const Onnx__TensorProto *t, external_t *e, err_t *err)
{
    *e = (external_t){0};
    for (size_t i = 0; i < t->n_external_data; i++) {
        const char *key = t->external_data[i]->key, *value = t->external_data[i]->value;
        status_t status = STATUS_OK;
        if (!key || !value)
            continue;
        if (!strcmp(key, "location"))
            e->location = value;
        else if (!strcmp(key, "offset"))
            status = parse_u64(t, key, value, &e->offset, err);
        else if (!strcmp(key, "length"))
            status = parse_u64(t, key, value, &e->length, err);
        if (status != STATUS_OK)
            return status;
    }
    if (!e->location || !*e->location)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s' is external but names no file",
                       tensor_name(t));
    return STATUS_OK;
}

/* The file must lie in the folder after symbolic links are resolved, and be one. */
static status_t open_inside(const onnx_model_t *model, const Onnx__TensorProto *t, const char *location,
                            int *fd, err_t *err)
{
    char path[PATH_MAX], real[PATH_MAX];
    size_t folder_len = strlen(model->folder);
    int len = snprintf(path, sizeof path, "%s/%s", model->folder, location);
    if (*location == '/' || len < 0 || (size_t)len >= sizeof path)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s': '%.60s' is no relative path",
                       tensor_name(t), location);
    if (!realpath(path, real))
        return err_set(err, STATUS_IO, "tensor '%.60s': %.80s: %s", tensor_name(t), location,
                       strerror(errno));
    bool inside = !strncmp(real, model->folder, folder_len) && (real[folder_len] == '/' || folder_len == 1);
    if (!inside)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "tensor '%.60s': '%.60s' lies outside the folder of the model", tensor_name(t),
                       location);
    err_t why;
    status_t status = file_open(real, fd, &why);
    if (status != STATUS_OK)
        return err_set(err, status, "tensor '%.60s': %s", tensor_name(t), why.text);
    return STATUS_OK;
}

static status_t read_at(int fd, uint64_t offset, char *to, size_t len)
{
    while (len) {
        ssize_t got = pread(fd, to, len, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return STATUS_IO;
        to += got;
        offset += (uint64_t)got;
        len -= (size_t)got;
    }
    return STATUS_OK;
}

static status_t open_external(const onnx_model_t *model, const Onnx__TensorProto *t, external_t *e, int *fd,
                              err_t *err)
{
    status_t status = read_external_fields(t, e, err);
    return status == STATUS_OK ? open_inside(model, t, e->location, fd, err) : status;
}

static status_t check_length(const Onnx__TensorProto *t, const external_t *e, int fd,
                             const onnx_tensor_info_t *info, err_t *err)
{
    struct stat st;
    if (e->length && e->length != info->len_bytes)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "tensor '%.80s' has %llu external bytes where its dimensions want %zu", tensor_name(t),
                       (unsigned long long)e->length, info->len_bytes);
    if (fstat(fd, &st) != 0 || e->offset > (uint64_t)st.st_size ||
        info->len_bytes > (uint64_t)st.st_size - e->offset)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s': %.80s is too short", tensor_name(t),
                       e->location);
    return STATUS_OK;
}

status_t external_read(const onnx_model_t *model, const Onnx__TensorProto *t, const onnx_tensor_info_t *info,
                       void *to, err_t *err)
{
    external_t e;
    int fd;
    status_t status = open_external(model, t, &e, &fd, err);
    if (status != STATUS_OK)
        return status;
    status = check_length(t, &e, fd, info, err);
    if (status == STATUS_OK && read_at(fd, e.offset, to, info->len_bytes) != STATUS_OK)
        status = err_set(err, STATUS_IO, "tensor '%.60s': reading %.80s failed", tensor_name(t), e.location);
    close(fd);
    return status;
}

/* ---- all of them ---- */

static status_t check_tensor(const onnx_model_t *model, const Onnx__TensorProto *t, err_t *err)
{
    external_t e;
    int fd;
    if (!t || !tensor_is_external(t))
        return STATUS_OK;
    status_t status = open_external(model, t, &e, &fd, err);
    if (status == STATUS_OK)
        close(fd);
    return status;
}

static status_t check_sparse(const onnx_model_t *model, const Onnx__SparseTensorProto *s, err_t *err)
{
    status_t status = s ? check_tensor(model, s->values, err) : STATUS_OK;
    return s && status == STATUS_OK ? check_tensor(model, s->indices, err) : status;
}

static status_t check_graph(const onnx_model_t *model, const Onnx__GraphProto *g,
                            err_t *err); /* attributes hold graphs */

static status_t check_attribute(const onnx_model_t *model, const Onnx__AttributeProto *a, err_t *err)
{
    status_t status = check_tensor(model, a->t, err);
    if (status == STATUS_OK)
        status = check_sparse(model, a->sparse_tensor, err);
    for (size_t i = 0; status == STATUS_OK && i < a->n_tensors; i++)
        status = check_tensor(model, a->tensors[i], err);
    for (size_t i = 0; status == STATUS_OK && i < a->n_sparse_tensors; i++)
        status = check_sparse(model, a->sparse_tensors[i], err);
    if (status == STATUS_OK && a->g)
        status = check_graph(model, a->g, err);
    for (size_t i = 0; status == STATUS_OK && i < a->n_graphs; i++)
        status = check_graph(model, a->graphs[i], err);
    return status;
}

static status_t check_nodes(const onnx_model_t *model, Onnx__NodeProto **nodes, size_t count, err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; status == STATUS_OK && i < nodes[n]->n_attribute; i++)
            status = check_attribute(model, nodes[n]->attribute[i], err);
    return status;
}

/* How deep it can go was bounded when the file was read. */
static status_t check_graph(const onnx_model_t *model, const Onnx__GraphProto *g, err_t *err)
{
    status_t status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < g->n_initializer; i++)
        status = check_tensor(model, g->initializer[i], err);
    for (size_t i = 0; status == STATUS_OK && i < g->n_sparse_initializer; i++)
        status = check_sparse(model, g->sparse_initializer[i], err);
    return status == STATUS_OK ? check_nodes(model, g->node, g->n_node, err) : status;
}

status_t onnx_model_check_external(const onnx_model_t *model, err_t *err)
{
    const Onnx__ModelProto *proto = model->proto;
    status_t status = check_graph(model, proto->graph, err);
    for (size_t i = 0; status == STATUS_OK && i < proto->n_functions; i++)
        status = check_nodes(model, proto->functions[i]->node, proto->functions[i]->n_node, err);
    return status;
}
