#include "model/parts/triton.h"

#include "config/ptext.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef status_t (*read_fn)(triton_config_t *config, const ptext_field_t *field, err_t *err);

/* One key: how it is read, or else why it is not taken up. */
typedef struct {
    const char *name;
    read_fn read;
    const char *why;
    bool repeated;
} entry_t;

enum { KEYS_MAX = 64 };

static const entry_t *find_key(const entry_t *keys, const char *name)
{
    while (keys->name && strcmp(keys->name, name) != 0)
        keys++;
    return keys->name ? keys : NULL;
}

/* The fields of a message by a table that ends with a row without a name. */
static status_t read_keys(triton_config_t *config, const ptext_field_t *message, const entry_t *keys,
                          const char *within, err_t *err)
{
    bool seen[KEYS_MAX] = {false};

    if (ptext_expect(message, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    for (const ptext_field_t *f = ptext_first(message); f; f = ptext_next(f)) {
        const entry_t *key = find_key(keys, ptext_name(f));
        if (!key) {
            triton_note(config, f, within, "unknown");
            continue;
        }
        if (seen[key - keys] && !key->repeated)
            return ptext_error(f, err, "'%s' stands twice", key->name);
        if (key->why && !seen[key - keys])
            triton_note(config, f, within, key->why);
        seen[key - keys] = true;
        if (key->read && key->read(config, f, err) != STATUS_OK)
            return err->code;
    }
    return STATUS_OK;
}

static status_t keep_string(const ptext_field_t *field, char to[TRITON_NAME_BYTES], err_t *err)
{
    const char *text = "";

    if (ptext_string(field, &text, err) != STATUS_OK)
        return err->code;
    if (strlen(text) >= TRITON_NAME_BYTES)
        return ptext_error(field, err, "'%s' is too long", ptext_name(field));
    (void)snprintf(to, TRITON_NAME_BYTES, "%s", text);
    return STATUS_OK;
}

/* A key whose usual value says nothing: false, 0, "", {}. */
static bool says_nothing(const ptext_field_t *field)
{
    switch (ptext_kind(field)) {
    case PTEXT_MESSAGE:
        return !ptext_first(field);
    case PTEXT_STRING:
        return !*ptext_text(field);
    case PTEXT_WORD:
        break;
    }
    return strcmp(ptext_text(field), "false") == 0 || strcmp(ptext_text(field), "0") == 0;
}

/* ---- who runs it ---- */

static status_t unsupported(const ptext_field_t *field, const char *what, err_t *err)
{
    if (ptext_error(field, err, "%s", what) != STATUS_NO_MEMORY)
        err->code = STATUS_UNSUPPORTED;
    return err->code;
}

static status_t check_runner(const ptext_field_t *field, const char *served, err_t *err)
{
    const char *text = "";
    char what[TRITON_NAME_BYTES + 160];

    if (ptext_string(field, &text, err) != STATUS_OK)
        return err->code;
    if (!*text || strcmp(text, served) == 0)
        return STATUS_OK;
    if (strcmp(text, "ensemble") == 0)
        return unsupported(field, "ensembles are not served; models of the onnxruntime backend are", err);
    (void)snprintf(what, sizeof(what),
                   "models of the %s '%.60s' are not served; those of the backend 'onnxruntime' (platform "
                   "'onnxruntime_onnx') are",
                   ptext_name(field), text);
    return unsupported(field, what, err);
}

static status_t read_platform(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    (void)config;
    return check_runner(field, "onnxruntime_onnx", err);
}

static status_t read_backend(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    (void)config;
    return check_runner(field, "onnxruntime", err);
}

static status_t refuse_ensemble(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    (void)config;
    return unsupported(field, "ensembles are not served", err);
}

static status_t refuse_state(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    (void)config;
    return unsupported(field, "models that keep a state between requests (sequence_batching) are not served",
                       err);
}

static status_t refuse_ragged(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    (void)config;
    return unsupported(field, "inputs and outputs that are made of a batch are not served", err);
}

static status_t read_decoupled(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    bool decoupled = false;

    (void)config;
    if (ptext_bool(field, &decoupled, err) != STATUS_OK)
        return err->code;
    return decoupled ? unsupported(field, "decoupled models are not served: a request has one answer", err)
                     : STATUS_OK;
}

static status_t read_transaction(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    static const entry_t keys[] = {{.name = "decoupled", .read = read_decoupled}, {.name = NULL}};

    return read_keys(config, field, keys, "model_transaction_policy", err);
}

/* ---- what it is ---- */

static status_t read_name(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    config->name_line = ptext_line(field);
    return keep_string(field, config->name, err);
}

static status_t read_file_name(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    if (keep_string(field, config->file, err) != STATUS_OK)
        return err->code;
    if (strchr(config->file, '/') || config->file[0] == '.')
        return ptext_error(field, err, "default_model_filename names a file in the folder of a version");
    return STATUS_OK;
}

static status_t read_max_batch(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    int64_t value;

    if (ptext_int64(field, 0, INT32_MAX, &value, err) != STATUS_OK)
        return err->code;
    if (value > ENGINE_MAX_BATCH) {
        triton_note(config, field, "", "batches have 1024 rows at most");
        value = ENGINE_MAX_BATCH;
    }
    config->has_batch = true;
    config->max_batch = (uint32_t)value;
    config->batch_line = ptext_line(field);
    return STATUS_OK;
}

static status_t read_input(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    return triton_read_tensor(config, field, true, err);
}

static status_t read_output(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    return triton_read_tensor(config, field, false, err);
}

/* ---- versions ---- */

static status_t read_latest(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    const ptext_field_t *count = ptext_get(field, "num_versions");
    int64_t value = 1;

    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK ||
        (count && ptext_int64(count, 1, INT32_MAX, &value, err) != STATUS_OK))
        return err->code;
    config->versions.kind = VERSIONS_LATEST;
    config->versions.count = value < MODEL_VERSIONS_MAX ? (uint32_t)value : MODEL_VERSIONS_MAX;
    return STATUS_OK;
}

static status_t read_all_versions(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    config->versions.kind = VERSIONS_ALL;
    return ptext_expect(field, PTEXT_MESSAGE, err);
}

static status_t read_specific(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    version_policy_t *policy = &config->versions;

    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    policy->kind = VERSIONS_SPECIFIC;
    for (const ptext_field_t *f = ptext_first(field); f; f = ptext_next(f)) {
        if (strcmp(ptext_name(f), "versions") != 0 || policy->count == MODEL_VERSIONS_MAX)
            return ptext_error(f, err, "specific: 1 to %d versions", MODEL_VERSIONS_MAX);
        if (ptext_int64(f, 1, INT64_MAX, &policy->list[policy->count++], err) != STATUS_OK)
            return err->code;
    }
    if (policy->count == 0)
        return ptext_error(field, err, "specific: 1 to %d versions", MODEL_VERSIONS_MAX);
    return STATUS_OK;
}

static status_t read_versions(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    static const entry_t keys[] = {{.name = "latest", .read = read_latest},
                                   {.name = "all", .read = read_all_versions},
                                   {.name = "specific", .read = read_specific},
                                   {.name = NULL}};

    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    const ptext_field_t *first = ptext_first(field);
    if (first && ptext_next(first))
        return ptext_error(ptext_next(first), err, "version_policy is one of latest, all and specific");
    config->has_versions = first && find_key(keys, ptext_name(first));
    config->versions_line = ptext_line(field);
    return read_keys(config, field, keys, "version_policy", err);
}

/* ---- batching ---- */

static const char queue_key[] = "dynamic_batching.default_queue_policy";

static status_t read_timeout(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    int64_t us = 0;

    if (ptext_int64(field, 0, INT64_C(3600) * 1000 * 1000, &us, err) != STATUS_OK)
        return err->code;
    config->slo_ns = us * 1000;
    config->slo_line = ptext_line(field);
    return STATUS_OK;
}

static status_t read_timeout_action(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    if (ptext_expect(field, PTEXT_WORD, err) != STATUS_OK)
        return err->code;
    if (strcmp(ptext_text(field), "REJECT") != 0 && strcmp(ptext_text(field), "0") != 0)
        triton_note(config, field, queue_key, "a request whose deadline has passed is refused");
    return STATUS_OK;
}

static status_t read_override(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    bool allowed = true;

    if (ptext_bool(field, &allowed, err) != STATUS_OK)
        return err->code;
    if (!allowed)
        triton_note(config, field, queue_key, "a request may always bring its own timeout");
    return STATUS_OK;
}

static status_t read_queue_policy(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    static const entry_t keys[] = {
        {.name = "timeout_action", .read = read_timeout_action},
        {.name = "default_timeout_microseconds", .read = read_timeout},
        {.name = "allow_timeout_override", .read = read_override},
        {.name = "max_queue_size", .why = "what waits is bounded by its deadlines"},
        {.name = NULL}};

    return read_keys(config, field, keys, queue_key, err);
}

static status_t read_ordering(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    if (!says_nothing(field))
        triton_note(config, field, "dynamic_batching", "answers come as their batches end");
    return err->code;
}

static status_t read_dynamic_batching(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    static const char priorities[] =
        "config.yaml and requests give priorities of 0 to 255, the highest first";
    static const entry_t keys[] = {
        {.name = "preferred_batch_size",
         .why = "a batch is as large as its deadlines allow",
         .repeated = true},
        {.name = "max_queue_delay_microseconds", .why = "a batch waits for as long as its deadlines allow"},
        {.name = "preserve_ordering", .read = read_ordering},
        {.name = "priority_levels", .why = priorities},
        {.name = "default_priority_level", .why = priorities},
        {.name = "default_queue_policy", .read = read_queue_policy},
        {.name = "priority_queue_policy", .why = priorities, .repeated = true},
        {.name = NULL}};

    return read_keys(config, field, keys, "dynamic_batching", err);
}

/* ---- where it runs ---- */

static status_t read_count(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    int64_t count = 1;

    if (ptext_int64(field, 0, INT32_MAX, &count, err) == STATUS_OK && count > 1)
        triton_note(config, field, "instance_group",
                    "a model has one instance on each device of the workers");
    return err->code;
}

static status_t read_kind(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    if (ptext_expect(field, PTEXT_WORD, err) == STATUS_OK && strcmp(ptext_text(field), "KIND_AUTO") != 0)
        triton_note(config, field, "instance_group", "the workers' --engine says what models run on");
    return err->code;
}

static status_t read_instances(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    static const char devices[] = "the workers' devices say where models run";
    static const entry_t keys[] = {
        {.name = "name"},
        {.name = "count", .read = read_count},
        {.name = "kind", .read = read_kind},
        {.name = "gpus", .why = devices, .repeated = true},
        {.name = "secondary_devices", .why = devices, .repeated = true},
        {.name = "profile", .why = "it is TensorRT's", .repeated = true},
        {.name = "rate_limiter", .why = "the scheduler shares devices by deadlines"},
        {.name = "passive", .why = devices},
        {.name = "host_policy", .why = devices},
        {.name = NULL}};

    return read_keys(config, field, keys, "instance_group", err);
}

static status_t read_parameter(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    const ptext_field_t *key = ptext_get(field, "key");
    char within[TRITON_KEY_BYTES];

    if (ptext_expect(field, PTEXT_MESSAGE, err) != STATUS_OK)
        return err->code;
    (void)snprintf(within, sizeof(within), "parameters %.40s", key ? ptext_text(key) : "");
    triton_note(config, field, "", "it is Triton's or its backend's");
    if (config->note_count && !config->notes_left_out)
        (void)snprintf(config->notes[config->note_count - 1].key, TRITON_KEY_BYTES, "%s", within);
    return STATUS_OK;
}

static status_t read_cache(triton_config_t *config, const ptext_field_t *field, err_t *err)
{
    const ptext_field_t *enable = ptext_get(field, "enable");

    if (ptext_expect(field, PTEXT_MESSAGE, err) == STATUS_OK && enable && !says_nothing(enable))
        triton_note(config, field, "", "answers are not cached");
    return err->code;
}

static const entry_t top_keys[] = {
    {.name = "name", .read = read_name},
    {.name = "platform", .read = read_platform},
    {.name = "backend", .read = read_backend},
    {.name = "runtime", .why = "it is the backend's"},
    {.name = "version_policy", .read = read_versions},
    {.name = "max_batch_size", .read = read_max_batch},
    {.name = "input", .read = read_input, .repeated = true},
    {.name = "output", .read = read_output, .repeated = true},
    {.name = "batch_input", .read = refuse_ragged, .repeated = true},
    {.name = "batch_output", .read = refuse_ragged, .repeated = true},
    {.name = "optimization", .why = "config.yaml has engine and precision"},
    {.name = "dynamic_batching", .read = read_dynamic_batching},
    {.name = "sequence_batching", .read = refuse_state},
    {.name = "ensemble_scheduling", .read = refuse_ensemble},
    {.name = "instance_group", .read = read_instances, .repeated = true},
    {.name = "default_model_filename", .read = read_file_name},
    {.name = "cc_model_filenames", .why = "it is TensorRT's", .repeated = true},
    {.name = "metric_tags", .why = "metrics have the labels model and version", .repeated = true},
    {.name = "parameters", .read = read_parameter, .repeated = true},
    {.name = "model_warmup", .why = "every batch size is run before a model serves", .repeated = true},
    {.name = "model_operations", .why = "operators of other libraries are not loaded"},
    {.name = "model_transaction_policy", .read = read_transaction},
    {.name = "model_repository_agents", .why = "the files are read as they are"},
    {.name = "response_cache", .read = read_cache},
    {.name = "model_metrics", .why = "metrics are the same for all models"},
    {.name = NULL}};

static status_t read_root(triton_config_t *config, const ptext_field_t *root, err_t *err)
{
    status_t status = read_keys(config, root, top_keys, "", err);

    /* Triton takes a model that it is told of but for max_batch_size to have no batch dimension. */
    if (status == STATUS_OK && !config->has_batch && config->tensor_count > 0) {
        config->has_batch = true;
        config->batch_line = config->tensors[0].line;
    }
    return status;
}

status_t triton_config_take(const ptext_field_t *root, triton_config_t **out, err_t *err)
{
    triton_config_t *config = calloc(1, sizeof(*config));

    if (!config)
        return err_set(err, STATUS_NO_MEMORY, "no memory");
    err->code = STATUS_OK; /* some readers hand on what it says */
    status_t status = read_root(config, root, err);
    if (status == STATUS_OK)
        *out = config;
    else
        free(config);
    return status;
}

status_t triton_config_read(const char *model_dir, triton_config_t **out, err_t *err)
{
    char path[PATH_MAX];
    struct stat info;
    ptext_t *doc;

    *out = NULL;
    if (snprintf(path, sizeof(path), "%s/config.pbtxt", model_dir) >= (int)sizeof(path))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    if (stat(path, &info) != 0)
        return STATUS_OK;
    status_t status = ptext_load(path, &doc, err);
    if (status != STATUS_OK)
        return status;
    status = triton_config_take(ptext_root(doc), out, err);
    ptext_destroy(doc);
    return status;
}
