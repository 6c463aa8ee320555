/*
 * Inside the real device: what cudnn_conv.c and lt_gemm.c need of it.
 */
#ifndef ENGINE_CUDA_DEVICE_CUDA_H
#define ENGINE_CUDA_DEVICE_CUDA_H

#include "engine/cuda/device.h"
#include "engine/cuda/libraries.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

struct device {
    int index;
    char name[64];
    cudaStream_t streams[STREAM_COUNT];
    cudaEvent_t events[DEVICE_EVENTS];
    const libraries_t *lib;
    cudnnHandle_t cudnn[STREAM_COUNT]; /* one per stream that computes; a handle belongs to one thread at a time */
    cublasLtHandle_t lt;
    pthread_mutex_t choosing; /* timings do not disturb each other, and share STREAM_PREPARE's handle */
    cudaEvent_t timing[2];
    atomic_bool lost;
};

/* STATUS_OK, or the error with its text; remembers a lost device. Sticky errors of the runtime are cleared. */
status_t device_check(device_t *device, cudaError_t error, const char *what, err_t *err);

/* How one CONV or GEMM step runs. Opaque outside its file; `kind` tells which. */
typedef struct {
    enum { CHOICE_DIRECT, CHOICE_CONV, CHOICE_GEMM } kind;
    bool fused; /* the tail is done as well */
    size_t scratch_bytes;
    cudnnBackendDescriptor_t plan;  /* CONV */
    cublasLtMatmulDesc_t operation; /* GEMM */
    cublasLtMatrixLayout_t a, b, c, d;
    cublasLtMatmulAlgo_t algorithm;
} choice_t;

/* Median of some runs on STREAM_PREPARE, in nanoseconds; negative = it failed. run answers false on failure. */
double device_time(device_t *device, bool (*run)(void *arg), void *arg);

/*
 * The fastest of what the library proposes for a bound step; UNSUPPORTED when it proposes nothing that works. `scratch` is
 * there to try it in.
 */
status_t conv_choose(device_t *device, step_t *step, engine_precision_t precision, void *scratch, size_t scratch_bytes,
                     choice_t *choice, err_t *err);
status_t gemm_choose(device_t *device, step_t *step, engine_precision_t precision, void *scratch, size_t scratch_bytes,
                     choice_t *choice, err_t *err);

/* Queue the part that the library does. */
status_t conv_run(device_t *device, stream_t stream, const step_t *step, const choice_t *choice, void *scratch,
                  err_t *err);
status_t gemm_run(device_t *device, stream_t stream, const step_t *step, const choice_t *choice, void *scratch,
                  err_t *err);

void choice_destroy(device_t *device, choice_t *choice);

#endif
