/*
 * One line per event, `key=value` or JSON, to stderr. Thread-safe: a line is written by one write(2). Lines that find a full
 * disk are lost and counted; the next one that gets through has `log_lines_lost lines=N` before it.
 * Never log tensor contents or secrets.
 *
 *   log_info("model_loaded", LOG_STR("model", name), LOG_I64("version", v), LOG_MS("took_ms", ns));
 *   ->  2026-11-20T11:30:00.123456Z INFO gateway model_loaded model=digits version=1 took_ms=12.3
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

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

#endif
