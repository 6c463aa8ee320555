#include "scenario.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VARIABLES_MAX = 6, VALUES_MAX = 64, LINE_BYTES = 2048, WORDS_MAX = 64, ROWS_MAX = 1 << 16 };

typedef struct {
    char name[32];
    char *values[VALUES_MAX];
    unsigned count;
    char text[LINE_BYTES];
} variable_t;

typedef struct {
    scenario_t *scenario;
    const char *path;
    char zoo[256], mixes[256], nets[256];
    const char *drawn_below;
    bool track, drawn; /* the line is one */
    unsigned line_number;
    variable_t variables[VARIABLES_MAX];
    unsigned variable_count;
    unsigned chosen[VARIABLES_MAX];
    err_t *err;
} parser_t;

static status_t fail(const parser_t *parser, const char *what)
{
    return err_set(parser->err, STATUS_INVALID_ARGUMENT, "%s:%u: %s", parser->path, parser->line_number,
                   what);
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t len = strlen(text);
    while (len && isspace((unsigned char)text[len - 1]))
        text[--len] = '\0';
    return text;
}

static bool copy(char *into, size_t bytes, const char *text)
{
    int n = snprintf(into, bytes, "%s", text);
    return n >= 0 && (size_t)n < bytes;
}

static const char *value_of(const parser_t *parser, const char *name, size_t len)
{
    if (len == 3 && strncmp(name, "zoo", 3) == 0)
        return parser->zoo;
    if (len == 5 && strncmp(name, "mixes", 5) == 0)
        return parser->mixes;
    if (len == 4 && strncmp(name, "nets", 4) == 0)
        return parser->nets;
    for (unsigned v = 0; v < parser->variable_count; v++) {
        const variable_t *variable = &parser->variables[v];
        if (strlen(variable->name) == len && strncmp(variable->name, name, len) == 0)
            return variable->values[parser->chosen[v]];
    }
    return NULL;
}

/* Puts the chosen values for {name}. */
static bool expand(const parser_t *parser, const char *text, char *out, size_t bytes)
{
    size_t len = 0;
    while (*text) {
        const char *end = *text == '{' ? strchr(text, '}') : NULL;
        const char *value = end ? value_of(parser, text + 1, (size_t)(end - text - 1)) : NULL;
        if (end && !value)
            return false;
        int n = snprintf(out + len, bytes - len, value ? "%s" : "%.1s", value ? value : text);
        if (n < 0 || (size_t)n >= bytes - len)
            return false;
        len += (size_t)n;
        text = value ? end + 1 : text + 1;
    }
    return true;
}

static status_t parse_command(const parser_t *parser, scenario_row_t *row)
{
    char *argv[WORDS_MAX + 1];
    int argc = 0;
    err_t why;
    argv[argc++] = (char *)(uintptr_t) "fermata-sim";
    row->words = strdup(row->command);
    if (!row->words)
        return err_set(parser->err, STATUS_NO_MEMORY, "no memory for a scenario");
    char *rest = row->words;
    for (char *word; (word = strsep(&rest, " "));) {
        if (*word == '\0')
            continue;
        if (argc == WORDS_MAX)
            return fail(parser, "too many words");
        argv[argc++] = word;
    }
    argv[argc] = NULL;
    if (options_parse(argc, argv, &row->options, &why) != STATUS_OK)
        return err_set(parser->err, STATUS_INVALID_ARGUMENT, "%s:%u: %.180s", parser->path,
                       parser->line_number, why.text);
    if (row->options.command > COMMAND_GPUS)
        return fail(parser, "a row says run, goodput, bound or gpus");
    return STATUS_OK;
}

static status_t add_row(parser_t *parser, char *const fields[3])
{
    scenario_t *scenario = parser->scenario;
    if (scenario->row_count == ROWS_MAX)
        return fail(parser, "too many rows");
    scenario_row_t *rows = realloc(scenario->rows, (scenario->row_count + 1) * sizeof(*rows));
    if (!rows)
        return err_set(parser->err, STATUS_NO_MEMORY, "no memory for a scenario");
    scenario->rows = rows;
    scenario_row_t *row = &rows[scenario->row_count];
    *row = (scenario_row_t){
        .line_number = parser->line_number, .track.wanted = parser->track, .drawn = parser->drawn};
    if (!expand(parser, fields[0], row->series, sizeof(row->series)) ||
        !expand(parser, fields[1], row->place, sizeof(row->place)) ||
        !expand(parser, fields[2], row->command, sizeof(row->command)))
        return fail(parser, "unknown {name}, or too long");
    scenario->row_count++;
    return parse_command(parser, row);
}

