#include "fermata/plan/input.h"

#include "config/value.h"
#include "config/ydoc.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Fields ---- */

typedef enum { FIELD_NAME, FIELD_DOUBLE, FIELD_INT, FIELD_BYTES } field_kind_t;

typedef struct {
    const char *name;
    field_kind_t kind;
    size_t offset;
} field_t;

static const field_t fields[] = {
    {"name", FIELD_NAME, offsetof(plan_model_t, name)},
    {"rate", FIELD_DOUBLE, offsetof(plan_model_t, rate)},
    {"memory", FIELD_BYTES, offsetof(plan_model_t, memory_bytes)},
    {"work_memory", FIELD_BYTES, offsetof(plan_model_t, work_bytes)},
    {"alpha_ms", FIELD_DOUBLE, offsetof(plan_model_t, alpha_ms)},
    {"beta_ms", FIELD_DOUBLE, offsetof(plan_model_t, beta_ms)},
    {"slo_ms", FIELD_DOUBLE, offsetof(plan_model_t, slo_ms)},
    {"max_batch", FIELD_INT, offsetof(plan_model_t, max_batch)},
    {"cluster", FIELD_INT, offsetof(plan_model_t, cluster)},
    {"move_cost", FIELD_DOUBLE, offsetof(plan_model_t, move_cost)},
};
enum { FIELDS = sizeof fields / sizeof *fields, FIELD_FIRST_OPTIONAL = 2, DEFAULT_MAX_BATCH = 128 };

static const field_t *find_field(const char *name)
{
    for (int f = 0; f < FIELDS; f++)
        if (strcmp(fields[f].name, name) == 0)
            return &fields[f];
    return NULL;
}

static status_t set_name(plan_model_t *model, const char *text, err_t *err)
{
    size_t len = strlen(text);
    if (len == 0 || len >= PLAN_NAME_BYTES)
        return err_set(err, STATUS_INVALID_ARGUMENT, "name has %zu characters, not 1..%d", len,
                       PLAN_NAME_BYTES - 1);
    memcpy(model->name, text, len + 1);
    return STATUS_OK;
}

static status_t set_double(double *out, const field_t *field, const char *text, err_t *err)
{
    double value;
    status_t status = value_parse_double(text, &value, err);
    if (status == STATUS_OK && value < 0)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "%s is negative", text);
    if (status != STATUS_OK) {
        err_prefix(err, "%s", field->name);
        return status;
    }
    *out = value;
    return STATUS_OK;
}

static status_t set_int(int64_t *out, const field_t *field, const char *text, err_t *err)
{
    int64_t value;
    status_t status = field->kind == FIELD_BYTES ? value_parse_bytes(text, &value, err)
                                                 : value_parse_int64(text, &value, err);
    if (status == STATUS_OK && (value < 0 || (field->kind == FIELD_INT && value > UINT32_MAX - 1)))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "%s is out of range", text);
    if (status != STATUS_OK) {
        err_prefix(err, "%s", field->name);
        return status;
    }
    *out = value;
    return STATUS_OK;
}

static status_t set_field(plan_model_t *model, const field_t *field, const char *text, err_t *err)
{
    void *at = (char *)model + field->offset;
    switch (field->kind) {
    case FIELD_NAME:
        return set_name(model, text, err);
    case FIELD_DOUBLE:
        return set_double(at, field, text, err);
    case FIELD_INT:
    case FIELD_BYTES:
        return set_int(at, field, text, err);
    }
    return STATUS_INTERNAL;
}

/* ---- The list ---- */

static plan_model_t *add_model(plan_input_t *input, err_t *err)
{
    if (input->count == PLAN_MODELS_MAX) {
        err_set(err, STATUS_TOO_LARGE, "more than %d models", PLAN_MODELS_MAX);
        return NULL;
    }
    if ((input->count & (input->count - 1)) == 0) { /* full at each power of two */
        size_t room = input->count ? 2 * (size_t)input->count : 1;
        plan_model_t *models = realloc(input->models, room * sizeof *models);
        if (!models) {
            err_set(err, STATUS_NO_MEMORY, "no memory for %zu models", room);
            return NULL;
        }
        input->models = models;
    }
    plan_model_t *model = &input->models[input->count++];
    memset(model, 0, sizeof *model);
    model->cluster = -1;
    return model;
}

static status_t finish_model(plan_model_t *model, err_t *err)
{
    if (model->name[0] == '\0')
        return err_set(err, STATUS_INVALID_ARGUMENT, "a model has no name");
    uint32_t max_batch = model->max_batch ? (uint32_t)model->max_batch : DEFAULT_MAX_BATCH;
    double limit_ms = 3.6e6;
    status_t status = model->alpha_ms > limit_ms || model->beta_ms > limit_ms || model->slo_ms > limit_ms
                          ? err_set(err, STATUS_INVALID_ARGUMENT, "a latency is longer than an hour")
                          : profile_from_line(&model->profile, llround(model->alpha_ms * 1e6),
                                              llround(model->beta_ms * 1e6), max_batch, err);
    if (status != STATUS_OK)
        err_prefix(err, "%s", model->name);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const plan_model_t *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static status_t check_names(const plan_input_t *input, err_t *err)
{
    if (input->count == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "no models");
    const plan_model_t **sorted = malloc(input->count * sizeof *sorted);
    if (!sorted)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %u models", input->count);
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < input->count; i++)
        sorted[i] = &input->models[i];
    qsort(sorted, input->count, sizeof *sorted, by_name);
    for (uint32_t i = 1; i < input->count && status == STATUS_OK; i++)
        if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0)
            status = err_set(err, STATUS_INVALID_ARGUMENT, "two models are named %s", sorted[i]->name);
    free(sorted);
    return status;
}

