/*
 * One granted batch: its rows, what is fetched for them and what is pushed back. Memory only; run_*.c drive it.
 *
 * Rows lie in the batch buffers grouped by gateway, so that one fetch and one push for each gateway name a contiguous
 * stretch of items and results:
 *
 *   rows     | g0 | g0 | g0 | g1 | g1 |          groups[0] = {first 0, count 3}, groups[1] = {first 3, count 2}
 *   inputs   | .. | .. | .. | .. | .. |          row k of input i at inputs[i] + k · row_bytes(i)
 */
#ifndef WORKER_BATCH_H
#define WORKER_BATCH_H

#include "control.pb-c.h"
#include "worker/state/launch.h"
#include "worker/state/peers.h"
#include "worker/state/serving.h"

#include <sys/queue.h>

typedef struct run run_t;
typedef struct batch batch_t;
typedef struct executor executor_t;

typedef enum { BATCH_FETCHING, BATCH_SUBMITTED, BATCH_PUSHING } batch_state_t;

typedef struct {
    uint64_t task_id;
    transfer_handle_t handle;
    uint32_t grant_row;
    bool lost; /* its execution failed, or its outputs could not be sent */
} batch_row_t;

/* The rows of one gateway. */
typedef struct {
    batch_t *batch;
    peer_t *peer; /* held; NULL: the index was not known */
    uint32_t gateway, first, count;
    transfer_request_t request; /* of the fetch; 0 = none under way */
} batch_group_t;

/* Rows of one group that left the device together. */
typedef struct {
    batch_group_t *group;
    uint32_t first, count;
    bool again;                   /* it is tried for the second time */
    transfer_handover_t handover; /* to a gateway of this process */
} batch_push_t;

/* Rows of a batch that run as one job. */
typedef struct {
    uint32_t first, count;
} batch_part_t;

/* Memory of a gateway of this process: inputs that are read there, and outputs that are written there. */
typedef struct {
    transfer_owner_t *owner;
    uint32_t pin;
} batch_held_t;

typedef struct {
    transfer_owner_t *owner;
    void *memory, *token;
} batch_placed_t;

/* Halves of halves of the largest batch, two of each size. */
enum { BATCH_PARTS_MAX = 24 };
_Static_assert(1 << (BATCH_PARTS_MAX / 2 - 1) > ENGINE_MAX_BATCH, "the halves of a batch must find room");

#define BATCH_RANK_UNKNOWN UINT32_MAX /* of an output whose shape the engine has not told */

/* What a batch needs beyond the others when rows of its model differ in size. */
typedef struct {
    uint32_t sizes[AXES_MAX]; /* of all rows of this batch */
    engine_shape_t inputs[ENGINE_MAX_IO], outputs[ENGINE_MAX_IO];
    uint32_t *output_sizes; /* as they go behind each row */
    uint32_t cap_sizes;
} batch_shapes_t;

struct batch {
    launch_t launch; /* whole: of the last of the parts */
    batch_part_t parts[BATCH_PARTS_MAX];
    uint32_t part_count;
    void *part_inputs[ENGINE_MAX_IO], *part_outputs[ENGINE_MAX_IO];
    TAILQ_ENTRY(batch) link, turn;
    run_t *run;
    executor_t *executor;
    bool waits;             /* for its turn on the device */
    bool begun;             /* it runs, has run, or cannot be kept from it */
    bool shared;            /* others ran on the device meanwhile */
    bool unfit;             /* its shape does not suit its model's mode: it runs whole */
    uint64_t exec_launch;   /* preempt: of libs/exec */
    uint64_t exec_batch;    /* staged: of libs/exec; 0 before it entered */
    uint64_t stretches;     /* staged: batch that it is to join; 0 = none */
    uint32_t shape;         /* staged: the same for batches whose rows can share one of the stages */
    uint32_t length;        /* staged: elements of a row, padded */
    const uint32_t *pad_to; /* staged: sizes to which its rows are padded at least; NULL: none */
    uint32_t half, side;  /* overlap: borders of its model that it has, and which of the two it reads from */
    int64_t answer_by_ns; /* overlap: when the first of its rows must have been answered */
    uint32_t left;        /* staged: rows that have not left the stages */
    status_t over;        /* carrier.h: how it has ended */
    model_t *model;
    model_buffers_t *buffers;
    bool on_device; /* its inputs are fetched into the device's memory, and read there */
    int64_t fetch_until_ns;
    /* Its inputs are read where gateways of this process have them, not from the buffers; 0: they are. */
    uint32_t held_count;
    batch_held_t *held;
    const void *held_inputs[ENGINE_MAX_IO];
    /* Its outputs are written where those gateways answer from, not to the buffers; 0: they are. */
    uint32_t placed_count;
    batch_placed_t *placed;
    void *placed_outputs[ENGINE_MAX_IO];
    bool apart;              /* each row by itself: held, and placed where it can be */
    const void **row_inputs; /* apart: as engine_job_t wants them */
    void **row_outputs;
    batch_shapes_t *shapes; /* meaningful when the model has shapes; kept from use to use */
    uint64_t row_in_bytes;  /* of one task's input item */
    size_t in_bytes[ENGINE_MAX_IO], out_bytes[ENGINE_MAX_IO]; /* of one row of each input and output */
    uint64_t id;
    uint32_t generation, device;
    batch_state_t state;
    bool revoked;
    uint32_t granted; /* rows of the grant */
    uint32_t count;   /* rows in the buffers now */
    uint32_t lost;    /* of these, by the execution or on the way out */
    uint32_t pending; /* requests under way */
    int64_t granted_ns, fetched_ns;
    int64_t started_ns, finished_ns; /* of the execution; 0 = it never began */
    int64_t device_ns;               /* its part of the device's time (device_time.h) */
    err_t err;

