/*
 * What runs a model on a device: the border between the worker and oneDNN, CUDA or the emulated GPU.
 *
 * Objects: an engine_t is one opened device with one queue of jobs (in order, one at a time); an
 * engine_model_t is one loaded model on it; an engine_job_t is one batch to run. The order of life is
 *
 *     open -> load -> prepare(1..max_batch) -> run, run, … -> flush -> unload -> close
 *
 * Threads: open, load, prepare, unload, flush and close block and may be called from any thread; load and
 * prepare of one model go on beside running jobs of others. submit and cancel never block and may be called
 * from any thread. What belongs to one model must be unloaded by one thread after its last job is done.
 *
 * A backend is one file that ends in one `static const engine_ops_t` and a line in engine.c. A backend in a
 * plug-in (shared object) exports `const engine_ops_t *fermata_engine(uint32_t abi)`, which returns NULL for
 * an abi it was not built for. The table and everything it points to use only the types of this header,
 * base/status.h and onnx/dtype.h.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "base/status.h"
#include "onnx/dtype.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ENGINE_ABI = 2,      /* changes with any change of the types below */
    ENGINE_MAX_RANK = 8, /* dims of a tensor; ONNX models in the wild stop at 6 */
    ENGINE_MAX_IO = 64,  /* inputs or outputs of a model */
    ENGINE_MAX_BATCH = 1024,
    ENGINE_DEFAULT_MAX_BATCH = 32,
    ENGINE_ALIGN_BYTES = 64, /* of buffers from buffer_alloc */
};

typedef struct engine engine_t;
typedef struct engine_model engine_model_t;

/* One device to open. Zero means the default everywhere. */
typedef struct {
    uint32_t index;   /* which device of this kind; the emulated engine and the CPU take any */
    uint32_t threads; /* compute threads of this instance; 0 = 1 (CPU only) */
    const int *cpus;  /* pin the threads to these CPUs, cpu_count of them; NULL = not pinned */
    uint32_t cpu_count;
    uint64_t memory_limit_bytes; /* weights and work space of all models; 0 = what the device has */
    uint64_t seed;               /* emulated: of the jitter */
    double jitter; /* emulated: each wait is ℓ(b) · (1 + jitter · u), u uniform in [-1, 1] */
} engine_config_t;

typedef struct {
    const char *name;
    dtype_t dtype;
    uint32_t rank;
    int64_t
        dims[ENGINE_MAX_RANK]; /* of one row, i.e. without the batch dimension when batchable; -1 = varies */
    size_t row_bytes;          /* of one row; 0 when a dimension varies */
    const char *symbols[ENGINE_MAX_RANK]; /* of a dimension that varies: its name in the model, or NULL */
} engine_tensor_t;

/* ℓ(b) for the emulated engine; pure, called from any thread until the model is unloaded. */
typedef int64_t (*engine_latency_fn)(void *arg, uint32_t batch);

typedef enum {
    ENGINE_BATCH_AUTO,  /* batchable when the leading dimension of every input and output is symbolic */
    ENGINE_BATCH_FORCE, /* a leading dimension of 1 is a batch dimension too (config.yaml gives max_batch) */
    ENGINE_BATCH_NONE,  /* the whole tensor is the one row */
} engine_batching_t;

typedef enum { ENGINE_FP32, ENGINE_TF32, ENGINE_FP16, ENGINE_BF16 } engine_precision_t;

/* What to load: an ONNX file by path, or its bytes. The emulated engine takes a bare description as well. */
typedef struct {
    const char *name;  /* for messages */
    const char *path;  /* model.onnx; external data is looked for in its folder and nowhere else */
    const void *bytes; /* instead of path; not kept after load */
    size_t len_bytes;
    engine_batching_t batching;
    uint32_t max_batch;           /* 0 = ENGINE_DEFAULT_MAX_BATCH; ignored when not batchable */
    engine_precision_t precision; /* of the arithmetic; a backend may refuse what it lacks */

    engine_latency_fn latency; /* emulated: required */
    void *latency_arg;
    const engine_tensor_t *inputs; /* emulated, when there is neither path nor bytes: copied at load */
    const engine_tensor_t *outputs;
    uint32_t input_count, output_count;
} engine_load_t;

typedef struct {
    const engine_tensor_t *inputs; /* in the order of the model; valid until unload */
    const engine_tensor_t *outputs;
    uint32_t input_count, output_count;
    bool batchable;
    uint32_t max_batch;    /* 1 when not batchable */
    uint64_t memory_bytes; /* weights, plus the work space of the batch sizes prepared so far */
} engine_model_info_t;

