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

/*
 * onnxruntime and OpenVINO take the offset for an address in their own memory where the location is one of theirs, such as
 * '*' "/_ORT_MEM_ADDR_/" '*'. A file's name may not be one, and there may be no second that one reader sees and another does not.
 */
static status_t set_location(const Onnx__TensorProto *t, const char *location, external_t *e, err_t *err)
{
    if (strstr(location, "_MEM_ADDR_"))
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s': '%.60s' is memory, not a file",
                       tensor_name(t), location);
    if (e->location)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s' is external and names two files",
                       tensor_name(t));
    e->location = location;
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
            status = set_location(t, value, e, err);
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

typedef struct {
    const onnx_model_t *model;
    bool open;  /* each, to see that it is there */
    bool found; /* one at least */
    status_t status;
    err_t *err;
} search_t;

static void visit_tensor(search_t *s, const Onnx__TensorProto *t)
{
    external_t e;
    int fd;
    if (!t || !tensor_is_external(t))
        return;
    s->found = true;
    if (!s->open || s->status != STATUS_OK)
        return;
    s->status = open_external(s->model, t, &e, &fd, s->err);
    if (s->status == STATUS_OK)
        close(fd);
}

static void visit_sparse(search_t *s, const Onnx__SparseTensorProto *t)
{
    if (!t)
        return;
    visit_tensor(s, t->values);
    visit_tensor(s, t->indices);
}

static void visit_graph(search_t *s, const Onnx__GraphProto *g); /* attributes hold graphs */

static void visit_attribute(search_t *s, const Onnx__AttributeProto *a)
{
    visit_tensor(s, a->t);
    visit_sparse(s, a->sparse_tensor);
    for (size_t i = 0; i < a->n_tensors; i++)
        visit_tensor(s, a->tensors[i]);
    for (size_t i = 0; i < a->n_sparse_tensors; i++)
        visit_sparse(s, a->sparse_tensors[i]);
    if (a->g)
        visit_graph(s, a->g);
    for (size_t i = 0; i < a->n_graphs; i++)
        visit_graph(s, a->graphs[i]);
}

static void visit_nodes(search_t *s, Onnx__NodeProto **nodes, size_t count)
{
    for (size_t n = 0; n < count; n++)
        for (size_t i = 0; i < nodes[n]->n_attribute; i++)
            visit_attribute(s, nodes[n]->attribute[i]);
}

/* How deep it can go was bounded when the file was read. */
static void visit_graph(search_t *s, const Onnx__GraphProto *g)
{
    for (size_t i = 0; i < g->n_initializer; i++)
        visit_tensor(s, g->initializer[i]);
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        visit_sparse(s, g->sparse_initializer[i]);
    visit_nodes(s, g->node, g->n_node);
}

static void visit_all(search_t *s)
{
    const Onnx__ModelProto *proto = s->model->proto;
    visit_graph(s, proto->graph);
    for (size_t i = 0; i < proto->n_functions; i++)
        visit_nodes(s, proto->functions[i]->node, proto->functions[i]->n_node);
}

bool external_is_used(const onnx_model_t *model)
{
    search_t search = {.model = model};
    visit_all(&search);
    return search.found;
}

status_t onnx_model_check_external(const onnx_model_t *model, err_t *err)
{
    search_t search = {.model = model, .open = true, .status = STATUS_OK, .err = err};
    visit_all(&search);
    return search.status;
}
