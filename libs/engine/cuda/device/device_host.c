/*
 * The device of the tests: memory of the host, every stream done at once. Convolutions and products are
 * computed plainly from what the libraries would be told (dense tensors, leading dimensions, fused
 * epilogues), so that a wrong description shows; what the libraries would not be given goes to the kernels of
 * last resort.
 */
#include "engine/cuda/device/device_host.h"

#include "base/clock.h"
#include "engine/cuda/device/kernel_body.h"

#include <stdlib.h>
#include <string.h>

enum { HOST_ALIGN_BYTES = 256 };

const char device_engine_name[] = "cuda-host";

/* Steps as they were bound when they were queued. */
struct device_graph {
    step_t *steps;
    uint32_t count, capacity;
};

struct device {
    uint64_t memory_bytes;
    device_graph_t *recording[DEVICE_STREAMS_MAX]; /* what is queued there is kept instead of done */
};

struct device_stamps {
    uint32_t count;
    int64_t at_ns[];
};

device_host_t device_host = {.memory_bytes = (uint64_t)8 << 30};

uint32_t device_count(void)
{
    return 1;
}

status_t device_open(uint32_t index, uint32_t lanes, device_t **device, err_t *err)
{
    (void)lanes;
    if (index >= device_count())
        return err_set(err, STATUS_UNAVAILABLE, "there is no GPU %u", index);
    device_t *d = calloc(1, sizeof *d);
    if (!d)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a device");
    d->memory_bytes = device_host.memory_bytes;
    *device = d;
    return STATUS_OK;
}

void device_close(device_t *device)
{
    free(device);
}

const char *device_name(const device_t *device)
{
    (void)device;
    return "CPU";
}

uint64_t device_free_bytes(const device_t *device)
{
    return device->memory_bytes;
}

bool device_is_lost(const device_t *device)
{
    (void)device;
    return device_host.lost;
}

void *device_alloc(device_t *device, size_t len)
{
    (void)device;
    return device_host.fail_alloc ? NULL
                                  : aligned_alloc(HOST_ALIGN_BYTES, (len + HOST_ALIGN_BYTES) /
                                                                        HOST_ALIGN_BYTES * HOST_ALIGN_BYTES);
}

void device_free(device_t *device, void *memory)
{
    (void)device;
    free(memory);
}

void *device_pinned_alloc(device_t *device, size_t len)
{
    (void)device;
    return len > SIZE_MAX / 2 ? NULL
                              : aligned_alloc(HOST_ALIGN_BYTES,
                                              (len + HOST_ALIGN_BYTES) / HOST_ALIGN_BYTES * HOST_ALIGN_BYTES);
}

void device_pinned_free(device_t *device, void *memory)
{
    (void)device;
    free(memory);
}

/* What the CUDA runtime refuses while a graph is recorded, or cannot replay, is refused here. */
static status_t check(const device_t *device, stream_t stream, err_t *err)
{
    if (device_host.lost)
        return err_set(err, STATUS_UNAVAILABLE, "the device is lost");
    return device->recording[stream] ? err_set(err, STATUS_INTERNAL, "stream %u is being recorded", stream)
                                     : STATUS_OK;
}

status_t device_copy(device_t *device, stream_t stream, void *to, const void *from, size_t len, err_t *err)
{
    if (len)
        memcpy(to, from, len);
    return check(device, stream, err);
}

status_t device_zero(device_t *device, stream_t stream, void *to, size_t len, err_t *err)
{
    if (len)
        memset(to, 0, len);
    return check(device, stream, err);
}

status_t device_sync(device_t *device, stream_t stream, err_t *err)
{
    return check(device, stream, err);
}

status_t device_mark(device_t *device, stream_t stream, uint32_t event, err_t *err)
{
    (void)event;
    return device_sync(device, stream, err);
}

status_t device_follow(device_t *device, stream_t stream, uint32_t event, err_t *err)
{
    (void)event;
    return device_sync(device, stream, err);
}

status_t device_wait(device_t *device, uint32_t event, err_t *err)
{
    (void)event;
    return check(device, STREAM_PREPARE, err);
}

status_t device_stamps_create(device_t *device, uint32_t count, device_stamps_t **stamps, err_t *err)
{
    (void)device;
    device_stamps_t *made = calloc(1, sizeof *made + count * sizeof made->at_ns[0]);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory to take times");
    made->count = count;
    *stamps = made;
    return STATUS_OK;
}

status_t device_stamp(device_t *device, stream_t stream, device_stamps_t *stamps, uint32_t i, err_t *err)
{
    stamps->at_ns[i] = clock_now_ns();
    return check(device, stream, err);
}

status_t device_stamps_read(device_t *device, device_stamps_t *stamps, int64_t *between_ns, err_t *err)
{
    for (uint32_t i = 0; i + 1 < stamps->count; i++)
        between_ns[i] = stamps->at_ns[i + 1] - stamps->at_ns[i];
    return check(device, STREAM_PREPARE, err);
}

