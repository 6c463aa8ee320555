#include "model/parts/config.h"

#include "base/file.h"
#include "config/ydoc.h"
#include "exec/staged.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char *const keys[] = {
    "slo_ms",         "max_batch",      "preprocess",   "postprocess", "labels", "mode", "priority",
    "version",        "version_policy", "precision",    "emulate",     "staged", "dims", "pad_value",
    "profile_shapes", "engine",         "string_bytes", "providers",   NULL};
const char *const model_cpu_engines[] = {"auto", "onnxruntime", "openvino", "onednn", NULL};
const char *const model_engines[] = {"auto",     "onnxruntime", "openvino",  "onednn",
                                     "emulated", "cuda",        "reference", NULL};
static const char *const precisions[] = {"fp32", "tf32", "fp16", "bf16", NULL};

/* The parts must cost less by what measured times may be off. */
static const double SPLIT_SLACK = -0.05;

enum { TEXT_BYTES = 512, LABEL_BYTES = 4096 };

void model_config_init(model_config_t *config)
{
    *config = (model_config_t){
        .mode = MODE_WHOLE, .split_slack = SPLIT_SLACK, .versions = {.kind = VERSIONS_LATEST, .count = 1}};
    image_pipeline_init(&config->image);
}

void model_config_dispose(model_config_t *config)
{
    for (uint32_t i = 0; i < config->label_count; i++)
        free(config->labels[i]);
    free(config->labels);
    config->labels = NULL;
    config->label_count = 0;
    free(config->triton);
    config->triton = NULL;
}

/* A scalar as it stands, a list as its scalars with commas: what image_pipeline_set takes. */
static status_t node_text(const ydoc_node_t *node, char text[TEXT_BYTES], err_t *err)
{
    const char *scalar;
    size_t used = 0;

    if (ydoc_kind(node) == YDOC_SCALAR) {
        if (ydoc_string(node, &scalar, err) != STATUS_OK)
            return err->code;
        snprintf(text, TEXT_BYTES, "%s", scalar);
        return STATUS_OK;
    }
    text[0] = '\0';
    for (size_t i = 0; i < ydoc_len(node); i++) {
        if (ydoc_string(ydoc_at(node, i), &scalar, err) != STATUS_OK)
            return err->code;
        used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s", i ? "," : "", scalar);
        if (used >= TEXT_BYTES)
            return ydoc_error(node, err, "too long");
    }
    return STATUS_OK;
}

/* preprocess: {resize: {width: 8}} becomes preprocess.resize.width=8. */
static status_t read_pipeline(const ydoc_node_t *node, const char *path, image_pipeline_t *image, err_t *err)
{
    char text[TEXT_BYTES], child[128];
    err_t inner;

    if (ydoc_kind(node) != YDOC_MAP) {
        if (node_text(node, text, err) != STATUS_OK)
            return err->code;
        if (image_pipeline_set(image, path, text, &inner) != STATUS_OK)
            return ydoc_error(node, err, "%s", inner.text);
        return STATUS_OK;
    }
    for (size_t i = 0; i < ydoc_len(node); i++) {
        const ydoc_node_t *entry = ydoc_at(node, i);
        if (snprintf(child, sizeof(child), "%s.%s", path, ydoc_key(entry)) >= (int)sizeof(child))
            return ydoc_error(entry, err, "unknown key");
        if (read_pipeline(entry, child, image, err) != STATUS_OK)
            return err->code;
    }
    return STATUS_OK;
}

static status_t read_ms(const ydoc_node_t *node, double max_ms, int64_t *ns, err_t *err)
{
    double ms;

    if (ydoc_double(node, 0, max_ms, &ms, err) != STATUS_OK)
        return err->code;
    *ns = llround(ms * 1e6);
    return STATUS_OK;
}

