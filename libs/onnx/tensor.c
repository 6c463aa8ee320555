#include "onnx/internal.h"
#include "onnx/model.h"

#include <errno.h>
#include <fcntl.h>
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

static const char *name_of(const Onnx__TensorProto *t)
{
    return t->name && *t->name ? t->name : "(unnamed)";
}

static status_t check_dims(const Onnx__TensorProto *t, onnx_tensor_info_t *info, err_t *err)
{
    if (t->n_dims > ONNX_MAX_RANK)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has %zu dimensions; at most %d are supported",
                       name_of(t), t->n_dims, ONNX_MAX_RANK);
    info->rank = (uint32_t)t->n_dims;
    info->count = 1;
    size_t size = dtype_size(info->dtype);
    for (uint32_t i = 0; i < info->rank; i++) {
        int64_t dim = info->dims[i] = t->dims[i];
        if (dim < 0)
            return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s': dimension %u is negative",
                           name_of(t), i);
        if (dim > 0 && info->count > ONNX_MAX_TENSOR_BYTES / size / (size_t)dim)
            return err_set(err, STATUS_TOO_LARGE, "tensor '%.80s' is larger than %zu GiB", name_of(t),
                           ONNX_MAX_TENSOR_BYTES >> 30);
        info->count *= (size_t)dim;
    }
    info->len_bytes = info->count * size;
    return STATUS_OK;
}

/* Elements in the typed field that this type is kept in when there is no raw_data. */
static size_t field_count(const Onnx__TensorProto *t, dtype_t dtype)
{
    switch (dtype) {
    case DTYPE_F32:
        return t->n_float_data;
    case DTYPE_F64:
        return t->n_double_data;
    case DTYPE_I64:
        return t->n_int64_data;
    case DTYPE_U32:
    case DTYPE_U64:
        return t->n_uint64_data;
    default:
        return t->n_int32_data;
    }
}

static bool is_external(const Onnx__TensorProto *t)
{
    return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

status_t onnx_tensor_info(const onnx_model_t *model, const struct Onnx__TensorProto *t,
                          onnx_tensor_info_t *info, err_t *err)
{
    *info = (onnx_tensor_info_t){.dtype = t->has_data_type ? (dtype_t)t->data_type : DTYPE_NONE};
    if (!dtype_size(info->dtype))
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' has the unsupported element type %d",
                       name_of(t), t->has_data_type ? (int)t->data_type : 0);
    if (t->segment)
        return err_set(err, STATUS_UNSUPPORTED, "tensor '%.80s' is stored in segments", name_of(t));
    status_t status = check_dims(t, info, err);
    if (status != STATUS_OK)
        return status;
    if (is_external(t)) {
        if (!model || !model->folder)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "tensor '%.80s' is in an external file, and there is no folder", name_of(t));
        return STATUS_OK;
    }
    size_t have = t->has_raw_data ? t->raw_data.len : field_count(t, info->dtype);
    size_t want = t->has_raw_data ? info->len_bytes : info->count;
    if (have != want)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "tensor '%.80s' holds %zu %s where its dimensions want %zu", name_of(t), have,
                       t->has_raw_data ? "bytes" : "elements", want);
    return STATUS_OK;
}

#define NARROW(T, field)                     \
    for (size_t i = 0; i < info->count; i++) \
    ((T *)to)[i] = (T)t->field[i]

static void read_fields(const Onnx__TensorProto *t, const onnx_tensor_info_t *info, void *to)
{
    switch (info->dtype) {
    case DTYPE_F32:
        NARROW(float, float_data);
        break;
    case DTYPE_F64:
        NARROW(double, double_data);
        break;
    case DTYPE_I64:
        NARROW(int64_t, int64_data);
        break;
    case DTYPE_U64:
        NARROW(uint64_t, uint64_data);
        break;
    case DTYPE_U32:
        NARROW(uint32_t, uint64_data);
        break;
    case DTYPE_I32:
        NARROW(int32_t, int32_data);
        break;
    case DTYPE_BOOL:
    case DTYPE_U8:
    case DTYPE_I8:
        NARROW(uint8_t, int32_data);
        break;
    default: /* the 16-bit types, bit patterns of the floats included */
        NARROW(uint16_t, int32_data);
        break;
    }
}

static status_t parse_u64(const Onnx__TensorProto *t, const char *key, const char *text, uint64_t *value,
                          err_t *err)
{
    char *end;
    errno = 0;
    unsigned long long parsed = strtoull(text, &end, 10);
    if (errno || end == text || *end || *text == '-')
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s': external %s '%.40s' is no number",
                       name_of(t), key, text);
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
                       name_of(t));
    return STATUS_OK;
}

/* The file must lie in the folder after symbolic links are resolved. */
static status_t open_inside(const onnx_model_t *model, const Onnx__TensorProto *t, const char *location,
                            int *fd, err_t *err)
{
    char path[PATH_MAX], real[PATH_MAX];
    size_t folder_len = strlen(model->folder);
    int len = snprintf(path, sizeof path, "%s/%s", model->folder, location);
    if (*location == '/' || len < 0 || (size_t)len >= sizeof path)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s': '%.60s' is no relative path",
                       name_of(t), location);
    if (!realpath(path, real))
        return err_set(err, STATUS_IO, "tensor '%.60s': %.80s: %s", name_of(t), location, strerror(errno));
    bool inside = !strncmp(real, model->folder, folder_len) && (real[folder_len] == '/' || folder_len == 1);
    if (!inside)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "tensor '%.60s': '%.60s' lies outside the folder of the model", name_of(t), location);
    *fd = open(real, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (*fd < 0)
        return err_set(err, STATUS_IO, "tensor '%.60s': %.80s: %s", name_of(t), location, strerror(errno));
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

static status_t read_external(const onnx_model_t *model, const Onnx__TensorProto *t,
                              const onnx_tensor_info_t *info, void *to, err_t *err)
{
    external_t e;
    int fd;
    status_t status = read_external_fields(t, &e, err);
    if (status == STATUS_OK && e.length && e.length != info->len_bytes)
        status = err_set(err, STATUS_INVALID_ARGUMENT,
                         "tensor '%.80s' has %llu external bytes where its dimensions want %zu", name_of(t),
                         (unsigned long long)e.length, info->len_bytes);
    if (status == STATUS_OK)
        status = open_inside(model, t, e.location, &fd, err);
    if (status != STATUS_OK)
        return status;
    struct stat st;
    bool fits = !fstat(fd, &st) && S_ISREG(st.st_mode) && e.offset <= (uint64_t)st.st_size &&
                info->len_bytes <= (uint64_t)st.st_size - e.offset;
    if (!fits)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.60s': %.80s is too short", name_of(t),
                         e.location);
    else if (read_at(fd, e.offset, to, info->len_bytes) != STATUS_OK)
        status = err_set(err, STATUS_IO, "tensor '%.60s': reading %.80s failed", name_of(t), e.location);
    close(fd);
    return status;
}

status_t onnx_tensor_read(const onnx_model_t *model, const struct Onnx__TensorProto *t,
                          const onnx_tensor_info_t *info, void *to, err_t *err)
{
    if (is_external(t))
        return read_external(model, t, info, to, err);
    if (t->has_raw_data && info->len_bytes)
        memcpy(to, t->raw_data.data, info->len_bytes);
    else if (info->count)
        read_fields(t, info, to);
    return STATUS_OK;
}
