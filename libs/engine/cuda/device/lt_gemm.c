/*
 * Matrix products by cuBLASLt. It counts columns first: our row-major d = a · b is its d' = b' · a', so a and b change
 * places, and a bias per column of ours is a bias per row of its.
 */
#include "engine/cuda/device/device_cuda.h"

#include <stdio.h>
#include <string.h>

enum { CANDIDATES = 8 };

typedef struct {
    const libraries_t *lib;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t a, b, c, d;
    bool ok;
} problem_t;

static cudaDataType_t data_type(dtype_t dtype)
{
    return dtype == DTYPE_F16 ? CUDA_R_16F : dtype == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static void set(problem_t *p, cublasLtMatmulDescAttributes_t name, const void *value, size_t size)
{
    p->ok = p->ok &&
            p->lib->cublasLtMatmulDescSetAttribute(p->operation, name, value, size) == CUBLAS_STATUS_SUCCESS;
}

static cublasLtMatrixLayout_t layout(problem_t *p, const gemm_step_t *g, int64_t rows, int64_t columns,
                                     int64_t ld, int64_t batch_stride)
{
    cublasLtMatrixLayout_t made = NULL;
    const libraries_t *lib = p->lib;
    int32_t batch = (int32_t)g->batch;
    p->ok = p->ok && lib->cublasLtMatrixLayoutCreate(&made, data_type(g->dtype), (uint64_t)rows,
                                                     (uint64_t)columns, ld) == CUBLAS_STATUS_SUCCESS;
    if (p->ok && g->batch > 1)
        p->ok = lib->cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                      sizeof batch) == CUBLAS_STATUS_SUCCESS &&
                lib->cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                      &batch_stride,
                                                      sizeof batch_stride) == CUBLAS_STATUS_SUCCESS;
    return made;
}

