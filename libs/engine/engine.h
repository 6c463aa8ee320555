/*
 * What runs a model on a device: the border between the worker and oneDNN, onnxruntime, OpenVINO, CUDA or the emulated GPU.
 *
 * Objects: an engine_t is one opened device with one or more streams, each a queue of jobs (in order, one at a
 * time; those of several streams run side by side); an engine_model_t is one loaded model on it; an engine_job_t
 * is one batch to run. The order of life is
 *
 *     open -> load -> prepare(1..max_batch) -> run, run, … -> flush -> unload -> close
 *
 * Segments. A model is a row of operators 0..ops - 1, as the engine runs them. cuts() says before which of them it can
 * be cut; a job then runs a range of operators on some rows. What is alive at a cut lies in a border between the
 * jobs, row by row, so that rows which came later can be put behind those that came first, and parts of a batch be
 * taken out again:
 *
 *     inputs ── 0 .. a-1 ──▶ border at a ── a .. b-1 ──▶ border at b ── b .. ops-1 ──▶ outputs
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
    ENGINE_ABI = 12,     /* changes with any change of the types below */
    ENGINE_MAX_RANK = 8, /* dims of a tensor; ONNX models in the wild stop at 6 */
    ENGINE_MAX_IO = 64,  /* inputs or outputs of a model */
    ENGINE_MAX_BATCH = 1024,
    ENGINE_REASON_BYTES = 160,
    ENGINE_DEFAULT_MAX_BATCH = 32,
    ENGINE_DEFAULT_TEXT_BYTES = 256,
    ENGINE_ALIGN_BYTES = 64,  /* of buffers from buffer_alloc */
    ENGINE_MAX_STREAMS = 128, /* of an engine: the stages of exec/staged.h with all their executors */
    ENGINE_EMULATED_OPS = 16, /* of an emulated model that does not say how many it has */
};

typedef struct engine engine_t;
typedef struct engine_model engine_model_t;

/* One device to open. Zero means the default everywhere. */
typedef struct {
    uint32_t index;   /* which device of this kind; the emulated engine and the CPU take any */
    uint32_t threads; /* compute threads of each stream; 0 = 1 (CPU only) */
    uint32_t streams; /* jobs that can run side by side, 1..ENGINE_MAX_STREAMS; 0 = 1 */
    /* Pin the threads to these CPUs, cpu_count of them, each stream to its part where they can be shared out evenly;
     * NULL = not pinned. */
    const int *cpus;
    uint32_t cpu_count;
    uint64_t memory_limit_bytes; /* weights and work space of all models; 0 = what the device has */
    const char *providers;       /* onnxruntime: as in engine_load_t, for models that say nothing */
    uint64_t seed;               /* emulated: of the jitter */
    double jitter; /* emulated: each wait is ℓ(b) · (1 + jitter · u), u uniform in [-1, 1] */
} engine_config_t;

typedef struct {
    const char *name;
    dtype_t dtype;
    uint32_t rank;
    /* of one row, i.e. without the batch dimension when batchable; -1 = varies */
    int64_t dims[ENGINE_MAX_RANK];
    size_t row_bytes;                     /* of one row; 0 when a dimension varies */
    const char *symbols[ENGINE_MAX_RANK]; /* of a dimension that varies: its name in the model, or NULL */
    /* The model has strings here: dtype is U8, and the last dimension, which the model does not have and which does not vary,
     * holds the bytes of one string, with zeros behind it where it is shorter. */
    bool text;
    /* text: a row of it that the model takes, when it does not take empty strings; else NULL */
    const void *sample;
} engine_tensor_t;

/* ℓ(b) for the emulated engine; pure, called from any thread until the model is unloaded. */
typedef int64_t (*engine_latency_fn)(void *arg, uint32_t batch);

/* What an emulated operator takes: the time alone on the device, and the share of the device that it keeps busy (0..1).
 * While the shares of those that run add up to S > 1, each is slowed down S times. Pure, like engine_latency_fn. */
typedef struct {
    int64_t ns;
    double occupancy;
} engine_op_cost_t;
typedef engine_op_cost_t (*engine_op_fn)(void *arg, uint32_t op, uint32_t batch);

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
    uint32_t text_bytes;          /* room for a string; 0 = ENGINE_DEFAULT_TEXT_BYTES */
    /* onnxruntime: those of its execution providers that run it, the first that takes a node, by name with commas; behind them
     * the CPU. NULL: as the device says. Other engines have none. */
    const char *providers;
    const char *only; /* behind engine_choice_t: this one (or two), no other. NULL: the first that takes it */
    const char *without; /* behind engine_choice_t: never these, with commas. NULL: any of them */

    engine_latency_fn latency; /* emulated: required; of the whole model */
    void *latency_arg;
    /* Emulated: the operators. NULL: op_count (0 = ENGINE_EMULATED_OPS) that take equal parts of `latency` and fill the
     * device. Also with these a whole job takes `latency`. */
    engine_op_fn op;
    void *op_arg;
    uint32_t op_count;
    const engine_tensor_t *inputs; /* emulated, when there is neither path nor bytes: copied at load */
    const engine_tensor_t *outputs;
    uint32_t input_count, output_count;
} engine_load_t;

