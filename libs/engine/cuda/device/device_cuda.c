/*
 * The GPU: streams, events, memory and graphs of the CUDA runtime, which is linked statically.
 */
#include "engine/cuda/device/device_cuda.h"

#include <stdlib.h>

const char device_engine_name[] = "cuda";

struct device_graph {
    cudaGraphExec_t exec;
};

struct device_stamps {
    uint32_t count;
    cudaEvent_t events[];
};

/* ---- errors ---- */

/* After these the context is broken for good; only a new process gets a new one. */
static bool is_fatal(cudaError_t error)
{
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorAssert:
    case cudaErrorContextIsDestroyed:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

status_t device_check(device_t *device, cudaError_t error, const char *what, err_t *err)
{
    if (error == cudaSuccess)
        return STATUS_OK;
    cudaGetLastError();
    if (device && is_fatal(error))
        atomic_store(&device->lost, true);
    status_t status = error == cudaErrorMemoryAllocation ? STATUS_NO_MEMORY : STATUS_UNAVAILABLE;
    return err_set(err, status, "%s: CUDA error %d (%s)", what, (int)error, cudaGetErrorString(error));
}

status_t device_enter(device_t *device, err_t *err)
{
    return device_check(device, cudaSetDevice(device->index), "choosing the device", err);
}

/* ---- what it is ---- */

cudnnStatus_t device_make_cudnn(device_t *d, stream_t s)
{
    cudnnStatus_t status = d->lib->cudnnCreate(&d->cudnn[s]);
    return status == CUDNN_STATUS_SUCCESS ? d->lib->cudnnSetStream(d->cudnn[s], d->streams[s]) : status;
}

cudnnHandle_t device_cudnn(device_t *d, stream_t s)
{
    return d->cudnn[s] || device_make_cudnn(d, s) == CUDNN_STATUS_SUCCESS ? d->cudnn[s] : NULL;
}

const char *device_name(const device_t *d)
{
    return d->name;
}

uint64_t device_free_bytes(const device_t *d)
{
    size_t available = 0, total = 0;
    cudaSetDevice(d->index);
    return cudaMemGetInfo(&available, &total) == cudaSuccess ? available : 0;
}

bool device_is_lost(const device_t *d)
{
    return atomic_load(&d->lost);
}

/* ---- memory ---- */

void *device_alloc(device_t *d, size_t len)
{
    void *memory = NULL;
    err_t err;
    if (device_enter(d, &err) != STATUS_OK)
        return NULL;
    return device_check(d, cudaMalloc(&memory, len), "allocating", &err) == STATUS_OK ? memory : NULL;
}

void device_free(device_t *d, void *memory)
{
    err_t err;
    if (device_enter(d, &err) == STATUS_OK)
        device_check(d, cudaFree(memory), "freeing", &err);
}

/* Portable: pinned for the other GPUs of the process as well. */
void *device_pinned_alloc(device_t *d, size_t len)
{
    void *memory = NULL;
    err_t err;
    if (device_enter(d, &err) != STATUS_OK)
        return NULL;
    cudaError_t error = cudaHostAlloc(&memory, len ? len : 1, cudaHostAllocPortable);
    return device_check(d, error, "allocating pinned memory", &err) == STATUS_OK ? memory : NULL;
}

void device_pinned_free(device_t *d, void *memory)
{
    err_t err;
    if (device_enter(d, &err) == STATUS_OK)
        device_check(d, cudaFreeHost(memory), "freeing pinned memory", &err);
}

/* ---- streams ---- */

status_t device_copy(device_t *d, stream_t s, void *to, const void *from, size_t len, err_t *err)
{
    status_t status = device_enter(d, err);
    if (status != STATUS_OK || !len)
        return status;
    return device_check(d, cudaMemcpyAsync(to, from, len, cudaMemcpyDefault, d->streams[s]), "copying", err);
}

status_t device_zero(device_t *d, stream_t s, void *to, size_t len, err_t *err)
{
    status_t status = device_enter(d, err);
    if (status != STATUS_OK || !len)
        return status;
    return device_check(d, cudaMemsetAsync(to, 0, len, d->streams[s]), "clearing", err);
}

status_t device_sync(device_t *d, stream_t s, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK ? device_check(d, cudaStreamSynchronize(d->streams[s]), "running", err)
                               : status;
}

status_t device_mark(device_t *d, stream_t s, uint32_t event, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaEventRecord(d->events[event], d->streams[s]), "marking", err)
               : status;
}

status_t device_follow(device_t *d, stream_t s, uint32_t event, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaStreamWaitEvent(d->streams[s], d->events[event], 0), "following", err)
               : status;
}

status_t device_wait(device_t *d, uint32_t event, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK ? device_check(d, cudaEventSynchronize(d->events[event]), "running", err)
                               : status;
}

/* ---- stamps ---- */