static cublasLtEpilogue_t epilogue_of(const gemm_step_t *g)
{
    if (g->activation == EW_RELU)
        return g->has_bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    if (g->activation == EW_GELU_TANH)
        return g->has_bias ? CUBLASLT_EPILOGUE_GELU_BIAS : CUBLASLT_EPILOGUE_GELU;
    return g->has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static void dispose(problem_t *p)
{
    cublasLtMatrixLayout_t layouts[] = {p->a, p->b, p->c, p->d};
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        if (layouts[i])
            p->lib->cublasLtMatrixLayoutDestroy(layouts[i]);
    if (p->operation)
        p->lib->cublasLtMatmulDescDestroy(p->operation);
}

/* Its a is our b and the other way round. */
static problem_t describe(const libraries_t *lib, const gemm_step_t *g, engine_precision_t precision)
{
    problem_t p = {.lib = lib, .ok = true};
    cublasComputeType_t compute =
        precision == ENGINE_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t first = g->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      second = g->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = epilogue_of(g);
    p.ok = lib->cublasLtMatmulDescCreate(&p.operation, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS;
    set(&p, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
    set(&p, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
    set(&p, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (g->has_bias) {
        cudaDataType_t type = data_type(g->dtype);
        set(&p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &g->bias.base, sizeof g->bias.base);
        set(&p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &type, sizeof type);
    }
    p.a = g->b_transposed ? layout(&p, g, g->k, g->n, g->ldb, g->b_batch)
                          : layout(&p, g, g->n, g->k, g->ldb, g->b_batch);
    p.b = g->a_transposed ? layout(&p, g, g->m, g->k, g->lda, g->a_batch)
                          : layout(&p, g, g->k, g->m, g->lda, g->a_batch);
    p.c = layout(&p, g, g->n, g->m, g->ldc, g->c_batch);
    p.d = layout(&p, g, g->n, g->m, g->ldc, g->c_batch);
    return p;
}

static status_t execute(device_t *d, stream_t stream, const gemm_step_t *g, const problem_t *p,
                        const cublasLtMatmulAlgo_t *algorithm, void *scratch, size_t scratch_bytes,
                        err_t *err)
{
    float alpha = g->direct.alpha, beta = g->has_residual ? 1 : 0;
    const void *c = g->has_residual ? g->residual.base : g->direct.out.base;
    cublasStatus_t status = d->lib->cublasLtMatmul(
        d->lt, p->operation, &alpha, g->direct.b.base, p->a, g->direct.a.base, p->b, &beta, c, p->c,
        g->direct.out.base, p->d, algorithm, scratch, scratch_bytes, d->streams[stream]);
    if (status == CUBLAS_STATUS_SUCCESS)
        return STATUS_OK;
    status_t lost = device_check(d, cudaGetLastError(), "cuBLASLt", err);
    return lost != STATUS_OK ? lost : err_set(err, STATUS_INTERNAL, "cuBLASLt reports error %d", (int)status);
}

/* ---- choosing ---- */

static uint32_t alignment_of(const void *pointer)
{
    uintptr_t p = (uintptr_t)pointer;
    uint32_t align = 256;
    while (p % align)
        align /= 2;
    return align;
}

static cublasLtMatmulPreference_t preference(const libraries_t *lib, const gemm_step_t *g,
                                             size_t scratch_bytes)
{
    cublasLtMatmulPreference_t p = NULL;
    uint64_t workspace = scratch_bytes;
    const struct {
        cublasLtMatmulPreferenceAttributes_t name;
        const void *pointer;
    } aligned[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, g->direct.b.base},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, g->direct.a.base},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, g->has_residual ? g->residual.base : g->direct.out.base},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, g->direct.out.base},
    };
    if (lib->cublasLtMatmulPreferenceCreate(&p) != CUBLAS_STATUS_SUCCESS)
        return NULL;
    bool ok =
        lib->cublasLtMatmulPreferenceSetAttribute(p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
                                                  sizeof workspace) == CUBLAS_STATUS_SUCCESS;
    for (size_t i = 0; ok && i < sizeof aligned / sizeof aligned[0]; i++) {
        uint32_t align = alignment_of(aligned[i].pointer);
        ok = lib->cublasLtMatmulPreferenceSetAttribute(p, aligned[i].name, &align, sizeof align) ==
             CUBLAS_STATUS_SUCCESS;
    }
    if (ok)
        return p;
    lib->cublasLtMatmulPreferenceDestroy(p);
    return NULL;
}

typedef struct {
    device_t *device;
    const gemm_step_t *gemm;
    const problem_t *problem;
    cublasLtMatmulHeuristicResult_t *result;
    void *scratch;
} trial_t;

static bool run_trial(void *arg)
{
    trial_t *t = arg;
    err_t err;
    return execute(t->device, STREAM_PREPARE, t->gemm, t->problem, &t->result->algo, t->scratch,
                   t->result->workspaceSize, &err) == STATUS_OK;
}

static void time_results(device_t *d, const gemm_step_t *g, const problem_t *p,
                         cublasLtMatmulHeuristicResult_t *results, int count, void *scratch, choice_t *choice)
{
    for (int i = 0; i < count && (choice->effort == EFFORT_FASTEST || choice->kind == CHOICE_DIRECT); i++) {
        trial_t trial = {.device = d, .gemm = g, .problem = p, .result = &results[i], .scratch = scratch};
        double time_ns = results[i].state == CUBLAS_STATUS_SUCCESS
                             ? device_time(d, choice->effort, run_trial, &trial)
                             : -1;
        if (time_ns < 0 || (choice->kind == CHOICE_GEMM && time_ns >= choice->time_ns))
            continue;
        choice->kind = CHOICE_GEMM;
        choice->time_ns = time_ns;
        choice->algorithm = results[i].algo;
        choice->scratch_bytes = results[i].workspaceSize;
    }
}

void gemm_choose(device_t *d, const gemm_step_t *g, void *scratch, size_t scratch_bytes, choice_t *choice)
{
    cublasLtMatmulHeuristicResult_t results[CANDIDATES];
    int count = 0;
    if (!g->library)
        return;
    problem_t p = describe(d->lib, g, choice->precision);
    cublasLtMatmulPreference_t wishes = preference(d->lib, g, scratch_bytes);
    bool ok = p.ok && wishes &&
              d->lib->cublasLtMatmulAlgoGetHeuristic(d->lt, p.operation, p.a, p.b, p.c, p.d, wishes,
                                                     CANDIDATES, results, &count) == CUBLAS_STATUS_SUCCESS;
    if (ok)
        time_results(d, g, &p, results, count, scratch, choice);
    if (wishes)
        d->lib->cublasLtMatmulPreferenceDestroy(wishes);
    dispose(&p);
}

void gemm_key(const gemm_step_t *g, engine_precision_t precision, char to[CHOICE_KEY_BYTES])
{
    snprintf(to, CHOICE_KEY_BYTES,
             "gemm %d l%d %lldx%lldx%lld batch%lld ld%lld,%lld,%lld bs%lld,%lld,%lld t%d%d b%d r%d act%d "
             "al%u,%u,%u,%u",
             (int)precision, g->library, (long long)g->m, (long long)g->n, (long long)g->k,
             (long long)g->batch, (long long)g->lda, (long long)g->ldb, (long long)g->ldc,
             (long long)g->a_batch, (long long)g->b_batch, (long long)g->c_batch, g->a_transposed,
             g->b_transposed, g->has_bias, g->has_residual, g->activation, alignment_of(g->direct.a.base),
             alignment_of(g->direct.b.base), alignment_of(g->direct.out.base),
             alignment_of(g->residual.base));
}

/* The descriptors are made anew, as they hold the bias; under a graph that happens once. */
status_t gemm_run(device_t *d, stream_t stream, const gemm_step_t *g, const choice_t *choice, void *scratch,
                  err_t *err)
{
    problem_t p = describe(d->lib, g, choice->precision);
    status_t status = p.ok
                          ? execute(d, stream, g, &p, &choice->algorithm, scratch, choice->scratch_bytes, err)
                          : err_set(err, STATUS_INTERNAL, "cuBLASLt refuses a descriptor");
    dispose(&p);
    return status;
}
