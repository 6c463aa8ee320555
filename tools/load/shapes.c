#include "load/shapes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- parsing --- */

static status_t bad(const char *text, const char *why, err_t *err)
{
    return err_set(err, STATUS_INVALID_ARGUMENT, "--shape %.200s: %s", text, why);
}

static bool read_size(const char **at, int64_t *size)
{
    char *end;
    if (**at < '0' || **at > '9')
        return false;
    long long value = strtoll(*at, &end, 10);
    *at = end;
    *size = value;
    return value >= 1 && value <= INT32_MAX;
}

static status_t add_size(shape_dim_t *dim, int64_t size, err_t *err)
{
    /* Doubles whenever the count is a power of two. */
    if ((dim->size_count & (dim->size_count - 1)) == 0) {
        size_t capacity = dim->size_count ? 2 * (size_t)dim->size_count : 1;
        int64_t *sizes = realloc(dim->sizes, capacity * sizeof *sizes);
        if (!sizes)
            return err_set(err, STATUS_NO_MEMORY, "no memory for sizes");
        dim->sizes = sizes;
    }
    dim->sizes[dim->size_count++] = size;
    return STATUS_OK;
}

static status_t read_lines(FILE *file, const char *path, shape_dim_t *dim, err_t *err)
{
    char line[64];
    for (uint32_t number = 1; fgets(line, sizeof line, file); number++) {
        const char *at = line;
        int64_t size;
        if (number > SHAPE_SIZES_MAX)
            return err_set(err, STATUS_TOO_LARGE, "%s: more than %d sizes", path, SHAPE_SIZES_MAX);
        if (!read_size(&at, &size) || strspn(at, " \t\r\n") != strlen(at))
            return err_set(err, STATUS_INVALID_ARGUMENT, "%s:%u: a size is expected", path, number);
        status_t st = add_size(dim, size, err);
        if (st != STATUS_OK)
            return st;
    }
    return dim->size_count ? STATUS_OK : err_set(err, STATUS_INVALID_ARGUMENT, "%s: no sizes", path);
}

static status_t read_file(const char **at, shape_dim_t *dim, err_t *err)
{
    char path[4096];
    size_t len = strcspn(*at, ",");
    snprintf(path, sizeof path, "%.*s", (int)(len < sizeof path ? len : sizeof path - 1), *at);
    *at += len;
    FILE *file = fopen(path, "r");
    if (!file)
        return err_set(err, STATUS_IO, "cannot read %s: %m", path);
    status_t st = read_lines(file, path, dim, err);
    fclose(file);
    return st;
}

static status_t read_dim(const char *text, const char **at, shape_dim_t *dim, err_t *err)
{
    if (**at == '@') {
        ++*at;
        return read_file(at, dim, err);
    }
    if (!read_size(at, &dim->low))
        return bad(text, "a size from 1 on, FROM-TO or @FILE is expected", err);
    dim->high = dim->low;
    if (**at != '-')
        return STATUS_OK;
    ++*at;
    if (!read_size(at, &dim->high) || dim->high < dim->low)
        return bad(text, "a range that rises is expected", err);
    return STATUS_OK;
}

static status_t read_rule(const char *text, shape_rule_t *rule, err_t *err)
{
    const char *colon = strrchr(text, ':'), *at = colon ? colon + 1 : text;
    if (!colon || colon == text || (size_t)(colon - text) >= sizeof rule->names)
        return bad(text, "expected INPUT[+INPUT…]:SIZE[,SIZE…]", err);
    memcpy(rule->names, text, (size_t)(colon - text));
    for (;;) {
        if (rule->rank == OIP_MAX_RANK)
            return bad(text, "more dimensions than a tensor has", err);
        status_t st = read_dim(text, &at, &rule->dims[rule->rank++], err);
        if (st != STATUS_OK)
            return st;
        if (*at == '\0')
            return STATUS_OK;
        if (*at++ != ',')
            return bad(text, "a comma is expected between sizes", err);
    }
}

static void rule_dispose(shape_rule_t *rule)
{
    for (uint32_t i = 0; i < rule->rank; i++)
        free(rule->dims[i].sizes);
}