static status_t read_emulate(const ydoc_node_t *node, model_config_t *config, err_t *err)
{
    static const char *const allowed[] = {"alpha_ms", "beta_ms", NULL};
    const ydoc_node_t *alpha = ydoc_get(node, "alpha_ms"), *beta = ydoc_get(node, "beta_ms");

    if (ydoc_expect(node, YDOC_MAP, err) != STATUS_OK || ydoc_check_keys(node, allowed, err) != STATUS_OK)
        return err->code;
    if (!alpha || !beta)
        return ydoc_error(node, err, "emulate needs alpha_ms and beta_ms");
    if (read_ms(alpha, 3600e3, &config->alpha_ns, err) != STATUS_OK ||
        read_ms(beta, 3600e3, &config->beta_ns, err) != STATUS_OK)
        return err->code;
    config->has_line = true;
    return STATUS_OK;
}

static status_t read_staged(const ydoc_node_t *node, model_config_t *config, err_t *err)
{
    static const char *const allowed[] = {"stages", "comp_wait_ms", "split_slack", "schedule", NULL};
    static const char *const schedules[] = {"granted", "input", "operator", "load", "combined", NULL};
    const ydoc_node_t *entry;
    int64_t stages;
    int choice;

    if (ydoc_expect(node, YDOC_MAP, err) != STATUS_OK || ydoc_check_keys(node, allowed, err) != STATUS_OK)
        return err->code;
    if ((entry = ydoc_get(node, "stages"))) {
        if (ydoc_int64(entry, 2, STAGED_STAGES_MAX, &stages, err) != STATUS_OK)
            return err->code;
        config->stages = (uint32_t)stages;
    }
    if ((entry = ydoc_get(node, "comp_wait_ms")) &&
        read_ms(entry, 3600e3, &config->comp_wait_ns, err) != STATUS_OK)
        return err->code;
    if ((entry = ydoc_get(node, "split_slack")) &&
        ydoc_double(entry, -1, 10, &config->split_slack, err) != STATUS_OK)
        return err->code;
    if ((entry = ydoc_get(node, "schedule"))) {
        if (ydoc_choice(entry, schedules, &choice, err) != STATUS_OK)
            return err->code;
        snprintf(config->schedule, sizeof(config->schedule), "%s", schedules[choice]);
    }
    return STATUS_OK;
}

static status_t read_numbers(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    const ydoc_node_t *node;
    int64_t value;

    if ((node = ydoc_get(root, "slo_ms"))) {
        if (read_ms(node, 3600e3, &config->slo_ns, err) != STATUS_OK)
            return err->code;
        if (config->slo_ns == 0)
            return ydoc_error(node, err, "slo_ms must be above 0");
    }
    if ((node = ydoc_get(root, "max_batch"))) {
        if (ydoc_int64(node, 1, ENGINE_MAX_BATCH, &value, err) != STATUS_OK)
            return err->code;
        config->max_batch = (uint32_t)value;
    }
    if ((node = ydoc_get(root, "priority"))) {
        if (ydoc_int64(node, 0, 255, &value, err) != STATUS_OK)
            return err->code;
        config->priority = (uint32_t)value;
    }
    if ((node = ydoc_get(root, "string_bytes"))) {
        if (ydoc_int64(node, 1, MODEL_STRING_BYTES_MAX, &value, err) != STATUS_OK)
            return err->code;
        config->string_bytes = (uint32_t)value;
    }
    return STATUS_OK;
}

/* ---- versions ---- */

static status_t read_specific(const ydoc_node_t *list, version_policy_t *policy, err_t *err)
{
    policy->kind = VERSIONS_SPECIFIC;
    policy->count = 0;
    if (ydoc_expect(list, YDOC_LIST, err) != STATUS_OK)
        return err->code;
    if (ydoc_len(list) == 0 || ydoc_len(list) > MODEL_VERSIONS_MAX)
        return ydoc_error(list, err, "specific: 1 to %d versions", MODEL_VERSIONS_MAX);
    for (size_t i = 0; i < ydoc_len(list); i++)
        if (ydoc_int64(ydoc_at(list, i), 1, INT64_MAX, &policy->list[policy->count++], err) != STATUS_OK)
            return err->code;
    return STATUS_OK;
}

