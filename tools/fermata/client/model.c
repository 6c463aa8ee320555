/* fermata model: what a gateway says about its models, and asking it to load and unload them. */
#include "fermata/client/ask.h"
#include "fermata/command.h"

#include "config/config.h"
#include "http/address.h"
#include "loop/loop.h"
#include "tls/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A load is answered when the model is ready, or when the scheduler has lost patience with its workers. */
enum { TIMEOUT_MS = 5000, LOAD_TIMEOUT_MS = 620000 };

typedef struct {
    const char *url, *api_key;
    tls_client_options_t tls;
    bool json;
} model_options_t;

static const config_option_t options[] = {
    {"url", CONFIG_STRING, "Gateway", "REST address of a gateway.", .def = "http://127.0.0.1:8000",
     .metavar = "URL", .offset = offsetof(model_options_t, url)},
    {"api_key", CONFIG_STRING, "Gateway", "Key to show to a gateway that wants one.", .metavar = "KEY",
     .offset = offsetof(model_options_t, api_key)},
    TLS_CLIENT_OPTIONS(model_options_t, "Gateway"),
    {"json", CONFIG_BOOL, "Output", "Print the gateway's answer as it is.",
     .offset = offsetof(model_options_t, json)},
};

static const config_schema_t schema = {
    .program = "fermata model",
    .summary = "Lists the models that a gateway knows, shows one of them, loads or unloads one.",
    .options = options,
    .options_len = sizeof options / sizeof *options,
    .positionals = "list | status NAME | load NAME | unload NAME",
};

/* One question: its answer, kept after the call. */
typedef struct {
    loop_t *loop;
    json_t *body;
    int status;
    bool answered;
    bool may_be_empty; /* the answer has no body when all is well */
    char reason[ASK_REASON_BYTES];
} answer_t;

static void on_answer(const http_client_response_t *response, const err_t *err, void *user)
{
    answer_t *answer = user;
    answer->answered = response;
    answer->status = response ? http_client_response_status(response) : 0;
    ask_reason(response, err, answer->reason, sizeof answer->reason);
    answer->body = ask_json(response);
    loop_stop(answer->loop);
}

static status_t ask_for(const model_options_t *o, const http_client_request_t *request, answer_t *answer,
                        err_t *err)
{
    http_client_t *client = NULL;
    http_client_config_t config = {.server = o->url, .connections_max = 1, .bearer = o->api_key};
    status_t st = tls_client_open(&o->tls, NULL, address_is_secure(o->url), &config.tls, err);
    if (st != STATUS_OK)
        return st;
    st = loop_create(&answer->loop, err);
    if (st == STATUS_OK)
        st = http_client_create(loop_uv(answer->loop), &config, &client, err);
    if (st == STATUS_OK)
        st = http_client_call(client, request, on_answer, answer, err);
    if (st == STATUS_OK)
        loop_run(answer->loop);
    http_client_destroy(client);
    if (answer->loop)
        loop_destroy(answer->loop);
    tls_context_destroy(config.tls);
    if (st != STATUS_OK)
        return st;
    if (!answer->answered)
        return err_set(err, STATUS_UNAVAILABLE, "%s: %s", o->url, answer->reason);
    if (answer->status == 200 && !answer->body && !answer->may_be_empty)
        return err_set(err, STATUS_IO, "%s: the answer is not JSON", o->url);
    return answer->status == 200 ? STATUS_OK : err_set(err, STATUS_NOT_FOUND, "%s", answer->reason);
}

static status_t ask(const model_options_t *o, http_method_t method, const char *target, answer_t *answer,
                    err_t *err)
{
    http_client_request_t request = {.method = method, .target = target, .timeout_ms = TIMEOUT_MS};
    *answer = (answer_t){0};
    return ask_for(o, &request, answer, err);
}

static void print_json(const json_t *body)
{
    json_dumpf(body, stdout, JSON_INDENT(2));
    putchar('\n');
}

static status_t list(const model_options_t *o, err_t *err)
{
    answer_t answer;
    status_t st = ask(o, HTTP_METHOD_POST, "/v2/repository/index", &answer, err);
    model_state_t *models = st == STATUS_OK ? calloc(ASK_MODELS_MAX, sizeof *models) : NULL;
    if (models && o->json) {
        print_json(answer.body);
    } else if (models) {
        size_t n = ask_models(answer.body, models, ASK_MODELS_MAX);
        printf("%-32s %-8s %-8s %s\n", "MODEL", "VERSION", "STATE", "REASON");
        for (size_t i = 0; i < n; i++)
            printf("%-32s %-8s %-8s %s\n", models[i].name, models[i].version,
                   model_readiness_name(models[i].readiness), models[i].reason);
    }
    free(models);
    json_decref(answer.body);
    return st;
}

