/*
 * cuDNN and cuBLASLt, opened at run time: together they are a gigabyte, and a worker without a GPU must start without
 * them. The table has the very types of the headers that the plug-in was built with.
 */
#ifndef ENGINE_CUDA_DEVICE_LIBRARIES_H
#define ENGINE_CUDA_DEVICE_LIBRARIES_H

#include "base/status.h"

#include <cublasLt.h>
#include <cudnn.h>

#define CUDNN_FUNCTIONS(X)           \
    X(cudnnCreate)                   \
    X(cudnnDestroy)                  \
    X(cudnnSetStream)                \
    X(cudnnGetVersion)               \
    X(cudnnGetErrorString)           \
    X(cudnnBackendCreateDescriptor)  \
    X(cudnnBackendDestroyDescriptor) \
    X(cudnnBackendSetAttribute)      \
    X(cudnnBackendGetAttribute)      \
    X(cudnnBackendFinalize)          \
    X(cudnnBackendExecute)

#define CUBLASLT_FUNCTIONS(X)               \
    X(cublasLtCreate)                       \
    X(cublasLtDestroy)                      \
    X(cublasLtGetVersion)                   \
    X(cublasLtMatmul)                       \
    X(cublasLtMatmulDescCreate)             \
    X(cublasLtMatmulDescDestroy)            \
    X(cublasLtMatmulDescSetAttribute)       \
    X(cublasLtMatrixLayoutCreate)           \
    X(cublasLtMatrixLayoutDestroy)          \
    X(cublasLtMatrixLayoutSetAttribute)     \
    X(cublasLtMatmulPreferenceCreate)       \
    X(cublasLtMatmulPreferenceDestroy)      \
    X(cublasLtMatmulPreferenceSetAttribute) \
    X(cublasLtMatmulAlgoGetHeuristic)

#define LIBRARIES_MEMBER(name) __typeof__(&name) name;

typedef struct {
    void *cudnn, *cublaslt; /* handles of dlopen */
    CUDNN_FUNCTIONS(LIBRARIES_MEMBER)
    CUBLASLT_FUNCTIONS(LIBRARIES_MEMBER)
} libraries_t;

/* Opens both once per process and keeps them. UNAVAILABLE names the library, or the function it lacks. */
status_t libraries_open(const libraries_t **libraries, err_t *err);

#endif
