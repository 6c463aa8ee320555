#include "scheduler/devices.h"

#include "base/log.h"
#include "loop/loop.h"
#include "scheduler/batches.h"
#include "scheduler/catalogue.h"
#include "scheduler/placement.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"
#include "scheduler/subcluster.h"
#include "scheduler/subclusters.h"
#include "scheduler/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void allow_models(const device_t *device)
{
    const scheduler_t *s = device->worker->peer.scheduler;
    for (uint32_t m = 0; m < s->model_count; m++)
        if (s->models[m]->home == device->subcluster)
            placement_allow(s->models[m], device);
}

static void device_open(device_t *device)
{
    if (device->open)
        return;
    err_t err = {0};
    device->open =
        subcluster_open(device->subcluster, device->gpu, &device->mode, loop_now_ns(), &err) == STATUS_OK;
    if (device->open)
        allow_models(device);
    else
        log_error("device_refused", LOG_STR("device", device->name), LOG_ERR(&err));
}

static void device_close(device_t *device)
{
    if (!device->open)
        return;
    device->open = false;
    subcluster_drain(device->subcluster, device->gpu);
    batches_device_lost(device);
    subcluster_close(device->subcluster, device->gpu);
}

bool device_serves(const device_t *device)
{
    return device->open && !device->draining && !device->worker->draining;
}

/* Failed: out at once. Draining: no more grants, out when its batches are done. Else: in. */
void device_sync(device_t *device)
{
    scheduler_t *s = device->worker->peer.scheduler;
    bool draining = device->draining || device->worker->draining;
    if (device->failed || (draining && device->inflight == 0)) {
        device_close(device);
    } else if (draining) {
        if (device->open)
            subcluster_drain(device->subcluster, device->gpu);
    } else {
        device_open(device);
    }
    scheduler_touch(s);
}

void device_settle(device_t *device)
{
    if ((device->draining || device->worker->draining) && device->inflight == 0)
        device_close(device);
}

/* What it says, else its kind. */
static const char *class_of(const Control__Device *device)
{
    return device->device_class[0] != '\0' ? device->device_class : device->kind;
}

static status_t device_add(device_t *device, const Control__Device *hello, subcluster_t *sub)
{
    scheduler_t *s = device->worker->peer.scheduler;
    (void)snprintf(device->name, sizeof device->name, "%s", hello->name);
    (void)snprintf(device->kind, sizeof device->kind, "%s", hello->kind);
    device->memory_bytes = hello->memory_bytes;
    device->mode = (sched_gpu_mode_t){.stretches = hello->stretches,
                                      .slots = hello->slots,
                                      .ahead = hello->ahead,
                                      .inflight = hello->inflight};
    device->subcluster = sub;
    device->gpu = s->device_count < s->options.devices_max ? subcluster_seat(sub, device) : UINT32_MAX;
    if (device->gpu == UINT32_MAX)
        return STATUS_TOO_LARGE;
    s->device_count++;
    device->worker->device_count++;
    device_sync(device);
    return STATUS_OK;
}

/* The devices of one class of one worker stay together: what the worker loads, it loads on all of them. */
status_t devices_add(worker_t *worker, const Control__Hello *hello, err_t *err)
{
    scheduler_t *s = worker->peer.scheduler;
    subcluster_t *sub = NULL;
    if (hello->n_devices == 0 || hello->n_devices > DEVICES_PER_WORKER_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "hello.devices is empty or has more than %d elements",
                       DEVICES_PER_WORKER_MAX);
    worker->devices = calloc(hello->n_devices, sizeof *worker->devices);
    if (worker->devices == NULL)
        return err_set(err, STATUS_NO_MEMORY, "no memory for %zu devices", hello->n_devices);
    for (uint32_t i = 0; i < hello->n_devices; i++) {
        device_t *device = &worker->devices[i];
        device->worker = worker;
        device->index = i;
        const char *device_class = class_of(hello->devices[i]);
        if (device_class[0] == '\0' || strlen(device_class) >= DEVICE_CLASS_BYTES)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a device's class and kind are empty or too long");
        if (sub == NULL || strcmp(sub->device_class, device_class) != 0)
            sub = subclusters_for(s, device_class, (uint32_t)hello->n_devices, err);
        if (sub == NULL)
            return err->code;
        if (device_add(device, hello->devices[i], sub) != STATUS_OK)
            return err_set(err, STATUS_TOO_LARGE, "no room for more devices (--devices-max)");
    }
    return STATUS_OK;
}

void devices_remove(worker_t *worker)
{
    scheduler_t *s = worker->peer.scheduler;
    for (uint32_t i = 0; i < worker->device_count; i++) {
        device_close(&worker->devices[i]);
        subcluster_unseat(worker->devices[i].subcluster, worker->devices[i].gpu);
        s->device_count--;
    }
    free(worker->devices);
    worker->devices = NULL;
    worker->device_count = 0;
}

void device_state(worker_t *worker, const Control__DeviceState *state)
{
    scheduler_t *s = worker->peer.scheduler;
    if (state->device >= worker->device_count) {
        peer_complain(&worker->peer, NONSENSE_DEVICE, "state of a device that hello did not name");
        return;
    }
    device_t *device = &worker->devices[state->device];
    bool failed = state->status == CONTROL__DEVICE_STATUS__DEVICE_FAILED;
    bool draining = state->status == CONTROL__DEVICE_STATUS__DEVICE_DRAINING;
    if (failed && !device->failed)
        log_warn("device_failed", LOG_STR("worker", worker->peer.name), LOG_STR("device", device->name),
                 LOG_STR("reason", state->reason));
    bool changed = failed != device->failed || draining != device->draining;
    device->failed = failed;
    device->draining = draining;
    if (changed) {
        device_sync(device);
        placement_devices_changed(worker);
    }
    if (device->open && state->free_in_ns != 0)
        subcluster_free_at(device->subcluster, device->gpu,
                           loop_now_ns() + peer_duration(&worker->peer, state->free_in_ns));
    scheduler_touch(s);
}
