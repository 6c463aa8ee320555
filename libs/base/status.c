#include "base/status.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    int http;
    int grpc;
} codes[] = {
    [STATUS_OK] = {"ok", 200, 0},
    [STATUS_INVALID_ARGUMENT] = {"invalid_argument", 400, 3},
    [STATUS_NOT_FOUND] = {"not_found", 404, 5},
    [STATUS_TOO_LARGE] = {"too_large", 413, 8},
    [STATUS_UNAVAILABLE] = {"unavailable", 503, 14},
    [STATUS_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504, 4},
    [STATUS_CANCELLED] = {"cancelled", 499, 1},
    [STATUS_UNSUPPORTED] = {"unsupported", 501, 12},
    [STATUS_NO_MEMORY] = {"no_memory", 503, 14},
    [STATUS_IO] = {"io", 500, 13},
    [STATUS_INTERNAL] = {"internal", 500, 13},
    [STATUS_UNAUTHENTICATED] = {"unauthenticated", 401, 16},
    [STATUS_PERMISSION_DENIED] = {"permission_denied", 403, 7},
    [STATUS_LIMITED] = {"limited", 429, 8},
};

static size_t code_index(status_t code)
{
    size_t i = (size_t)code;
    return i < sizeof codes / sizeof codes[0] ? i : (size_t)STATUS_INTERNAL;
}

const char *status_name(status_t code)
{
    return codes[code_index(code)].name;
}

int status_to_http(status_t code)
{
    return codes[code_index(code)].http;
}

int status_to_grpc(status_t code)
{
    return codes[code_index(code)].grpc;
}

status_t err_vset(err_t *err, status_t code, const char *fmt, va_list args)
{
    if (err) {
        err->code = code;
        vsnprintf(err->text, sizeof err->text, fmt, args);
    }
    return code;
}

void err_fill(err_t *err, status_t code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err_vset(err, code, fmt, args);
    va_end(args);
}

/* ": tail" after the first at_bytes of text; what does not fit is cut. */
static void append_cut(char *text, size_t at_bytes, const char *tail)
{
    const char *parts[] = {": ", tail};
    for (size_t i = 0; i < 2; i++)
        for (const char *p = parts[i]; *p != '\0' && at_bytes + 1 < ERR_TEXT_BYTES; p++)
            text[at_bytes++] = *p;
    if (at_bytes < ERR_TEXT_BYTES)
        text[at_bytes] = '\0';
}

status_t err_prefix(err_t *err, const char *fmt, ...)
{
    if (!err)
        return STATUS_INTERNAL;
    char old[ERR_TEXT_BYTES];
    memcpy(old, err->text, sizeof old);
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, args);
    va_end(args);
    if (n >= 0)
        append_cut(err->text, (size_t)n, old);
    return err->code;
}