status_t shapes_add(shapes_t *shapes, const char *text, err_t *err)
{
    if (shapes->count == SHAPE_RULES_MAX)
        return bad(text, "too many of them", err);
    shape_rule_t *rules = realloc(shapes->rules, (shapes->count + 1) * sizeof *rules);
    if (!rules)
        return err_set(err, STATUS_NO_MEMORY, "no memory for shapes");
    shapes->rules = rules;
    shape_rule_t *rule = &rules[shapes->count];
    *rule = (shape_rule_t){.rank = 0};
    status_t st = read_rule(text, rule, err);
    if (st == STATUS_OK)
        shapes->count++;
    else
        rule_dispose(rule);
    return st;
}

void shapes_dispose(shapes_t *shapes)
{
    for (uint32_t i = 0; i < shapes->count; i++)
        rule_dispose(&shapes->rules[i]);
    free(shapes->rules);
    *shapes = (shapes_t){0};
}

/* --- using them --- */

static bool names(const shape_rule_t *rule, const char *input)
{
    size_t len = strlen(input);
    for (const char *at = rule->names; *at; at += strcspn(at, "+"), at += *at == '+')
        if (strcspn(at, "+") == len && memcmp(at, input, len) == 0)
            return true;
    return false;
}

static shape_rule_t *rule_of(const shapes_t *shapes, const char *input)
{
    for (uint32_t i = 0; i < shapes->count; i++)
        if (names(&shapes->rules[i], input))
            return &shapes->rules[i];
    return NULL;
}

/* A leading -1 is the batch unless the rule gives it, too. */
static uint32_t first_dim(const shape_rule_t *rule, const model_tensor_t *tensor)
{
    return tensor->shape.rank == rule->rank + 1 && tensor->shape.dims[0] < 0 ? 1 : 0;
}

status_t shapes_check(shapes_t *shapes, const model_t *model, err_t *err)
{
    for (uint32_t i = 0; i < model->input_count; i++) {
        const model_tensor_t *tensor = &model->inputs[i];
        shape_rule_t *rule = rule_of(shapes, tensor->name);
        if (!rule)
            continue;
        uint32_t first = first_dim(rule, tensor);
        if (first + rule->rank != tensor->shape.rank)
            return err_set(
                err, STATUS_INVALID_ARGUMENT, "--shape %s: input %s of %s has %u dimensions, %u are given",
                rule->names, tensor->name, model->name,
                tensor->shape.rank - (tensor->shape.rank > 0 && tensor->shape.dims[0] < 0), rule->rank);
        rule->used = true;
    }
    return STATUS_OK;
}

status_t shapes_check_used(const shapes_t *shapes, err_t *err)
{
    for (uint32_t i = 0; i < shapes->count; i++)
        if (!shapes->rules[i].used)
            return err_set(err, STATUS_NOT_FOUND, "--shape %s: no model has such an input",
                           shapes->rules[i].names);
    return STATUS_OK;
}

void shapes_draw(shapes_t *shapes, prng_t *prng)
{
    for (uint32_t i = 0; i < shapes->count; i++) {
        shape_rule_t *rule = &shapes->rules[i];
        for (uint32_t d = 0; d < rule->rank; d++) {
            const shape_dim_t *dim = &rule->dims[d];
            rule->drawn[d] = dim->sizes
                                 ? dim->sizes[prng_below(prng, dim->size_count)]
                                 : dim->low + (int64_t)prng_below(prng, (uint64_t)(dim->high - dim->low + 1));
        }
    }
}

oip_shape_t shapes_of(const shapes_t *shapes, const model_tensor_t *tensor, uint32_t rows)
{
    const shape_rule_t *rule = rule_of(shapes, tensor->name);
    oip_shape_t shape = model_shape(tensor, rows);
    uint32_t first = rule ? first_dim(rule, tensor) : 0;
    for (uint32_t d = 0; rule && d < rule->rank; d++)
        shape.dims[first + d] = rule->drawn[d];
    return shape;
}
