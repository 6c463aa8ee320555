#include "model/modes/overlap_plan.h"

#include "base/file.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char FIRST_LINE[] = "fermata-overlap 3";

enum {
    LINE_BYTES = 512,
    ROWS_MOST = 4096,
    OPS_MOST = 1 << 16,
    LENGTH_MOST = 1 << 26, /* a row has no more bytes */
    FILE_BYTES_MAX = 16 << 20,
    FILE_MODE = 0644,
};

/* ---- reading ---- */

typedef struct {
    const char *path;
    FILE *file;
    uint32_t line;
    err_t *err;
} reader_t;

static status_t wrong(const reader_t *reader, const char *what)
{
    return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%.200s:%u: %s", reader->path, reader->line, what);
}

/* The next line without its end, if it begins with this word; *rest is what follows the word. */
static status_t read_line(reader_t *reader, char line[LINE_BYTES], const char *word, const char **rest)
{
    size_t len = strlen(word);

    reader->line++;
    if (!fgets(line, LINE_BYTES, reader->file))
        return wrong(reader, "the file ends here");
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, word, len) != 0 || line[len] != ' ')
        return err_set(reader->err, STATUS_INVALID_ARGUMENT, "%.200s:%u: '%s' is expected here", reader->path,
                       reader->line, word);
    *rest = line + len + 1;
    return STATUS_OK;
}

static status_t read_number(reader_t *reader, const char *word, uint32_t most, uint32_t *number)
{
    char line[LINE_BYTES], *end;
    const char *rest;

    if (read_line(reader, line, word, &rest) != STATUS_OK)
        return reader->err->code;
    unsigned long value = strtoul(rest, &end, 10);
    if (end == rest || *end || value < 1 || value > most)
        return wrong(reader, "a number out of range");
    *number = (uint32_t)value;
    return STATUS_OK;
}

/* "224x320", or "-": none. */
static bool parse_sizes(const char *text, uint32_t sizes[AXES_MAX], uint32_t *count)
{
    char *end;

    *count = 0;
    if (strcmp(text, "-") == 0)
        return true;
    for (;; text = end + 1) {
        unsigned long size = strtoul(text, &end, 10);
        if (*count == AXES_MAX || end == text || *text == '-' || size < 1 || size > AXIS_SIZE_MAX)
            return false;
        sizes[(*count)++] = (uint32_t)size;
        if (*end != 'x')
            return *end == '\0';
    }
}

static status_t read_lengths(reader_t *reader, overlap_plan_t *plan, uint32_t at)
{
    char line[LINE_BYTES], sizes[LINE_BYTES];
    const char *rest;
    uint32_t *least = &plan->models[at].length_min, *most = &plan->models[at].length_max;

    if (read_line(reader, line, "lengths", &rest) != STATUS_OK)
        return reader->err->code;
    if (sscanf(rest, "%" SCNu32 " %" SCNu32 " %511s", least, most, sizes) != 3 ||
        !parse_sizes(sizes, plan->models[at].sizes, &plan->models[at].size_count))
        return wrong(reader, "lengths are: the shortest, the longest, sizes of the longest");
    if (*least < 1 || *least > *most || *most > LENGTH_MOST ||
        (*least < *most && !plan->models[at].size_count))
        return wrong(reader, "these are no lengths");
    return STATUS_OK;
}

/* *more: there was one. */
static status_t read_model(reader_t *reader, overlap_plan_t *plan, uint32_t at, uint32_t *ops, bool *more)
{
    char line[LINE_BYTES];
    const char *rest;
    long where = ftell(reader->file);

    *more = false;
    if (read_line(reader, line, "model", &rest) != STATUS_OK) {
        reader->line--;
        return fseek(reader->file, where, SEEK_SET) == 0 ? STATUS_OK : wrong(reader, "cannot read it");
    }
    if (at == OVERLAP_MODELS_MAX)
        return wrong(reader, "too many models");
    if (sscanf(rest, "%127s %" SCNd64 " %" SCNu32 " %127[^\n]", plan->models[at].name,
               &plan->models[at].version, ops, plan->models[at].hash) != 4 ||
        *ops < 1 || *ops > OPS_MOST)
        return wrong(reader, "a model is: name, version, segments, hash");
    *more = true;
    return read_lengths(reader, plan, at);
}