void device_stamps_destroy(device_stamps_t *stamps)
{
    free(stamps);
}

status_t device_choose(device_t *device, step_t *step, engine_precision_t precision, effort_t effort,
                       void *scratch, size_t scratch_bytes, err_t *err)
{
    (void)step;
    (void)precision;
    (void)effort;
    (void)scratch;
    (void)scratch_bytes;
    return check(device, STREAM_PREPARE, err);
}

size_t device_step_scratch(const step_t *step)
{
    (void)step;
    return 0;
}

void device_release(device_t *device, step_t *step)
{
    (void)device;
    (void)step;
}

const char *device_step_choice(const step_t *step)
{
    (void)step;
    return "direct";
}

/* ---- what cuBLASLt is told ---- */

static float gemm_element(const gemm_step_t *g, int64_t batch, int64_t i, int64_t j)
{
    float sum = 0;
    const void *in_a = g->direct.a.base, *in_b = g->direct.b.base;
    int dtype = (int)g->dtype;
    int64_t a = batch * g->a_batch + i * (g->a_transposed ? 1 : g->lda),
            a_step = g->a_transposed ? g->lda : 1,
            b = batch * g->b_batch + j * (g->b_transposed ? g->ldb : 1),
            b_step = g->b_transposed ? 1 : g->ldb;
    for (int64_t k = 0; k < g->k; k++)
        sum += k_load_f32(in_a, dtype, a + k * a_step) * k_load_f32(in_b, dtype, b + k * b_step);
    sum *= g->direct.alpha;
    if (g->has_residual)
        sum += k_load_f32(g->residual.base, (int)g->dtype, batch * g->c_batch + i * g->ldc + j);
    if (g->has_bias)
        sum += k_load_f32(g->bias.base, (int)g->dtype, j);
    k_ew_op_t act = {.op = g->activation};
    return g->activation == EW_RELU       ? (sum < 0 ? 0 : sum)
           : g->activation == EW_IDENTITY ? sum
                                          : k_float_op(&act, sum, 0);
}

static void run_gemm(const gemm_step_t *g)
{
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->m; i++)
            for (int64_t j = 0; j < g->n; j++)
                k_store_f32(g->direct.out.base, (int)g->dtype, b * g->c_batch + i * g->ldc + j,
                            gemm_element(g, b, i, j));
}

/* ---- what cuDNN is told: everything dense, channels innermost ---- */

static int64_t place(const int64_t dims[5], int64_t n, int64_t c, const int64_t at[3])
{
    return (((n * dims[2] + at[0]) * dims[3] + at[1]) * dims[4] + at[2]) * dims[1] + c;
}

/* Input position of output position o at kernel position k, or -1; for a transposed one the other way round. */
static int64_t source(const conv_step_t *c, uint32_t d, int64_t o, int64_t k)
{
    int64_t stride = c->direct.stride[d], p;
    if (!c->direct.transposed) {
        p = o * stride - c->direct.before[d] + k * c->direct.dilation[d];
    } else {
        p = o + c->direct.before[d] - k * c->direct.dilation[d];
        if (p % stride)
            return -1;
        p /= stride;
    }
    return p >= 0 && p < c->x[2 + d] ? p : -1;
}

static float conv_at(const conv_step_t *c, int64_t n, int64_t o, const int64_t at[3], const int64_t k[3])
{
    int64_t groups = c->direct.groups, per_in = c->x[1] / groups, per_out = c->y[1] / groups,
            group = o / per_out;
    int64_t from[3];
    float sum = 0;
    for (uint32_t d = 0; d < 3; d++)
        if ((from[d] = source(c, d, at[d], k[d])) < 0)
            return 0;
    bool transposed = c->direct.transposed;
    const void *in = c->direct.in.base, *weights = c->direct.weights.base;
    int dtype = (int)c->dtype;
    int64_t first = group * per_in, x = place(c->x, n, first, from),
            w = transposed ? place(c->w, first, o % per_out, k) : place(c->w, o, 0, k),
            w_step = transposed ? c->w[1] * c->w[2] * c->w[3] * c->w[4] : 1;
    for (int64_t i = 0; i < per_in; i++)
        sum += k_load_f32(in, dtype, x + i) * k_load_f32(weights, dtype, w + i * w_step);
    return sum;
}

