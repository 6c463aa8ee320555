/* Devices of workers as GPUs of the core: joining, failing, draining, leaving. */
#include "base/clock.h"
#include "base/log.h"
#include "scheduler/internal.h"

#include <stdio.h>
#include <stdlib.h>

/* The lowest free id: among free GPUs the core prefers low ids, so early workers are used first. */
static uint32_t gpu_take(scheduler_t *s, device_t *device)
{
    for (uint32_t gpu = 0; gpu < s->options.devices_max; gpu++) {
        if (s->gpus[gpu] == NULL) {
            s->gpus[gpu] = device;
            return gpu;
        }
    }
    return UINT32_MAX;
}

static void allow_models(device_t *device)
{
    scheduler_t *s = device->worker->peer.scheduler;
    for (uint32_t m = 0; m < s->model_count; m++)
        if (s->models[m]->in_core)
            (void)sched_allow(s->core, now_of(), m, device->gpu, catalogue_runs_on(s->models[m], device));
}

static void enter_core(device_t *device, int64_t free_in_ns)
{
    scheduler_t *s = device->worker->peer.scheduler;
    int64_t now_ns = now_of();
    if (sched_add_gpu(s->core, now_ns, device->gpu, now_ns + free_in_ns) != STATUS_OK) {
        log_error("device_refused_by_core", LOG_STR("device", device->name), LOG_U64("gpu", device->gpu));
        return;
    }
    device->in_core = true;
    allow_models(device);
    scheduler_touch(s);
}

static void leave_core(device_t *device)
{
    scheduler_t *s = device->worker->peer.scheduler;
    if (!device->in_core)
        return;
    device->in_core = false;
    (void)sched_remove_gpu(s->core, now_of(), device->gpu);
    driver_device_lost(device);
    scheduler_touch(s);
}

/* Failed: out at once. Draining: no more grants, out when its batches are done. Else: in. */
void device_sync(device_t *device)
{
    scheduler_t *s = device->worker->peer.scheduler;
    bool draining = device->draining || device->worker->draining;
    if (device->failed || (draining && device->inflight == 0)) {
        leave_core(device);
    } else if (draining) {
        if (device->in_core)
            (void)sched_drain_gpu(s->core, now_of(), device->gpu);
    } else if (!device->in_core) {
        enter_core(device, 0);
    }
    scheduler_touch(s);
}

void device_settle(device_t *device)
{
    if ((device->draining || device->worker->draining) && device->inflight == 0)
        leave_core(device);
}

status_t devices_add(worker_t *worker, const Control__Hello *hello)
{
    scheduler_t *s = worker->peer.scheduler;
    if (hello->n_devices == 0 || hello->n_devices > DEVICES_PER_WORKER_MAX)
        return STATUS_INVALID_ARGUMENT;
    worker->devices = calloc(hello->n_devices, sizeof *worker->devices);
    if (worker->devices == NULL)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < hello->n_devices; i++) {
        device_t *device = &worker->devices[i];
        device->worker = worker;
        device->index = i;
        (void)snprintf(device->name, sizeof device->name, "%s", hello->devices[i]->name);
        (void)snprintf(device->kind, sizeof device->kind, "%s", hello->devices[i]->kind);
        device->gpu = gpu_take(s, device);
        if (device->gpu == UINT32_MAX)
            return STATUS_TOO_LARGE;
        worker->device_count++;
        enter_core(device, 0);
    }
    return STATUS_OK;
}

void devices_remove(worker_t *worker)
{
    scheduler_t *s = worker->peer.scheduler;
    for (uint32_t i = 0; i < worker->device_count; i++) {
        leave_core(&worker->devices[i]);
        s->gpus[worker->devices[i].gpu] = NULL;
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
    if (changed)
        device_sync(device);
    if (device->in_core && state->free_in_ns != 0)
        (void)sched_gpu_free(s->core, now_of(), device->gpu,
                             now_of() + peer_duration(&worker->peer, state->free_in_ns));
    scheduler_touch(s);
}
