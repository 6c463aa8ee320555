/*
 * The kernels on the CPU, one element after the other: how the tests check the lowering and the kernels'
 * arithmetic on a machine without a GPU. Not part of the plug-in.
 */
#include "engine/cuda/device/kernels.h"

#include "engine/cuda/device/kernel_body.h"

#define EACH(args_t, run, total)                             \
    {                                                        \
        const args_t *a = args;                              \
        for (int64_t i = 0, count = (total); i < count; i++) \
            run;                                             \
        break;                                               \
    }

static void run_elementwise(const k_elementwise_t *a, int32_t i)
{
    if (a->compute == DTYPE_F32)
        k_run_f32(a, i);
    else if (a->compute == DTYPE_F64)
        k_run_f64(a, i);
    else
        k_run_i64(a, i);
}

int kernel_launch(kernel_t kernel, const void *args, void *stream)
{
    (void)stream;
    switch (kernel) {
    case KERNEL_ELEMENTWISE:
        EACH(k_elementwise_t, run_elementwise(a, (int32_t)i), a->space.count)
    case KERNEL_COPY:
        EACH(k_copy_t, k_run_copy(a, (int32_t)i), a->space.count)
    case KERNEL_FILL:
        EACH(k_fill_t, k_run_fill(a, (int32_t)i), a->count)
    case KERNEL_REDUCE:
        EACH(k_reduce_t, k_run_reduce(a, (int32_t)i, 0, 1), a->rows.count)
    case KERNEL_SOFTMAX:
        EACH(k_softmax_t, k_run_softmax(a, (int32_t)i, 0, 1), a->rows.count)
    case KERNEL_NORM:
        EACH(k_norm_t, k_run_norm(a, (int32_t)i, 0, 1), a->rows.count)
    case KERNEL_POOL:
        EACH(k_pool_t, k_run_pool(a, (int32_t)i), a->space.count)
    case KERNEL_CONV:
        EACH(k_conv_t, k_run_conv(a, (int32_t)i), a->space.count)
    case KERNEL_GEMM:
        EACH(k_gemm_t, k_run_gemm(a, (int32_t)i), a->space.count)
    case KERNEL_GATHER:
        EACH(k_gather_t, k_run_gather(a, (int32_t)i), (int64_t)a->outer * a->indices * a->inner)
    case KERNEL_GATHER_ELEMENTS:
        EACH(k_gather_elements_t, k_run_gather_elements(a, (int32_t)i), a->space.count)
    case KERNEL_CONCAT:
        EACH(k_concat_t, k_run_concat(a, (int32_t)i), a->count)
    default:
        EACH(k_pad_t, k_run_pad(a, (int32_t)i), a->space.count)
    }
    return 0;
}
