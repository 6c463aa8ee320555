/* What `fermata up` prints when it is ready. */
#include "fermata/up/up.h"

#include "base/clock.h"
#include "base/figures.h"
#include "base/file.h"
#include "screen/screen.h"
#include "summary/summary.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_MAX_BYTES = 4 << 20 };

/* An address to listen at is not one to connect to when it means "all". */
static const char *reachable(const char *address, char *text, size_t text_bytes)
{
    if (!address)
        address = "?";
    const char *port = strrchr(address, ':');
    bool all = strncmp(address, "0.0.0.0:", 8) == 0 || strncmp(address, "[::]:", 5) == 0;
    snprintf(text, text_bytes, "%s%s", all ? "127.0.0.1" : "", all ? port : address);
    return text;
}

static const member_t *first_of(const up_t *up, role_t role)
{
    for (size_t i = 0; i < up->members_len; i++)
        if (up->members[i].role == role)
            return &up->members[i];
    return NULL;
}

static const char *scheme_of(const up_t *up)
{
    return up->options->tls ? "https://" : "http://";
}

static void print_address(const char *name, const char *what, const char *scheme, const char *address,
                          const char *path)
{
    char text[128];
    printf("  %-12s %-8s %s%s%s\n", name, what, scheme, reachable(address, text, sizeof text), path);
}

/* threads: of each device of a worker; 0: as its own configuration says. */
static void print_member(const member_t *m, int64_t threads)
{
    const char *scheme = scheme_of(m->up);
    if (m->role == ROLE_WORKER) {
        print_address(m->name, "metrics", scheme, m->addresses.metrics, "/metrics");
        if (threads > 0)
            printf("  %-12s %-8s %lld a device\n", "", "threads", (long long)threads);
        return;
    }
    print_address(m->name, m->role == ROLE_GATEWAY ? "REST" : "HTTP", scheme, m->addresses.http, "");
    print_address("", "gRPC", "", m->addresses.grpc, "");
    if (m->role == ROLE_GATEWAY)
        print_address("", "metrics", scheme, m->addresses.metrics, "/metrics");
}

/* A picture beside the models, as examples/pictures is beside examples/models. */
static bool find_picture(const char *models, char *text, size_t text_bytes)
{
    char pattern[512];
    glob_t found;
    size_t len = models ? strlen(models) : 0;
    while (len > 0 && models[len - 1] == '/')
        len--;
    while (len > 0 && models[len - 1] != '/')
        len--;
    if (!models ||
        snprintf(pattern, sizeof pattern, "%.*spictures/*.jpg", (int)len, models) >= (int)sizeof pattern)
        return false;
    bool any = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc > 0;
    if (any)
        snprintf(text, text_bytes, "%s", found.gl_pathv[0]);
    globfree(&found);
    return any;
}

/* Good enough for a suggestion: whether the model's config.yaml has the key at the beginning of a line. */
static bool takes_pictures(const char *models, const char *name)
{
    char text[512];
    if (!models || snprintf(text, sizeof text, "%s/%s/config.yaml", models, name) >= (int)sizeof text)
        return false;
    FILE *file = NULL;
    bool found = false;
    if (file_open_stream(text, SIZE_MAX, &file, NULL) != STATUS_OK)
        return false;
    while (!found && fgets(text, sizeof text, file))
        found = strncmp(text, "preprocess:", strlen("preprocess:")) == 0;
    fclose(file);
    return found;
}

/* How a client that knows the authority connects. */
static void print_clients(const up_t *up, const char *http)
{
    const char *dir = up->options->tls_dir;
    char grpc[128], scheduler[128];
    reachable(first_of(up, ROLE_GATEWAY)->addresses.grpc, grpc, sizeof grpc);
    reachable(first_of(up, ROLE_SCHEDULER)->addresses.grpc, scheduler, sizeof scheduler);
    printf("  tritonclient.grpc.InferenceServerClient(\"%s\", ssl=True, root_certificates=\"%s/ca.crt\")\n",
           grpc, dir);
    printf("  tritonclient.http.InferenceServerClient(\"%s\", ssl=True, "
           "ssl_context_factory=lambda: ssl.create_default_context(cafile=\"%s/ca.crt\"))\n",
           http, dir);
    printf("  fermata cluster status --scheduler %s --tls-ca %s/ca.crt --tls-cert %s/admin.crt --tls-key "
           "%s/admin.key\n",
           scheduler, dir, dir, dir);
}

static void print_curl(const up_t *up)
{
    printf("  curl -s ");
    if (up->options->tls)
        printf("--cacert %s/ca.crt ", up->options->tls_dir);
    if (up->options->keys)
        printf("-H \"Authorization: Bearer $KEY\" ");
}

static void print_try(const up_t *up, const model_state_t *models, size_t models_len)
{
    char http[128], picture[512];
    const char *folder = up->options->models, *ready = NULL, *seeing = NULL;
    reachable(first_of(up, ROLE_GATEWAY)->addresses.http, http, sizeof http);
    for (size_t i = models_len; i-- > 0;) {
        if (models[i].readiness != MODEL_IS_READY)
            continue;
        ready = models[i].name;
        seeing = takes_pictures(folder, ready) ? ready : seeing;
    }
    if (!ready)
        return;
    const char *scheme = scheme_of(up);
    printf("\nTry:\n");
    if (up->options->keys)
        printf("  KEY=$(fermata key new NAME --keys %s)\n", up->options->keys);
    print_curl(up);
    printf("%s%s/v2/models/%s\n", scheme, http, seeing ? seeing : ready);
    if (seeing && find_picture(folder, picture, sizeof picture)) {
        print_curl(up);
        printf("-H 'Content-Type: image/jpeg' --data-binary @%s '%s%s/v2/models/%s/infer?classification=3'\n",
               picture, scheme, http, seeing);
    }
    if (up->options->tls)
        print_clients(up, http);
}