/* `all`, or a map with one of `latest: N`, `specific: [N, ...]`. */
static status_t read_version_policy(const ydoc_node_t *node, version_policy_t *policy, err_t *err)
{
    static const char *const words[] = {"all", NULL}, *const allowed[] = {"latest", "specific", NULL};
    const ydoc_node_t *latest, *specific;
    int64_t count;
    int choice;

    if (ydoc_kind(node) == YDOC_SCALAR) {
        *policy = (version_policy_t){.kind = VERSIONS_ALL};
        return ydoc_choice(node, words, &choice, err);
    }
    if (ydoc_expect(node, YDOC_MAP, err) != STATUS_OK || ydoc_check_keys(node, allowed, err) != STATUS_OK)
        return err->code;
    latest = ydoc_get(node, "latest");
    specific = ydoc_get(node, "specific");
    if (!latest == !specific)
        return ydoc_error(node, err, "version_policy is all, {latest: N} or {specific: [N, ...]}");
    if (specific)
        return read_specific(specific, policy, err);
    if (ydoc_int64(latest, 1, MODEL_VERSIONS_MAX, &count, err) != STATUS_OK)
        return err->code;
    *policy = (version_policy_t){.kind = VERSIONS_LATEST, .count = (uint32_t)count};
    return STATUS_OK;
}

/* `version: N` is short for `version_policy: {specific: [N]}`. */
static status_t read_versions(const ydoc_node_t *root, version_policy_t *policy, err_t *err)
{
    const ydoc_node_t *one = ydoc_get(root, "version"), *node = ydoc_get(root, "version_policy");

    if (one && node)
        return ydoc_error(one, err, "version and version_policy exclude each other");
    if (node)
        return read_version_policy(node, policy, err);
    if (!one)
        return STATUS_OK;
    *policy = (version_policy_t){.kind = VERSIONS_SPECIFIC, .count = 1};
    return ydoc_int64(one, 1, INT64_MAX, &policy->list[0], err);
}

/* Which there are the engine knows, and its library. */
static status_t read_providers(const ydoc_node_t *node, model_config_t *config, err_t *err)
{
    char text[TEXT_BYTES];

    if (node_text(node, text, err) != STATUS_OK)
        return err->code;
    if (strlen(text) >= sizeof(config->providers))
        return ydoc_error(node, err, "too long");
    memcpy(config->providers, text, strlen(text) + 1);
    if (config->engine[0] && strcmp(config->engine, "onnxruntime") != 0)
        return ydoc_error(node, err, "providers are those of engine onnxruntime, not of %s", config->engine);
    snprintf(config->engine, sizeof(config->engine), "onnxruntime");
    return STATUS_OK;
}

static status_t read_choices(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    const ydoc_node_t *node;
    int choice;

    if ((node = ydoc_get(root, "mode"))) {
        if (ydoc_choice(node, model_mode_names, &choice, err) != STATUS_OK)
            return err->code;
        config->has_mode = true;
        config->mode = (model_mode_t)choice;
    }
    if ((node = ydoc_get(root, "precision"))) {
        if (ydoc_choice(node, precisions, &choice, err) != STATUS_OK)
            return err->code;
        config->precision = (engine_precision_t)choice;
    }
    if ((node = ydoc_get(root, "engine"))) {
        if (ydoc_choice(node, model_cpu_engines, &choice, err) != STATUS_OK)
            return err->code;
        snprintf(config->engine, sizeof(config->engine), "%s", choice == 0 ? "" : model_cpu_engines[choice]);
    }
    return (node = ydoc_get(root, "providers")) ? read_providers(node, config, err) : STATUS_OK;
}

static status_t add_label(model_config_t *config, const char *line)
{
    char **labels = config->labels;

    /* Doubles whenever the count is a power of two. */
    if ((config->label_count & (config->label_count - 1)) == 0) {
        size_t capacity = config->label_count ? (size_t)config->label_count * 2 : 1;
        labels = realloc(labels, capacity * sizeof(*labels));
        if (!labels)
            return STATUS_NO_MEMORY;
        config->labels = labels;
    }
    labels[config->label_count] = strdup(line);
    if (!labels[config->label_count])
        return STATUS_NO_MEMORY;
    config->label_count++;
    return STATUS_OK;
}

