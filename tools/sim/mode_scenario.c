#include "mode_scenario.h"

#include "exec/stages.h"
#include "exec/trainer.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    mode_scenario_t *scenario;
    mode_model_t *model;
    char *rest;   /* of the line */
    bool unknown; /* the word */
} reader_t;

static bool next_number(reader_t *reader, double least, double most, double *value)
{
    char *end;
    double read = strtod(reader->rest, &end);
    if (end == reader->rest || !(read >= least && read <= most))
        return false;
    reader->rest = end;
    *value = read;
    return true;
}

static bool next_count(reader_t *reader, uint32_t least, uint32_t most, uint32_t *value)
{
    double read;
    char *begin = reader->rest;
    if (!next_number(reader, least, most, &read))
        return false;
    *value = (uint32_t)read;
    if (read == *value)
        return true;
    reader->rest = begin;
    return false;
}

/* Nothing but blanks is left of the line. */
static bool at_end(reader_t *reader)
{
    reader->rest += strspn(reader->rest, " \t\r\n");
    return *reader->rest == '\0';
}

static bool read_ops(reader_t *reader)
{
    mode_model_t *model = reader->model;
    mode_op_t op = {0};
    uint32_t count;
    if (!model || !next_count(reader, 1, MODE_OPS_MAX - model->op_count, &count) ||
        !next_number(reader, 1e-3, MODE_US_MAX, &op.us) ||
        !next_number(reader, 1, MODE_UNITS_MAX, &op.prefer) ||
        (!at_end(reader) && !next_number(reader, 1, MODE_UNITS_MAX, &op.length)))
        return false;
    while (count--)
        model->ops[model->op_count++] = op;
    return true;
}

static bool read_lengths(reader_t *reader)
{
    mode_model_t *model = reader->model;
    while (model && model->length_count < MODE_LENGTHS_MAX &&
           next_count(reader, 1, MODE_UNITS_MAX, &model->lengths[model->length_count])) {
        if (*reader->rest != ':')
            return false;
        reader->rest++;
        if (!next_number(reader, 1e-6, 1e6, &model->weights[model->length_count]))
            return false;
        model->length_count++;
    }
    return model && model->length_count > 0;
}

static bool read_batches(reader_t *reader)
{
    mode_model_t *model = reader->model;
    while (model && model->batch_count < MODE_BATCHES_MAX &&
           next_count(reader, 1, EXEC_ROWS_MAX, &model->batches[model->batch_count]))
        model->batch_count++;
    return model && model->batch_count > 0;
}

static bool read_staged_word(mode_scenario_t *scenario, const char *key, const char *value)
{
    reader_t reader = {.rest = (char *)(uintptr_t)value};
    if (strcmp(key, "schedule") == 0)
        return snprintf(scenario->schedule, sizeof(scenario->schedule), "%s", value) > 0 &&
               staged_schedule_find(value);
    if (strcmp(key, "cut") == 0) {
        scenario->cut_by_preference = strcmp(value, "preference") == 0;
        return scenario->cut_by_preference || strcmp(value, "even") == 0;
    }
    if (strcmp(key, "stages") == 0)
        return next_count(&reader, 1, STAGED_STAGES_MAX, &scenario->stages) && at_end(&reader);
    if (strcmp(key, "new_pairs") == 0)
        return next_count(&reader, 1, STAGED_PAIRS_MAX, &scenario->new_pairs) && at_end(&reader);
    if (strcmp(key, "width") == 0)
        return next_count(&reader, 1, STAGED_WIDTH_MAX, &scenario->width) && at_end(&reader);
    if (strcmp(key, "window_us") == 0)
        return next_number(&reader, 0, MODE_US_MAX, &scenario->window_us) && at_end(&reader);
    if (strcmp(key, "comp_wait_us") == 0)
        return next_number(&reader, 0, MODE_US_MAX, &scenario->comp_wait_us) && at_end(&reader);
    return strcmp(key, "slack") == 0 && next_number(&reader, -1, 10, &scenario->slack) && at_end(&reader);
}

static bool read_staged(reader_t *reader)
{
    static const char between[] = ", \t\n";
    char *save = NULL;
    for (char *word = strtok_r(reader->rest, between, &save); word; word = strtok_r(NULL, between, &save)) {
        char *value = strchr(word, '='), key[MODE_NAME_BYTES];
        reader->rest = word;
        if (!value || value - word >= MODE_NAME_BYTES)
            return false;
        snprintf(key, sizeof(key), "%.*s", (int)(value - word), word);
        if (!read_staged_word(reader->scenario, key, value + 1))
            return false;
        reader->rest = value + strlen(value);
    }
    return true;
}

