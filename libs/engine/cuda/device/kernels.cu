/*
 * Our own kernels on the GPU: one thread per element, or one thread or warp per row.
 */
#include "engine/cuda/device/kernels.h"

#include "engine/cuda/device/kernel_body.h"

namespace
{

constexpr int kThreads = 256;
constexpr int kWarp = 32;

/* Compute is a constant in each instance, so that the two other interpreters vanish from it. */
template <int Compute> __global__ void elementwise(const __grid_constant__ k_elementwise_t a)
{
    int64_t i = (int64_t)blockIdx.x * kThreads + threadIdx.x;
    if (i >= a.space.count)
        return;
    if (Compute == DTYPE_F32)
        k_run_f32(&a, (int32_t)i);
    else if (Compute == DTYPE_F64)
        k_run_f64(&a, (int32_t)i);
    else
        k_run_i64(&a, (int32_t)i);
}

#define PER_ELEMENT(name, args_t, count)                          \
    __global__ void name(const __grid_constant__ args_t a)        \
    {                                                             \
        int64_t i = (int64_t)blockIdx.x * kThreads + threadIdx.x; \
        if (i < (count))                                          \
            k_run_##name(&a, (int32_t)i);                         \
    }

PER_ELEMENT(copy, k_copy_t, a.space.count)
PER_ELEMENT(fill, k_fill_t, a.count)
PER_ELEMENT(pool, k_pool_t, a.space.count)
PER_ELEMENT(conv, k_conv_t, a.space.count)
PER_ELEMENT(gemm, k_gemm_t, a.space.count)
PER_ELEMENT(gather, k_gather_t, (int64_t)a.outer *a.indices *a.inner)
PER_ELEMENT(gather_elements, k_gather_elements_t, a.space.count)
PER_ELEMENT(pad, k_pad_t, a.space.count)
PER_ELEMENT(concat, k_concat_t, a.count)

/* A whole warp leaves together, so the shuffles inside always meet. */
#define PER_ROW(name, args_t)                                                      \
    template <int Lanes> __global__ void name(const __grid_constant__ args_t a)    \
    {                                                                              \
        int64_t row = ((int64_t)blockIdx.x * kThreads + threadIdx.x) / Lanes;      \
        if (row < a.rows.count)                                                    \
            k_run_##name(&a, (int32_t)row, (int32_t)(threadIdx.x % Lanes), Lanes); \
    }

PER_ROW(reduce, k_reduce_t)
PER_ROW(softmax, k_softmax_t)
PER_ROW(norm, k_norm_t)

unsigned blocks(int64_t threads)
{
    return (unsigned)((threads + kThreads - 1) / kThreads);
}

/* A warp per row reads side by side when the row is contiguous; else neighbouring rows are, and a thread takes each. */
bool by_warp(const k_space_t &rows, int64_t length, int32_t step)
{
    constexpr int64_t kEnoughRows = 16384; /* to fill a GPU with one thread each */
    return length >= 8 && (step == 1 || rows.count < kEnoughRows);
}

void launch_elementwise(const k_elementwise_t &a, cudaStream_t s)
{
    unsigned grid = blocks(a.space.count);
    if (a.compute == DTYPE_F32)
        elementwise<DTYPE_F32><<<grid, kThreads, 0, s>>>(a);
    else if (a.compute == DTYPE_F64)
        elementwise<DTYPE_F64><<<grid, kThreads, 0, s>>>(a);
    else
        elementwise<DTYPE_I64><<<grid, kThreads, 0, s>>>(a);
}

#define LAUNCH_ROWS(name, a, length, step)                                               \
    if (by_warp((a).rows, length, step))                                                 \
        name<kWarp><<<blocks((int64_t)(a).rows.count *kWarp), kThreads, 0, stream>>>(a); \
    else                                                                                 \
        name<1><<<blocks((a).rows.count), kThreads, 0, stream>>>(a)

#define LAUNCH(name, args_t, count)                          \
    {                                                        \
        const args_t &a = *(const args_t *)args;             \
        if ((count) > 0)                                     \
            name<<<blocks(count), kThreads, 0, stream>>>(a); \
        break;                                               \
    }

int32_t last_step(const k_space_t &along, const int32_t *strides)
{
    return along.rank ? strides[along.rank - 1] : 1;
}

void launch_rows(kernel_t kernel, const void *args, cudaStream_t stream)
{
    if (kernel == KERNEL_REDUCE) {
        const k_reduce_t &a = *(const k_reduce_t *)args;
        LAUNCH_ROWS(reduce, a, a.along.count, last_step(a.along, a.along_strides));
    } else if (kernel == KERNEL_SOFTMAX) {
        const k_softmax_t &a = *(const k_softmax_t *)args;
        LAUNCH_ROWS(softmax, a, a.n, a.in_step);
    } else {
        const k_norm_t &a = *(const k_norm_t *)args;
        LAUNCH_ROWS(norm, a, a.along.count, last_step(a.along, a.in_along));
    }
}

} // namespace

extern "C" int kernel_launch(kernel_t kernel, const void *args, void *on)
{
    cudaStream_t stream = (cudaStream_t)on;
    switch (kernel) {
    case KERNEL_ELEMENTWISE:
        launch_elementwise(*(const k_elementwise_t *)args, stream);
        break;
    case KERNEL_COPY:
        LAUNCH(copy, k_copy_t, a.space.count)
    case KERNEL_FILL:
        LAUNCH(fill, k_fill_t, a.count)
    case KERNEL_POOL:
        LAUNCH(pool, k_pool_t, a.space.count)
    case KERNEL_CONV:
        LAUNCH(conv, k_conv_t, a.space.count)
    case KERNEL_GEMM:
        LAUNCH(gemm, k_gemm_t, a.space.count)
    case KERNEL_GATHER:
        LAUNCH(gather, k_gather_t, (int64_t)a.outer * a.indices * a.inner)
    case KERNEL_GATHER_ELEMENTS:
        LAUNCH(gather_elements, k_gather_elements_t, a.space.count)
    case KERNEL_PAD:
        LAUNCH(pad, k_pad_t, a.space.count)
    case KERNEL_CONCAT:
        LAUNCH(concat, k_concat_t, a.count)
    default:
        launch_rows(kernel, args, stream);
        break;
    }
    return (int)cudaGetLastError();
}