typedef struct {
    const engine_tensor_t *inputs; /* in the order of the model; valid until unload */
    const engine_tensor_t *outputs;
    uint32_t input_count, output_count;
    bool batchable;
    uint32_t max_batch; /* 1 when not batchable */
    /* Why it is not batchable though the leading dimension of every input is open: its rows cannot be told apart. "": else. */
    char alone[ENGINE_REASON_BYTES];
    uint64_t memory_bytes; /* weights, plus the work space of the batch sizes prepared so far */
    /* Places, between operators, where stop() ends a job that is `stoppable`; 0: none. */
    uint32_t stop_points;
    /* Its shapes depend on contents, and the reference kernels compute it: right, and many times slower than what is compiled. */
    bool interpreted;
} engine_model_info_t;

/* A place where a model can be cut: before operator `op`, 0 < op < ops. */
typedef struct {
    uint32_t op;
    uint32_t tensors; /* that are alive there */
    size_t row_bytes; /* of all of them, of one row; 0 when a dimension varies */
    const char *name; /* of the operator in front of it */
} engine_cut_t;

typedef struct {
    uint32_t ops;
    const engine_cut_t *cuts; /* rising; valid until unload */
    uint32_t cut_count;
} engine_cuts_t;

/* Memory for what is alive at a cut. */
typedef struct engine_border engine_border_t;

/* Operators from <= x < to; 0 and the number of operators, or a cut. All zero: the whole model on stream 0. */
typedef struct {
    uint32_t stream;
    uint32_t from, to; /* to = 0: all */
} engine_range_t;

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
     * Of an engine with rows_apart, in place of both, for a whole job of a model of which no dimension varies: row r has its inputs at
     * row_inputs[r · inputs] and behind it, and its outputs likewise, wherever they lie, aligned or not. NULL: rows lie one after the other.
     */
    const void *const *row_inputs;
    void *const *row_outputs;
    /*
     * Only when a dimension of the model varies, else NULL: the shapes of the inputs; and room for those of
     * the outputs. An output that varies needs output_capacity_bytes (per output); one that does not fit
     * fails the job, TOO_LARGE, and the shapes then say what each output needs: that of the job's rows, before which
     * `row` others must have room. Unless shapes depend on contents, that comes before anything is computed.
     */
    const engine_shape_t *input_shapes;
    engine_shape_t *output_shapes;
    const size_t *output_capacity_bytes;
    /*
     * A segment: the rows lie from `row` on in the inputs (range.from = 0) or in `source`, and go to the same
     * rows of the outputs (range.to = ops) or of `target`. Inputs and outputs that a segment does not touch
     * may be NULL. Source and target differ. Jobs may use one border at a time when their rows differ;
     * whoever reads rows is submitted after the done of whoever wrote them, and has the same shapes but for
     * the number of rows. Shapes with which the model has other operators, or rows that are larger than those
     * of the border, fail the job, UNSUPPORTED, before anything is computed: such a batch runs whole.
     */
    engine_range_t range;
    uint32_t row;
    const engine_border_t *source;
    engine_border_t *target;
    /* Cuts where stop() ends it, rising, within the range; NULL: it cannot be stopped once it runs. */
    const uint32_t *exits;
    uint32_t exit_count;
    /* stop() ends it between any two operators, if the engine can do that (stop_points), without exits: */
    bool stoppable;
    uint32_t reached; /* set before done: range.to (ops), or the exit, or range.from, where it was stopped */
    int64_t *op_ns;   /* NULL, or room for range.to - range.from: the time of each operator. For profiling */
    engine_done_fn done;
    void *arg; /* the caller's */

    int64_t started_ns, finished_ns; /* CLOCK_MONOTONIC around the execution itself; set before done */

    engine_job_t *next; /* the engine's, while it has the job */
    uint64_t engine_private[4];
};

/*
 * A backend behind which several engines stand ("auto"): a model is on one or more of them and runs on one, whose are its
 * jobs, cuts and borders; or on two, small batches on the one and large ones on the other, and then it cannot be cut. What
 * describes a model is the same on each.
 */
