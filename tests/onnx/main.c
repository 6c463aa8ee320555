/*
 * fermata-onnx-test --engine E … --data DIR [--json] [--list FILE] [--markdown FILE] [NAME…]
 *
 * Runs the ONNX backend cases on an engine, or on several: a line per case, then the counts. With --list, the
 * exit code says whether no case failed and every case passed whose operators all stand in FILE (one per
 * line; "-CASE" excuses one case, with the reason behind it).
 */
#include "cases.h"
#include "report.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: fermata-onnx-test --engine E --data DIR [--json] [--list FILE] [--markdown FILE]"
    " [--group GROUP] [NAME…]\n";

enum { MAX_ENGINES = 4 };

typedef struct {
    const char *engines[MAX_ENGINES];
    size_t engine_count;
    const char *data, *list, *markdown, *group;
    bool json;
    char **names;
    int name_count;
} options_t;

static bool parse(int argc, char **argv, options_t *o)
{
    static const struct option options[] = {
        {"engine", required_argument, NULL, 'e'}, {"data", required_argument, NULL, 'd'},
        {"json", no_argument, NULL, 'j'},         {"list", required_argument, NULL, 'l'},
        {"group", required_argument, NULL, 'g'},  {"markdown", required_argument, NULL, 'm'},
        {"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0},
    };
    *o = (options_t){.data = "/usr/share/libonnx-testdata/data"};
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 'e':
            if (o->engine_count == MAX_ENGINES)
                return false;
            o->engines[o->engine_count++] = optarg;
            break;
        case 'd':
            o->data = optarg;
            break;
        case 'j':
            o->json = true;
            break;
        case 'l':
            o->list = optarg;
            break;
        case 'g':
            o->group = optarg;
            break;
        case 'm':
            o->markdown = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(0);
        default:
            return false;
        }
    }
    if (!o->engine_count)
        o->engines[o->engine_count++] = "onednn";
    o->names = argv + optind;
    o->name_count = argc - optind;
    return true;
}

static bool chosen(const options_t *o, const case_t *c)
{
    if (o->group && strcmp(o->group, c->group) != 0)
        return false;
    for (int i = 0; i < o->name_count; i++)
        if (!strcmp(o->names[i], c->name))
            return true;
    return o->name_count == 0;
}

static size_t run_all(const options_t *o, const engine_ops_t *ops, engine_t *engine, case_t *cases,
                      size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (!chosen(o, &cases[i]))
            continue;
        case_run(&cases[i], o->data, ops, engine);
        report_line(&cases[i], o->json);
        cases[kept++] = cases[i];
    }
    return kept;
}

/* Runs the chosen cases on one engine; how many required ones were missed, -1 when nothing could be run. */
static int run_engine(const options_t *o, const char *name, case_t **cases, size_t *count)
{
    const engine_ops_t *ops;
    engine_t *engine;
    err_t err;
    bool ready =
        engine_find(name, &ops, &err) == STATUS_OK && cases_find(o->data, cases, count, &err) == STATUS_OK;
    if (!ready || ops->open(&(engine_config_t){0}, &engine, &err) != STATUS_OK) {
        fprintf(stderr, "fermata-onnx-test: %s\n", err.text);
        return -1;
    }
    *count = run_all(o, ops, engine, *cases, *count);
    report_totals(*cases, *count, name, o->json);
    ops->close(engine);
    return o->list ? report_required(*cases, *count, o->list) : 0;
}

int main(int argc, char **argv)
{
    options_t o;
    case_t *cases[MAX_ENGINES] = {NULL};
    size_t count = 0; /* the same for every engine that ran */
    bool ok = true, complete = true;
    if (!parse(argc, argv, &o)) {
        fputs(usage, stderr);
        return 2;
    }
    for (size_t e = 0; e < o.engine_count; e++) {
        int missed = run_engine(&o, o.engines[e], &cases[e], &count);
        ok &= missed == 0;
        complete &= missed >= 0;
    }
    if (o.markdown && complete)
        ok &= report_markdown(cases, count, o.engines, o.engine_count, o.markdown);
    for (size_t e = 0; e < o.engine_count; e++)
        free(cases[e]);
    return ok ? 0 : 1;
}
