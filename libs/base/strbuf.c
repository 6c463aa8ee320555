#include "base/strbuf.h"
#include "base/utf8.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char empty[1]; /* never written: capacity 0 says that it is not ours */

void strbuf_init(strbuf_t *buf, size_t max_bytes)
{
    if (max_bytes > SIZE_MAX / 4)
        max_bytes = SIZE_MAX / 4; /* sums and doublings of it cannot overflow */
    *buf = (strbuf_t){.data = empty, .max_bytes = max_bytes};
}

void strbuf_dispose(strbuf_t *buf)
{
    if (buf->capacity_bytes > 0)
        free(buf->data);
    strbuf_init(buf, buf->max_bytes);
}

void strbuf_clear(strbuf_t *buf)
{
    buf->len_bytes = 0;
    buf->failed = false;
    if (buf->capacity_bytes > 0)
        buf->data[0] = '\0';
}

/* Capacity counts the NUL. */
static bool grow(strbuf_t *buf, size_t extra_bytes)
{
    if (buf->failed || extra_bytes > buf->max_bytes - buf->len_bytes) {
        buf->failed = true;
        return false;
    }
    size_t need = buf->len_bytes + extra_bytes + 1;
    if (need <= buf->capacity_bytes)
        return true;
    size_t capacity = buf->capacity_bytes < 64 ? 64 : buf->capacity_bytes;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(buf->capacity_bytes > 0 ? buf->data : NULL, capacity);
    if (!data) {
        buf->failed = true;
        return false;
    }
    buf->data = data;
    buf->capacity_bytes = capacity;
    return true;
}

char *strbuf_reserve(strbuf_t *buf, size_t len_bytes)
{
    return grow(buf, len_bytes) ? buf->data + buf->len_bytes : NULL;
}

void strbuf_commit(strbuf_t *buf, size_t len_bytes)
{
    buf->len_bytes += len_bytes;
    buf->data[buf->len_bytes] = '\0';
}

void strbuf_append(strbuf_t *buf, const void *data, size_t len_bytes)
{
    if (len_bytes == 0 || !grow(buf, len_bytes))
        return;
    memcpy(buf->data + buf->len_bytes, data, len_bytes);
    strbuf_commit(buf, len_bytes);
}

void strbuf_puts(strbuf_t *buf, const char *text)
{
    strbuf_append(buf, text, strlen(text));
}

void strbuf_putc(strbuf_t *buf, char c)
{
    strbuf_append(buf, &c, 1);
}

void strbuf_vprintf(strbuf_t *buf, const char *fmt, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n < 0)
        buf->failed = true;
    else if (grow(buf, (size_t)n)) {
        vsnprintf(buf->data + buf->len_bytes, (size_t)n + 1, fmt, again);
        buf->len_bytes += (size_t)n;
    }
    va_end(again);
}

void strbuf_printf(strbuf_t *buf, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    strbuf_vprintf(buf, fmt, args);
    va_end(args);
}

void strbuf_json_string(strbuf_t *buf, const char *text)
{
    strbuf_putc(buf, '"');
    for (const char *p = text; *p != '\0';) {
        unsigned char c = (unsigned char)*p;
        size_t len = utf8_len(p);
        if (len == 0)
            strbuf_puts(buf, "\\ufffd");
        else if (c == '"' || c == '\\')
            strbuf_append(buf, (const char[]){'\\', *p}, 2);
        else if (c < 0x20 || c == 0x7f)
            strbuf_printf(buf, "\\u%04x", c);
        else
            strbuf_append(buf, p, len);
        p += len == 0 ? 1 : len;
    }
    strbuf_putc(buf, '"');
}

char *strbuf_take(strbuf_t *buf)
{
    if (!grow(buf, 0))
        return NULL;
    char *data = buf->data;
    data[buf->len_bytes] = '\0';
    strbuf_init(buf, buf->max_bytes);
    return data;
}

status_t strbuf_status(const strbuf_t *buf, err_t *err)
{
    if (!buf->failed)
        return STATUS_OK;
    return err_set(err, STATUS_TOO_LARGE, "more than %zu bytes of text", buf->max_bytes);
}
