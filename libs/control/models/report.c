#include "control/models/report.h"

#include "base/hash.h"
#include "control/models/shapes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: no memory; the length stays as it was. */
static uint8_t *packed(const ProtobufCMessage *message, size_t *len)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *data = malloc(bytes > 0 ? bytes : 1);
    if (data)
        *len = protobuf_c_message_pack(message, data);
    return data;
}

/* Of what gateways rely on: tensors, batching, picture pipeline, labels. Not of speed, size or state. */
static uint64_t signature_of(const Control__ModelReport *report)
{
    Control__ModelReport part = CONTROL__MODEL_REPORT__INIT;
    part.n_inputs = report->n_inputs;
    part.inputs = report->inputs;
    part.n_outputs = report->n_outputs;
    part.outputs = report->outputs;
    part.max_batch = report->max_batch;
    part.image = report->image;
    part.n_labels = report->n_labels;
    part.labels = report->labels;
    part.softmax_output = report->softmax_output;
    part.n_axes = report->n_axes;
    part.axes = report->axes;
    size_t len = 0;
    uint8_t *bytes = packed(&part.base, &len);
    uint64_t hash = hash_bytes(HASH_BEGIN, bytes, len);
    free(bytes);
    return hash;
}

static Control__ModelReport *copy_report(const Control__ModelReport *report)
{
    size_t len = 0;
    uint8_t *bytes = packed(&report->base, &len);
    Control__ModelReport *copy = bytes ? control__model_report__unpack(NULL, len, bytes) : NULL;
    free(bytes);
    return copy;
}

static status_t reported_profile(const Control__Latency *latency, uint32_t max_batch, profile_t *profile,
                                 err_t *err)
{
    if (!latency)
        return err_set(err, STATUS_INVALID_ARGUMENT, "ready without a latency profile");
    if (latency->n_table_ns == 0) {
        if (!(latency->alpha_ns >= 0 && latency->alpha_ns < 1e13 && latency->beta_ns >= 0 &&
              latency->beta_ns < 1e13))
            return err_set(err, STATUS_INVALID_ARGUMENT, "latency line out of range");
        return profile_from_line(profile, (int64_t)latency->alpha_ns, (int64_t)latency->beta_ns, max_batch,
                                 err);
    }
    profile_point_t points[PROFILE_TABLE_MAX];
    uint32_t count =
        latency->n_table_ns < PROFILE_TABLE_MAX ? (uint32_t)latency->n_table_ns : PROFILE_TABLE_MAX;
    for (uint32_t i = 0; i < count; i++) {
        points[i] = (profile_point_t){.batch = i + 1, .latency_ns = latency->table_ns[i]};
        if (latency->table_ns[i] < 0 || latency->table_ns[i] > DURATION_MOST_NS)
            return err_set(err, STATUS_INVALID_ARGUMENT, "latency of a batch of %u out of range", i + 1);
    }
    return profile_from_points(profile, points, count, max_batch, err);
}

/* A device that needs no time was never measured, and would look like endless capacity; an emulated one may. */
static status_t profile_of(const worker_t *worker, const Control__ModelReport *report, profile_t *profile,
                           err_t *err)
{
    uint32_t max_batch = report->max_batch > 0 ? report->max_batch : 1;
    status_t status = reported_profile(report->latency, max_batch, profile, err);
    bool free = status == STATUS_OK && profile_latency_ns(profile, profile->max_batch) == 0;
    if (free && strcmp(worker->devices[0].kind, "emulated") != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a latency profile of zeros");
    return status;
}

/* Of a model whose dimensions vary. Without latencies of shapes its one latency holds for all of them. */
static status_t family_of(const Control__ModelReport *report, uint32_t max_batch, family_t *family,
                          err_t *err)
{
    profile_t profile;
    status_t status = STATUS_OK;
    if (report->n_shape_latencies == 0) {
        status = reported_profile(report->latency, max_batch, &profile, err);
        return status == STATUS_OK ? family_add(family, UINT64_MAX, &profile, err) : status;
    }
    for (size_t i = 0; i < report->n_shape_latencies && status == STATUS_OK; i++) {
        const Control__ShapeLatency *at = report->shape_latencies[i];
        if (at->n_size != report->n_axes)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a latency without a size for each axis");
        status = reported_profile(at->latency, max_batch, &profile, err);
        if (status == STATUS_OK)
            status = family_add(family, shapes_elements(report, at->size), &profile, err);
    }
    return status;
}

static status_t instance_profiles(instance_t *instance, const Control__ModelReport *report, err_t *err)
{
    uint32_t max_batch = report->max_batch > 0 ? report->max_batch : 1;
    free(instance->family);
    instance->family = NULL;
    if (report->n_axes > SHAPE_AXES_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "more than %d axes", SHAPE_AXES_MAX);
    if (report->n_axes > 0) {
        instance->family = calloc(1, sizeof *instance->family);
        if (!instance->family)
            return err_set(err, STATUS_NO_MEMORY, "no memory for its latencies");
        if (family_of(report, max_batch, instance->family, err) != STATUS_OK)
            return err->code;
    }
    return profile_of(instance->worker, report, &instance->profile, err);
}

static void fill_devices(instance_t *instance, const Control__ModelReport *report)
{
    memset(instance->devices, report->n_devices == 0 ? 0xff : 0, sizeof instance->devices);
    for (size_t i = 0; i < report->n_devices; i++)
        if (report->devices[i] < instance->worker->device_count)
            instance->devices[report->devices[i] / 64] |= UINT64_C(1) << report->devices[i] % 64;
}

/* One that is not is neither ready nor on its way to be. */
static bool is_state(Control__ModelState state)
{
    return state > CONTROL__MODEL_STATE__MODEL_STATE_UNKNOWN &&
           state <= CONTROL__MODEL_STATE__MODEL_STATE_UNLOADED;
}

void report_take(instance_t *instance, const Control__ModelReport *report)
{
    if (!is_state(report->state))
        peer_complain(&instance->worker->peer, NONSENSE_MODEL, "a model is in a state that there is not");
    err_t err = {0};
    Control__ModelReport *copy = copy_report(report);
    if (!copy)
        return;
    if (instance->report)
        control__model_report__free_unpacked(instance->report, NULL);
    instance->report = copy;
    instance->state = report->state;
    instance->signature = signature_of(report);
    fill_devices(instance, report);
    instance->conflict = instance->released = false;
    (void)snprintf(instance->reason, sizeof instance->reason, "%s", report->reason);
    if (report->state != CONTROL__MODEL_STATE__MODEL_STATE_READY &&
        report->state != CONTROL__MODEL_STATE__MODEL_STATE_UNLOADING)
        return;
    if (instance_profiles(instance, report, &err) != STATUS_OK) {
        instance->state = CONTROL__MODEL_STATE__MODEL_STATE_FAILED;
        (void)snprintf(instance->reason, sizeof instance->reason, "%.180s", err.text);
        peer_complain(&instance->worker->peer, NONSENSE_MODEL, err.text);
    }
}
