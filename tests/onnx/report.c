#include "report.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const words[] = {
    [CASE_PASSED] = "passed", [CASE_FAILED] = "failed", [CASE_UNSUPPORTED] = "unsupported"};

static void print_quoted(const char *text)
{
    putchar('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar((unsigned char)*text < ' ' ? ' ' : *text);
    }
    putchar('"');
}

void report_line(const case_t *c, bool json)
{
    const char *why = c->result == CASE_PASSED ? "" : c->err.text;
    if (!json) {
        printf("%-11s %s/%s%s%s\n", words[c->result], c->group, c->name, *why ? ": " : "", why);
        return;
    }
    printf("{\"case\":\"%s/%s\",\"result\":\"%s\",\"operators\":", c->group, c->name, words[c->result]);
    print_quoted(c->ops);
    printf(",\"reason\":");
    print_quoted(why);
    puts("}");
}

static void tally(const case_t *cases, size_t count, const char *group, unsigned *n)
{
    memset(n, 0, 3 * sizeof *n);
    for (size_t i = 0; i < count; i++)
        if (!group || !strcmp(group, cases[i].group))
            n[cases[i].result]++;
}

void report_totals(const case_t *cases, size_t count, const char *engine, bool json)
{
    unsigned n[3];
    for (size_t i = 0; i < count; i++) {
        if (i && !strcmp(cases[i].group, cases[i - 1].group))
            continue;
        tally(cases, count, cases[i].group, n);
        unsigned all = n[0] + n[1] + n[2];
        if (!json)
            printf("%s: %s: passed=%u failed=%u unsupported=%u total=%u (%.1f %%)\n", engine, cases[i].group,
                   n[0], n[1], n[2], all, 100.0 * n[0] / all);
    }
    tally(cases, count, NULL, n);
    if (json)
        printf("{\"engine\":\"%s\",\"passed\":%u,\"failed\":%u,\"unsupported\":%u,\"total\":%zu}\n", engine,
               n[0], n[1], n[2], count);
    else
        printf("%s: passed=%u failed=%u unsupported=%u total=%zu\n", engine, n[0], n[1], n[2], count);
}

typedef struct {
    char (*words)[128];
    size_t count;
} list_t;

enum { MAX_WORDS = 1024 };

static bool list_read(list_t *list, const char *path)
{
    char line[512];
    FILE *file = fopen(path, "r");
    list->words = calloc(MAX_WORDS, sizeof *list->words);
    list->count = 0;
    if (!file || !list->words)
        return false;
    while (fgets(line, sizeof line, file) && list->count < MAX_WORDS) {
        char *word = strtok(line, " \t\n");
        if (word && *word != '#')
            snprintf(list->words[list->count++], sizeof *list->words, "%s", word);
    }
    fclose(file);
    return true;
}

static bool list_has(const list_t *list, const char *word)
{
    for (size_t i = 0; i < list->count; i++)
        if (!strcmp(list->words[i], word))
            return true;
    return false;
}

/* A wrong result never passes for an operator that is lacking. */
static bool is_required(const list_t *list, const case_t *c)
{
    char ops[sizeof c->ops], excuse[CASE_NAME_BYTES + 1], *save;
    snprintf(excuse, sizeof excuse, "-%s", c->name);
    if (!*c->ops || list_has(list, excuse))
        return false;
    if (c->result == CASE_FAILED)
        return true;
    memcpy(ops, c->ops, sizeof ops);
    for (char *op = strtok_r(ops, " ", &save); op; op = strtok_r(NULL, " ", &save))
        if (!list_has(list, op))
            return false;
    return true;
}

int report_required(const case_t *cases, size_t count, const char *list_path)
{
    list_t list;
    int missed = 0, required = 0;
    if (!list_read(&list, list_path)) {
        fprintf(stderr, "%s: %s\n", list_path, strerror(errno));
        free(list.words);
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        if (!is_required(&list, &cases[i]))
            continue;
        required++;
        if (cases[i].result == CASE_PASSED)
            continue;
        missed++;
        fprintf(stderr, "required: %s/%s %s: %s\n", cases[i].group, cases[i].name, words[cases[i].result],
                cases[i].err.text);
    }
    fprintf(stderr, "required cases: %d, of which not passed: %d\n", required, missed);
    free(list.words);
    return missed ? missed : !required;
}