status_t device_stamps_create(device_t *d, uint32_t count, device_stamps_t **stamps, err_t *err)
{
    status_t status = device_enter(d, err);
    if (status != STATUS_OK)
        return status;
    device_stamps_t *made = calloc(1, sizeof *made + count * sizeof made->events[0]);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory to take times");
    cudaError_t error = cudaSuccess;
    for (; error == cudaSuccess && made->count < count; made->count += error == cudaSuccess)
        error = cudaEventCreate(&made->events[made->count]);
    status = device_check(d, error, "making events", err);
    if (status == STATUS_OK)
        *stamps = made;
    else
        device_stamps_destroy(made);
    return status;
}

status_t device_stamp(device_t *d, stream_t s, device_stamps_t *stamps, uint32_t i, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaEventRecord(stamps->events[i], d->streams[s]), "taking a time", err)
               : status;
}

status_t device_stamps_read(device_t *d, device_stamps_t *stamps, int64_t *between_ns, err_t *err)
{
    status_t status = device_enter(d, err);
    if (status == STATUS_OK)
        status = device_check(d, cudaEventSynchronize(stamps->events[stamps->count - 1]), "running", err);
    for (uint32_t i = 0; status == STATUS_OK && i + 1 < stamps->count; i++) {
        float ms = 0;
        status = device_check(d, cudaEventElapsedTime(&ms, stamps->events[i], stamps->events[i + 1]),
                              "reading times", err);
        between_ns[i] = (int64_t)((double)ms * 1e6);
    }
    return status;
}

void device_stamps_destroy(device_stamps_t *stamps)
{
    for (uint32_t i = 0; i < stamps->count; i++)
        cudaEventDestroy(stamps->events[i]);
    free(stamps);
}

/* ---- steps ---- */

static bool run_some(cudaEvent_t begin, cudaEvent_t end, cudaStream_t stream, bool (*run)(void *arg),
                     void *arg, float *ms)
{
    enum { REPEATS = 3 }; /* between two events, so that what an event costs counts less */
    bool ok = cudaEventRecord(begin, stream) == cudaSuccess;
    for (int i = 0; ok && i < REPEATS; i++)
        ok = run(arg);
    ok = ok && cudaEventRecord(end, stream) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
         cudaEventElapsedTime(ms, begin, end) == cudaSuccess;
    *ms /= REPEATS;
    return ok;
}

double device_time(device_t *d, effort_t effort, bool (*run)(void *arg), void *arg)
{
    enum { RUNS = 3 };
    float times[RUNS] = {0};
    cudaStream_t stream = d->streams[STREAM_PREPARE];
    bool ok = run(arg) && cudaStreamSynchronize(stream) == cudaSuccess;
    for (int i = 0; ok && effort == EFFORT_FASTEST && i < RUNS; i++) {
        ok = run_some(d->timing[0], d->timing[1], stream, run, arg, &times[i]);
        for (int k = i; ok && k > 0 && times[k] < times[k - 1]; k--) {
            float swap = times[k];
            times[k] = times[k - 1];
            times[k - 1] = swap;
        }
    }
    if (ok)
        return (double)times[RUNS / 2] * 1e6;
    cudaGetLastError();
    return -1;
}

/* ---- graphs ---- */

status_t device_capture_begin(device_t *d, stream_t s, err_t *err)
{
    status_t status = device_enter(d, err);
    if (status != STATUS_OK)
        return status;
    return device_check(d, cudaStreamBeginCapture(d->streams[s], cudaStreamCaptureModeThreadLocal),
                        "recording a graph", err);
}

status_t device_capture_end(device_t *d, stream_t s, device_graph_t **graph, err_t *err)
{
    cudaGraph_t recorded = NULL;
    device_graph_t *made = calloc(1, sizeof *made);
    status_t status = device_enter(d, err);
    if (status == STATUS_OK)
        status = device_check(d, cudaStreamEndCapture(d->streams[s], &recorded), "recording a graph", err);
    if (status == STATUS_OK && !made)
        status = err_set(err, STATUS_NO_MEMORY, "no memory for a graph");
    if (status == STATUS_OK)
        status = device_check(d, cudaGraphInstantiate(&made->exec, recorded, 0), "making a graph", err);
    if (status == STATUS_OK)
        status = device_check(d, cudaGraphUpload(made->exec, d->streams[s]), "uploading a graph", err);
    if (recorded)
        cudaGraphDestroy(recorded);
    if (status == STATUS_OK) {
        *graph = made;
        return status;
    }
    if (made && made->exec)
        cudaGraphExecDestroy(made->exec);
    free(made);
    return status;
}

status_t device_graph_launch(device_t *d, stream_t s, device_graph_t *graph, err_t *err)
{
    status_t status = device_enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaGraphLaunch(graph->exec, d->streams[s]), "running a graph", err)
               : status;
}

void device_graph_destroy(device_graph_t *graph)
{
    cudaGraphExecDestroy(graph->exec);
    free(graph);
}
