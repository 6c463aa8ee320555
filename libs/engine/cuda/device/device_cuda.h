/*
 * Inside the real device: what its files need of each other.
 */
#ifndef ENGINE_CUDA_DEVICE_DEVICE_CUDA_H
#define ENGINE_CUDA_DEVICE_DEVICE_CUDA_H

#include "engine/cuda/device/device.h"
#include "engine/cuda/device/libraries.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct choice choice_t;

struct device {
    int index;
    char name[64];
    uint32_t lanes;
    cudaStream_t streams[DEVICE_STREAMS_MAX];
    cudaEvent_t events[DEVICE_LANES_MAX * LANE_EVENTS];
    const libraries_t *lib;
    cudnnHandle_t cudnn
        [DEVICE_STREAMS_MAX]; /* of the streams that have run a convolution; a handle serves one thread at a time */
    pthread_mutex_t executing; /* cuDNN's plans are not safe to be run by several threads at once */
    cublasLtHandle_t lt;       /* serves all threads */
    pthread_mutex_t choosing;  /* timings do not disturb each other, and share STREAM_PREPARE's handle */
    cudaEvent_t timing[2];
    choice_t *choices; /* under `choosing`; the one that was wanted last first */
    uint32_t choice_count;
    int64_t compile_ns; /* under `choosing`: spent on kernels that cuDNN compiles when it is asked for them */
    atomic_bool lost;
};

/* STATUS_OK, or the error with its text; remembers a lost device. Sticky errors of the runtime are cleared. */
status_t device_check(device_t *device, cudaError_t error, const char *what, err_t *err);

/* Each thread has a current device of its own. */
status_t device_enter(device_t *device, err_t *err);

/*
 * How steps of one shape run. Chosen once and kept by the device, for all models and batch sizes; read by any
 * thread. Those that no plan uses any more go when there are too many: sequences of all lengths make new
 * shapes for ever.
 */
struct choice {
    struct choice *next;
    char *key;
    uint32_t users; /* steps of plans; under `choosing` */
    enum { CHOICE_DIRECT, CHOICE_CONV, CHOICE_GEMM } kind;
    bool fused; /* CONV: the tail is done as well */
    size_t scratch_bytes;
    double time_ns;
    cudnnBackendDescriptor_t plan, config; /* CONV; the plan may refer to its engine configuration */
    cublasLtMatmulAlgo_t algorithm;        /* GEMM */
    engine_precision_t precision;
    effort_t effort;
};

/* Time of one run on STREAM_PREPARE, median of several, in nanoseconds; 0 after one run for EFFORT_FIRST;
 * negative = it failed. */
double device_time(device_t *device, effort_t effort, bool (*run)(void *arg), void *arg);

/* When the device closes. */
void choices_free(device_t *device);

cudnnStatus_t device_make_cudnn(device_t *device, stream_t stream);
/* The cuDNN handle of a stream, made when it is first wanted. NULL = cuDNN does not start. */
cudnnHandle_t device_cudnn(device_t *device, stream_t stream);

/* What makes two steps alike, as text; valid in `to`. */
enum { CHOICE_KEY_BYTES = 512 };
void conv_key(const conv_step_t *conv, engine_precision_t precision, char to[CHOICE_KEY_BYTES]);
void gemm_key(const gemm_step_t *gemm, engine_precision_t precision, char to[CHOICE_KEY_BYTES]);

/*
 * The fastest of what the library proposes for a bound step goes into choice, which stays DIRECT when nothing works.
 * scratch is there to try it in.
 */
void conv_choose(device_t *device, const conv_step_t *conv, void *scratch, size_t scratch_bytes,
                 choice_t *choice);
void conv_dispose(const libraries_t *lib, choice_t *choice);
void gemm_choose(device_t *device, const gemm_step_t *gemm, void *scratch, size_t scratch_bytes,
                 choice_t *choice);

/* Queue the part that the library does. */
status_t conv_run(device_t *device, stream_t stream, const conv_step_t *conv, const choice_t *choice,
                  void *scratch, err_t *err);
status_t gemm_run(device_t *device, stream_t stream, const gemm_step_t *gemm, const choice_t *choice,
                  void *scratch, err_t *err);

#endif