/* "passed": of each operator but the first, where a model has no more than can be kept. */
static status_t read_passed(reader_t *reader, predictor_t *predictor, uint32_t model)
{
    float *passed = predictor->passed[model];
    char word[16];

    reader->line++;
    if (fscanf(reader->file, "%15s", word) != 1 || strcmp(word, "passed") != 0)
        return wrong(reader, "'passed' is expected here");
    for (uint32_t op = 1; predictor->ops[model] <= PREDICTOR_OPS_MAX && op < predictor->ops[model]; op++)
        if (fscanf(reader->file, "%f", &passed[op]) != 1 ||
            !(passed[op] >= passed[op - 1] && passed[op] <= 1))
            return wrong(reader, "too few parts of the time, or one that falls or is beyond 1");
    return STATUS_OK;
}

static status_t read_places(reader_t *reader, predictor_t *predictor)
{
    char line[LINE_BYTES];
    const char *rest;

    if (read_line(reader, line, "places", &rest) != STATUS_OK)
        return reader->err->code;
    predictor->timed = strcmp(rest, "time") == 0;
    if (!predictor->timed && strcmp(rest, "index") != 0)
        return wrong(reader, "places are by time or by index");
    for (uint32_t i = 0; predictor->timed && i < predictor->models; i++)
        if (read_passed(reader, predictor, i) != STATUS_OK)
            return reader->err->code;
    return STATUS_OK;
}

static status_t read_weights(reader_t *reader, predictor_t *predictor)
{
    char word[16];

    reader->line++;
    if (fscanf(reader->file, "%15s", word) != 1 || strcmp(word, "weights") != 0)
        return wrong(reader, "'weights' are expected here");
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t unit = 0; unit < predictor->width[layer + 1]; unit++) {
            for (uint32_t i = 0; i <= predictor->width[layer]; i++) {
                float *into = i < predictor->width[layer] ? &predictor->weight[layer][unit][i]
                                                          : &predictor->bias[layer][unit];
                if (fscanf(reader->file, "%f", into) != 1 || !isfinite(*into))
                    return wrong(reader, "too few weights, or one that is no number");
            }
        }
    return STATUS_OK;
}

static status_t read_all(reader_t *reader, overlap_plan_t *plan)
{
    char line[LINE_BYTES];
    uint32_t rows_max = 1, count = 0, ops[OVERLAP_MODELS_MAX + 1];
    const char *rest;
    bool more = true;

    reader->line = 1;
    if (!fgets(line, sizeof(line), reader->file) || strncmp(line, FIRST_LINE, strlen(FIRST_LINE)) != 0)
        return wrong(reader, "this is no overlap plan, or of another version");
    if (read_line(reader, line, "device", &rest) != STATUS_OK)
        return reader->err->code;
    snprintf(plan->device, sizeof(plan->device), "%.*s", (int)sizeof(plan->device) - 1, rest);
    if (read_number(reader, "rows_max", ROWS_MOST, &rows_max) != STATUS_OK)
        return reader->err->code;
    while (more) {
        if (read_model(reader, plan, count, &ops[count], &more) != STATUS_OK)
            return reader->err->code;
        count += more;
    }
    if (count == 0)
        return wrong(reader, "no model");
    predictor_init(&plan->predictor, count, ops, rows_max, 1);
    for (uint32_t i = 0; i < count; i++)
        predictor_set_length(&plan->predictor, i, plan->models[i].length_max);
    if (read_places(reader, &plan->predictor) != STATUS_OK)
        return reader->err->code;
    return read_weights(reader, &plan->predictor);
}

status_t overlap_plan_read(const char *path, overlap_plan_t *plan, err_t *err)
{
    err_t local;
    reader_t reader = {.path = path, .err = err ? err : &local};
    status_t status = file_open_stream(path, FILE_BYTES_MAX, &reader.file, err);

    if (status != STATUS_OK)
        return status;
    *plan = (overlap_plan_t){.device = ""};
    status = read_all(&reader, plan);
    fclose(reader.file);
    return status;
}

/* ---- writing ---- */

static void write_lengths(FILE *file, const overlap_plan_t *plan, uint32_t model)
{
    fprintf(file, "lengths %" PRIu32 " %" PRIu32 " %s", plan->models[model].length_min,
            plan->models[model].length_max, plan->models[model].size_count ? "" : "-");
    for (uint32_t a = 0; a < plan->models[model].size_count; a++)
        fprintf(file, "%s%" PRIu32, a ? "x" : "", plan->models[model].sizes[a]);
    fputc('\n', file);
}

static void write_passed(FILE *file, const predictor_t *predictor, uint32_t model)
{
    fputs("passed", file);
    for (uint32_t op = 1; predictor->ops[model] <= PREDICTOR_OPS_MAX && op < predictor->ops[model]; op++)
        fprintf(file, " %.9g", (double)predictor->passed[model][op]);
    fputc('\n', file);
}