static bool read_model(reader_t *reader)
{
    mode_scenario_t *scenario = reader->scenario;
    if (scenario->model_count == MODE_MODELS_MAX)
        return false;
    reader->model = &scenario->models[scenario->model_count++];
    int len = 0;
    if (sscanf(reader->rest, "%31s%n", reader->model->name, &len) != 1)
        return false;
    reader->rest += len;
    return true;
}

static bool read_word(reader_t *reader, const char *word)
{
    mode_scenario_t *scenario = reader->scenario;
    if (strcmp(word, "title") == 0) {
        snprintf(scenario->title, sizeof(scenario->title), "%.*s", (int)strcspn(reader->rest, "\n"),
                 reader->rest + strspn(reader->rest, " "));
        reader->rest += strlen(reader->rest);
        return true;
    }
    if (strcmp(word, "model") == 0)
        return read_model(reader);
    if (strcmp(word, "ops") == 0)
        return read_ops(reader);
    if (strcmp(word, "lengths") == 0)
        return read_lengths(reader);
    if (strcmp(word, "batches") == 0)
        return read_batches(reader);
    if (strcmp(word, "staged") == 0)
        return read_staged(reader);
    if (strcmp(word, "rows_max") == 0)
        return next_count(reader, 1, EXEC_ROWS_MAX, &scenario->rows_max);
    if (strcmp(word, "slo_ms") == 0)
        return next_number(reader, 1e-3, 1e6, &scenario->slo_ms);
    if (strcmp(word, "launch_us") == 0)
        return next_number(reader, 0, MODE_US_MAX, &scenario->launch_us);
    if (strcmp(word, "delay_window_us") == 0)
        return next_number(reader, 0, MODE_US_MAX, &scenario->delay_window_us);
    if (strcmp(word, "peak_rps") == 0)
        return next_number(reader, 1e-3, 1e7, &scenario->peak_rps);
    reader->unknown = true;
    return false;
}

static status_t read_lines(mode_scenario_t *scenario, FILE *file, const char *path, err_t *err)
{
    char line[1024], word[32];
    reader_t reader = {.scenario = scenario};
    for (unsigned number = 1; fgets(line, sizeof(line), file); number++) {
        int len = 0;
        line[strcspn(line, "#")] = '\0';
        if (sscanf(line, " %31s%n", word, &len) != 1)
            continue;
        reader.rest = line + len;
        if (!read_word(&reader, word) || !at_end(&reader)) {
            at_end(&reader); /* past the blanks */
            if (reader.unknown)
                return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s:%u: there is no word %s", path, number,
                               word);
            return err_set(err, STATUS_INVALID_ARGUMENT, "%.200s:%u: %s: cannot read \"%.*s\"", path, number,
                           word, (int)strcspn(reader.rest, "\n"), reader.rest);
        }
    }
    return STATUS_OK;
}

accel_op_t mode_op(const mode_op_t *op, uint32_t rows, uint32_t length)
{
    double units = rows * (op->length > 0 ? length / op->length : 1);
    return (accel_op_t){.ns = (int64_t)llround(op->us * 1e3 * fmax(1, units / op->prefer)),
                        .occupancy = fmin(1, units / op->prefer)};
}

exec_part_t mode_part_of_stages(const mode_model_t *model, exec_part_t stages)
{
    stages.from = stages.from ? model->stage_end[stages.from - 1] : 0;
    stages.to = model->stage_end[stages.to - 1];
    return stages;
}

uint32_t mode_operators(const mode_scenario_t *scenario, const exec_part_t *part, accel_op_t *ops)
{
    uint32_t count = 0;
    ops[count++] = (accel_op_t){.ns = (int64_t)(scenario->launch_us * 1e3)};
    for (uint32_t op = part->from; op < part->to; op++)
        ops[count++] = mode_op(&scenario->models[part->model].ops[op], part->rows, part->length);
    return count;
}

staged_cost_t mode_cost(const mode_model_t *model, uint32_t from, uint32_t to, uint32_t rows, uint32_t length)
{
    staged_cost_t cost = {0};
    for (uint32_t i = from; i < to; i++) {
        accel_op_t op = mode_op(&model->ops[i], rows, length);
        cost.ns += op.ns;
        cost.busy_ns += (int64_t)((double)op.ns * op.occupancy);
    }
    return cost;
}

