/*
 * Status codes and error texts, shared by every module.
 *
 * A function that can fail returns a status_t and, where a human will read the reason, fills an err_t
 * that the caller owns (it may pass NULL). Outputs are set only on STATUS_OK.
 */
#ifndef BASE_STATUS_H
#define BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

typedef enum {
    STATUS_OK = 0,
    STATUS_INVALID_ARGUMENT,  /* the caller's input is wrong; the text names the field   HTTP 400 */
    STATUS_NOT_FOUND,         /* no such model, version, handle, …                       HTTP 404 */
    STATUS_TOO_LARGE,         /* over a configured limit                                 HTTP 413 */
    STATUS_UNAVAILABLE,       /* overloaded, not ready or the peer is gone; retry later  HTTP 503 */
    STATUS_DEADLINE_EXCEEDED, /* the deadline passed or cannot be met any more           HTTP 504 */
    STATUS_CANCELLED,         /* the client gave up                                      HTTP 499 */
    STATUS_UNSUPPORTED,       /* valid, but not implemented here                         HTTP 501 */
    STATUS_NO_MEMORY,         /* a bounded pool or the heap is exhausted                 HTTP 503 */
    STATUS_IO,                /* the operating system or the network said no             HTTP 500 */
    STATUS_INTERNAL,          /* a bug or a broken peer                                  HTTP 500 */
    STATUS_UNAUTHENTICATED,   /* nobody that we know                                     HTTP 401 */
    STATUS_PERMISSION_DENIED, /* known, and may not do this                              HTTP 403 */
    STATUS_LIMITED,           /* over a limit of the client's own; not our overload      HTTP 429 */
} status_t;

enum { ERR_TEXT_BYTES = 512 }; /* a configuration error lists the allowed keys */

typedef struct {
    status_t code;
    char text[ERR_TEXT_BYTES]; /* NUL-terminated, one line, no trailing full stop */
} err_t;

/* Short lower-case name ("invalid_argument"), for logs and metric labels. */
const char *status_name(status_t code);

/* The public face of a code (DESIGN.md 2.7). */
int status_to_http(status_t code);
int status_to_grpc(status_t code);

/*
 * Fills err (which may be NULL) and yields code, so that `return err_set(err, STATUS_…, "…")` reads well.
 * A macro, so that the compiler sees that the code it yields is not STATUS_OK.
 */
#define err_set(err, code, ...)                \
    __extension__({                            \
        const status_t err_code_ = (code);     \
        err_fill(err, err_code_, __VA_ARGS__); \
        err_code_;                             \
    })
void err_fill(err_t *err, status_t code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
status_t err_vset(err_t *err, status_t code, const char *fmt, va_list args)
    __attribute__((format(printf, 3, 0)));

/* Puts "prefix: " before the text that is there, as an error climbs through layers. Returns err->code. */
status_t err_prefix(err_t *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