enum { MAX_ENGINES = 4 };

typedef struct {
    char name[128];
    unsigned n[MAX_ENGINES][3];
} row_t;

static int by_row(const void *a, const void *b)
{
    return strcmp(((const row_t *)a)->name, ((const row_t *)b)->name);
}

static void count_op(row_t *rows, size_t *count, const char *op, size_t engine, case_result_t result)
{
    size_t i = 0;
    while (i < *count && strcmp(rows[i].name, op) != 0)
        i++;
    if (i == MAX_WORDS)
        return;
    if (i == *count)
        snprintf(rows[(*count)++].name, sizeof rows[i].name, "%s", op);
    rows[i].n[engine][result]++;
}

static void count_case(row_t *rows, size_t *count, const case_t *c, size_t engine)
{
    char ops[sizeof c->ops], *save;
    memcpy(ops, c->ops, sizeof ops);
    for (char *op = strtok_r(ops, " ", &save); op; op = strtok_r(NULL, " ", &save))
        count_op(rows, count, op, engine, c->result);
}

static void write_groups(FILE *file, const case_t *cases, size_t count, const char *engine)
{
    unsigned n[3];
    for (size_t i = 0; i < count; i++) {
        if (i && !strcmp(cases[i].group, cases[i - 1].group))
            continue;
        tally(cases, count, cases[i].group, n);
        unsigned all = n[0] + n[1] + n[2];
        fprintf(file, "| %s | %s | %u (%.1f %%) | %u | %u | %u |\n", engine, cases[i].group, n[0],
                100.0 * n[0] / all, n[1], n[2], all);
    }
}

static void write_rows(FILE *file, const row_t *rows, size_t count, size_t engine_count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "| %s |", rows[i].name);
        for (size_t e = 0; e < engine_count; e++)
            fprintf(file, " %u / %u / %u |", rows[i].n[e][CASE_PASSED], rows[i].n[e][CASE_FAILED],
                    rows[i].n[e][CASE_UNSUPPORTED]);
        fputc('\n', file);
    }
}

static void write_page(FILE *file, row_t *rows, size_t row_count, case_t *const *cases, size_t count,
                       const char *const *engines, size_t engine_count)
{
    fprintf(
        file,
        "# ONNX coverage\n\nWritten by `fermata-onnx-test --markdown`; do not edit. The cases are those of "
        "Debian's `libonnx-testdata`.\n\nTheir bfloat16 values are kept as uint16 and were cut off "
        "where engines round to nearest even, so the last bit may\ndiffer. For `like` of CastLike, of "
        "which only the type counts, four cases give one element where the model declares\n[3,4]: "
        "it is repeated.\n\n");
    fprintf(file, "| engine | cases | passed | failed | unsupported | total |\n"
                  "| --- | --- | ---: | ---: | ---: | ---: |\n");
    for (size_t e = 0; e < engine_count; e++)
        write_groups(file, cases[e], count, engines[e]);
    fprintf(file,
            "\nPer operator, the cases in which it occurs: passed / failed / unsupported. A case fails or "
            "passes as a "
            "whole, so an\noperator can stand in a failed case without being at fault.\n\n| operator |");
    for (size_t e = 0; e < engine_count; e++)
        fprintf(file, " %s |", engines[e]);
    fprintf(file, "\n| --- |");
    for (size_t e = 0; e < engine_count; e++)
        fprintf(file, " ---: |");
    fputc('\n', file);
    write_rows(file, rows, row_count, engine_count);
}

bool report_markdown(case_t *const *cases, size_t count, const char *const *engines, size_t engine_count,
                     const char *path)
{
    FILE *file = fopen(path, "w");
    row_t *rows = calloc(MAX_WORDS, sizeof *rows);
    size_t row_count = 0;
    if (!file || !rows) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        if (file)
            fclose(file);
        free(rows);
        return false;
    }
    for (size_t e = 0; e < engine_count; e++)
        for (size_t i = 0; i < count; i++)
            count_case(rows, &row_count, &cases[e][i], e);
    qsort(rows, row_count, sizeof *rows, by_row);
    write_page(file, rows, row_count, cases, count, engines, engine_count);
    free(rows);
    return !fclose(file);
}