    batch_group_t *groups;
    batch_push_t *pushes;
    batch_row_t *rows;
    transfer_item_t *items;
    transfer_result_t *results;
    struct iovec *in_iov, *out_iov; /* row k's begin at k · inputs, k · outputs */
    uint32_t *failed_row, *failed_status, *group_of;
    uint32_t group_count, push_count, failed_count;
    uint32_t cap_rows, cap_in, cap_out; /* what the arrays have room for */
};

TAILQ_HEAD(batch_list, batch);

/* Makes room for a batch of so many rows of this model; keeps it from use to use. False: no memory. */
bool batch_reserve(batch_t *batch, const model_t *model, uint32_t rows);
void batch_free_memory(batch_t *batch);

/* Takes over the sizes of a grant, and finds buffers of that size: before batch_place. False: no memory. */
bool batch_size(batch_t *batch, const model_devices_t *devices, const Control__Grant *grant);

/* The sizes that latencies go by; NULL when the model has no shapes. */
static inline const uint32_t *batch_sizes(const batch_t *batch)
{
    return batch->model->shapes ? batch->shapes->sizes : NULL;
}

static inline int64_t batch_latency_ns(const batch_t *batch, uint32_t rows)
{
    return model_latency_ns(batch->model, batch_sizes(batch), rows);
}

/* With shapes: what its job must say of them. It runs on the batch's own buffers. */
void batch_put_shapes(batch_t *batch, engine_job_t *job);

/*
 * After a run: with shapes, takes over what the engine told of the outputs. *again: there was too little
 * room, as the first batch of a shape finds, and now there is enough for the same job. Else the status of the
 * batch, with batch->err when it is not OK.
 */
status_t batch_take_output_shapes(batch_t *batch, const model_devices_t *devices, status_t status,
                                  bool *again);

/* With shapes, of rows that ran in another batch, of outputs like these: makes room for all of this batch,
 * and takes over the sizes that go behind each row. Not OK: batch->err says why. */
status_t batch_follow_shapes(batch_t *batch, const model_devices_t *devices, const engine_shape_t *outputs);

/* Takes over the rows of a grant: groups them, names their places. Rows that cannot be fetched at all fail here. */
void batch_place(batch_t *batch, peers_t *peers, const Control__Grant *grant);

/* There will be no result of it; row in the buffers. Once or twice is the same. */
void batch_lose_row(batch_t *batch, uint32_t row, status_t status);

/* Those that its execution has lost are there again: it runs once more. */
void batch_regain_rows(batch_t *batch);

/* Moves the rows whose items have come together, in order; the others fail with their item's status. */
void batch_compact(batch_t *batch);

/*
 * Leaves the inputs where they lie, if they are of gateways of this process and lie there as the engine wants them: rows one behind the
 * other of a model with one input, or one row; or each row somewhere (rows_apart), and then the batch is `apart`. The gateways keep them
 * until batch_let_go, whatever their clients do. False: they are to be fetched.
 */
bool batch_hold(batch_t *batch, bool rows_apart);
/* From now on its inputs are to be in the device's memory, or in the host's: for batch->count rows. */
void batch_aim(batch_t *batch, bool on_device);
/* Nobody reads them any more. Once or twice is the same. */
void batch_let_go(batch_t *batch);
static inline const void *const *batch_inputs(const batch_t *batch)
{
    return batch->held_count  ? batch->held_inputs
           : batch->on_device ? (const void *const *)batch->buffers->device_inputs
                              : (const void *const *)batch->buffers->inputs;
}

/*
 * Has the outputs of a batch whose inputs are held written where its gateways answer from, if it holds all of a request, and they lie there as the
 * engine writes them: of a model with one output, of one row, or apart. Until batch_vacate, behind the last result. False: not all are, and
 * those that are not are to be pushed from the buffers.
 */
bool batch_place_outputs(batch_t *batch);
/* Nobody writes them any more. Once or twice is the same. */
void batch_vacate(batch_t *batch);
static inline void *const *batch_outputs(const batch_t *batch)
{
    return batch->placed_count ? batch->placed_outputs : batch->buffers->outputs;
}

/* Fills the results of these rows from the outputs. */
void batch_fill_results(batch_t *batch, uint32_t first, uint32_t count, const transfer_timing_t *timing);

void batch_release_peers(batch_t *batch, peers_t *peers);

#endif