/* Full dims of one tensor of a job, batch dimension included. */
typedef struct {
    uint32_t rank;
    int64_t dims[ENGINE_MAX_RANK];
} engine_shape_t;

typedef struct engine_job engine_job_t;

/*
 * Called exactly once per submitted job: on a thread of the engine, or inside submit or cancel. It must be
 * short (hand over to a loop) and may reuse or free the job. err is valid only during the call and NULL on
 * STATUS_OK.
 */
typedef void (*engine_done_fn)(engine_job_t *job, status_t status, const err_t *err);

/* One batch. The caller owns it and the buffers, and leaves them alone from submit until done. */
struct engine_job {
    engine_model_t *model;
    uint32_t batch; /* rows, 1..max_batch; 1 when not batchable */
    const void *const
        *inputs;          /* per input: batch rows, one after the other; buffer_alloc memory is fastest */
    void *const *outputs; /* per output: room for batch rows */
    /*
     * Only when a dimension of the model varies, else NULL: the shapes of the inputs; and room for those of
     * the outputs. An output that varies needs output_capacity_bytes (per output); one that does not fit
     * fails the job, TOO_LARGE, and the shapes then say what each output needs. Unless shapes depend on
     * contents, that comes before anything is computed.
     */
    const engine_shape_t *input_shapes;
    engine_shape_t *output_shapes;
    const size_t *output_capacity_bytes;
    engine_done_fn done;
    void *arg; /* the caller's */

    int64_t started_ns, finished_ns; /* CLOCK_MONOTONIC around the execution itself; set before done */

    engine_job_t *next; /* the engine's, while it has the job */
    uint64_t engine_private[4];
};

typedef struct engine_ops {
    uint32_t abi; /* ENGINE_ABI */
    uint32_t size_bytes;
    const char *name; /* "onednn", "emulated", "cuda" */

    /* How many devices of this kind are here; UINT32_MAX when any number can be opened. */
    uint32_t (*device_count)(void);

    status_t (*open)(const engine_config_t *config, engine_t **engine, err_t *err);
    void (*close)(engine_t *engine); /* after the unload of every model */

    /* Errors name the node, operator and opset, or the field of the file. */
    status_t (*load)(engine_t *engine, const engine_load_t *what, engine_model_t **model, err_t *err);
    void (*unload)(engine_model_t *model); /* no job of the model may be under way */
    const engine_model_info_t *(*info)(const engine_model_t *model);

    /*
     * Builds all that a run of this batch size needs, so that the run itself allocates nothing. Idempotent. A
     * job with a batch size (or shape) not prepared prepares it first, on the engine's thread.
     */
    status_t (*prepare)(engine_model_t *model, uint32_t batch, err_t *err);

    /*
     * The same for a model whose dimensions vary: for these shapes of the inputs, batch included. So many
     * shapes are kept prepared, the least recently used one goes. NULL: not offered; the first job of a
     * shape prepares it, outside of started_ns..finished_ns.
     */
    status_t (*prepare_shapes)(engine_model_t *model, uint32_t batch, const engine_shape_t *input_shapes,
                               err_t *err);

    /* Queues the job. Every outcome, wrong arguments included, comes through done. */
    void (*submit)(engine_t *engine, engine_job_t *job);
    /* True: the job had not begun and done was called with STATUS_CANCELLED. False: done comes, or came, as
     * usual. */
    bool (*cancel)(engine_t *engine, engine_job_t *job);
    /* Waits until the done of every job submitted before has returned. Not from inside a done. */
    void (*flush)(engine_t *engine);

    /* Memory that the device reads and writes fastest (pinned for CUDA), ENGINE_ALIGN_BYTES aligned. NULL =
     * no memory. */
    void *(*buffer_alloc)(engine_t *engine, size_t len_bytes);
    void (*buffer_free)(engine_t *engine, void *buffer);
} engine_ops_t;

/* The built-in backend of that name, else the plug-in "engine-NAME.so" (see engine_set_plugin_dir), else an
 * error. */
status_t engine_find(const char *name, const engine_ops_t **ops, err_t *err);

/* Where plug-ins lie; the default is "../lib" beside the running program. Not copied. Call before
 * engine_find. */
void engine_set_plugin_dir(const char *dir);

#endif
