#include "engine/openvino/library.h"

#include <pthread.h>
#include <stdbool.h>

enum { MESSAGE_BYTES = 400 };

static ov_core_t *core;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static err_t why; /* not opened */

static const ov_element_type_e types[] = {
    [DTYPE_F32] = F32, [DTYPE_U8] = U8,   [DTYPE_I8] = I8,     [DTYPE_U16] = U16,      [DTYPE_I16] = I16,
    [DTYPE_I32] = I32, [DTYPE_I64] = I64, [DTYPE_F16] = F16,   [DTYPE_BOOL] = BOOLEAN, [DTYPE_F64] = F64,
    [DTYPE_U32] = U32, [DTYPE_U64] = U64, [DTYPE_BF16] = BF16,
};
enum { TYPES = sizeof types / sizeof types[0] };

ov_core_t *library_core(void)
{
    return core;
}

ov_element_type_e library_type(dtype_t dtype)
{
    return (size_t)dtype < TYPES ? types[dtype] : DYNAMIC;
}

dtype_t library_dtype(ov_element_type_e type)
{
    for (size_t i = 0; type != DYNAMIC && i < TYPES; i++)
        if (types[i] == type)
            return (dtype_t)i;
    return DTYPE_NONE;
}

static status_t status_of(ov_status_e code, status_t otherwise)
{
    switch (code) {
    case NOT_IMPLEMENTED:
    case NOT_IMPLEMENT_C_METHOD:
        return STATUS_UNSUPPORTED;
    case INFER_CANCELLED:
        return STATUS_CANCELLED;
    case INVALID_C_PARAM:
        return STATUS_INTERNAL;
    default:
        return otherwise;
    }
}

/* Messages are of several lines, with blank ones between: each gap becomes one space. */
static void copy_line(char *to, size_t size, const char *text)
{
    size_t len = 0;
    bool gap = false;
    for (; *text && len + 2 < size; text++) {
        bool blank = (unsigned char)*text <= ' ';
        if (!blank && gap && len)
            to[len++] = ' ';
        if (!blank)
            to[len++] = *text;
        gap = blank;
    }
    to[len] = '\0';
}

status_t library_check(ov_status_e code, const char *about, status_t otherwise, err_t *err)
{
    if (code == OK)
        return STATUS_OK;
    char line[MESSAGE_BYTES];
    const char *text = ov_get_last_err_msg();
    copy_line(line, sizeof line, text ? text : ov_get_error_info(code));
    if (text)
        ov_free(text);
    return err_set(err, status_of(code, otherwise), "%.80s: OpenVINO: %s", about, line);
}

static void open_once(void)
{
    why.code = library_check(ov_core_create(&core), "start", STATUS_UNAVAILABLE, &why);
}

status_t library_open(err_t *err)
{
    pthread_once(&once, open_once);
    return why.code == STATUS_OK ? STATUS_OK : err_set(err, why.code, "%s", why.text);
}
