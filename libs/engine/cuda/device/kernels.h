/*
 * Launching our own kernels. kernels.cu runs them on the GPU; the tests link kernels_host.c instead, which
 * runs the same bodies on the CPU.
 */
#ifndef ENGINE_CUDA_DEVICE_KERNELS_H
#define ENGINE_CUDA_DEVICE_KERNELS_H

#include "engine/cuda/device/kernel_args.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    KERNEL_ELEMENTWISE,
    KERNEL_COPY,
    KERNEL_FILL,
    KERNEL_REDUCE,
    KERNEL_SOFTMAX,
    KERNEL_NORM,
    KERNEL_POOL,
    KERNEL_CONV,
    KERNEL_GEMM,
    KERNEL_GATHER,
    KERNEL_GATHER_ELEMENTS,
    KERNEL_PAD,
    KERNEL_CONCAT,
    KERNEL_COUNT
} kernel_t;

/* Queues the kernel on a stream (a cudaStream_t) and returns the cudaError_t. args is the k_…_t of that kernel. */
int kernel_launch(kernel_t kernel, const void *args, void *stream);

#ifdef __cplusplus
}
#endif

#endif
