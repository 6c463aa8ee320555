#include "serve/report.h"

#include "profile/profile.h"
#include "worker/state/served.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* ---- for people ---- */

static void print_latency(const model_t *model)
{
    const profile_t *profile = &model->profile;

    printf("; 1 row takes %.3g ms", (double)profile_latency_ns(profile, 1) / 1e6);
    if (profile->max_batch > 1)
        printf(", %u take %.3g", profile->max_batch,
               (double)profile_latency_ns(profile, profile->max_batch) / 1e6);
    if (model->measured.points > 0)
        printf(" (%u size%s measured, up to %u%s)", model->measured.points,
               model->measured.points > 1 ? "s" : "", model->measured.table_len,
               profile_doubt(&model->measured) > PROFILE_DOUBT_MOST ? ", beside other work" : "");
}

static void print_model(const model_t *model)
{
    const char *why = model->load_status == STATUS_OK ? model->choice.why : model->load_err.text;

    printf("  %s, version %lld: %s", model->name, (long long)model->version,
           model_state_name(model->serving->state));
    if (model->choice.mode != MODE_WHOLE)
        printf(", %s", model_mode_names[model->choice.mode]);
    printf("%s%s", *why ? ": " : "", why);
    if (model->serving->state == MODEL_READY)
        print_latency(model);
    printf("\n");
}

static const model_t *first_ready(const served_t *served)
{
    for (uint32_t i = 0; i < served->count; i++) {
        if (served->models[i]->serving->state == MODEL_READY)
            return served->models[i];
    }
    return NULL;
}

void report_text(const serve_t *serve, int64_t took_ns)
{
    const served_t *served = serve_models(serve);
    const model_t *ready = first_ready(served);

    printf("Fermata serves after %.2f s, in one process%s.\n\n", (double)took_ns / 1e9,
           serve_joins(serve) ? ", as a part of a cluster" : "");
    printf("  REST http://%s   gRPC %s   metrics http://%s/metrics", serve_http(serve), serve_grpc(serve),
           serve_metrics(serve));
    if (!serve_joins(serve))
        printf("   state http://%s/state", serve_metrics(serve));
    printf("\n\nModels:\n");
    for (uint32_t i = 0; i < served->count; i++)
        print_model(served->models[i]);
    if (ready)
        printf("\nTry:\n  curl -s http://%s/v2/models/%s\n", serve_http(serve), ready->name);
    printf("\nCtrl-C stops it.\n");
    fflush(stdout);
}

/* ---- for programs ---- */

static json_t *model_json(const model_t *model)
{
    char version[24];
    bool ready = model->serving->state == MODEL_READY;
    const char *reason = model->load_status == STATUS_OK ? "" : model->load_err.text;

    snprintf(version, sizeof(version), "%lld", (long long)model->version);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:f, s:i, s:i, s:f}", "name", model->name,
                     "version", version, "state", model_state_name(model->serving->state), "reason", reason,
                     "mode", model_mode_names[model->choice.mode], "mode_reason", model->choice.why, "stages",
                     model->choice.stages ? (int)model->choice.stages->count : 0, "exit_points",
                     (int)model->choice.exit_points, "latency_ms",
                     ready ? (double)profile_latency_ns(&model->profile, 1) / 1e6 : 0.0, "measured",
                     (int)model->measured.points, "measured_up_to", (int)model->measured.table_len, "doubt",
                     ready ? profile_doubt(&model->measured) : 0.0);
}

void report_json(const serve_t *serve)
{
    const served_t *served = serve_models(serve);
    json_t *models = json_array();
    int pid = (int)getpid();

    for (uint32_t i = 0; i < served->count; i++)
        json_array_append_new(models, model_json(served->models[i]));
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
