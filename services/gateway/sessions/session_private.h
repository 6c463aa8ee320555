/*
 * What the session's files share, from the top: session.c (submit, backstop, all of them), session_input.c, session_tasks.c,
 * session_early.c, session_answer.c, session_shape.c, session_slot.c, session_memory.c; each calls those behind it only. A session is a slot of a pool; it is free again when nobody refers to it:
 *
 *   refs = front end (open … close) + published input (… released) + each push being received + a running preprocess job
 *
 * A task id is {slot's generation, slot's index, row}: whatever comes late finds that its session is another one.
 *
 *   63            32 31        12 11     0
 *   |  generation   |   index    |  row  |
 */
#ifndef GATEWAY_SESSION_PRIVATE_H
#define GATEWAY_SESSION_PRIVATE_H

#include "base/container.h"
#include "base/heap.h"
#include "base/pool.h"
#include "gateway/access/clients.h"
#include "gateway/links/control.h"
#include "gateway/links/dataplane.h"
#include "gateway/sessions/doubts.h"
#include "gateway/sessions/preprocess.h"
#include "gateway/sessions/session.h"
#include "loop/timer.h"

enum { ROW_BITS = 12, INDEX_BITS = 20, SESSIONS_MAX = 1 << INDEX_BITS };
_Static_assert(1 << ROW_BITS == SESSION_ROWS_MAX, "a row must fit a task id");

/* A reply's buffer of this size is kept for the next request of the slot; larger ones go back. */
enum { REPLY_KEEP_BYTES = 64 << 10 };

typedef enum { SESSION_OPEN, SESSION_PREPROCESSING, SESSION_WAITING, SESSION_DONE } session_state_t;

typedef struct session_private {
    session_t session;
    sessions_t *owner;
    uint32_t generation;
    uint32_t refs;
    bool prepared; /* what lives as long as the slot is there */
    session_state_t state;
    protocol_t protocol;
    struct keyring_holder *holder; /* who asks; NULL: anybody */
    bool is_near;                  /* from where clients may share memory, if that is wanted at all */
    client_hold_t hold;
    bool any_version;         /* the client named none */
    model_entry_t *parsed_by; /* whose names the request points to, when it has moved on; kept till the end */
    session_done_fn done;
    void *arg;

    int64_t begin_ns, deadline_ns, result_ns;
    heap_node_t backstop;                /* in owner->backstops, while submitted */
    struct session_private *prev, *next; /* owner->waiting, while WAITING */

    void *regions[SESSION_REGIONS_MAX];
    uint32_t region_count;
    uint8_t *input, *output; /* rows × item bytes */
    uint8_t *
        placed; /* that output, while a worker of this process may write there before it says so; else NULL */
    uint64_t item_in_bytes, item_out_bytes; /* out: 0 until the first result tells it, if outputs vary */
    uint32_t sizes[OIP_MAX_AXES];           /* of the model's axes, as workers see them: padded */
    bool padded;                            /* some are not as they were asked for */
    transfer_handle_t handle;
    bool published;
    uint32_t rows, rows_left;
    uint32_t sent_rows; /* the scheduler of the present stream has got the rows below */
    bool sent_before;   /* all of them, on any stream */
    /* The stream (sessions->up_ns) whose scheduler has told ahead what it refuses, by which this is admitted; 0: none has. */
    int64_t admitted_up_ns;
    bool missed; /* its answer was due, and results of tasks that the scheduler has got were not there */
    uint64_t receiving[SESSION_ROWS_MAX / 64], finished[SESSION_ROWS_MAX / 64];
    row_timing_t timing; /* of the row that came last */
    preprocess_job_t job;
    /* Of the requested outputs that are to lie in one, in their order. */
    struct region *held[OIP_MAX_TENSORS];
    uint32_t held_count;
    struct iovec pieces[OIP_MAX_TENSORS]; /* of the response, when one per output is enough */
} slot_t;

struct sessions {
    gateway_t *gateway;
    pool_t slots;
    uint32_t slots_prepared; /* no slot from this index on was ever used */
    heap_t backstops;
    loop_timer_t timer;
    int64_t timer_at_ns; /* INT64_MAX: not running. May be earlier than needed: then it just looks again */
    slot_t *waiting;     /* newest first */
    bool unsent;         /* some could be submitted and found no room; on_room goes on */
    uint32_t waiting_count, tasks_waiting;
    doubts_t doubts;
    int64_t asked_ns;
    int64_t up_ns; /* start of the present stream to the scheduler */
    metric_t *late, *resubmitted, *refusals, *early_overload, *early_backlog, *early_deadline;
};