enum { ENGINE_RUNNING_BYTES = 32 };
typedef struct {
    uint32_t (*count)(const engine_model_t *model);
    const char *(*name)(const engine_model_t *model, uint32_t which); /* as long as the process */
    uint32_t (*used)(const engine_model_t *model);                    /* of two: that of the large batches */
    /* The name of the one, or of two with how many rows are at most a small batch: "openvino:2+onednn". As long as it is used so. */
    const char *(*running)(const engine_model_t *model);
    /* Runs it on that one from now on, and loads it there before if need be. What the engine says, or UNSUPPORTED when it
     * describes the model otherwise, leaves all as it was. No job of the model may be under way. */
    status_t (*use)(engine_model_t *model, uint32_t which, err_t *err);
    /* The same of two: batches of up to `rows` (1 or more) on `small`, larger ones on `large`. */
    status_t (*use_two)(engine_model_t *model, uint32_t small, uint32_t rows, uint32_t large, err_t *err);
    /* Either, by what `running` says. NOT_FOUND: none is called so. */
    status_t (*use_named)(engine_model_t *model, const char *name, err_t *err);
    /* Unloads it from that one, on which it does not run; using it again loads it anew. */
    void (*leave)(engine_model_t *model, uint32_t which);
    /* It stays where it is: unloads it from the others, and forgets what a load needs. */
    void (*settle)(engine_model_t *model);
} engine_choice_t;

typedef struct engine_ops {
    uint32_t abi; /* ENGINE_ABI */
    uint32_t size_bytes;
    const char *name; /* "onednn", "auto", "emulated", "cuda" */
    bool rows_apart;  /* takes rows that do not lie one after the other (engine_job_t.row_inputs) */

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

    /*
     * Where the model can be cut. UNSUPPORTED, with the reason, when nowhere: it runs whole only. NULL: not
     * offered. Blocks (the first call compiles the model). Where dimensions vary the cuts are those of the
     * shapes that were prepared last; with others the operators may be different ones.
     */
    status_t (*cuts)(engine_model_t *model, engine_cuts_t *cuts, err_t *err);
    /*
     * Memory for `rows` rows of what is alive at any one of these cuts; largest_shapes of the inputs only
     * when they vary (the batch dimension does not count). Destroyed before unload, when no job uses it.
     * NO_MEMORY names the size.
     */
    status_t (*border_create)(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                              const engine_shape_t *largest_shapes, engine_border_t **border, err_t *err);
    void (*border_destroy)(engine_border_t *border);
    uint64_t (*border_bytes)(const engine_border_t *border);
    /* As prepare, or prepare_shapes where input_shapes is not NULL, for a range on its stream. */
    status_t (*prepare_range)(engine_model_t *model, const engine_range_t *range, uint32_t batch,
                              const engine_shape_t *input_shapes, err_t *err);

    /* Queues the job. Every outcome, wrong arguments included, comes through done. */
    void (*submit)(engine_t *engine, engine_job_t *job);
    /* True: the job had not begun and done was called with STATUS_CANCELLED. False: done comes, or came, as
     * usual. */
    bool (*cancel)(engine_t *engine, engine_job_t *job);
    /*
     * As cancel; and a job that runs ends at the next of its exits, or, when it is stoppable, of the model's stop_points:
     * its done then comes with CANCELLED and `reached` says where. True: it was cancelled, or has been told. It may have been past its last exit
     * already and end as usual. NULL: not offered.
     */
    bool (*stop)(engine_t *engine, engine_job_t *job);
    /* Waits until the done of every job submitted before has returned. Not from inside a done. */
    void (*flush)(engine_t *engine);

    /* Memory that the device reads and writes fastest (pinned for CUDA), ENGINE_ALIGN_BYTES aligned. NULL =
     * no memory. */
    void *(*buffer_alloc)(engine_t *engine, size_t len_bytes);
    void (*buffer_free)(engine_t *engine, void *buffer);

    /* Memory of the device, for an input of this model: jobs may read it there in place of the host's, and what writes to memory of
     * devices (RDMA) may fill it between them. NULL: there is none left, or the CPU reads inputs of this model. Both are NULL where the
     * engine has no memory but the host's. */
    void *(*input_alloc)(engine_model_t *model, size_t len_bytes);
    void (*input_free)(engine_t *engine, void *input);

    /* The name of the opened device, as a profile measured on it is kept under ("NVIDIA H200"), and the
     * memory that models may take of it. NULL = a device of the host: its CPUs, its memory. The name lives
     * as long as the engine. */
    const char *(*describe)(const engine_t *engine, uint64_t *memory_bytes);

    /* Whether the device is gone for good: from then on every job fails, UNAVAILABLE, and only a new process
     * may get it back. It shows with the first job that fails of it. Any thread. NULL: it cannot be lost. */
    bool (*is_lost)(const engine_t *engine);

    const engine_choice_t *choice; /* NULL: there is one engine */
} engine_ops_t;

/* The built-in backend of that name, else the plug-in "engine-NAME.so" (see engine_set_plugin_dir), else an
 * error. */
status_t engine_find(const char *name, const engine_ops_t **ops, err_t *err);

/* Where plug-ins lie; the default is "../lib" beside the running program. Not copied. Call before
 * engine_find. */
void engine_set_plugin_dir(const char *dir);

#endif
