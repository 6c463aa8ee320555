/*
 * A growing byte buffer with a bound, always NUL-terminated. A refused append (over the bound, or no memory)
 * sets `failed` and leaves the content as it was; later appends do nothing, so a builder checks once at the
 * end.
 */
#ifndef BASE_STRBUF_H
#define BASE_STRBUF_H

#include "base/status.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct {
    char *data; /* never NULL after init: "" when empty */
    size_t len_bytes;
    size_t capacity_bytes;
    size_t max_bytes;
    bool failed;
} strbuf_t;

void strbuf_init(strbuf_t *buf, size_t max_bytes);
void strbuf_dispose(strbuf_t *buf);
void strbuf_clear(strbuf_t *buf); /* keeps the memory, forgets a failure */

void strbuf_append(strbuf_t *buf, const void *data, size_t len_bytes);
void strbuf_puts(strbuf_t *buf, const char *text);
void strbuf_putc(strbuf_t *buf, char c);
void strbuf_printf(strbuf_t *buf, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void strbuf_vprintf(strbuf_t *buf, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
void strbuf_json_string(strbuf_t *buf,
                        const char *text); /* quoted and escaped; invalid UTF-8 becomes U+FFFD */

/* Room for len_bytes more at data + len_bytes (then strbuf_commit), or NULL. For reads straight into the
 * buffer. */
char *strbuf_reserve(strbuf_t *buf, size_t len_bytes);
void strbuf_commit(strbuf_t *buf, size_t len_bytes);

/* The content as a malloc'd string that the caller frees (the buffer is empty after), or NULL if it failed.
 */
char *strbuf_take(strbuf_t *buf);

/* STATUS_OK, or STATUS_TOO_LARGE when an append was refused. */
status_t strbuf_status(const strbuf_t *buf, err_t *err);

#endif