/* ---- CSV ---- */

static char *trim(char *text)
{
    while (*text == ' ' || *text == '\t')
        text++;
    size_t len = strlen(text);
    while (len > 0 && strchr(" \t\r\n", text[len - 1]))
        text[--len] = '\0';
    return text;
}

typedef struct {
    const field_t *columns[FIELDS];
    int count;
} header_t;

static status_t read_header(header_t *header, char *line, err_t *err)
{
    bool seen[FIELDS] = {false};
    for (char *rest = line, *cell; (cell = strsep(&rest, ","));) {
        const field_t *field = find_field(trim(cell));
        if (!field)
            return err_set(err, STATUS_INVALID_ARGUMENT, "unknown column %.80s", trim(cell));
        if (seen[field - fields])
            return err_set(err, STATUS_INVALID_ARGUMENT, "column %s is there twice", field->name);
        seen[field - fields] = true;
        header->columns[header->count++] = field;
    }
    for (int f = 0; f < FIELD_FIRST_OPTIONAL; f++)
        if (!seen[f])
            return err_set(err, STATUS_INVALID_ARGUMENT, "column %s is missing", fields[f].name);
    return STATUS_OK;
}

static status_t read_row(const header_t *header, char *line, plan_input_t *input, err_t *err)
{
    plan_model_t *model = add_model(input, err);
    int column = 0;
    if (!model)
        return STATUS_NO_MEMORY;
    for (char *rest = line, *cell; (cell = strsep(&rest, ",")); column++) {
        if (column == header->count)
            return err_set(err, STATUS_INVALID_ARGUMENT, "more than %d columns", header->count);
        cell = trim(cell);
        if (*cell == '\0' && header->columns[column] != &fields[0])
            continue; /* an empty cell: not given */
        status_t status = set_field(model, header->columns[column], cell, err);
        if (status != STATUS_OK)
            return status;
    }
    if (column < header->count)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%d columns instead of %d", column, header->count);
    return finish_model(model, err);
}

static status_t read_csv(const char *path, plan_input_t *input, err_t *err)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return err_set(err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", path, strerror(errno));
    header_t header = {.count = 0};
    char *line = NULL;
    size_t room = 0;
    status_t status = STATUS_OK;
    for (int number = 1; status == STATUS_OK && getline(&line, &room, file) >= 0; number++) {
        char *text = trim(line);
        if (*text == '\0' || *text == '#')
            continue;
        status = header.count == 0 ? read_header(&header, text, err) : read_row(&header, text, input, err);
        if (status != STATUS_OK)
            err_prefix(err, "%s:%d", path, number);
    }
    if (status == STATUS_OK && ferror(file))
        status = err_set(err, STATUS_IO, "%s cannot be read", path);
    free(line);
    fclose(file);
    return status;
}

/* ---- YAML ---- */

static status_t read_map(const ydoc_node_t *map, plan_input_t *input, err_t *err)
{
    const char *allowed[FIELDS + 1] = {NULL};
    for (int f = 0; f < FIELDS; f++)
        allowed[f] = fields[f].name;
    status_t status = ydoc_expect(map, YDOC_MAP, err);
    if (status == STATUS_OK)
        status = ydoc_check_keys(map, allowed, err);
    for (int f = 0; f < FIELD_FIRST_OPTIONAL && status == STATUS_OK; f++)
        if (!ydoc_get(map, fields[f].name))
            status = ydoc_error(map, err, "a model without %s", fields[f].name);
    plan_model_t *model = status == STATUS_OK ? add_model(input, err) : NULL;
    if (!model)
        return status != STATUS_OK ? status : STATUS_NO_MEMORY;
    for (size_t i = 0; i < ydoc_len(map) && status == STATUS_OK; i++) {
        const ydoc_node_t *node = ydoc_at(map, i);
        const char *text;
        err_t why;
        status = ydoc_string(node, &text, err);
        if (status != STATUS_OK)
            break;
        status = set_field(model, find_field(ydoc_key(node)), text, &why);
        if (status != STATUS_OK)
            ydoc_error(node, err, "%s", why.text);
    }
    return status == STATUS_OK ? finish_model(model, err) : status;
}

static status_t read_yaml(const char *path, plan_input_t *input, err_t *err)
{
    static const char *const allowed[] = {"models", NULL};
    ydoc_t *doc;
    status_t status = ydoc_load(path, &doc, err);
    if (status != STATUS_OK)
        return status;
    status = ydoc_check_keys(ydoc_root(doc), allowed, err);
    const ydoc_node_t *list = ydoc_get(ydoc_root(doc), "models");
    if (status == STATUS_OK && !list)
        status = ydoc_error(ydoc_root(doc), err, "no list of models");
    if (status == STATUS_OK)
        status = ydoc_expect(list, YDOC_LIST, err);
    for (size_t i = 0; status == STATUS_OK && i < ydoc_len(list); i++)
        status = read_map(ydoc_at(list, i), input, err);
    ydoc_destroy(doc);
    return status;
}

status_t plan_input_read(const char *path, plan_input_t *input, err_t *err)
{
    const char *dot = strrchr(path, '.');
    bool yaml = dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0);
    plan_input_t read = {0};
    status_t status = yaml ? read_yaml(path, &read, err) : read_csv(path, &read, err);
    if (status == STATUS_OK) {
        status = check_names(&read, err);
        if (status != STATUS_OK)
            err_prefix(err, "%s", path);
    }
    if (status == STATUS_OK)
        *input = read;
    else
        plan_input_dispose(&read);
    return status;
}

void plan_input_dispose(plan_input_t *input)
{
    free(input->models);
    *input = (plan_input_t){0};
}
