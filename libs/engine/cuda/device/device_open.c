/*
 * The life of a GPU: found, opened with its libraries, closed.
 */
#include "engine/cuda/device/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>

uint32_t device_count(void)
{
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    return (uint32_t)count;
}

static status_t check_index(uint32_t index, err_t *err)
{
    int count = 0;
    cudaError_t error = cudaGetDeviceCount(&count);
    if (error == cudaErrorInsufficientDriver)
        return err_set(err, STATUS_UNAVAILABLE,
                       "no GPU can be used: the driver (libcuda) is missing, or older than the CUDA runtime");
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
        return err_set(err, STATUS_UNAVAILABLE, "there is no GPU: the driver finds no device");
    status_t status = device_check(NULL, error, "no GPU can be used", err);
    if (status != STATUS_OK)
        return status;
    if (index >= (uint32_t)count)
        return err_set(err, STATUS_UNAVAILABLE, "there is no GPU %u, only %d", index, count);
    return STATUS_OK;
}

/* Streams share the queues of the GPU in the order of their making: those that compute come first, so that
 * each has its own. */
static cudaError_t make_streams(device_t *d)
{
    static const uint32_t kinds[] = {LANE_COMPUTE, LANE_IN, LANE_OUT};
    cudaError_t error = cudaStreamCreateWithFlags(&d->streams[STREAM_PREPARE], cudaStreamNonBlocking);
    for (uint32_t k = 0; k < LANE_STREAMS; k++)
        for (uint32_t lane = 0; error == cudaSuccess && lane < d->lanes; lane++)
            error =
                cudaStreamCreateWithFlags(&d->streams[device_stream(lane, kinds[k])], cudaStreamNonBlocking);
    return error;
}

static status_t make_queues(device_t *d, err_t *err)
{
    cudaError_t error = make_streams(d);
    for (uint32_t i = 0; error == cudaSuccess && i < d->lanes * LANE_EVENTS; i++)
        error = cudaEventCreateWithFlags(&d->events[i], cudaEventDisableTiming);
    for (uint32_t i = 0; error == cudaSuccess && i < 2; i++)
        error = cudaEventCreate(&d->timing[i]);
    return device_check(d, error, "starting the device", err);
}

static status_t make_handles(device_t *d, err_t *err)
{
    cudnnStatus_t made = device_make_cudnn(d, STREAM_PREPARE);
    if (made != CUDNN_STATUS_SUCCESS)
        return err_set(err, STATUS_UNAVAILABLE, "cuDNN does not start: %s",
                       d->lib->cudnnGetErrorString(made));
    cublasStatus_t status = d->lib->cublasLtCreate(&d->lt);
    if (status != CUBLAS_STATUS_SUCCESS)
        return err_set(err, STATUS_UNAVAILABLE, "cuBLASLt does not start (%d)", (int)status);
    return STATUS_OK;
}

static status_t start(device_t *d, err_t *err)
{
    struct cudaDeviceProp properties;
    status_t status = device_enter(d, err);
    if (status == STATUS_OK)
        status =
            device_check(d, cudaGetDeviceProperties(&properties, d->index), "asking for its properties", err);
    if (status != STATUS_OK)
        return status;
    if (properties.major < 8)
        return err_set(err, STATUS_UNSUPPORTED, "GPU %d (%.60s) has compute capability %d.%d; 8.0 is needed",
                       d->index, properties.name, properties.major, properties.minor);
    snprintf(d->name, sizeof d->name, "%.60s", properties.name);
    status = make_queues(d, err);
    return status == STATUS_OK ? make_handles(d, err) : status;
}

status_t device_open(uint32_t index, uint32_t lanes, device_t **device, err_t *err)
{
    const libraries_t *lib;
    status_t status = check_index(index, err);
    if (status == STATUS_OK)
        status = libraries_open(&lib, err);
    if (status != STATUS_OK)
        return status;
    device_t *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a device");
    d->index = (int)index;
    d->lanes = lanes;
    d->lib = lib;
    pthread_mutex_init(&d->choosing, NULL);
    pthread_mutex_init(&d->executing, NULL);
    status = start(d, err);
    if (status == STATUS_OK)
        *device = d;
    else
        device_close(d);
    return status;
}

void device_close(device_t *d)
{
    cudaSetDevice(d->index);
    choices_free(d);
    if (d->lt)
        d->lib->cublasLtDestroy(d->lt);
    for (uint32_t i = 0; i < DEVICE_STREAMS_MAX; i++) {
        if (d->cudnn[i])
            d->lib->cudnnDestroy(d->cudnn[i]);
        if (d->streams[i])
            cudaStreamDestroy(d->streams[i]);
    }
    for (uint32_t i = 0; i < d->lanes * LANE_EVENTS; i++)
        if (d->events[i])
            cudaEventDestroy(d->events[i]);
    for (uint32_t i = 0; i < 2; i++)
        if (d->timing[i])
            cudaEventDestroy(d->timing[i]);
    cudaGetLastError();
    pthread_mutex_destroy(&d->executing);
    pthread_mutex_destroy(&d->choosing);
    free(d);
}