static status_t read_label(const char *path, char line[LABEL_BYTES], bool last, model_config_t *config,
                           err_t *err)
{
    unsigned number = config->label_count + 1;
    size_t len = strcspn(line, "\r\n");

    if (!line[len] && !last)
        return err_set(err, STATUS_TOO_LARGE, "%.200s:%u: the label has over %d bytes, or a zero in it", path,
                       number, LABEL_BYTES - 1);
    if (config->label_count == MODEL_LABELS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "%.200s:%u: more than %d labels", path, number,
                       MODEL_LABELS_MAX);
    line[len] = '\0';
    if (add_label(config, line) != STATUS_OK)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    return STATUS_OK;
}

static status_t read_label_file(const char *path, model_config_t *config, err_t *err)
{
    FILE *file;
    char line[LABEL_BYTES];
    status_t status = file_open_stream(path, (size_t)MODEL_LABELS_MAX * LABEL_BYTES, &file, err);

    if (status != STATUS_OK)
        return status;
    while (status == STATUS_OK && fgets(line, sizeof(line), file))
        status = read_label(path, line, feof(file) != 0, config, err);
    fclose(file);
    return status;
}

static status_t read_labels(const ydoc_node_t *node, const char *model_dir, model_config_t *config,
                            err_t *err)
{
    char path[PATH_MAX];
    const char *name = config->triton ? config->triton->labels : "";

    if (node) {
        if (ydoc_string(node, &name, err) != STATUS_OK)
            return err->code;
        if (!name[0] || strchr(name, '/') || name[0] == '.')
            return ydoc_error(node, err, "labels must name a file in the model's own folder");
    }
    if (!name[0])
        return STATUS_OK;
    if (snprintf(path, sizeof(path), "%s/%s", model_dir, name) >= (int)sizeof(path))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    return read_label_file(path, config, err);
}

/* ---- config.pbtxt beside it ---- */

static status_t contradicts(const ydoc_node_t *node, const char *value, int line, err_t *err)
{
    const char *text = NULL;
    err_t none;

    if (ydoc_kind(node) != YDOC_SCALAR || ydoc_string(node, &text, &none) != STATUS_OK)
        text = NULL;
    return ydoc_error(node, err, "%s%scontradicts %s in config.pbtxt:%d", text ? text : "", text ? " " : "",
                      value, line);
}

static status_t join_batch(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    const triton_config_t *triton = config->triton;
    const ydoc_node_t *node = ydoc_get(root, "max_batch");
    char value[48];

    if (!triton->has_batch)
        return STATUS_OK;
    (void)snprintf(value, sizeof(value), "max_batch_size %u", triton->max_batch);
    if (node && config->max_batch != (triton->max_batch ? triton->max_batch : 1))
        return contradicts(node, value, triton->batch_line, err);
    config->max_batch = triton->max_batch;
    config->batching = triton->max_batch ? ENGINE_BATCH_FORCE : ENGINE_BATCH_NONE;
    return STATUS_OK;
}

static status_t join_slo(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    const triton_config_t *triton = config->triton;
    const ydoc_node_t *node = ydoc_get(root, "slo_ms");
    char value[64];

    if (triton->slo_ns == 0)
        return STATUS_OK;
    (void)snprintf(value, sizeof(value), "default_timeout_microseconds %lld",
                   (long long)triton->slo_ns / 1000);
    if (node && config->slo_ns != triton->slo_ns)
        return contradicts(node, value, triton->slo_line, err);
    config->slo_ns = triton->slo_ns;
    return STATUS_OK;
}

static bool same_versions(const version_policy_t *a, const version_policy_t *b)
{
    if (a->kind != b->kind || (a->kind != VERSIONS_ALL && a->count != b->count))
        return false;
    for (uint32_t i = 0; a->kind == VERSIONS_SPECIFIC && i < a->count; i++) {
        bool there = false;
        for (uint32_t k = 0; k < b->count; k++)
            there |= a->list[i] == b->list[k];
        if (!there)
            return false;
    }
    return true;
}

