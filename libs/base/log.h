/*
 * One line per event, `key=value` or JSON, to stderr. Thread-safe: a line is written by one write(2). Lines that find a full
 * disk are lost and counted; the next one that gets through has `log_lines_lost lines=N` before it.
 * Never log tensor contents or secrets.
 *
 * Lines that whoever reaches us can cause, by failing or by coming again, are log_*_limited: of each place in the code at most
 * LOG_WARNINGS_A_SECOND, or LOG_NEWS_A_SECOND below a warning, and then one line that says how many were left out of what:
 * `log_lines_left_out event=batch_failed lines=9990`.
 *
 *   log_info("model_loaded", LOG_STR("model", name), LOG_I64("version", v), LOG_MS("took_ms", ns));
 *   ->  2026-11-20T11:30:00.123456Z INFO gateway model_loaded model=digits version=1 took_ms=12.3
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/clock.h"
#include "base/status.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF } log_level_t;
typedef enum { LOG_FORMAT_TEXT, LOG_FORMAT_JSON } log_format_t;

typedef struct {
    enum { LOG_FIELD_STR, LOG_FIELD_I64, LOG_FIELD_U64, LOG_FIELD_F64, LOG_FIELD_END } kind;
    const char *key;
    union {
        const char *str;
        int64_t i64;
        uint64_t u64;
        double f64;
    };
} log_field_t;

#define LOG_STR(k, v) ((log_field_t){.kind = LOG_FIELD_STR, .key = (k), .str = (v)})
#define LOG_I64(k, v) ((log_field_t){.kind = LOG_FIELD_I64, .key = (k), .i64 = (int64_t)(v)})
#define LOG_U64(k, v) ((log_field_t){.kind = LOG_FIELD_U64, .key = (k), .u64 = (uint64_t)(v)})
#define LOG_F64(k, v) ((log_field_t){.kind = LOG_FIELD_F64, .key = (k), .f64 = (double)(v)})
#define LOG_MS(k, ns) LOG_F64(k, (double)(ns) / 1e6)
#define LOG_ERR(e) LOG_STR("reason", (e)->text)

/* Call once before threads start; program names every line ("gateway"). */
void log_init(const char *program, log_level_t level, log_format_t format);
void log_set_level(log_level_t level);
bool log_enabled(log_level_t level);

void log_write(log_level_t level, const char *event, const log_field_t *fields);

#define log_at(level, event, ...)                                                                \
    do {                                                                                         \
        if (log_enabled(level))                                                                  \
            log_write(level, event,                                                              \
                      (const log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}}); \
    } while (0)
#define log_debug(event, ...) log_at(LOG_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_ERROR, event, __VA_ARGS__)

/* ---- with a rate ---- */

enum {
    LOG_WARNINGS_A_SECOND = 10, /* a person reads no more; some 200 MB a day of one place */
    LOG_NEWS_A_SECOND = 100,    /* models and peers that all come at the start are each named */
};

/* A place that writes. Static, as those that left lines out are kept in a list for ever; all but the first two begin as zero. */
typedef struct log_site {
    const char *event;
    log_level_t level;
    _Atomic uint64_t window; /* the second that it is in, above 24 bits of how many lines it wrote there */
    _Atomic uint64_t left_out;
    _Atomic bool listed;
    struct log_site *next;
} log_site_t;

/* Whether it may write a line now; counts it either way. Any thread; no lock. Tells first what it left out in a second before. */
bool log_site_take(log_site_t *site, int64_t now_ns);

/* log_write with the rate of the event. event: a literal, or else as lasting; the first 128 of a process have one each, further ones
 * none. No lock but for an event's first line. */
void log_write_limited(log_level_t level, const char *event, const log_field_t *fields, int64_t now_ns);

/* Tells of every place what it left out before this second. The loop of a program asks once a second, and at its end. */
void log_tell_left_out(int64_t now_ns);
uint64_t log_lines_left_out(void); /* of the process, since it began */

#define log_limited(level_, event_, ...)                                                         \
    do {                                                                                         \
        static log_site_t log_site_ = {.event = (event_), .level = (level_)};                    \
        if (log_enabled(level_) && log_site_take(&log_site_, clock_now_ns()))                    \
            log_write(level_, event_,                                                            \
                      (const log_field_t[]){__VA_ARGS__ __VA_OPT__(, ){.kind = LOG_FIELD_END}}); \
    } while (0)
#define log_info_limited(event, ...) log_limited(LOG_INFO, event, __VA_ARGS__)
#define log_warn_limited(event, ...) log_limited(LOG_WARN, event, __VA_ARGS__)
#define log_error_limited(event, ...) log_limited(LOG_ERROR, event, __VA_ARGS__)

#endif
