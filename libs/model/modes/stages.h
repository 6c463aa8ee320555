/*
 * A model cut into stages for mode staged: where, what each costs, and the memory between them on each
 * device. Where shapes vary, all that is of the largest reference (model_shapes.h): batches of larger shapes
 * do not go through the stages.
 *
 *   inputs ── stage 0 ──▶ border [0][pair] ── stage 1 ──▶ border [1][pair] ── … ──▶ outputs
 *
 * Made by the loader thread, read by the loop, destroyed before the model leaves its devices.
 */
#ifndef MODEL_STAGES_H
#define MODEL_STAGES_H

#include "exec/stages.h"
#include "model/parts/devices.h"
#include "model/parts/shapes.h"

enum {
    STAGES_DEFAULT = 4,  /* of a model whose config names no number */
    STAGES_STREAMS = 2,  /* a batch, and rows that catch up with it */
    STAGES_PAIRS = 2,    /* DVABatch 8.6: two are best */
    STAGES_SLOTS = 3,    /* with a schedule of its own: two in the stages, and one from which it chooses */
    STAGES_AHEAD = 2000, /* each of them may fill the device, which has its room behind the first */
    STAGES_INFLIGHT = 4, /* a batch, and rows on their way to it */
    STAGES_WHOLE = 1000, /* in what is told of a batch's latency */
    STAGES_PAD_MOST = 2, /* times its own elements: no row is padded further when it is alone */
};

typedef struct model model_t;
typedef struct model_load_options model_load_options_t;

typedef struct {
    const model_devices_t *devices;
    const model_shapes_t *shapes; /* NULL: nothing but the batch varies */
    uint32_t count, rows_max;
    bool splits; /* some batch of it goes on in parts: then no rows join its batches */
    uint32_t joinable,
        until[STAGED_STAGES_MAX];      /* staged_joinable: what the scheduler may be told, per mille */
    const staged_schedule_t *schedule; /* NULL: rows join as the scheduler grants */
    bool beside;                       /* batches run side by side, as policy I has it */
    int64_t comp_wait_ns;              /* T_comp_wait; 0: no limit */
    bool pads
        [REFERENCES_MAX]; /* shorter rows can be padded to this reference, with which the stages are prepared */
    uint32_t from[STAGED_STAGES_MAX + 1]; /* operators; stage s runs from[s] <= x < from[s + 1] */
    int64_t *cost_ns;                     /* of a stage on so many rows, see model_stages_cost_ns */
    engine_border_t **borders;            /* see model_stages_border */
} model_stages_t;

/* The cuts of an engine as libs/exec takes them; ops: room for cut_count numbers, to which the result points. */
stages_model_t model_stages_cuts(const engine_cuts_t *cuts, uint32_t *ops);

/*
 * What was found by trial (model->modes: stages, wait and schedule, which belong together) unless the config names a
 * number of stages; else stages of about equal time. A wait or a schedule in the config counts before what was found. A
 * schedule that was found for devices which the scheduler is not told to grant so many batches is left out, and the log
 * says so. NO_MEMORY names what did not fit; one stage when no cut divides the time.
 */
status_t model_stages_create(model_t *model, const model_load_options_t *options, const engine_cuts_t *cuts,
                             model_stages_t **stages, err_t *err);
void model_stages_destroy(model_stages_t *stages); /* NULL is fine */

static inline const char *model_stages_schedule(const model_stages_t *stages)
{
    return stages->schedule ? stages->schedule->name : "granted";
}

static inline int64_t model_stages_cost_ns(const model_stages_t *stages, uint32_t stage, uint32_t rows)
{
    return stages->cost_ns[stage * (stages->rows_max + 1) + rows];
}

/* What a stage of `ns` keeps busy: side by side each has a stream of the device; else there is no room beside one. The
 * worker and `fermata profile --stages` reckon with it. */
static inline staged_cost_t model_stages_busy(int64_t ns, bool beside, uint32_t streams)
{
    return (staged_cost_t){.ns = ns, .busy_ns = beside && streams ? ns / streams : ns};
}

/* The same for rows of so many elements, which take another part of the time than those of the largest reference. */
int64_t model_stages_cost_of_ns(const model_stages_t *stages, uint32_t stage, uint32_t rows,
                                uint64_t elements);

/* The smallest reference that holds rows of these sizes, to which they are padded, if not to that of longer ones. NULL:
 * there is none, or it is too large; such rows run as they are. */
const uint32_t *model_stages_pad_to(const model_stages_t *stages, const uint32_t *sizes);

/* Behind stage < count - 1. */
static inline engine_border_t *model_stages_border(const model_stages_t *stages, uint32_t device,
                                                   uint32_t stage, uint32_t pair)
{
    return stages->borders[(device * (stages->count - 1) + stage) * STAGES_PAIRS + pair];
}

#endif
