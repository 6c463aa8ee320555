#include "fermata/client/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

json_t *ask_json(const http_client_response_t *response)
{
    size_t len;
    if (!response)
        return NULL;
    const uint8_t *body = http_client_response_body(response, &len);
    return len > 0 ? json_loadb((const char *)body, len, 0, NULL) : NULL;
}

const char *ask_reason(const http_client_response_t *response, const err_t *err, char *text,
                       size_t text_bytes)
{
    json_t *body = ask_json(response);
    const char *said = json_string_value(json_object_get(body, "error"));
    if (!response)
        snprintf(text, text_bytes, "%s", err ? err->text : "no answer");
    else if (said)
        snprintf(text, text_bytes, "%s", said);
    else
        snprintf(text, text_bytes, "it answered %d (%s)", http_client_response_status(response),
                 http_status_text(http_client_response_status(response)));
    json_decref(body);
    return text;
}

static void copy_text(char *to, size_t to_bytes, const json_t *entry, const char *key)
{
    const char *text = json_string_value(json_object_get(entry, key));
    snprintf(to, to_bytes, "%s", text ? text : "");
}

/* A model that is on its way is shown as LOADING, or as UNAVAILABLE with a reason that says so or none
 * yet; one that waits to be loaded as UNAVAILABLE because it is unloaded, as in Triton. */
static model_readiness_t readiness_of(const char *state, const char *reason)
{
    if (strcmp(state, "READY") == 0)
        return MODEL_IS_READY;
    if (strcmp(state, "LOADING") == 0 || reason[0] == '\0')
        return MODEL_IS_LOADING;
    if (strcmp(state, "UNLOADING") == 0 || (strstr(reason, "unloaded") && !strstr(reason, "failed")))
        return MODEL_IS_UNLOADED;
    return strstr(reason, "loading") ? MODEL_IS_LOADING : MODEL_HAS_FAILED;
}

size_t ask_models(const json_t *index, model_state_t *models, size_t cap)
{
    size_t n = json_array_size(index);
    if (n > cap)
        n = cap;
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(index, i);
        char state[32];
        models[i] = (model_state_t){.name = ""};
        copy_text(models[i].name, sizeof models[i].name, entry, "name");
        copy_text(models[i].version, sizeof models[i].version, entry, "version");
        copy_text(models[i].reason, sizeof models[i].reason, entry, "reason");
        copy_text(state, sizeof state, entry, "state");
        models[i].readiness = readiness_of(state, models[i].reason);
    }
    return n;
}

size_t ask_listed(const json_t *state, model_state_t *models, size_t cap)
{
    const json_t *list = json_object_get(state, "models");
    size_t n = json_array_size(list);
    if (n > cap)
        n = cap;
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(list, i);
        models[i] = (model_state_t){.name = ""};
        copy_text(models[i].name, sizeof models[i].name, entry, "name");
        copy_text(models[i].reason, sizeof models[i].reason, entry, "reason");
        snprintf(models[i].version, sizeof models[i].version, "%lld",
                 (long long)json_integer_value(json_object_get(entry, "version")));
        bool ready = json_is_true(json_object_get(entry, "ready"));
        models[i].readiness = readiness_of(ready ? "READY" : "UNAVAILABLE", models[i].reason);
    }
    return n;
}

static model_state_t *find_model(model_state_t *models, size_t models_len, const json_t *entry)
{
    const char *name = json_string_value(json_object_get(entry, "name"));
    json_int_t version = json_integer_value(json_object_get(entry, "version"));
    for (size_t i = 0; i < models_len && name; i++)
        if (strcmp(models[i].name, name) == 0 && strtoll(models[i].version, NULL, 10) == version)
            return &models[i];
    return NULL;
}

static void read_latency(model_state_t *model, const json_t *entry)
{
    const json_t *latency = json_object_get(entry, "latency_ms"),
                 *profile = json_object_get(entry, "profile");
    model->max_batch = (uint32_t)json_integer_value(json_object_get(entry, "max_batch"));
    model->one_ms = json_number_value(json_object_get(latency, "one"));
    model->most_ms = json_number_value(json_object_get(latency, "most"));
    model->measured = (uint32_t)json_integer_value(json_object_get(profile, "measured"));
    model->measured_up_to = (uint32_t)json_integer_value(json_object_get(profile, "up_to"));
    model->doubt = json_number_value(json_object_get(profile, "doubt"));
}

void ask_modes(const json_t *state, model_state_t *models, size_t models_len)
{
    size_t at;
    json_t *entry;
    json_array_foreach(json_object_get(state, "models"), at, entry)
    {
        model_state_t *model = find_model(models, models_len, entry);
        if (!model)
            continue;
        copy_text(model->engine, sizeof model->engine, entry, "engine");
        copy_text(model->mode, sizeof model->mode, entry, "mode");
        copy_text(model->mode_reason, sizeof model->mode_reason, entry, "mode_reason");
        model->stages = (uint32_t)json_integer_value(json_object_get(entry, "stages"));
        model->exit_points = (uint32_t)json_integer_value(json_object_get(entry, "exit_points"));
        read_latency(model, entry);
    }
}

const char *model_readiness_name(model_readiness_t readiness)
{
    static const char *const names[] = {"ready", "loading", "failed", "unloaded"};
    return names[readiness];
}
