#include "profile/profile_csv.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 4096,     /* a longer line is no model */
    COLUMNS_MAX = 32,      /* more than every known column */
    MODELS_MAX = 1 << 16,  /* bounds what a wrong file can make us allocate */
    BATCH_UNBOUNDED = 4096 /* a line holds for any batch; no engine input is larger */
};

typedef enum {
    COL_NAME,
    COL_ALPHA,
    COL_BETA,
    COL_SLO,
    COL_WEIGHT,
    COL_EXIT,
    COL_MAX_BATCH,
    COL_TIMEOUT,
    COL_COUNT
} column_t;

static const char *const column_names[COL_COUNT] = {
    [COL_NAME] = "name",           [COL_ALPHA] = "alpha_ms",    [COL_BETA] = "beta_ms",
    [COL_SLO] = "slo_ms",          [COL_WEIGHT] = "weight",     [COL_EXIT] = "exit_points",
    [COL_MAX_BATCH] = "max_batch", [COL_TIMEOUT] = "timeout_ms"};

typedef struct {
    const char *path;
    FILE *file;
    unsigned line_number;
    char line[LINE_BYTES];
    column_t columns[COLUMNS_MAX]; /* what stands in the i-th field */
    unsigned column_count;
    profile_entry_t *entries;
    uint32_t count, capacity;
    err_t *err;
} reader_t;

static status_t fail(const reader_t *reader, const char *what, const char *detail)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%s:%u: %s%s%s", reader->path, reader->line_number,
                   what, detail ? ": " : "", detail ? detail : "");
}

/* The next line that says something, without its end; false at the end of the file. */
static bool next_line(reader_t *reader)
{
    while (fgets(reader->line, sizeof(reader->line), reader->file)) {
        reader->line_number++;
        reader->line[strcspn(reader->line, "\r\n")] = '\0';
        if (reader->line[0] != '\0' && reader->line[0] != '#')
            return true;
    }
    return false;
}

static status_t read_header(reader_t *reader)
{
    bool seen[COL_COUNT] = {false};
    char *rest = reader->line;
    for (char *field; (field = strsep(&rest, ","));) {
        unsigned c = 0;
        while (c < COL_COUNT && strcmp(field, column_names[c]) != 0)
            c++;
        if (c == COL_COUNT)
            return fail(reader, "unknown column", field);
        if (seen[c])
            return fail(reader, "column appears twice", field);
        seen[c] = true;
        reader->columns[reader->column_count++] = (column_t)c;
    }
    for (unsigned c = COL_NAME; c <= COL_BETA; c++) {
        if (!seen[c])
            return fail(reader, "missing column", column_names[c]);
    }
    return STATUS_OK;
}

static status_t parse_number(const reader_t *reader, column_t column, const char *text, double *value)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    char detail[128];
    snprintf(detail, sizeof(detail), "%s is '%.40s'", column_names[column], text);
    if (end == text || *end != '\0' || errno != 0 || !isfinite(v))
        return fail(reader, "not a number", detail);
    if (v < 0)
        return fail(reader, "negative", detail);
    if (v > 1e6)
        return fail(reader, "out of range", detail);
    *value = v;
    return STATUS_OK;
}

static status_t parse_fields(reader_t *reader, char *name, double *values)
{
    char *rest = reader->line;
    for (unsigned i = 0; i < reader->column_count; i++) {
        char *field = strsep(&rest, ",");
        if (!field)
            return fail(reader, "missing field", column_names[reader->columns[i]]);
        if (reader->columns[i] == COL_NAME) {
            if (field[0] == '\0' || strlen(field) >= PROFILE_NAME_BYTES)
                return fail(reader, "name is empty or too long", NULL);
            strcpy(name, field);
            continue;
        }
        status_t status = parse_number(reader, reader->columns[i], field, &values[reader->columns[i]]);
        if (status != STATUS_OK)
            return status;
    }
    return rest ? fail(reader, "more fields than columns", NULL) : STATUS_OK;
}

static bool has_column(const reader_t *reader, column_t column)
{
    for (unsigned i = 0; i < reader->column_count; i++) {
        if (reader->columns[i] == column)
            return true;
    }
    return false;
}

static status_t fill_entry(const reader_t *reader, profile_entry_t *entry, const double *values)
{
    uint32_t max_batch =
        has_column(reader, COL_MAX_BATCH) ? (uint32_t)values[COL_MAX_BATCH] : BATCH_UNBOUNDED;
    err_t err;
    if (profile_from_line(&entry->profile, llround(values[COL_ALPHA] * 1e6), llround(values[COL_BETA] * 1e6),
                          max_batch, &err) != STATUS_OK)
        return fail(reader, err.text, NULL);
    entry->slo_ns = llround(values[COL_SLO] * 1e6);
    entry->weight = has_column(reader, COL_WEIGHT) ? values[COL_WEIGHT] : 1;
    entry->exit_points = (uint32_t)values[COL_EXIT];
    entry->timeout_ns = llround(values[COL_TIMEOUT] * 1e6);
    if (has_column(reader, COL_SLO) && entry->slo_ns < profile_latency_ns(&entry->profile, 1))
        return fail(reader, "slo_ms is below the latency of a batch of one", entry->name);
    return STATUS_OK;
}

static status_t add_entry(reader_t *reader)
{
    if (reader->count == reader->capacity) {
        uint32_t capacity = reader->capacity ? reader->capacity * 2 : 64;
        if (capacity > MODELS_MAX)
            return fail(reader, "too many models", NULL);
        profile_entry_t *entries = realloc(reader->entries, capacity * sizeof(*entries));
        if (!entries)
            return err_set(reader->err, STATUS_NO_MEMORY, "%s: no memory for %u models", reader->path,
                           capacity);
        reader->entries = entries;
        reader->capacity = capacity;
    }
    profile_entry_t *entry = &reader->entries[reader->count];
    double values[COL_COUNT] = {0};
    memset(entry, 0, sizeof(*entry));
    status_t status = parse_fields(reader, entry->name, values);
    if (status == STATUS_OK)
        status = fill_entry(reader, entry, values);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->entries[i].name, entry->name) == 0)
            return fail(reader, "name appears twice", entry->name);
    }
    reader->count++;
    return STATUS_OK;
}

static status_t read_all(reader_t *reader)
{
    status_t status = next_line(reader) ? read_header(reader) : STATUS_OK;
    if (reader->column_count == 0 && status == STATUS_OK && !ferror(reader->file))
        return fail(reader, "no header line", NULL);
    while (status == STATUS_OK && next_line(reader))
        status = add_entry(reader);
    if (status == STATUS_OK && ferror(reader->file))
        return err_set(reader->err, STATUS_IO, "%s: %s", reader->path, strerror(errno));
    if (status == STATUS_OK && reader->count == 0)
        return fail(reader, "no models", NULL);
    return status;
}

status_t profile_csv_read(const char *path, profile_entry_t **entries, uint32_t *count, err_t *err)
{
    reader_t reader = {.path = path, .file = fopen(path, "re"), .err = err};
    if (!reader.file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path, strerror(errno));
    status_t status = read_all(&reader);
    fclose(reader.file);
    if (status != STATUS_OK) {
        free(reader.entries);
        return status;
    }
    *entries = reader.entries;
    *count = reader.count;
    return STATUS_OK;
}
