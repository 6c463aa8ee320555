/*
 * One GPU, as the engine uses it. device_cuda.c is the real one (CUDA runtime, cuDNN, cuBLASLt); device_host.c does the
 * same on the CPU, so that everything above can be tested where there is no GPU. A library links exactly one of them.
 *
 * Any thread may call anything, but of one lane only one at a time; work on one stream is in order. Failures
 * leave the process as it was: NO_MEMORY when the device is full, UNAVAILABLE when there is no driver or the
 * device is lost.
 */
#ifndef ENGINE_CUDA_DEVICE_DEVICE_H
#define ENGINE_CUDA_DEVICE_DEVICE_H

#include "engine/cuda/lower/program.h"

typedef struct device device_t;
typedef struct device_graph device_graph_t;

typedef struct device_stamps device_stamps_t;

/* Queues of work: one for uploads and for choosing kernels, and three for each lane of the device. */
typedef uint32_t stream_t;
enum { STREAM_PREPARE, STREAMS_BEFORE_LANES };
enum { LANE_IN, LANE_COMPUTE, LANE_OUT, LANE_STREAMS };

enum {
    LANE_EVENTS = 8,
    DEVICE_LANES_MAX = ENGINE_MAX_STREAMS + 1,
    DEVICE_STREAMS_MAX = STREAMS_BEFORE_LANES + LANE_STREAMS * DEVICE_LANES_MAX,
};

static inline stream_t device_stream(uint32_t lane, uint32_t which)
{
    return STREAMS_BEFORE_LANES + lane * LANE_STREAMS + which;
}

static inline uint32_t device_event(uint32_t lane, uint32_t which)
{
    return lane * LANE_EVENTS + which;
}

extern const char device_engine_name[]; /* "cuda" */

/* 0 when there is no driver. */
uint32_t device_count(void);

status_t device_open(uint32_t index, uint32_t lanes, device_t **device, err_t *err);
void device_close(device_t *device);

const char *device_name(const device_t *device);
uint64_t device_free_bytes(const device_t *device);
/* A sticky error was seen: nothing works on this device any more until the process ends. */
bool device_is_lost(const device_t *device);

/* Device memory, in large pieces (pool.h hands out the small ones), and pinned memory of the host. NULL = no memory. */
void *device_alloc(device_t *device, size_t len_bytes);
void device_free(device_t *device, void *memory);
void *device_pinned_alloc(device_t *device, size_t len_bytes);
void device_pinned_free(device_t *device, void *memory);

/* Queues a copy in any direction; the memory of the host must be pinned for it to overlap with anything. */
status_t device_copy(device_t *device, stream_t stream, void *to, const void *from, size_t len_bytes,
                     err_t *err);
status_t device_zero(device_t *device, stream_t stream, void *to, size_t len_bytes, err_t *err);
status_t device_sync(device_t *device, stream_t stream, err_t *err);

/* Event n is what stream has been given so far; another stream, or the caller, waits for it. */
status_t device_mark(device_t *device, stream_t stream, uint32_t event, err_t *err);
status_t device_follow(device_t *device, stream_t stream, uint32_t event, err_t *err);
status_t device_wait(device_t *device, uint32_t event, err_t *err);

/*
 * Chooses how a bound CONV or GEMM step runs: tries what the libraries propose and times it, with `scratch` to work in.
 * Choices are remembered per shape. device_step_scratch says how much of it the choice needs.
 */
typedef enum {
    EFFORT_FASTEST,
    EFFORT_FIRST, /* the first that works, untimed: for a plan that runs once */
} effort_t;

status_t device_choose(device_t *device, step_t *step, engine_precision_t precision, effort_t effort,
                       void *scratch, size_t scratch_bytes, err_t *err);
size_t device_step_scratch(const step_t *step);
void device_release(device_t *device, step_t *step);
/* "cudnn fused", "cublaslt", "direct": for logs. */
const char *device_step_choice(const step_t *step);

/* Queues one bound step other than a HOST one. */
status_t device_run_step(device_t *device, stream_t stream, step_t *step, void *scratch, size_t scratch_bytes,
                         err_t *err);

/* Points in time of a stream, as the device meets them; read waits for the last, and gives what lies
 * between each and the next. */
status_t device_stamps_create(device_t *device, uint32_t count, device_stamps_t **stamps, err_t *err);
status_t device_stamp(device_t *device, stream_t stream, device_stamps_t *stamps, uint32_t i, err_t *err);
status_t device_stamps_read(device_t *device, device_stamps_t *stamps, int64_t *between_ns, err_t *err);
void device_stamps_destroy(device_stamps_t *stamps);

/* CUDA graphs: what is queued on the stream between begin and end is recorded instead. NULL graph = cannot. */
status_t device_capture_begin(device_t *device, stream_t stream, err_t *err);
status_t device_capture_end(device_t *device, stream_t stream, device_graph_t **graph, err_t *err);
status_t device_graph_launch(device_t *device, stream_t stream, device_graph_t *graph, err_t *err);
void device_graph_destroy(device_graph_t *graph);

#endif
