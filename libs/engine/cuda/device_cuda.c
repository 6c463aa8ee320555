/*
 * The GPU: streams, events, memory and graphs of the CUDA runtime, which is linked statically.
 */
#include "engine/cuda/device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Each thread has its own current device. */
static status_t enter(device_t *device, err_t *err)
{
    return device_check(device, cudaSetDevice(device->index), "choosing the device", err);
}

/* ---- life ---- */

static void free_choices(device_t *d);

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
    status_t status = device_check(NULL, cudaGetDeviceCount(&count), "no GPU can be used", err);
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

static cudnnStatus_t make_cudnn(device_t *d, stream_t s)
{
    cudnnStatus_t status = d->lib->cudnnCreate(&d->cudnn[s]);
    return status == CUDNN_STATUS_SUCCESS ? d->lib->cudnnSetStream(d->cudnn[s], d->streams[s]) : status;
}

cudnnHandle_t device_cudnn(device_t *d, stream_t s)
{
    return d->cudnn[s] || make_cudnn(d, s) == CUDNN_STATUS_SUCCESS ? d->cudnn[s] : NULL;
}

static status_t make_handles(device_t *d, err_t *err)
{
    cudnnStatus_t made = make_cudnn(d, STREAM_PREPARE);
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
    status_t status = enter(d, err);
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
    free_choices(d);
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
    if (enter(d, &err) != STATUS_OK)
        return NULL;
    return device_check(d, cudaMalloc(&memory, len), "allocating", &err) == STATUS_OK ? memory : NULL;
}

void device_free(device_t *d, void *memory)
{
    err_t err;
    if (enter(d, &err) == STATUS_OK)
        device_check(d, cudaFree(memory), "freeing", &err);
}

/* Portable: pinned for the other GPUs of the process as well. */
void *device_pinned_alloc(device_t *d, size_t len)
{
    void *memory = NULL;
    err_t err;
    if (enter(d, &err) != STATUS_OK)
        return NULL;
    cudaError_t error = cudaHostAlloc(&memory, len ? len : 1, cudaHostAllocPortable);
    return device_check(d, error, "allocating pinned memory", &err) == STATUS_OK ? memory : NULL;
}

void device_pinned_free(device_t *d, void *memory)
{
    err_t err;
    if (enter(d, &err) == STATUS_OK)
        device_check(d, cudaFreeHost(memory), "freeing pinned memory", &err);
}

/* ---- streams ---- */

status_t device_copy(device_t *d, stream_t s, void *to, const void *from, size_t len, err_t *err)
{
    status_t status = enter(d, err);
    if (status != STATUS_OK || !len)
        return status;
    return device_check(d, cudaMemcpyAsync(to, from, len, cudaMemcpyDefault, d->streams[s]), "copying", err);
}

status_t device_zero(device_t *d, stream_t s, void *to, size_t len, err_t *err)
{
    status_t status = enter(d, err);
    if (status != STATUS_OK || !len)
        return status;
    return device_check(d, cudaMemsetAsync(to, 0, len, d->streams[s]), "clearing", err);
}

status_t device_sync(device_t *d, stream_t s, err_t *err)
{
    status_t status = enter(d, err);
    return status == STATUS_OK ? device_check(d, cudaStreamSynchronize(d->streams[s]), "running", err)
                               : status;
}

status_t device_mark(device_t *d, stream_t s, uint32_t event, err_t *err)
{
    status_t status = enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaEventRecord(d->events[event], d->streams[s]), "marking", err)
               : status;
}

status_t device_follow(device_t *d, stream_t s, uint32_t event, err_t *err)
{
    status_t status = enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaStreamWaitEvent(d->streams[s], d->events[event], 0), "following", err)
               : status;
}

status_t device_wait(device_t *d, uint32_t event, err_t *err)
{
    status_t status = enter(d, err);
    return status == STATUS_OK ? device_check(d, cudaEventSynchronize(d->events[event]), "running", err)
                               : status;
}

