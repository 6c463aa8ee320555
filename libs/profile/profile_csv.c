#include "profile/profile_csv.h"

#include "base/file.h"
#include "config/ydoc.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_BYTES = 4096,    /* a longer line is no model */
    COLUMNS_MAX = 32,     /* more than every known column */
    MODELS_MAX = 1 << 16, /* bounds what a wrong file can make us allocate */
    FILE_BYTES_MAX = 64 << 20,
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
    COL_RATE,
    COL_MEMORY, /* from here on: of `fermata plan` alone */
    COL_WORK_MEMORY,
    COL_CLUSTER,
    COL_MOVE_COST,
    COL_COUNT
} column_t;

static const char *const column_names[COL_COUNT] = {
    [COL_NAME] = "name",           [COL_ALPHA] = "alpha_ms",          [COL_BETA] = "beta_ms",
    [COL_SLO] = "slo_ms",          [COL_WEIGHT] = "weight",           [COL_EXIT] = "exit_points",
    [COL_MAX_BATCH] = "max_batch", [COL_TIMEOUT] = "timeout_ms",      [COL_RATE] = "rate",
    [COL_MEMORY] = "memory",       [COL_WORK_MEMORY] = "work_memory", [COL_CLUSTER] = "cluster",
    [COL_MOVE_COST] = "move_cost"};

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

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t", text[len - 1]))
        text[--len] = '\0';
    return text;
}

static status_t read_columns(reader_t *reader, const char *const *names, unsigned count)
{
    bool seen[COL_COUNT] = {false};
    reader->column_count = 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned c = 0;
        while (c < COL_COUNT && strcmp(names[i], column_names[c]) != 0)
            c++;
        if (c == COL_COUNT)
            return fail(reader, "unknown column", names[i]);
        if (seen[c])
            return fail(reader, "column appears twice", names[i]);
        seen[c] = true;
        reader->columns[reader->column_count++] = (column_t)c;
    }
    for (unsigned c = COL_NAME; c <= COL_BETA; c++) {
        if (!seen[c])
            return fail(reader, "missing column", column_names[c]);
    }
    return STATUS_OK;
}

static status_t read_header(reader_t *reader)
{
    const char *names[COLUMNS_MAX];
    unsigned count = 0;
    char *rest = reader->line;
    for (char *field; count < COLUMNS_MAX && (field = strsep(&rest, ","));)
        names[count++] = trim(field);
    return rest ? fail(reader, "more columns than there are", NULL) : read_columns(reader, names, count);
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

/* What one model says; a number is NAN where it says nothing. */
typedef struct {
    char name[PROFILE_NAME_BYTES];
    double values[COL_COUNT];
} said_t;

static status_t parse_field(reader_t *reader, column_t column, const char *text, said_t *said)
{
    if (column == COL_NAME) {
        if (text[0] == '\0' || strlen(text) >= PROFILE_NAME_BYTES)
            return fail(reader, "name is empty or too long", NULL);
        strcpy(said->name, text);
        return STATUS_OK;
    }
    if (column >= COL_MEMORY || (column > COL_BETA && text[0] == '\0'))
        return STATUS_OK;
    return parse_number(reader, column, text, &said->values[column]);
}

static status_t parse_line(reader_t *reader, said_t *said)
{
    char *rest = reader->line;
    for (unsigned i = 0; i < reader->column_count; i++) {
        char *field = strsep(&rest, ",");
        if (!field)
            return fail(reader, "missing field", column_names[reader->columns[i]]);
        status_t status = parse_field(reader, reader->columns[i], trim(field), said);
        if (status != STATUS_OK)
            return status;
    }
    return rest ? fail(reader, "more fields than columns", NULL) : STATUS_OK;
}

static double given(double value, double otherwise)
{
    return isnan(value) ? otherwise : value;
}

static status_t fill_entry(const reader_t *reader, profile_entry_t *entry, const said_t *said)
{
    const double *values = said->values;
    uint32_t max_batch = (uint32_t)given(values[COL_MAX_BATCH], BATCH_UNBOUNDED);
    err_t err;
    if (profile_from_line(&entry->profile, llround(values[COL_ALPHA] * 1e6), llround(values[COL_BETA] * 1e6),
                          max_batch, &err) != STATUS_OK)
        return fail(reader, err.text, NULL);
    entry->slo_ns = llround(given(values[COL_SLO], 0) * 1e6);
    entry->rate = given(values[COL_RATE], 0);
    entry->weight = given(values[COL_WEIGHT], given(values[COL_RATE], 1));
    entry->exit_points = (uint32_t)given(values[COL_EXIT], 0);
    entry->timeout_ns = llround(given(values[COL_TIMEOUT], 0) * 1e6);
    if (!isnan(values[COL_SLO]) && entry->slo_ns < profile_latency_ns(&entry->profile, 1))
        return fail(reader, "slo_ms is below the latency of a batch of one", entry->name);
    return STATUS_OK;
}

static status_t add_entry(reader_t *reader, const said_t *said)
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
    memset(entry, 0, sizeof(*entry));
    strcpy(entry->name, said->name);
    status_t status = fill_entry(reader, entry, said);
    if (status != STATUS_OK)
        return status;
    for (uint32_t i = 0; i < reader->count; i++) {
        if (strcmp(reader->entries[i].name, entry->name) == 0)
            return fail(reader, "name appears twice", entry->name);
    }
    reader->count++;
    return STATUS_OK;
}

