#include "base/log.h"
#include "base/utf8.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

/* Longer lines are cut: a pipe takes up to PIPE_BUF (4096) bytes of one write whole, so lines of threads
 * never mix. */
enum { LINE_BYTES = 4096 };

static _Atomic int level_now = LOG_INFO;
static _Atomic uint64_t
    lost; /* lines that could not be written since the last that could: a full disk, a closed pipe */
static log_format_t format_now = LOG_FORMAT_TEXT;
static const char *program_now = "fermata";

static const char *const level_names[] = {"DEBUG", "INFO", "WARN", "ERROR", "OFF"};

typedef struct {
    char text[LINE_BYTES];
    size_t len;
} line_t;

void log_init(const char *program, log_level_t level, log_format_t format)
{
    program_now = program;
    format_now = format;
    log_set_level(level);
}

void log_set_level(log_level_t level)
{
    atomic_store_explicit(&level_now, (int)level, memory_order_relaxed);
}

bool log_enabled(log_level_t level)
{
    return (int)level >= atomic_load_explicit(&level_now, memory_order_relaxed) && level < LOG_OFF;
}

/* One byte is kept for the newline. */
static void put_char(line_t *line, char c)
{
    if (line->len < LINE_BYTES - 1)
        line->text[line->len++] = c;
}

static void put_text(line_t *line, const char *text)
{
    for (; *text != '\0'; text++)
        put_char(line, *text);
}

/* Control characters never reach the log: a value cannot forge a second line. */
static void put_quoted(line_t *line, const char *text)
{
    put_char(line, '"');
    while (*text != '\0') {
        unsigned char c = (unsigned char)*text;
        size_t len = utf8_len(text);
        if (len == 0 || c < 0x20 || c == 0x7f) {
            char escape[8];
            snprintf(escape, sizeof escape, "\\u%04x", len == 0 ? 0xfffd : c);
            put_text(line, escape);
        } else {
            if (c == '"' || c == '\\')
                put_char(line, '\\');
            for (size_t i = 0; i < len; i++)
                put_char(line, text[i]);
        }
        text += len == 0 ? 1 : len;
    }
    put_char(line, '"');
}

static bool is_bare(const char *text)
{
    if (*text == '\0')
        return false;
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= 0x20 || *text == 0x7f || strchr("\"\\=", *text))
            return false;
    return true;
}

static void put_value(line_t *line, const log_field_t *field, bool json)
{
    char number[40];
    switch (field->kind) {
    case LOG_FIELD_STR: {
        const char *text = field->str ? field->str : "";
        if (!json && is_bare(text))
            put_text(line, text);
        else
            put_quoted(line, text);
        return;
    }
    case LOG_FIELD_I64:
        snprintf(number, sizeof number, "%lld", (long long)field->i64);
        break;
    case LOG_FIELD_U64:
        snprintf(number, sizeof number, "%llu", (unsigned long long)field->u64);
        break;
    case LOG_FIELD_F64: {
        bool finite = field->f64 - field->f64 == 0; /* JSON has no NaN */
        snprintf(number, sizeof number, finite || !json ? "%.6g" : "null", field->f64);
        break;
    }
    case LOG_FIELD_END:
        return;
    }
    put_text(line, number);
}

static void put_time(line_t *line)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    char text[48];
    size_t n = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text + n, sizeof text - n, ".%06ldZ", now.tv_nsec / 1000);
    put_text(line, text);
}

static void format_text(line_t *line, log_level_t level, const char *event, const log_field_t *fields)
{
    put_time(line);
    put_char(line, ' ');
    put_text(line, level_names[level]);
    put_char(line, ' ');
    put_text(line, program_now);
    put_char(line, ' ');
    put_text(line, event);
    for (; fields->kind != LOG_FIELD_END; fields++) {
        put_char(line, ' ');
        put_text(line, fields->key);
        put_char(line, '=');
        put_value(line, fields, false);
    }
}

static void format_json(line_t *line, log_level_t level, const char *event, const log_field_t *fields)
{
    put_text(line, "{\"time\":\"");
    put_time(line);
    put_text(line, "\",\"level\":\"");
    put_text(line, level_names[level]);
    put_text(line, "\",\"program\":");
    put_quoted(line, program_now);
    put_text(line, ",\"event\":");
    put_quoted(line, event);
    for (; fields->kind != LOG_FIELD_END; fields++) {
        put_char(line, ',');
        put_quoted(line, fields->key);
        put_char(line, ':');
        put_value(line, fields, true);
    }
    put_char(line, '}');
}

static bool put_line(log_level_t level, const char *event, const log_field_t *fields)
{
    line_t line = {.len = 0};
    if (format_now == LOG_FORMAT_JSON)
        format_json(&line, level, event, fields);
    else
        format_text(&line, level, event, fields);
    line.text[line.len++] = '\n';
    return write(STDERR_FILENO, line.text, line.len) == (ssize_t)line.len;
}

/* Nobody else can be told while there is no way out, so it is said as soon as there is one again. */
static void tell_lost(void)
{
    uint64_t lines = atomic_exchange_explicit(&lost, 0, memory_order_relaxed);
    const log_field_t fields[] = {LOG_U64("lines", lines), {.kind = LOG_FIELD_END}};

    if (lines > 0 && !put_line(LOG_WARN, "log_lines_lost", fields))
        atomic_fetch_add_explicit(&lost, lines, memory_order_relaxed);
}

void log_write(log_level_t level, const char *event, const log_field_t *fields)
{
    if (atomic_load_explicit(&lost, memory_order_relaxed) > 0)
        tell_lost();
    if (!put_line(level, event, fields))
        atomic_fetch_add_explicit(&lost, 1, memory_order_relaxed);
}
