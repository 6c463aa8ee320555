#include "worker/models/devices_wanted.h"

#include "model/measure/kept_profile.h"

static model_mode_t mode_of(const model_t *model, model_mode_t mode)
{
    return model->config.has_mode ? model->config.mode : mode;
}

devices_wanted_t wanted_by_configs(const served_t *served, model_mode_t mode)
{
    devices_wanted_t wanted = {.staged = mode == MODE_STAGED, .overlap = mode == MODE_OVERLAP};

    for (uint32_t i = 0; i < served->count; i++) {
        const model_t *model = served->models[i];
        bool staged = mode_of(model, mode) == MODE_STAGED;
        wanted.staged |= staged;
        wanted.overlap |= mode_of(model, mode) == MODE_OVERLAP;
        wanted.scheduled |= staged && staged_schedule_find(model->config.schedule);
    }
    return wanted;
}

void wanted_by_profiles(devices_wanted_t *wanted, const served_t *served, model_mode_t mode,
                        const model_devices_t *devices)
{
    for (uint32_t i = 0; i < served->count && !wanted->scheduled; i++) {
        const model_t *model = served->models[i];
        wanted->scheduled = mode_of(model, mode) == MODE_STAGED &&
                            model_config_leaves_schedule(&model->config) &&
                            kept_profile_has_schedule(model, devices);
    }
}

uint32_t wanted_streams(const devices_wanted_t *wanted, const overlap_plan_t *plan, const cpus_t *cpus,
                        int64_t devices, int64_t threads)
{
    if (wanted->overlap && plan)
        return plan->predictor.models;
    if (!wanted->staged || (cpus && devices * threads * STAGES_STREAMS > cpus->usable))
        return 1;
    return STAGES_STREAMS;
}

void wanted_tell(const devices_wanted_t *wanted, bool has_plan, model_devices_t *devices)
{
    devices->stretches = wanted->staged;
    if (wanted->overlap && has_plan) {
        devices->slots = SEGMENTS_SLOTS;
        devices->ahead = SEGMENTS_WHOLE;
        devices->inflight = SEGMENTS_SLOTS;
    } else if (wanted->scheduled) {
        devices->slots = STAGES_SLOTS;
        devices->ahead = STAGES_AHEAD;
    }
    if (wanted->staged)
        devices->inflight = STAGES_INFLIGHT;
}