static summary_model_t summary_of(const model_state_t *model)
{
    return (summary_model_t){.name = model->name,
                             .version = model->version,
                             .state = model_readiness_name(model->readiness),
                             .reason = model->reason,
                             .ready = model->readiness == MODEL_IS_READY,
                             .engine = model->engine,
                             .mode = model->mode,
                             .mode_reason = model->mode_reason,
                             .stages = model->stages,
                             .exit_points = model->exit_points,
                             .max_batch = model->max_batch,
                             .one_ms = model->one_ms,
                             .most_ms = model->most_ms,
                             .measured = model->measured,
                             .measured_up_to = model->measured_up_to,
                             .doubt = model->doubt};
}

/* NULL: no memory. */
static summary_model_t *summaries_of(const model_state_t *models, size_t models_len)
{
    summary_model_t *summaries = calloc(models_len + 1, sizeof *summaries);
    for (size_t i = 0; summaries && i < models_len; i++)
        summaries[i] = summary_of(&models[i]);
    return summaries;
}

static void print_models(const model_state_t *models, size_t models_len)
{
    strbuf_t table;
    summary_model_t *summaries = summaries_of(models, models_len);
    strbuf_init(&table, TABLE_MAX_BYTES);
    if (summaries)
        summary_table(summaries, models_len, screen_room(stdout), screen_has_colours(stdout), &table);
    fputs(table.data, stdout);
    strbuf_dispose(&table);
    free(summaries);
}

static double seconds_of(const up_t *up)
{
    return (double)(clock_now_ns() - up->started_ns) / 1e9;
}

/* The services that have not said that they are ready. */
static void add_services(const up_t *up, strbuf_t *out)
{
    char number[FIGURES_BYTES];
    const char *comma = "";
    strbuf_printf(out, "Starting, %s: ", figures_time(ceil(seconds_of(up)), number, sizeof number));
    for (size_t i = 0; i < up->members_len; i++) {
        const member_t *m = &up->members[i];
        if (m->child && child_state(m->child) == CHILD_READY)
            continue;
        strbuf_printf(out, "%s%s", comma, m->name);
        comma = ", ";
    }
}

void up_report_start(const up_t *up, strbuf_t *out)
{
    size_t len = 0;
    const model_state_t *models = up->phase == UP_MODELS ? readiness_models(up->readiness, &len) : NULL;
    summary_model_t *summaries = summaries_of(models, len);
    if (up->phase < UP_MODELS)
        add_services(up, out);
    else if (summaries)
        summary_progress(summaries, len, seconds_of(up), screen_has_colours(up->screen.stream), out);
    strbuf_printf(out, "\nLogs: %s", up->log_folder);
    free(summaries);
}

void up_report_text(const up_t *up, const model_state_t *models, size_t models_len)
{
    printf("Fermata is up after %.1f s.\n\n", seconds_of(up));
    for (size_t i = 0; i < up->members_len; i++)
        print_member(&up->members[i], up->options->threads);
    if (up->log_folder[0] != '\0')
        printf("  %-12s %s/\n", "logs", up->log_folder);
    printf("\nModels:\n");
    print_models(models, models_len);
    print_try(up, models, models_len);
    printf("\nCtrl-C stops everything.\n");
    fflush(stdout);
}

static json_t *member_json(const member_t *m)
{
    json_t *object = json_pack("{s:s, s:i}", "name", m->name, "pid", child_pid(m->child));
    const char *const keys[] = {"http", "grpc", "metrics", "data"};
    const char *const values[] = {m->addresses.http, m->addresses.grpc, m->addresses.metrics,
                                  m->addresses.data};
    for (int i = 0; i < 4; i++)
        if (values[i])
            json_object_set_new(object, keys[i], json_string(values[i]));
    return object;
}

static json_t *members_json(const up_t *up, role_t role)
{
    json_t *array = json_array();
    for (size_t i = 0; i < up->members_len; i++)
        if (up->members[i].role == role)
            json_array_append_new(array, member_json(&up->members[i]));
    return array;
}

static json_t *models_json(const model_state_t *models, size_t models_len)
{
    json_t *array = json_array();
    for (size_t i = 0; i < models_len; i++) {
        const summary_model_t summary = summary_of(&models[i]);
        json_array_append_new(array, summary_model_json(&summary));
    }
    return array;
}

void up_report_json(const up_t *up, const model_state_t *models, size_t models_len)
{
    json_t *report =
        json_pack("{s:o, s:o, s:o, s:o, s:I}", "scheduler", member_json(first_of(up, ROLE_SCHEDULER)),
                  "gateways", members_json(up, ROLE_GATEWAY), "workers", members_json(up, ROLE_WORKER),
                  "models", models_json(models, models_len), "threads", (json_int_t)up->options->threads);
    json_dumpf(report, stdout, JSON_COMPACT);
    putchar('\n');
    fflush(stdout);
    json_decref(report);
}
