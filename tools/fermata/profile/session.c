#include "fermata/profile/session.h"

#include "base/clock.h"

#include <libgen.h>
#include <stdio.h>
#include <unistd.h>

/* For the engines that could run the model: enough for large batches of slow ones, and small ones take far less. */
#define ENGINES_BUDGET_NS (20 * NS_PER_S)

const _Atomic(int) profile_never_stop;

status_t profile_check_folder(const char *path, err_t *err)
{
    char copy[KEPT_PROFILE_PATH_BYTES];

    if (snprintf(copy, sizeof(copy), "%s", path) >= (int)sizeof(copy))
        return err_set(err, STATUS_INVALID_ARGUMENT, "path too long");
    if (access(dirname(copy), W_OK | X_OK) != 0)
        return err_set(err, STATUS_IO, "cannot write %.200s: %m", path);
    return STATUS_OK;
}

status_t profile_open_device(profile_session_t *session, uint32_t streams, err_t *err)
{
    const profile_options_t *o = session->options;
    engine_config_t config = {.threads = (uint32_t)o->threads,
                              .streams = streams,
                              .memory_limit_bytes = (uint64_t)o->device_memory};

    session->metrics = metrics_create("profile", err);
    if (!session->metrics)
        return err->code;
    trials_options_t trials = {.timeout_ns = o->load_timeout, .engine = config};
    status_t status = trials_program(o->loader, session->loader, &trials.program, err);

    if (status == STATUS_OK && trials.program)
        status = trials_create(&trials, &session->trials, err);
    return status == STATUS_OK ? model_devices_open(&session->devices, profile_engine_name(o), 1, &config,
                                                    o->pin, session->metrics, err)
                               : status;
}

/* A file has no config: what is asked for is its max_batch. */
status_t profile_load(profile_session_t *session, model_t *model, char hash[PROFILE_CACHE_TEXT_BYTES],
                      err_t *err)
{
    const profile_options_t *o = session->options;
    model_mode_t mode = o->overlap ? MODE_OVERLAP : o->stages || o->exit_points ? MODE_STAGED : MODE_WHOLE;
    model_load_options_t how = {.devices = &session->devices,
                                .trials = session->trials,
                                .profile_later = true,
                                .profile_budget_ns = ENGINES_BUDGET_NS,
                                .mode = mode, /* what is found is of an engine that can */
                                .stop = &profile_never_stop};
    uint32_t largest = session->size_count ? session->sizes[session->size_count - 1] : 0;

    if (model->file[0])
        model->config.max_batch = largest;
    status_t status = model_load(model, &how, err);
    if (status != STATUS_OK)
        return err_prefix(err, "%.80s", model->name);
    if (largest > model->info->max_batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%.80s: a batch of %u is more than its max_batch, %u",
                       model->name, largest, model->info->max_batch);
    return model_hash(model, hash, err);
}

void profile_session_close(profile_session_t *session)
{
    model_devices_close(&session->devices);
    trials_destroy(session->trials);
    metrics_destroy(session->metrics);
}
