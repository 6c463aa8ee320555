#include "serve/report.h"

#include "screen/screen.h"
#include "summary/summary.h"
#include "worker/state/served.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { VERSION_BYTES = 24, TABLE_MAX_BYTES = 4 << 20 };

static uint32_t count_in(const served_t *served, model_state_t state)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < served->count; i++)
        count += served->models[i]->serving->state == state;
    return count;
}

bool report_is_due(const serve_t *serve)
{
    return count_in(serve_models(serve), MODEL_LOADING) == 0;
}

bool report_is_of_failure(const serve_t *serve)
{
    const served_t *served = serve_models(serve);

    return served->count > 0 && count_in(served, MODEL_FAILED) == served->count;
}

/* Its version as text lies in `version`, which must live as long. */
static summary_model_t summary_of(const model_t *model, char version[VERSION_BYTES])
{
    bool ready = model->serving->state == MODEL_READY;
    const mode_choice_t *choice = &model->choice;

    snprintf(version, VERSION_BYTES, "%lld", (long long)model->version);
    return (summary_model_t){
        .name = model->name,
        .version = version,
        .state = model_state_name(model->serving->state),
        .reason = model->load_status == STATUS_OK ? "" : model->load_err.text,
        .ready = ready,
        .engine = ready && model->engine ? model->engine : "",
        .mode = model_mode_names[choice->mode],
        .mode_reason = choice->why,
        .stages = choice->stages ? choice->stages->count : 0,
        .exit_points = choice->exit_points,
        .max_batch = model->profile.max_batch,
        .one_ms = ready ? (double)profile_latency_ns(&model->profile, 1) / 1e6 : 0,
        .most_ms = ready ? (double)profile_latency_ns(&model->profile, model->profile.max_batch) / 1e6 : 0,
        .measured = model->measured.points,
        .measured_up_to = model->measured.table_len,
        .doubt = ready ? profile_doubt(&model->measured) : 0};
}

/* ---- for people ---- */

typedef struct {
    summary_model_t *models; /* NULL: no memory */
    char (*versions)[VERSION_BYTES];
    uint32_t count;
} summaries_t;

static void summaries_take(summaries_t *summaries, const served_t *served)
{
    *summaries = (summaries_t){.models = calloc(served->count + 1, sizeof(*summaries->models)),
                               .versions = calloc(served->count + 1, sizeof(*summaries->versions))};
    if (summaries->models && summaries->versions)
        summaries->count = served->count;
    for (uint32_t i = 0; i < summaries->count; i++)
        summaries->models[i] = summary_of(served->models[i], summaries->versions[i]);
}

static void summaries_dispose(summaries_t *summaries)
{
    free(summaries->models);
    free(summaries->versions);
}

void report_progress(const serve_t *serve, int64_t took_ns, bool colours, strbuf_t *out)
{
    summaries_t summaries;

    summaries_take(&summaries, serve_models(serve));
    summary_progress(summaries.models, summaries.count, (double)took_ns / 1e9, colours, out);
    summaries_dispose(&summaries);
}

void report_failure(const serve_t *serve, FILE *out)
{
    const served_t *served = serve_models(serve);

    for (uint32_t i = 0; i < served->count; i++)
        fprintf(out, "fermata serve: model %s is not ready: %s\n", served->models[i]->name,
                served->models[i]->load_err.text);
}

static void print_models(const served_t *served)
{
    summaries_t summaries;
    strbuf_t table;

    summaries_take(&summaries, served);
    strbuf_init(&table, TABLE_MAX_BYTES);
    summary_table(summaries.models, summaries.count, screen_room(stdout), screen_has_colours(stdout), &table);
    fputs(table.data, stdout);
    strbuf_dispose(&table);
    summaries_dispose(&summaries);
}

static bool takes_pictures(const model_t *model)
{
    return model->config.image.input[0] != '\0';
}

/* A ready one, of pictures where there is such; NULL: none is ready. */
static const model_t *one_to_try(const served_t *served)
{
    const model_t *found = NULL;
    for (uint32_t i = served->count; i-- > 0;) {
        const model_t *model = served->models[i];
        if (model->serving->state == MODEL_READY &&
            (!found || takes_pictures(model) || !takes_pictures(found)))
            found = model;
    }
    return found;
}

static void print_try(const serve_t *serve, const model_t *model)
{
    const char *keys = serve_keys(serve), *key = keys ? "-H \"Authorization: Bearer $KEY\" " : "";

    printf("\nTry:\n");
    if (keys)
        printf("  KEY=$(fermata key new NAME --keys %s)\n", keys);
    printf("  curl -s %shttp://%s/v2/models/%s\n", key, serve_http(serve), model->name);
    if (takes_pictures(model))
        printf("  curl -s %s-H 'Content-Type: image/png' --data-binary @PICTURE.png \\\n"
               "       'http://%s/v2/models/%s/infer?classification=3'\n",
               key, serve_http(serve), model->name);
}

void report_text(const serve_t *serve, int64_t took_ns, const char *log_folder)
{
    const served_t *served = serve_models(serve);
    const model_t *ready = one_to_try(served);

    printf("Fermata serves after %.2f s, in one process%s.\n\n", (double)took_ns / 1e9,
           serve_joins(serve) ? ", as a part of a cluster" : "");
    printf("  REST     http://%s\n  gRPC     %s\n  metrics  http://%s/metrics\n", serve_http(serve),
           serve_grpc(serve), serve_metrics(serve));
    if (!serve_joins(serve))
        printf("  state    http://%s/state\n", serve_metrics(serve));
    if (log_folder[0] != '\0')
        printf("  log      %s/serve.log\n", log_folder);
    printf("\nModels:\n");
    print_models(served);
    if (ready)
        print_try(serve, ready);
    printf("\nCtrl-C stops it.\n");
    fflush(stdout);
}

/* ---- for programs ---- */

void report_json(const serve_t *serve)
{
    const served_t *served = serve_models(serve);
    json_t *models = json_array();
    int pid = (int)getpid();
    char version[VERSION_BYTES];

    for (uint32_t i = 0; i < served->count; i++) {
        const summary_model_t summary = summary_of(served->models[i], version);
        json_array_append_new(models, summary_model_json(&summary));
    }
    json_t *report = json_pack("{s:{s:s, s:i, s:s}, s:[{s:s, s:i, s:s, s:s, s:s}], s:[{s:s, s:i, s:s}], s:o}",
                               "scheduler", "name", "serve", "pid", pid, "http", serve_metrics(serve),
                               "gateways", "name", "serve", "pid", pid, "http", serve_http(serve), "grpc",
                               serve_grpc(serve), "metrics", serve_metrics(serve), "workers", "name", "serve",
                               "pid", pid, "metrics", serve_metrics(serve), "models", models);
    json_dumpf(report, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(report);
}