/* Where the figures of the drawn rows go. Behind the last row: the rows move no more. */
static void place_figures(const parser_t *parser)
{
    scenario_t *scenario = parser->scenario;
    for (size_t i = 0; parser->drawn_below && i < scenario->row_count; i++) {
        scenario_row_t *row = &scenario->rows[i];
        if (!row->drawn)
            continue;
        snprintf(row->figure, sizeof(row->figure), "images/sim-%s-%zu.svg", scenario->name, i + 1);
        snprintf(row->figure_path, sizeof(row->figure_path), "%.300s/%s", parser->drawn_below, row->figure);
        row->options.timeline_path = row->figure_path;
    }
}

/* Every combination of the variables, the last one fastest. */
static status_t add_rows(parser_t *parser, char *const fields[3])
{
    memset(parser->chosen, 0, sizeof(parser->chosen));
    for (;;) {
        status_t status = add_row(parser, fields);
        if (status != STATUS_OK)
            return status;
        unsigned v = parser->variable_count;
        while (v > 0 && ++parser->chosen[v - 1] == parser->variables[v - 1].count)
            parser->chosen[--v] = 0;
        if (v == 0)
            return STATUS_OK;
    }
}

static status_t add_variable(parser_t *parser, const char *text)
{
    if (parser->variable_count == VARIABLES_MAX)
        return fail(parser, "too many foreach");
    variable_t *variable = &parser->variables[parser->variable_count];
    variable->count = 0;
    if (!copy(variable->text, sizeof(variable->text), text))
        return fail(parser, "line too long");
    char *rest = variable->text, *name = strsep(&rest, " ");
    if (!copy(variable->name, sizeof(variable->name), name))
        return fail(parser, "name too long");
    for (char *word; (word = strsep(&rest, " "));) {
        if (*word && variable->count == VALUES_MAX)
            return fail(parser, "too many values");
        if (*word)
            variable->values[variable->count++] = word;
    }
    if (variable->count == 0)
        return fail(parser, "foreach NAME VALUE...");
    parser->variable_count++;
    return STATUS_OK;
}

static bool split(char *text, char *fields[3])
{
    for (int i = 0; i < 3; i++) {
        char *end = i < 2 ? strchr(text, ';') : NULL;
        if (i < 2 && !end)
            return false;
        if (end)
            *end = '\0';
        fields[i] = trim(text);
        text = end ? end + 1 : text;
    }
    return true;
}

static status_t add_paper(parser_t *parser, char *const fields[3])
{
    scenario_t *scenario = parser->scenario;
    char *end;
    double value = strtod(fields[2], &end);
    if (end == fields[2] || *end != '\0' || !isfinite(value))
        return fail(parser, "paper SERIES ; PLACE ; NUMBER");
    scenario_paper_t *papers = realloc(scenario->papers, (scenario->paper_count + 1) * sizeof(*papers));
    if (!papers)
        return err_set(parser->err, STATUS_NO_MEMORY, "no memory for a scenario");
    scenario->papers = papers;
    scenario_paper_t *paper = &papers[scenario->paper_count];
    paper->value = value;
    if (!copy(paper->series, sizeof(paper->series), fields[0]) ||
        !copy(paper->place, sizeof(paper->place), fields[1]))
        return fail(parser, "label too long");
    scenario->paper_count++;
    return STATUS_OK;
}

static status_t parse_plot(parser_t *parser, char *text)
{
    char *bar = strchr(text, '|');
    if (!bar)
        return fail(parser, "plot X LABEL | Y LABEL");
    *bar = '\0';
    if (!copy(parser->scenario->x_label, SCENARIO_LABEL_BYTES, trim(text)) ||
        !copy(parser->scenario->y_label, SCENARIO_LABEL_BYTES, trim(bar + 1)))
        return fail(parser, "label too long");
    return STATUS_OK;
}