static inline slot_t *slot_of(const session_t *session)
{
    return session->internal;
}

static inline uint64_t slot_task_id(const slot_t *slot, uint32_t row)
{
    return (uint64_t)slot->generation << 32 | (uint64_t)pool_index(&slot->owner->slots, slot) << ROW_BITS |
           row;
}

static inline uint32_t slot_priority(const slot_t *slot)
{
    uint64_t priority = slot->session.request.priority;
    if (priority == 0)
        return slot->session.model->priority;
    return priority < UINT32_MAX ? (uint32_t)priority : UINT32_MAX;
}

/* Who gives a request less than so much of the model's SLO may lose it before there is too much to do for others. */
enum { OVERLOAD_SLO_PARTS = 2 };

static inline bool slot_is_patient(const slot_t *slot)
{
    return slot->deadline_ns - slot->begin_ns >= slot->session.model->spec.slo_ns / OVERLOAD_SLO_PARTS;
}

static inline bool bit_get(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> (i % 64) & 1;
}

static inline void bit_set(uint64_t *bits, uint32_t i)
{
    bits[i / 64] |= UINT64_C(1) << (i % 64);
}

static inline void bit_clear(uint64_t *bits, uint32_t i)
{
    bits[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* session_slot.c */
void slot_unref(slot_t *slot);
bool slot_owns(const slot_t *slot, const void *data, size_t len_bytes); /* it lies in a region of the slot */
/* Answers; the only place that does. error->code STATUS_OK: the response is filled. */
void slot_finish(slot_t *slot, const err_t *error, uint32_t retry_after_ms);
/* Moves on to another version when its own is not ready any more and the client named none. */
void slot_follow(slot_t *slot);
void slot_move(slot_t *slot, model_entry_t *now); /* to another version of its model */

/* session_shape.c: requests of models whose dimensions vary */
status_t slot_shape(slot_t *slot,
                    err_t *err); /* fills sizes, padded and the item sizes from the checked request */
uint64_t slot_input_bytes(const slot_t *slot, uint32_t input); /* of one row, as workers see it */
/* Copies one row of an input to where workers fetch it, padding it. */
void slot_pad_row(const slot_t *slot, uint32_t input, const uint8_t *from, uint8_t *to);
/* Memory for the results, when the first one tells how long they are. */
status_t slot_reserve_output(slot_t *slot, uint64_t len_bytes, err_t *err);
/* One output of the rows that have come. */
typedef struct {
    oip_shape_t dims;             /* of one row, batch excluded */
    uint64_t offset_bytes, bytes; /* in the item */
} output_layout_t;
/* Where each output lies; what was padded is cut off. INTERNAL: the rows are not what the model says. */
status_t slot_layout_outputs(slot_t *slot, output_layout_t layouts[OIP_MAX_TENSORS], err_t *err);

/* session_input.c: from the parsed request to the items that workers fetch */
status_t slot_gather(slot_t *slot, err_t *err);
/* Starts the decoding of the picture input; its end comes to slot_dispatch or slot_finish. */
status_t slot_preprocess(slot_t *slot, err_t *err);

/* session_tasks.c: the tasks of a session */
void slot_dispatch(slot_t *slot);
/* The model that its tasks go to now: its own, or what has replaced it if requests for the one can go to
 * the other. NULL: none that is ready. */
const model_entry_t *slot_target(const slot_t *slot);

/* session_early.c: what the scheduler has told ahead. STATUS_OK: that says nothing against it. Else it is to be answered so; the verdict is counted. */
status_t slot_foresee(slot_t *slot, uint32_t *retry_after_ms, err_t *err);
/* Its rows have gone to the scheduler, for the first time. */
void slot_note_sent(slot_t *slot);
struct Control__Estimate;
void sessions_on_estimate(void *sessions, const struct Control__Estimate *estimate);

/* session_memory.c: tensors in memory that the client shares */
status_t slot_check_memory(const slot_t *slot, err_t *err); /* whether it may, where it wants to */
/* Reads the inputs, and holds what the outputs are to go to. */
status_t slot_take_memory(slot_t *slot, err_t *err);
status_t slot_fill_memory(slot_t *slot, err_t *err); /* writes the outputs of the response */

/* session_answer.c */
status_t slot_answer(slot_t *slot, err_t *err);

#endif