static uint32_t middle_length(const mode_model_t *model)
{
    return model->length_count ? model->lengths[model->length_count / 2] : 1;
}

enum { CUT_SIZES = 8 }; /* 1, 2, 4 .. 128 rows: EXEC_ROWS_MAX */

/* Returns how many stages there are then. */
static uint32_t cut(mode_model_t *model, const mode_scenario_t *scenario)
{
    uint32_t length = middle_length(model), cuts[MODE_OPS_MAX], sizes[CUT_SIZES], size_count = 0;
    static int64_t op_ns[CUT_SIZES * MODE_OPS_MAX], middle_ns[MODE_OPS_MAX];
    stages_model_t whole = {.ops = model->op_count, .cuts = cuts, .cut_count = model->op_count - 1};
    for (uint32_t rows = 1; rows <= scenario->rows_max; rows *= 2)
        sizes[size_count++] = rows;
    for (uint32_t op = 0; op < model->op_count; op++) {
        cuts[op] = op + 1;
        middle_ns[op] = mode_cost(model, op, op + 1, scenario->rows_max / 4 + 1, length).ns;
        for (uint32_t i = 0; i < size_count; i++)
            op_ns[i * model->op_count + op] = mode_cost(model, op, op + 1, sizes[i], length).ns;
    }
    stages_profile_t profile = {.sizes = sizes, .size_count = size_count, .op_ns = op_ns};
    uint32_t count = scenario->cut_by_preference
                         ? stages_by_preference(&whole, &profile, scenario->stages, model->stage_end)
                         : stages_even(&whole, middle_ns, scenario->stages, model->stage_end);
    model->stage_end[count] = model->op_count;
    return count + 1;
}

/* All models have the same number of stages. */
static status_t cut_models(mode_scenario_t *scenario, const char *path, err_t *err)
{
    uint32_t stages = 0;
    for (uint32_t i = 0; i < scenario->model_count; i++) {
        uint32_t count = cut(&scenario->models[i], scenario);
        if (i && count != stages)
            return err_set(err, STATUS_INVALID_ARGUMENT,
                           "%.200s: %s is cut into %u stages, the models before it into %u", path,
                           scenario->models[i].name, count, stages);
        stages = count;
    }
    scenario->stages = stages;
    return STATUS_OK;
}

/* Settings of the command line, in place of the file's. */
static status_t read_settings(mode_scenario_t *scenario, const char *settings, err_t *err)
{
    char text[256];
    reader_t reader = {.scenario = scenario, .rest = text};
    snprintf(text, sizeof(text), "%s", settings);
    return read_staged(&reader)
               ? STATUS_OK
               : err_set(err, STATUS_INVALID_ARGUMENT, "--staged: cannot read \"%.200s\"", reader.rest);
}

status_t mode_scenario_read(mode_scenario_t *scenario, const char *directory, const char *name,
                            const char *staged, err_t *err)
{
    char path[768];
    *scenario = (mode_scenario_t){.slo_ms = 200, .rows_max = 64, .stages = 1, .new_pairs = 1, .width = 1};
    snprintf(path, sizeof(path), "%s/%s.txt", directory, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return err_set(err, STATUS_NOT_FOUND, "%.400s: %s", path, strerror(errno));
    status_t status = read_lines(scenario, file, path, err);
    fclose(file);
    if (status == STATUS_OK && staged)
        status = read_settings(scenario, staged, err);
    for (uint32_t i = 0; status == STATUS_OK && i < scenario->model_count; i++)
        if (scenario->models[i].op_count < scenario->stages)
            status = err_set(err, STATUS_INVALID_ARGUMENT, "%.200s: %s has fewer operators than stages", path,
                             scenario->models[i].name);
    if (status == STATUS_OK && scenario->model_count == 0)
        status = err_set(err, STATUS_INVALID_ARGUMENT, "%.200s: no model", path);
    return status == STATUS_OK ? cut_models(scenario, path, err) : status;
}

uint32_t mode_draw_length(const mode_model_t *model, prng_t *prng)
{
    return trainer_pick(model->lengths, model->weights, model->length_count, prng);
}

uint32_t mode_draw_rows(const mode_model_t *model, prng_t *prng)
{
    return trainer_pick(model->batches, NULL, model->batch_count, prng);
}
