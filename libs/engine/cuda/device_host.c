/*
 * The device of the tests: memory of the host, every stream done at once, convolutions and products by the kernels of last
 * resort. The environment of a test may make it small or broken (see device_host.h).
 */
#include "engine/cuda/device_host.h"

#include <stdlib.h>
#include <string.h>

const char device_engine_name[] = "cuda-host";

struct device {
    uint64_t memory_bytes;
};

device_host_t device_host = {.memory_bytes = (uint64_t)8 << 30};

uint32_t device_count(void)
{
    return 1;
}

status_t device_open(uint32_t index, device_t **device, err_t *err)
{
    if (index >= device_count())
        return err_set(err, STATUS_UNAVAILABLE, "there is no GPU %u", index);
    device_t *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a device");
    d->memory_bytes = device_host.memory_bytes;
    *device = d;
    return STATUS_OK;
}

void device_close(device_t *device)
{
    free(device);
}

const char *device_name(const device_t *device)
{
    (void)device;
    return "CPU";
}

uint64_t device_free_bytes(const device_t *device)
{
    return device->memory_bytes;
}

bool device_is_lost(const device_t *device)
{
    (void)device;
    return device_host.lost;
}

void *device_alloc(device_t *device, size_t len)
{
    (void)device;
    return device_host.fail_alloc ? NULL
                                  : aligned_alloc(POOL_ALIGN, (len + POOL_ALIGN) / POOL_ALIGN * POOL_ALIGN);
}

void device_free(device_t *device, void *memory)
{
    (void)device;
    free(memory);
}

void *device_pinned_alloc(device_t *device, size_t len)
{
    (void)device;
    return len > SIZE_MAX / 2 ? NULL
                              : aligned_alloc(POOL_ALIGN, (len + POOL_ALIGN) / POOL_ALIGN * POOL_ALIGN);
}

void device_pinned_free(device_t *device, void *memory)
{
    (void)device;
    free(memory);
}

static status_t check(err_t *err)
{
    return device_host.lost ? err_set(err, STATUS_UNAVAILABLE, "the device is lost") : STATUS_OK;
}

status_t device_copy(device_t *device, stream_t stream, void *to, const void *from, size_t len, err_t *err)
{
    (void)device;
    (void)stream;
    if (len)
        memcpy(to, from, len);
    return check(err);
}

status_t device_zero(device_t *device, stream_t stream, void *to, size_t len, err_t *err)
{
    (void)device;
    (void)stream;
    if (len)
        memset(to, 0, len);
    return check(err);
}

status_t device_sync(device_t *device, stream_t stream, err_t *err)
{
    (void)device;
    (void)stream;
    return check(err);
}

status_t device_mark(device_t *device, stream_t stream, uint32_t event, err_t *err)
{
    (void)event;
    return device_sync(device, stream, err);
}

status_t device_follow(device_t *device, stream_t stream, uint32_t event, err_t *err)
{
    (void)event;
    return device_sync(device, stream, err);
}

status_t device_wait(device_t *device, uint32_t event, err_t *err)
{
    (void)event;
    return device_sync(device, STREAM_OUT, err);
}

status_t device_choose(device_t *device, step_t *step, engine_precision_t precision, void *scratch,
                       size_t scratch_bytes, err_t *err)
{
    (void)step;
    (void)precision;
    (void)scratch;
    (void)scratch_bytes;
    return device_sync(device, STREAM_PREPARE, err);
}

size_t device_step_scratch(const step_t *step)
{
    (void)step;
    return 0;
}

void device_release(device_t *device, step_t *step)
{
    (void)device;
    (void)step;
}

const char *device_step_choice(const step_t *step)
{
    (void)step;
    return "direct";
}

status_t device_run_step(device_t *device, stream_t stream, step_t *step, void *scratch, size_t scratch_bytes,
                         err_t *err)
{
    (void)device;
    (void)scratch;
    (void)scratch_bytes;
    void *on = NULL;
    (void)stream;
    if (step->kind == STEP_KERNEL) {
        kernel_launch(step->kernel, &step->u, on);
    } else if (step->kind == STEP_CONV) {
        kernel_launch(KERNEL_CONV, &step->u.conv.direct, on);
        if (step->u.conv.tail.ew.op_count)
            kernel_launch(KERNEL_ELEMENTWISE, &step->u.conv.tail.ew, on);
    } else {
        kernel_launch(KERNEL_GEMM, &step->u.gemm.direct, on);
        if (step->u.gemm.whole.ew.op_count)
            kernel_launch(KERNEL_ELEMENTWISE, &step->u.gemm.whole.ew, on);
    }
    return check(err);
}

status_t device_capture_begin(device_t *device, stream_t stream, err_t *err)
{
    return device_sync(device, stream, err);
}

status_t device_capture_end(device_t *device, stream_t stream, device_graph_t **graph, err_t *err)
{
    *graph = NULL;
    return device_sync(device, stream, err);
}

status_t device_graph_launch(device_t *device, stream_t stream, device_graph_t *graph, err_t *err)
{
    (void)graph;
    return device_sync(device, stream, err);
}

void device_graph_destroy(device_graph_t *graph)
{
    (void)graph;
}