static status_t join_versions(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    const triton_config_t *triton = config->triton;
    const ydoc_node_t *node = ydoc_get(root, "version");

    if (!triton->has_versions)
        return STATUS_OK;
    node = node ? node : ydoc_get(root, "version_policy");
    if (node && !same_versions(&config->versions, &triton->versions))
        return contradicts(node, "version_policy", triton->versions_line, err);
    config->versions = triton->versions;
    return STATUS_OK;
}

static status_t join_labels(const ydoc_node_t *root, const model_config_t *config, err_t *err)
{
    const triton_config_t *triton = config->triton;
    const ydoc_node_t *node = ydoc_get(root, "labels");
    const char *name = "";
    char value[TRITON_NAME_BYTES + 32];

    if (!node || !triton->labels[0])
        return STATUS_OK;
    (void)snprintf(value, sizeof(value), "label_filename %.100s", triton->labels);
    if (ydoc_string(node, &name, err) == STATUS_OK && strcmp(name, triton->labels) != 0)
        return contradicts(node, value, triton->labels_line, err);
    return STATUS_OK;
}

static status_t join(const ydoc_node_t *root, model_config_t *config, err_t *err)
{
    if (!config->triton)
        return STATUS_OK;
    if (join_batch(root, config, err) != STATUS_OK || join_slo(root, config, err) != STATUS_OK ||
        join_versions(root, config, err) != STATUS_OK)
        return err->code;
    return join_labels(root, config, err);
}

/* root is NULL where there is no config.yaml. */
static status_t read_root(const ydoc_node_t *root, const char *model_dir, model_config_t *config, err_t *err)
{
    static const char *const pipelines[] = {"preprocess", "postprocess"};
    const ydoc_node_t *node;

    if (root &&
        (ydoc_expect(root, YDOC_MAP, err) != STATUS_OK || ydoc_check_keys(root, keys, err) != STATUS_OK))
        return err->code;
    if (read_numbers(root, config, err) != STATUS_OK || read_choices(root, config, err) != STATUS_OK ||
        read_versions(root, &config->versions, err) != STATUS_OK || join(root, config, err) != STATUS_OK)
        return err->code;
    if ((node = ydoc_get(root, "emulate")) && read_emulate(node, config, err) != STATUS_OK)
        return err->code;
    if ((node = ydoc_get(root, "staged")) && read_staged(node, config, err) != STATUS_OK)
        return err->code;
    for (int i = 0; i < 2; i++) {
        node = ydoc_get(root, pipelines[i]);
        if (!node)
            continue;
        if (ydoc_expect(node, YDOC_MAP, err) != STATUS_OK ||
            read_pipeline(node, pipelines[i], &config->image, err) != STATUS_OK)
            return err->code;
    }
    if (shape_config_read(root, &config->shapes, err) != STATUS_OK)
        return err->code;
    return read_labels(ydoc_get(root, "labels"), model_dir, config, err);
}

static status_t read_yaml(const char *path, const char *model_dir, model_config_t *config, err_t *err)
{
    ydoc_t *doc = NULL;
    struct stat info;

    if (stat(path, &info) != 0)
        return read_root(NULL, model_dir, config, err);
    status_t status = ydoc_load(path, &doc, err);
    if (status != STATUS_OK)
        return status;
    status = read_root(ydoc_root(doc), model_dir, config, err);
    ydoc_destroy(doc);
    if (status == STATUS_OK && image_pipeline_check(&config->image, err) != STATUS_OK)
        status = err_prefix(err, "%.120s", path);
    return status;
}

status_t model_config_read(const char *model_dir, model_config_t *config, err_t *err)
{
    char path[PATH_MAX];
    err_t local;

    err = err ? err : &local;
    model_config_init(config);
    if (snprintf(path, sizeof(path), "%s/config.yaml", model_dir) >= (int)sizeof(path))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    status_t status = triton_config_read(model_dir, &config->triton, err);
    if (status == STATUS_OK)
        status = read_yaml(path, model_dir, config, err);
    if (status != STATUS_OK) {
        model_config_dispose(config);
        model_config_init(config);
    }
    return status;
}