static void print_tensors(const json_t *model, const char *which)
{
    size_t i;
    const json_t *tensor;
    json_array_foreach(json_object_get(model, which), i, tensor)
    {
        char *shape = json_dumps(json_object_get(tensor, "shape"), JSON_COMPACT);
        const char *name = json_string_value(json_object_get(tensor, "name"));
        const char *datatype = json_string_value(json_object_get(tensor, "datatype"));
        printf("  %-8s %s %s %s\n", which, name ? name : "?", datatype ? datatype : "?", shape ? shape : "?");
        free(shape);
    }
}

static void print_model(const json_t *model)
{
    const char *name = json_string_value(json_object_get(model, "name"));
    const char *platform = json_string_value(json_object_get(model, "platform"));
    char *versions = json_dumps(json_object_get(model, "versions"), JSON_COMPACT);
    printf("%s\n  platform %s\n  versions %s\n", name ? name : "?", platform ? platform : "?",
           versions ? versions : "?");
    free(versions);
    print_tensors(model, "inputs");
    print_tensors(model, "outputs");
}

/* "ready" or the reason why not; the answer's body may be empty when it is ready. */
static void print_ready(const model_options_t *o, const char *name)
{
    answer_t answer;
    err_t err = {0};
    char target[512];
    snprintf(target, sizeof target, "/v2/models/%s/ready", name);
    ask(o, HTTP_METHOD_GET, target, &answer, &err);
    printf("  state    %s\n", answer.status == 200 ? "ready" : err.text);
    json_decref(answer.body);
}

enum { TARGET_BYTES = 512 };

static status_t target_of(char target[TARGET_BYTES], const char *before, const char *name, const char *after,
                          err_t *err)
{
    if (strpbrk(name, "/?# ") || snprintf(target, TARGET_BYTES, "%s%s%s", before, name, after) >= 400)
        return err_set(err, STATUS_INVALID_ARGUMENT, "\"%.80s\" is not the name of a model", name);
    return STATUS_OK;
}

/* Through the gateway, at all workers whose repository has it. */
static status_t control(const model_options_t *o, const char *name, bool load, err_t *err)
{
    answer_t answer = {.may_be_empty = true};
    char target[TARGET_BYTES];
    if (target_of(target, "/v2/repository/models/", name, load ? "/load" : "/unload", err) != STATUS_OK)
        return err->code;
    http_client_request_t request = {
        .method = HTTP_METHOD_POST, .target = target, .timeout_ms = LOAD_TIMEOUT_MS};
    status_t st = ask_for(o, &request, &answer, err);
    if (st == STATUS_OK)
        printf("%s is %s\n", name, load ? "loaded" : "unloaded");
    json_decref(answer.body);
    return st;
}

static status_t status(const model_options_t *o, const char *name, err_t *err)
{
    answer_t answer;
    char target[TARGET_BYTES];
    if (target_of(target, "/v2/models/", name, "", err) != STATUS_OK)
        return err->code;
    status_t st = ask(o, HTTP_METHOD_GET, target, &answer, err);
    if (st == STATUS_OK && o->json)
        print_json(answer.body);
    if (st == STATUS_OK && !o->json) {
        print_model(answer.body);
        print_ready(o, name);
    }
    json_decref(answer.body);
    return st;
}

static int run(int argc, char **argv)
{
    model_options_t o;
    config_t *config;
    int exit_code;
    if (!config_start(&schema, argc, argv, &o, &config, &exit_code))
        return exit_code;
    err_t err = {0};
    size_t len;
    const char *const *words = config_positionals(config, &len);
    if (len == 1 && strcmp(words[0], "list") == 0) {
        exit_code = config_exit(&schema, list(&o, &err), &err);
    } else if (len == 2 && strcmp(words[0], "status") == 0) {
        exit_code = config_exit(&schema, status(&o, words[1], &err), &err);
    } else if (len == 2 && (strcmp(words[0], "load") == 0 || strcmp(words[0], "unload") == 0)) {
        exit_code = config_exit(&schema, control(&o, words[1], words[0][0] == 'l', &err), &err);
    } else {
        fprintf(stderr,
                "fermata model: say `list`, `status NAME`, `load NAME` or `unload NAME` (see --help)\n");
        exit_code = EXIT_CODE_USAGE;
    }
    config_destroy(config);
    return exit_code;
}

const command_t command_model = {"model", "list, show, load and unload models through a gateway", run};