static void write_weights(FILE *file, const predictor_t *predictor)
{
    fputs("weights", file);
    for (uint32_t layer = 0; layer < PREDICTOR_LAYERS; layer++)
        for (uint32_t unit = 0; unit < predictor->width[layer + 1]; unit++) {
            for (uint32_t i = 0; i < predictor->width[layer]; i++)
                fprintf(file, " %.9g", (double)predictor->weight[layer][unit][i]);
            fprintf(file, " %.9g\n", (double)predictor->bias[layer][unit]);
        }
}

status_t overlap_plan_write(const char *path, const overlap_plan_t *plan, err_t *err)
{
    const predictor_t *predictor = &plan->predictor;
    file_writer_t writer;
    status_t status = file_write_begin(&writer, path, FILE_REPLACE, FILE_MODE, err);

    if (status != STATUS_OK)
        return status;
    FILE *file = writer.file;
    fprintf(file, "%s\ndevice %s\nrows_max %.0f\n", FIRST_LINE, plan->device, (double)predictor->rows_max);
    for (uint32_t i = 0; i < predictor->models; i++) {
        fprintf(file, "model %s %" PRId64 " %" PRIu32 " %s\n", plan->models[i].name, plan->models[i].version,
                predictor->ops[i], plan->models[i].hash);
        write_lengths(file, plan, i);
    }
    fprintf(file, "places %s\n", predictor->timed ? "time" : "index");
    for (uint32_t i = 0; predictor->timed && i < predictor->models; i++)
        write_passed(file, predictor, i);
    write_weights(file, predictor);
    return file_write_end(&writer, true, err);
}

bool overlap_plan_path(const char *repository, const char *engine, char *path, size_t path_bytes)
{
    int len = snprintf(path, path_bytes, "%s/overlap.%s.txt", repository, engine);

    return len > 0 && (size_t)len < path_bytes;
}

uint32_t overlap_plan_find(const overlap_plan_t *plan, const char *name, int64_t version, const char *hash,
                           uint32_t rows_max, err_t *err)
{
    for (uint32_t i = 0; i < plan->predictor.models; i++) {
        if (strcmp(plan->models[i].name, name) != 0 || plan->models[i].version != version)
            continue;
        if (strcmp(plan->models[i].hash, hash) != 0)
            err_set(err, STATUS_NOT_FOUND, "the overlap plan is of another file of %.80s", name);
        else if (rows_max > (uint32_t)plan->predictor.rows_max)
            err_set(err, STATUS_NOT_FOUND,
                    "the overlap plan is of batches of %u rows at most, %.80s takes %u",
                    (uint32_t)plan->predictor.rows_max, name, rows_max);
        else
            return i;
        return UINT32_MAX;
    }
    err_set(err, STATUS_NOT_FOUND, "%.80s is not in the overlap plan", name);
    return UINT32_MAX;
}

bool overlap_plan_fits(const overlap_plan_t *plan, uint32_t model, const axes_t *axes, err_t *err)
{
    const char *name = plan->models[model].name;
    const uint32_t *sizes = plan->models[model].sizes;
    uint32_t count = plan->models[model].size_count;
    const char *objection = axes    ? axes_objection(axes, sizes, count)
                            : count ? "nothing but its batch varies"
                                    : NULL;
    uint64_t elements = !objection && axes ? axes_elements(axes, sizes) : 1;

    if (objection)
        err_set(err, STATUS_NOT_FOUND, "the lengths of the overlap plan are not of %.80s: %s", name,
                objection);
    else if (elements != plan->models[model].length_max)
        err_set(err, STATUS_NOT_FOUND,
                "the lengths of the overlap plan are not of %.80s: its rows have %" PRIu64
                " elements where the plan says %" PRIu32,
                name, elements, plan->models[model].length_max);
    else
        return true;
    return false;
}

uint32_t overlap_plan_length(const overlap_plan_t *plan, uint32_t model, uint64_t elements)
{
    uint32_t least = plan->models[model].length_min, most = plan->models[model].length_max;

    if (elements <= least)
        return least;
    return elements < most ? (uint32_t)elements : most;
}

overlap_config_t overlap_plan_config(const overlap_plan_t *plan)
{
    overlap_config_t config = {.models = plan->predictor.models,
                               .predict = predictor_predict,
                               .predict_ctx = (void *)(uintptr_t)&plan->predictor};

    for (uint32_t i = 0; i < config.models; i++)
        config.ops[i] = plan->predictor.ops[i];
    return config;
}