/* ---- stamps ---- */

status_t device_stamps_create(device_t *d, uint32_t count, device_stamps_t **stamps, err_t *err)
{
    status_t status = enter(d, err);
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
    status_t status = enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaEventRecord(stamps->events[i], d->streams[s]), "taking a time", err)
               : status;
}

status_t device_stamps_read(device_t *d, device_stamps_t *stamps, int64_t *between_ns, err_t *err)
{
    status_t status = enter(d, err);
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

enum { CHOICES_MAX = 4096 }; /* some hundred plans of dozens of shapes */

static void destroy_choice(device_t *d, choice_t *c)
{
    conv_dispose(d->lib, c);
    free(c->key);
    free(c);
    d->choice_count--;
}

/* The one that was wanted longest ago goes, of those that nobody uses; there may be none. */
static void drop_oldest(device_t *d)
{
    choice_t **oldest = NULL;
    for (choice_t **at = &d->choices; *at; at = &(*at)->next)
        if (!(*at)->users)
            oldest = at;
    if (!oldest)
        return;
    choice_t *c = *oldest;
    *oldest = c->next;
    destroy_choice(d, c);
}

static void put_first(device_t *d, choice_t *c)
{
    c->next = d->choices;
    d->choices = c;
}

/* With this key, and no larger need; it is the first one then. */
static choice_t *find_choice(device_t *d, const char *key, size_t scratch_bytes)
{
    for (choice_t **at = &d->choices; *at; at = &(*at)->next) {
        choice_t *c = *at;
        if (strcmp(c->key, key) != 0 || c->scratch_bytes > scratch_bytes)
            continue;
        *at = c->next;
        put_first(d, c);
        return c;
    }
    return NULL;
}

static choice_t *new_choice(device_t *d, const step_t *step, engine_precision_t precision, effort_t effort,
                            const char *key, void *scratch, size_t scratch_bytes)
{
    choice_t *c = calloc(1, sizeof *c);
    char *copy = strdup(key);
    if (!c || !copy) {
        free(c);
        free(copy);
        return NULL;
    }
    c->key = copy;
    c->precision = precision;
    c->effort = effort;
    if (step->kind == STEP_CONV)
        conv_choose(d, &step->u.conv, scratch, scratch_bytes, c);
    else
        gemm_choose(d, &step->u.gemm, scratch, scratch_bytes, c);
    if (d->choice_count >= CHOICES_MAX)
        drop_oldest(d);
    d->choice_count++;
    put_first(d, c);
    return c;
}

status_t device_choose(device_t *d, step_t *step, engine_precision_t precision, effort_t effort,
                       void *scratch, size_t scratch_bytes, err_t *err)
{
    char key[CHOICE_KEY_BYTES];
    status_t status = enter(d, err);
    if (status != STATUS_OK)
        return status;
    if (step->kind == STEP_CONV)
        conv_key(&step->u.conv, precision, key);
    else
        gemm_key(&step->u.gemm, precision, key);
    if (effort == EFFORT_FIRST)
        strncat(key, " first", sizeof key - strlen(key) - 1);
    pthread_mutex_lock(&d->choosing);
    choice_t *c = find_choice(d, key, scratch_bytes);
    if (!c)
        c = new_choice(d, step, precision, effort, key, scratch, scratch_bytes);
    if (c)
        c->users++;
    pthread_mutex_unlock(&d->choosing);
    step->plan = c;
    if (!c)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a choice of kernels");
    cudaGetLastError(); /* what a library left behind that does not work here */
    return device_check(d, cudaStreamSynchronize(d->streams[STREAM_PREPARE]), "choosing kernels", err);
}

static void free_choices(device_t *d)
{
    for (choice_t *next, *c = d->choices; c; c = next) {
        next = c->next;
        destroy_choice(d, c);
    }
}

size_t device_step_scratch(const step_t *step)
{
    const choice_t *c = step->plan;
    return c ? c->scratch_bytes : 0;
}

void device_release(device_t *d, step_t *step)
{
    choice_t *c = step->plan;
    if (!c)
        return;
    pthread_mutex_lock(&d->choosing);
    c->users--;
    pthread_mutex_unlock(&d->choosing);
    step->plan = NULL;
}

const char *device_step_choice(const step_t *step)
{
    const choice_t *c = step->plan;
    if (!c || c->kind == CHOICE_DIRECT)
        return "direct";
    if (c->kind == CHOICE_CONV)
        return c->fused ? "cudnn fused" : "cudnn";
    return "cublaslt";
}

static status_t launch(device_t *d, stream_t s, kernel_t kernel, const void *args, err_t *err)
{
    return device_check(d, (cudaError_t)kernel_launch(kernel, args, d->streams[s]), "launching a kernel",
                        err);
}

/* Our own kernel, or the library's, and behind it what of the epilogue that one left out. */
static status_t run_conv(device_t *d, stream_t s, step_t *step, void *scratch, err_t *err)
{
    const choice_t *c = step->plan;
    const conv_step_t *conv = &step->u.conv;
    bool library = c && c->kind == CHOICE_CONV;
    status_t status =
        library ? conv_run(d, s, conv, c, scratch, err) : launch(d, s, KERNEL_CONV, &conv->direct, err);
    bool rest = conv->tail.ew.op_count && !(library && c->fused);
    return status == STATUS_OK && rest ? launch(d, s, KERNEL_ELEMENTWISE, &conv->tail.ew, err) : status;
}

static status_t run_gemm(device_t *d, stream_t s, step_t *step, void *scratch, err_t *err)
{
    const choice_t *c = step->plan;
    const gemm_step_t *gemm = &step->u.gemm;
    bool library = c && c->kind == CHOICE_GEMM;
    status_t status =
        library ? gemm_run(d, s, gemm, c, scratch, err) : launch(d, s, KERNEL_GEMM, &gemm->direct, err);
    const k_elementwise_t *rest = library ? &gemm->rest.ew : &gemm->whole.ew;
    return status == STATUS_OK && rest->op_count ? launch(d, s, KERNEL_ELEMENTWISE, rest, err) : status;
}

status_t device_run_step(device_t *d, stream_t s, step_t *step, void *scratch, size_t scratch_bytes,
                         err_t *err)
{
    status_t status = enter(d, err);
    if (status != STATUS_OK)
        return status;
    if (device_step_scratch(step) > scratch_bytes && step->kind != STEP_KERNEL)
        return err_set(err, STATUS_INTERNAL, "a step has too little room to work in");
    switch (step->kind) {
    case STEP_CONV:
        return run_conv(d, s, step, scratch, err);
    case STEP_GEMM:
        return run_gemm(d, s, step, scratch, err);
    default:
        return launch(d, s, step->kernel, &step->u, err);
    }
}

/* ---- graphs ---- */

status_t device_capture_begin(device_t *d, stream_t s, err_t *err)
{
    status_t status = enter(d, err);
    if (status != STATUS_OK)
        return status;
    return device_check(d, cudaStreamBeginCapture(d->streams[s], cudaStreamCaptureModeThreadLocal),
                        "recording a graph", err);
}

status_t device_capture_end(device_t *d, stream_t s, device_graph_t **graph, err_t *err)
{
    cudaGraph_t recorded = NULL;
    device_graph_t *made = calloc(1, sizeof *made);
    status_t status = enter(d, err);
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
    status_t status = enter(d, err);
    return status == STATUS_OK
               ? device_check(d, cudaGraphLaunch(graph->exec, d->streams[s]), "running a graph", err)
               : status;
}

void device_graph_destroy(device_graph_t *graph)
{
    cudaGraphExecDestroy(graph->exec);
    free(graph);
}
