#include "control/tasks/devices.h"

#include "control/models/placement.h"
#include "control/tasks/batches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void allow_models(const tasks_t *tasks, const device_t *device)
{
    for (uint32_t m = 0; m < tasks->models->count; m++)
        if (tasks->models->all[m]->home == device->subcluster)
            placement_allow(tasks->models->all[m], device);
}

static void device_open(tasks_t *tasks, device_t *device)
{
    if (device->open)
        return;
    err_t err = {0};
    device->ceased = false;
    device->open = subcluster_open(device->subcluster, device->gpu, &device->mode, tasks->turn->now_ns,
                                   &err) == STATUS_OK;
    if (device->open)
        allow_models(tasks, device);
    else
        note_error(tasks->turn, "device_refused", LOG_STR("device", device->name), LOG_ERR(&err));
}

static void device_close(tasks_t *tasks, device_t *device)
{
    if (!device->open)
        return;
    device->open = false;
    subcluster_drain(device->subcluster, device->gpu);
    batches_device_lost(tasks, device);
    subcluster_close(device->subcluster, device->gpu);
}

/* A core that was told to cease does so for good: the device comes to it anew, once the batches that it had then are done. */
static void device_resume(tasks_t *tasks, device_t *device)
{
    if (device->open && device->ceased && device->inflight == 0) {
        subcluster_close(device->subcluster, device->gpu);
        device->open = false;
    }
    device_open(tasks, device);
}

/* Failed: out at once. Draining: no more grants, out when its batches are done. Else: in. */
void device_sync(tasks_t *tasks, device_t *device)
{
    bool draining = device->draining || device->worker->draining;
    if (device->failed || (draining && device->inflight == 0)) {
        device_close(tasks, device);
    } else if (draining) {
        if (device->open)
            subcluster_drain(device->subcluster, device->gpu);
        device->ceased = true;
    } else {
        device_resume(tasks, device);
    }
    turn_touch(tasks->turn);
}

void device_settle(tasks_t *tasks, device_t *device)
{
    if (device->inflight > 0)
        return;
    if (device->draining || device->worker->draining)
        device_close(tasks, device);
    else if (device->open && device->ceased)
        device_resume(tasks, device);
}

/* What it says, else its kind. */
static const char *class_of(const Control__Device *device)
{
    return device->device_class[0] != '\0' ? device->device_class : device->kind;
}

static status_t device_add(tasks_t *tasks, device_t *device, const Control__Device *hello, subcluster_t *sub)
{
    (void)snprintf(device->name, sizeof device->name, "%s", hello->name);
    (void)snprintf(device->kind, sizeof device->kind, "%s", hello->kind);
    device->memory_bytes = hello->memory_bytes;
    device->mode = (sched_gpu_mode_t){.stretches = hello->stretches,
                                      .slots = hello->slots,
                                      .ahead = hello->ahead,
                                      .inflight = hello->inflight};
    device->subcluster = sub;
    device->gpu = tasks->subclusters->device_count < tasks->turn->options.devices_max
                      ? subcluster_seat(sub, device)
                      : UINT32_MAX;
    if (device->gpu == UINT32_MAX)
        return STATUS_TOO_LARGE;
    tasks->subclusters->device_count++;
    device->worker->device_count++;
    device_sync(tasks, device);
    return STATUS_OK;
}

/* The devices of one class of one worker stay together: what the worker loads, it loads on all of them. */
status_t devices_add(tasks_t *tasks, worker_t *worker, const Control__Hello *hello, err_t *err)
{
    subcluster_t *sub = NULL;
    if (hello->n_devices == 0 || hello->n_devices > DEVICES_PER_WORKER_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "hello.devices is empty or has more than %d elements",
                       DEVICES_PER_WORKER_MAX);
    worker->devices = calloc(hello->n_devices, sizeof *worker->devices);
    if (!worker->devices)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu devices", hello->n_devices);
    for (uint32_t i = 0; i < hello->n_devices; i++) {
        device_t *device = &worker->devices[i];
        device->worker = worker;
        device->index = i;
        const char *device_class = class_of(hello->devices[i]);
        if (device_class[0] == '\0' || strlen(device_class) >= DEVICE_CLASS_BYTES)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a device's class and kind are empty or too long");
        if (!sub || strcmp(sub->device_class, device_class) != 0) {
            placement_make_room(tasks->models);
            sub = subclusters_for(tasks->subclusters, device_class, (uint32_t)hello->n_devices, err);
        }
        if (!sub)
            return err->code;
        if (device_add(tasks, device, hello->devices[i], sub) != STATUS_OK)
            return err_set(err, STATUS_TOO_LARGE, "no room for more devices (--devices-max)");
    }
    return STATUS_OK;
}

void devices_remove(tasks_t *tasks, worker_t *worker)
{
    for (uint32_t i = 0; i < worker->device_count; i++) {
        device_close(tasks, &worker->devices[i]);
        subcluster_unseat(worker->devices[i].subcluster, worker->devices[i].gpu);
        tasks->subclusters->device_count--;
    }
    free(worker->devices);
    worker->devices = NULL;
    worker->device_count = 0;
}

void device_state(tasks_t *tasks, worker_t *worker, const Control__DeviceState *state)
{
    if (state->device >= worker->device_count) {
        peer_complain(&worker->peer, NONSENSE_DEVICE, "state of a device that hello did not name");
        return;
    }
    if (state->status != CONTROL__DEVICE_STATUS__DEVICE_READY &&
        state->status != CONTROL__DEVICE_STATUS__DEVICE_FAILED &&
        state->status != CONTROL__DEVICE_STATUS__DEVICE_DRAINING) {
        peer_complain(&worker->peer, NONSENSE_DEVICE, "a device is in a state that there is not");
        return;
    }
    device_t *device = &worker->devices[state->device];
    bool failed = state->status == CONTROL__DEVICE_STATUS__DEVICE_FAILED;
    bool draining = state->status == CONTROL__DEVICE_STATUS__DEVICE_DRAINING;
    if (failed && !device->failed)
        note_warn(tasks->turn, "device_failed", LOG_STR("worker", worker->peer.name),
                  LOG_STR("device", device->name), LOG_STR("reason", state->reason));
    bool changed = failed != device->failed || draining != device->draining;
    device->failed = failed;
    device->draining = draining;
    if (changed) {
        device_sync(tasks, device);
        placement_devices_changed(tasks->models, worker);
    }
    if (device->open && state->free_in_ns != 0)
        subcluster_free_at(device->subcluster, device->gpu,
                           tasks->turn->now_ns + peer_duration(&worker->peer, state->free_in_ns));
    turn_touch(tasks->turn);
}