static void say_nothing(said_t *said)
{
    said->name[0] = '\0';
    for (unsigned c = 0; c < COL_COUNT; c++)
        said->values[c] = NAN;
}

static status_t read_row(reader_t *reader)
{
    said_t said;
    say_nothing(&said);
    status_t status = parse_line(reader, &said);
    return status == STATUS_OK ? add_entry(reader, &said) : status;
}

static status_t read_all(reader_t *reader)
{
    status_t status = next_line(reader) ? read_header(reader) : STATUS_OK;
    if (reader->column_count == 0 && status == STATUS_OK && !ferror(reader->file))
        return fail(reader, "no header line", NULL);
    while (status == STATUS_OK && next_line(reader))
        status = read_row(reader);
    if (status == STATUS_OK && ferror(reader->file))
        return err_set(reader->err, STATUS_IO, "%s: %s", reader->path, strerror(errno));
    return status;
}

/* ---- YAML ---- */

static status_t read_map(reader_t *reader, const ydoc_node_t *map)
{
    const char *names[COLUMNS_MAX], *text;
    said_t said;
    status_t status = ydoc_expect(map, YDOC_MAP, reader->err);
    if (status != STATUS_OK)
        return status;
    unsigned count = ydoc_len(map) < COLUMNS_MAX ? (unsigned)ydoc_len(map) : COLUMNS_MAX;
    reader->line_number = (unsigned)ydoc_line(map);
    for (unsigned i = 0; i < count; i++)
        names[i] = ydoc_key(ydoc_at(map, i));
    status = read_columns(reader, names, count);
    say_nothing(&said);
    for (unsigned i = 0; status == STATUS_OK && i < count; i++) {
        reader->line_number = (unsigned)ydoc_line(ydoc_at(map, i));
        status = ydoc_string(ydoc_at(map, i), &text, reader->err);
        if (status == STATUS_OK)
            status = parse_field(reader, reader->columns[i], text, &said);
    }
    return status == STATUS_OK ? add_entry(reader, &said) : status;
}

static status_t read_document(reader_t *reader, const ydoc_node_t *root)
{
    static const char *const allowed[] = {"models", NULL};
    status_t status = ydoc_check_keys(root, allowed, reader->err);
    const ydoc_node_t *list = ydoc_get(root, allowed[0]);
    if (status == STATUS_OK && !list)
        status = ydoc_error(root, reader->err, "no list of models");
    if (status == STATUS_OK)
        status = ydoc_expect(list, YDOC_LIST, reader->err);
    for (size_t i = 0; status == STATUS_OK && i < ydoc_len(list); i++)
        status = read_map(reader, ydoc_at(list, i));
    return status;
}

static status_t read_yaml(reader_t *reader)
{
    ydoc_t *document;
    status_t status = ydoc_load(reader->path, &document, reader->err);
    if (status != STATUS_OK)
        return status;
    status = read_document(reader, ydoc_root(document));
    ydoc_destroy(document);
    return status;
}

static status_t read_csv(reader_t *reader)
{
    status_t status = file_open_stream(reader->path, FILE_BYTES_MAX, &reader->file, reader->err);
    if (status != STATUS_OK)
        return status;
    status = read_all(reader);
    fclose(reader->file);
    return status;
}

status_t profile_csv_read(const char *path, profile_entry_t **entries, uint32_t *count, err_t *err)
{
    const char *dot = strrchr(path, '.');
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    reader_t reader = {.path = path, .err = err};
    status_t status = yaml ? read_yaml(&reader) : read_csv(&reader);
    if (status == STATUS_OK && reader.count == 0)
        status = fail(&reader, "no models", NULL);
    if (status != STATUS_OK) {
        free(reader.entries);
        return status;
    }
    *entries = reader.entries;
    *count = reader.count;
    return STATUS_OK;
}