static status_t add_text(parser_t *parser, char lines[][SCENARIO_TEXT_BYTES], unsigned *count,
                         const char *text)
{
    if (*count == SCENARIO_LINES_MAX || !copy(lines[*count], SCENARIO_TEXT_BYTES, text))
        return fail(parser, "too much text");
    (*count)++;
    return STATUS_OK;
}

static status_t parse_line(parser_t *parser, char *line)
{
    scenario_t *scenario = parser->scenario;
    char *fields[3], *text = line + strcspn(line, " ");
    if (*text)
        *text++ = '\0';
    text = trim(text);
    if (strcmp(line, "title") == 0)
        return copy(scenario->title, sizeof(scenario->title), text) ? STATUS_OK
                                                                    : fail(parser, "title too long");
    if (strcmp(line, "value") == 0)
        return copy(scenario->value, sizeof(scenario->value), text) ? STATUS_OK
                                                                    : fail(parser, "value too long");
    if (strcmp(line, "source") == 0)
        return copy(scenario->source, sizeof(scenario->source), text) ? STATUS_OK
                                                                      : fail(parser, "source too long");
    if (strcmp(line, "about") == 0)
        return add_text(parser, scenario->about, &scenario->about_count, text);
    if (strcmp(line, "note") == 0)
        return add_text(parser, scenario->notes, &scenario->note_count, text);
    if (strcmp(line, "plot") == 0)
        return parse_plot(parser, text);
    if (strcmp(line, "foreach") == 0)
        return add_variable(parser, text);
    if (strcmp(line, "clear") == 0) {
        parser->variable_count = 0;
        return STATUS_OK;
    }
    parser->track = strcmp(line, "track") == 0;
    parser->drawn = strcmp(line, "drawn") == 0;
    bool is_row = parser->track || parser->drawn || strcmp(line, "row") == 0;
    if (!is_row && strcmp(line, "paper") != 0)
        return fail(parser, "not a line of a scenario");
    if (!split(text, fields))
        return fail(parser, "fields are SERIES ; PLACE ; COMMAND or NUMBER");
    return is_row ? add_rows(parser, fields) : add_paper(parser, fields);
}

static status_t parse_file(parser_t *parser, FILE *file)
{
    char line[LINE_BYTES];
    while (fgets(line, sizeof(line), file)) {
        parser->line_number++;
        char *text = trim(line);
        if (*text == '\0' || *text == '#')
            continue;
        status_t status = parse_line(parser, text);
        if (status != STATUS_OK)
            return status;
    }
    if (parser->scenario->title[0] == '\0' || parser->scenario->value[0] == '\0' ||
        parser->scenario->row_count == 0)
        return fail(parser, "a scenario needs title, value and at least one row");
    place_figures(parser);
    return STATUS_OK;
}

status_t scenario_read(scenario_t *scenario, const char *directory, const char *name, const char *drawn_below,
                       err_t *err)
{
    memset(scenario, 0, sizeof(*scenario));
    parser_t *parser = calloc(1, sizeof(*parser));
    if (!parser)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a scenario");
    *parser =
        (parser_t){.scenario = scenario, .path = scenario->path, .drawn_below = drawn_below, .err = err};
    snprintf(scenario->path, sizeof(scenario->path), "%s/%s.txt", directory, name);
    snprintf(parser->zoo, sizeof(parser->zoo), "%s/../zoo", directory);
    snprintf(parser->mixes, sizeof(parser->mixes), "%s/../mixes", directory);
    snprintf(parser->nets, sizeof(parser->nets), "%s/../nets", directory);
    FILE *file = copy(scenario->name, sizeof(scenario->name), name) ? fopen(scenario->path, "re") : NULL;
    status_t status = file ? parse_file(parser, file)
                           : err_set(err, STATUS_NOT_FOUND, "there is no scenario %.200s (%s)",
                                     scenario->path, strerror(errno));
    if (file)
        fclose(file);
    free(parser);
    return status;
}

void scenario_dispose(scenario_t *scenario)
{
    for (size_t i = 0; i < scenario->row_count; i++) {
        free(scenario->rows[i].words);
        free(scenario->rows[i].track.seconds);
    }
    free(scenario->rows);
    free(scenario->papers);
    memset(scenario, 0, sizeof(*scenario));
}
