/*
 * Any bytes as a model's config.yaml. Whatever is refused must say why, and what is taken must be within the bounds that its
 * readers count on.
 */
#include "model/parts/config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static char folder[] = "/tmp/fermata-config-XXXXXX";
static char path[sizeof folder + sizeof "/config.yaml"];

static void remove_folder(void)
{
    (void)unlink(path);
    (void)rmdir(folder);
}

static void make_folder(void)
{
    if (!mkdtemp(folder))
        abort();
    (void)snprintf(path, sizeof path, "%s/config.yaml", folder);
    (void)atexit(remove_folder);
}

static void write_config(const uint8_t *bytes, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, len) != (ssize_t)len)
        abort();
    close(fd);
}

static void check_shapes(const shape_config_t *shapes)
{
    if (shapes->dim_count > AXES_MAX || shapes->pad_value_count > PAD_VALUES_MAX ||
        shapes->reference_count > REFERENCES_MAX)
        abort();
    for (uint32_t i = 0; i < shapes->dim_count; i++)
        if (shapes->dims[i].size_max == 0 || shapes->dims[i].size_max > AXIS_SIZE_MAX ||
            shapes->dims[i].pad_to_count > PAD_SIZES_MAX)
            abort();
}

static void check(const model_config_t *config)
{
    if (config->slo_ns < 0 || config->max_batch > ENGINE_MAX_BATCH || config->mode >= MODES ||
        config->label_count > MODEL_LABELS_MAX)
        abort();
    for (uint32_t i = 0; i < config->versions.count && config->versions.kind == VERSIONS_SPECIFIC; i++)
        if (i >= MODEL_VERSIONS_MAX || config->versions.list[i] < 1)
            abort();
    check_shapes(&config->shapes);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static model_config_t config;
    err_t err = {.text = ""};
    if (!*path)
        make_folder();
    write_config(bytes, len);
    status_t status = model_config_read(folder, &config, &err);
    if (status != STATUS_OK && !*err.text)
        abort();
    if (status == STATUS_OK)
        check(&config);
    model_config_dispose(&config);
    return 0;
}