static float conv_element(const conv_step_t *c, int64_t n, int64_t o, const int64_t at[3])
{
    float sum = 0;
    int64_t k[3], to = place(c->y, n, o, at);
    for (k[0] = 0; k[0] < c->w[2]; k[0]++)
        for (k[1] = 0; k[1] < c->w[3]; k[1]++)
            for (k[2] = 0; k[2] < c->w[4]; k[2]++)
                sum += conv_at(c, n, o, at, k);
    if (!c->fusable)
        return sum;
    if (c->has_residual)
        sum += k_load_f32(c->residual.base, (int)c->dtype, to);
    if (c->has_bias)
        sum += k_load_f32(c->bias.base, (int)c->dtype, o);
    if (!k_common_f32(&c->act, &sum, 0, 0))
        sum = k_float_op(&c->act, sum, 0);
    return sum;
}

static void run_conv(const conv_step_t *c)
{
    int64_t at[3];
    for (int64_t n = 0; n < c->y[0]; n++)
        for (at[0] = 0; at[0] < c->y[2]; at[0]++)
            for (at[1] = 0; at[1] < c->y[3]; at[1]++)
                for (at[2] = 0; at[2] < c->y[4]; at[2]++)
                    for (int64_t o = 0; o < c->y[1]; o++)
                        k_store_f32(c->direct.out.base, (int)c->dtype, place(c->y, n, o, at),
                                    conv_element(c, n, o, at));
}

/* cuDNN derives one size from the other: the larger side, padded, must give the smaller one. */
static bool sizes_agree(const conv_step_t *c)
{
    const int64_t *large = c->direct.transposed ? c->y : c->x, *small = c->direct.transposed ? c->x : c->y;
    for (uint32_t d = 0; d < 3; d++) {
        int64_t extent = (c->w[2 + d] - 1) * c->direct.dilation[d] + 1;
        int64_t room = large[2 + d] + c->direct.before[d] + c->after[d] - extent;
        if (c->direct.before[d] < 0 || c->after[d] < 0 || room < 0 ||
            room / c->direct.stride[d] + 1 != small[2 + d])
            return false;
    }
    return true;
}

static void run_tail(const k_elementwise_t *tail)
{
    if (tail->op_count)
        kernel_launch(KERNEL_ELEMENTWISE, tail, NULL);
}

static void run_conv_step(const conv_step_t *c)
{
    bool library = sizes_agree(c);
    if (library)
        run_conv(c);
    else
        kernel_launch(KERNEL_CONV, &c->direct, NULL);
    if (!library || !c->fusable)
        run_tail(&c->tail.ew);
}

static void run_gemm_step(const gemm_step_t *g)
{
    if (g->library)
        run_gemm(g);
    else
        kernel_launch(KERNEL_GEMM, &g->direct, NULL);
    run_tail(g->library ? &g->rest.ew : &g->whole.ew);
}

static bool keep_step(device_graph_t *graph, const step_t *step)
{
    if (graph->count == graph->capacity) {
        uint32_t larger = graph->capacity ? 2 * graph->capacity : 16;
        step_t *moved = realloc(graph->steps, larger * sizeof *moved);
        if (!moved)
            return false;
        graph->steps = moved;
        graph->capacity = larger;
    }
    graph->steps[graph->count++] = *step;
    return true;
}

static void run_step(const step_t *step)
{
    if (device_host.on_step)
        device_host.on_step(device_host.on_step_arg);
    if (step->kind == STEP_CONV)
        run_conv_step(&step->u.conv);
    else if (step->kind == STEP_GEMM)
        run_gemm_step(&step->u.gemm);
    else
        kernel_launch(step->kernel, &step->u, NULL);
}

status_t device_run_step(device_t *device, stream_t stream, step_t *step, void *scratch, size_t scratch_bytes,
                         err_t *err)
{
    (void)scratch;
    (void)scratch_bytes;
    device_graph_t *graph = device->recording[stream];
    if (graph && !device_host.lost)
        return keep_step(graph, step) ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for a graph");
    run_step(step);
    return check(device, stream, err);
}

status_t device_capture_begin(device_t *device, stream_t stream, err_t *err)
{
    status_t status = check(device, stream, err);
    if (status != STATUS_OK)
        return status;
    device->recording[stream] = calloc(1, sizeof(device_graph_t));
    return device->recording[stream] ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "no memory for a graph");
}

status_t device_capture_end(device_t *device, stream_t stream, device_graph_t **graph, err_t *err)
{
    device_graph_t *recorded = device->recording[stream];
    device->recording[stream] = NULL;
    status_t status = check(device, stream, err);
    if (status == STATUS_OK)
        *graph = recorded;
    else
        device_graph_destroy(recorded);
    return status;
}

status_t device_graph_launch(device_t *device, stream_t stream, device_graph_t *graph, err_t *err)
{
    status_t status = check(device, stream, err);
    for (uint32_t i = 0; status == STATUS_OK && i < graph->count; i++)
        run_step(&graph->steps[i]);
    atomic_fetch_add(&device_host.graph_launches, 1);
    return status;
}

void device_graph_destroy(device_graph_t *graph)
{
    free(graph->steps);
    free(graph);
}
