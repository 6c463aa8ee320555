#include "base/rate_steps.h"

#include "base/file.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 1 << 20, LINE_BYTES = 512, FILE_BYTES_MAX = 1 << 26 };

typedef struct {
    const char *path;
    unsigned line_number;
    const char *names;
    size_t stride;
    uint32_t name_count;
    rate_step_t *steps;
    uint32_t count, capacity;
    err_t *err;
} reader_t;

static status_t fail(const reader_t *reader, const char *what)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%s:%u: %s", reader->path, reader->line_number,
                   what);
}

static bool number(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && *end == '\0' && isfinite(*value) && *value >= 0 && *value <= 1e9;
}

static bool find_model(const reader_t *reader, const char *name, uint32_t *model)
{
    *model = RATE_STEP_ALL;
    if (strcmp(name, "*") == 0)
        return true;
    for (uint32_t m = 0; m < reader->name_count; m++) {
        if (strcmp(reader->names + m * reader->stride, name) == 0) {
            *model = m;
            return true;
        }
    }
    return false;
}

static status_t add_row(reader_t *reader, char *line)
{
    rate_step_t step;
    const char *at = strsep(&line, ","), *model = strsep(&line, ","), *factor = strsep(&line, ",");
    if (!factor || line)
        return fail(reader, "not at_s,model,factor");
    if (!number(at, &step.at_s) || !number(factor, &step.factor))
        return fail(reader, "at_s and factor are numbers that are not negative");
    if (!find_model(reader, model, &step.model))
        return fail(reader, "there is no such model");
    if (reader->count && step.at_s < reader->steps[reader->count - 1].at_s)
        return fail(reader, "rows must be in the order of time");
    if (reader->count == reader->capacity) {
        uint32_t capacity = reader->capacity ? reader->capacity * 2 : 64;
        rate_step_t *steps = capacity <= STEPS_MAX ? realloc(reader->steps, capacity * sizeof(*steps)) : NULL;
        if (!steps)
            return fail(reader, "too many rows");
        reader->steps = steps;
        reader->capacity = capacity;
    }
    reader->steps[reader->count++] = step;
    return STATUS_OK;
}

static status_t read_rows(reader_t *reader, FILE *file)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), file)) {
        reader->line_number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (reader->line_number == 1) {
            if (strcmp(line, "at_s,model,factor") != 0)
                return fail(reader, "missing column: at_s,model,factor");
            continue;
        }
        if (line[0] == '\0' || line[0] == '#')
            continue;
        status_t status = add_row(reader, line);
        if (status != STATUS_OK)
            return status;
    }
    return reader->count ? STATUS_OK : fail(reader, "no rows");
}

status_t rate_steps_read(const char *path, const char *names, size_t stride, uint32_t name_count,
                         rate_step_t **steps, uint32_t *count, err_t *err)
{
    reader_t reader = {.path = path, .names = names, .stride = stride, .name_count = name_count, .err = err};
    FILE *file;
    status_t status = file_open_stream(path, FILE_BYTES_MAX, &file, err);
    if (status != STATUS_OK)
        return status;
    status = read_rows(&reader, file);
    fclose(file);
    if (status != STATUS_OK) {
        free(reader.steps);
        return status;
    }
    *steps = reader.steps;
    *count = reader.count;
    return STATUS_OK;
}
