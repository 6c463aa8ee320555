#include "worker/state/serving.h"

#include "base/log.h"

#include <stdlib.h>

const char *model_state_name(model_state_t state)
{
    static const char *const names[] = {"loading", "ready", "failed", "unloading", "unloaded"};

    return names[state];
}

status_t serving_begin(model_t *model, err_t *err)
{
    if (model->serving)
        return STATUS_OK;
    model->serving = calloc(1, sizeof(*model->serving));
    return model->serving ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "out of memory");
}

void serving_destroy(model_t *model, const model_devices_t *devices)
{
    free(model->serving);
    model_destroy(model, devices);
}

void serving_name_metrics(const model_t *model, metrics_t *metrics)
{
    serving_t *serving = model->serving;

    serving->batches_ok = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "ok");
    serving->batches_failed = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "failed");
    serving->batches_revoked = metrics_series(metrics, METRIC_WORKER_BATCHES, model->name, "revoked");
    serving->tasks_ok = metrics_series(metrics, METRIC_WORKER_TASKS, model->name, "ok");
    serving->tasks_failed = metrics_series(metrics, METRIC_WORKER_TASKS, model->name, "failed");
    serving->push_failed = metrics_series(metrics, METRIC_WORKER_PUSH_FAILURES, model->name);
    serving->exec = metrics_series(metrics, METRIC_WORKER_EXEC_SECONDS, model->name);
    serving->fetch = metrics_series(metrics, METRIC_WORKER_FETCH_SECONDS, model->name);
    serving->inputs_in_place = metrics_series(metrics, METRIC_WORKER_IN_PLACE, model->name, "inputs");
    serving->outputs_in_place = metrics_series(metrics, METRIC_WORKER_IN_PLACE, model->name, "outputs");
    serving->push = metrics_series(metrics, METRIC_WORKER_PUSH_SECONDS, model->name);
    serving->stopped = metrics_series(metrics, METRIC_WORKER_STOPPED_SECONDS, model->name);
    serving->overlap_dropped = metrics_series(metrics, METRIC_WORKER_OVERLAP_DROPPED, model->name);
    serving->stretch_joined = metrics_series(metrics, METRIC_WORKER_STRETCHES, model->name, "joined");
    serving->stretch_alone = metrics_series(metrics, METRIC_WORKER_STRETCHES, model->name, "alone");
    serving->stage_batches = metrics_series(metrics, METRIC_WORKER_STAGED_BATCHES, model->name);
    serving->stage_beside = metrics_series(metrics, METRIC_WORKER_STAGED_BESIDE, model->name);
    serving->stage_stretched = metrics_series(metrics, METRIC_WORKER_STAGED_ROWS, model->name);
    serving->stage_padded = metrics_series(metrics, METRIC_WORKER_STAGED_PADDED, model->name);
    serving->stage_splits = metrics_series(metrics, METRIC_WORKER_STAGED_SPLITS, model->name);
    serving->unfit = metrics_series(metrics, METRIC_WORKER_MODE_UNFIT, model->name);
    serving->late = metrics_series(metrics, METRIC_WORKER_LATE_BATCHES, model->name);
    serving->profile_error = metrics_series(metrics, METRIC_WORKER_PROFILE_ERROR_SECONDS, model->name);
}

void serving_tell_mode(const model_t *model, metrics_t *metrics)
{
    const mode_choice_t *choice = &model->choice;

    if (choice->mode == MODE_STAGED && model->modes.whole_is_faster)
        log_warn("whole_is_faster", LOG_STR("model", model->name),
                 LOG_STR("runs", model_mode_names[choice->mode]),
                 LOG_STR("reason", "no stages that were tried were as fast: see fermata profile --stages"));
    if (choice->refusal == MODE_GRANTED)
        return;
    log_warn("mode_refused", LOG_STR("model", model->name), LOG_STR("mode", model_mode_names[choice->asked]),
             LOG_STR("runs", model_mode_names[choice->mode]), LOG_STR("reason", choice->why));
    metrics_add(metrics_series(metrics, METRIC_WORKER_MODE_REFUSALS, model->name,
                               model_mode_names[choice->asked], mode_refusal_names[choice->refusal]),
                1);
}
