/*
 * The tasks of a session, one per row: published and submitted, given up, and their results received. Hot path.
 */
#include "gateway/sessions/session_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "control.pb-c.h"
#include "gateway/models/estimates.h"

#include <string.h>

/* How long after a scheduler has come its workers may take to report the models that the last one knew. */
#define ABSENT_GRACE_NS (30 * NS_PER_S)

/* The session that the task belongs to, if it still waits for it. */
static slot_t *find_task(const sessions_t *sessions, uint64_t id, uint32_t *row)
{
    uint32_t index = (uint32_t)id >> ROW_BITS;
    *row = (uint32_t)id & (SESSION_ROWS_MAX - 1);
    if (index >= sessions->slots.capacity || !pool_is_lent(&sessions->slots, index))
        return NULL;
    slot_t *slot = pool_at(&sessions->slots, index);
    bool current =
        slot->generation == (uint32_t)(id >> 32) && slot->state == SESSION_WAITING && *row < slot->rows;
    return current ? slot : NULL;
}

/* ------------------------------------------------------------------ submitting */

static void link_waiting(slot_t *slot)
{
    sessions_t *sessions = slot->owner;
    slot->prev = NULL;
    slot->next = sessions->waiting;
    if (slot->next)
        slot->next->prev = slot;
    sessions->waiting = slot;
    slot->state = SESSION_WAITING;
}

/* By what the scheduler of the present stream has told. */
static bool is_admitted(const slot_t *slot)
{
    return slot->admitted_up_ns > 0 && slot->admitted_up_ns == slot->owner->up_ns;
}

/* Hands over the rows that the present stream has not carried yet; false: it takes no more now. */
static bool submit_rows(slot_t *slot, uint32_t model_id)
{
    uint64_t item_bytes = slot->item_in_bytes;
    gateway_control_task_t task = {.model = model_id,
                                   .deadline_ns = slot->deadline_ns,
                                   .handle = slot->handle,
                                   .len_bytes = (uint32_t)item_bytes,
                                   .priority = slot_priority(slot),
                                   .admitted = is_admitted(slot),
                                   .sizes = slot->sizes,
                                   .size_count = slot->session.model->spec.axis_count};
    for (; slot->sent_rows < slot->rows; slot->sent_rows++) {
        if (bit_get(slot->finished, slot->sent_rows))
            continue;
        task.id = slot_task_id(slot, slot->sent_rows);
        task.offset_bytes = slot->sent_rows * item_bytes;
        if (gateway_control_submit(slot->owner->gateway->control, &task) != STATUS_OK)
            return false;
    }
    slot->sent_before = true;
    return true;
}

static void on_released(void *ctx)
{
    slot_unref(ctx);
}

void slot_dispatch(slot_t *slot)
{
    gateway_t *gateway = slot->owner->gateway;
    err_t err;
    link_waiting(slot);
    slot->refs++;
    status_t status = dataplane_publish(gateway->dataplane, slot->input, slot->rows * slot->item_in_bytes,
                                        on_released, slot, &slot->handle);
    if (status != STATUS_OK) {
        slot->refs--;
        err_set(&err, STATUS_UNAVAILABLE, "the input cannot be published (%s)", status_name(status));
        slot_finish(slot, &err, 0);
        return;
    }
    slot->published = true;
    slot_follow(slot);
    const model_entry_t *target = slot_target(slot);
    /* Without them it waits, until its deadline, for the scheduler or for a worker that brings the model. */
    if (!gateway_control_is_up(gateway->control) || !target)
        return;
    if (submit_rows(slot, target->id)) {
        slot_note_sent(slot);
        return;
    }
    err_set(&err, STATUS_UNAVAILABLE, "the stream to the scheduler is congested");
    slot_finish(slot, &err, 0);
}

/* ------------------------------------------------------------------ another version */

static bool is_untouched(const slot_t *slot)
{
    for (uint32_t row = 0; row < slot->rows; row++)
        if (bit_get(slot->receiving, row) || bit_get(slot->finished, row))
            return false;
    return !slot->placed;
}

/* Results that come for the tasks as they were are nobody's. */
static void take_back(slot_t *slot)
{
    for (uint32_t row = 0; row < slot->sent_rows; row++) {
        (void)doubts_take(&slot->owner->doubts, slot_task_id(slot, row));
        gateway_control_cancel(slot->owner->gateway->control, slot_task_id(slot, row));
    }
    slot->sent_rows = 0;
    slot->sent_before = false;
    slot->generation++;
}

/* It came to nothing with a version that is on trial, which its client did not ask for: it begins again with the one that is trusted. False: he did ask, or there is
 * no such, or no time. */
static bool fall_back(slot_t *slot)
{
    gateway_t *gateway = slot->owner->gateway;
    model_entry_t *now =
        slot->any_version ? catalogue_fallback(gateway->catalogue, slot->session.model) : NULL;
    if (!now || !is_untouched(slot) || !gateway_control_is_up(gateway->control) ||
        slot->deadline_ns <= clock_now_ns())
        return false;
    take_back(slot);
    slot_move(slot, now);
    return submit_rows(slot, now->id);
}

/* ------------------------------------------------------------------ what the scheduler says */

const model_entry_t *slot_target(const slot_t *slot)
{
    const model_entry_t *old = slot->session.model;
    model_entry_t *now;
    if (old->listed)
        return old->ready ? old : NULL;
    if (catalogue_find(slot->owner->gateway->catalogue, old->spec.name, old->spec.version, &now, NULL) !=
        STATUS_OK)
        return NULL;
    return now->ready && model_entry_alike(now, old) ? now : NULL;
}

/* Submits what this stream has not carried yet and what is still worth it, as far as the stream takes it:
 * on_room goes on. The backstop answers the rest. */
static void submit_unsent(sessions_t *sessions)
{
    int64_t now_ns = clock_now_ns();
    uint64_t again = 0;
    bool room = true;
    for (slot_t *slot = sessions->waiting; slot && room; slot = slot->next) {
        if (slot->sent_rows == slot->rows || slot->deadline_ns <= now_ns)
            continue;
        if (slot->sent_rows == 0)
            slot_follow(slot);
        const model_entry_t *target = slot_target(slot);
        if (!target) /* a worker may still bring it */
            continue;
        again += slot->sent_before && slot->sent_rows == 0 ? slot->rows_left : 0;
        room = submit_rows(slot, target->id);
    }
    sessions->unsent = !room;
    if (again == 0)
        return;
    metrics_add(sessions->resubmitted, again);
    log_info("tasks_resubmitted", LOG_U64("tasks", again));
}

static void on_catalogue(void *ctx, const Control__Catalogue *catalogue)
{
    sessions_t *sessions = ctx;
    bool up = gateway_control_is_up(sessions->gateway->control);
    bool fresh = !up || clock_now_ns() - sessions->up_ns < ABSENT_GRACE_NS;
    catalogue_update(sessions->gateway->catalogue, catalogue, fresh);
    if (up)
        submit_unsent(sessions);
}

/* A new stream: the scheduler at its other end knows nothing of what waits here. */
static void on_up(void *ctx)
{
    sessions_t *sessions = ctx;
    sessions->up_ns = clock_now_ns();
    for (slot_t *slot = sessions->waiting; slot; slot = slot->next)
        slot->sent_rows = 0;
    submit_unsent(sessions);
}

static void on_room(void *ctx)
{
    sessions_t *sessions = ctx;
    if (sessions->unsent)
        submit_unsent(sessions);
}

static void on_down(void *ctx)
{
    sessions_t *sessions = ctx;
    /* What waits keeps waiting: for results of granted batches, and for the next stream. */
    sessions->doubts = (doubts_t){.count = 0};
    estimates_forget(sessions->gateway->catalogue);
}

/* Given up because there is too much to do, and not because its client gave it too little time for what the model is for. */
static bool is_overload(const slot_t *slot, const gateway_control_drop_t *drop)
{
    bool in_vain = strcmp(drop->stage, "queue") == 0;
    bool shed = drop->status == STATUS_UNAVAILABLE && drop->retry_after_ms > 0;
    return (in_vain || shed) && slot_is_patient(slot);
}

static void on_drop(void *ctx, const gateway_control_drop_t *drop)
{
    uint32_t row;
    slot_t *slot = find_task(ctx, drop->id, &row);
    err_t err;
    if (!slot || bit_get(slot->finished, row) || fall_back(slot))
        return;
    if (drop->status == STATUS_DEADLINE_EXCEEDED)
        err_set(&err, drop->status, "the deadline cannot be met (given up in stage %s)", drop->stage);
    else if (strcmp(drop->stage, "shapes") == 0)
        err_set(&err, drop->status, "too many different shapes of model '%s' are under way at once",
                slot->session.model->spec.name);
    else if (drop->status == STATUS_UNAVAILABLE)
        err_set(&err, drop->status, "overloaded or not available (given up in stage %s)", drop->stage);
    else if (drop->status == STATUS_INVALID_ARGUMENT)
        err_set(&err, drop->status,
                "model '%s' cannot be run on these inputs (the log of its worker says why)",
                slot->session.model->spec.name);
    else
        err_set(&err, drop->status, "given up in stage %s (%s)", drop->stage, status_name(drop->status));
    if (is_overload(slot, drop))
        clients_ended(slot->owner->gateway->clients, &slot->hold, slot->session.model, false);
    slot_finish(slot, &err, drop->retry_after_ms);
}

static void on_doubt(void *ctx, uint64_t id)
{
    sessions_t *sessions = ctx;
    uint32_t row;
    const slot_t *slot = find_task(sessions, id, &row);
    if (slot && !bit_get(slot->finished, row))
        doubts_add(&sessions->doubts, id);
    else
        gateway_control_arrive(sessions->gateway->control, id);
}

const gateway_control_ops_t *sessions_control_ops(void)
{
    static const gateway_control_ops_t ops = {.on_catalogue = on_catalogue,
                                              .on_up = on_up,
                                              .on_room = on_room,
                                              .on_down = on_down,
                                              .on_estimate = sessions_on_estimate,
                                              .on_drop = on_drop,
                                              .on_doubt = on_doubt};
    return &ops;
}

/* ------------------------------------------------------------------ what workers push */

static const transfer_dest_t discarded = {NULL, NULL};

static void note_timing(slot_t *slot, const transfer_timing_t *timing)
{
    int64_t since_ns = clock_now_ns() - slot->begin_ns;
    int64_t queue_ns = since_ns - (int64_t)timing->fetch_ns - (int64_t)timing->exec_ns;
    slot->timing = (row_timing_t){.batch_size = timing->batch_size,
                                  .queue_ns = queue_ns > 0 ? (uint64_t)queue_ns : 0,
                                  .fetch_ns = timing->fetch_ns,
                                  .exec_ns = timing->exec_ns};
}

static void fail_row(slot_t *slot, const transfer_incoming_t *result)
{
    uint64_t expected = slot->item_out_bytes;
    err_t err;
    if (fall_back(slot))
        return;
    if (result->status != STATUS_OK)
        err_set(&err, result->status, "%s", result->text[0] ? result->text : "the worker failed the task");
    else
        err_set(&err, STATUS_INTERNAL, "the worker sent %llu bytes where %llu were expected",
                (unsigned long long)result->len_bytes, (unsigned long long)expected);
    slot_finish(slot, &err, 0);
}

/* Before a result from elsewhere is taken: the output moves from where a worker of this process is still writing. */
static status_t displace(slot_t *slot, err_t *err)
{
    const uint8_t *from = slot->output;
    slot->output = slot->placed = NULL;
    status_t status = slot_reserve_output(slot, slot->item_out_bytes, err);
    for (uint32_t row = 0; status == STATUS_OK && row < slot->rows; row++)
        if (bit_get(slot->finished, row))
            memcpy(slot->output + row * slot->item_out_bytes, from + row * slot->item_out_bytes,
                   slot->item_out_bytes);
    return status;
}

static bool is_made_elsewhere(const slot_t *slot, const transfer_incoming_t *result, uint32_t row)
{
    return slot->placed && result->made_at != slot->placed + row * slot->item_out_bytes;
}

static transfer_dest_t on_push(void *ctx, const transfer_incoming_t *result)
{
    sessions_t *sessions = ctx;
    uint32_t row;
    slot_t *slot = find_task(sessions, result->task_id, &row);
    if (!slot || !transfer_handle_equal(slot->handle, result->handle) || bit_get(slot->receiving, row) ||
        bit_get(slot->finished, row)) {
        metrics_add(sessions->late, 1);
        return discarded;
    }
    err_t err;
    if (result->status == STATUS_OK && slot_reserve_output(slot, result->len_bytes, &err) != STATUS_OK) {
        slot_finish(slot, &err, 0);
        return discarded;
    }
    uint64_t expected = slot->item_out_bytes;
    if (result->status != STATUS_OK || result->len_bytes != expected) {
        fail_row(slot, result);
        return discarded;
    }
    if (is_made_elsewhere(slot, result, row) && displace(slot, &err) != STATUS_OK) {
        slot_finish(slot, &err, 0);
        return discarded;
    }
    bit_set(slot->receiving, row);
    slot->refs++;
    note_timing(slot, &result->timing);
    return (transfer_dest_t){.buffer = slot->output + row * expected, .token = slot};
}

static void on_row(slot_t *slot, uint32_t row)
{
    err_t err = {0};
    sessions_t *sessions = slot->owner;
    uint64_t id = slot_task_id(slot, row);
    bit_set(slot->finished, row);
    if (doubts_take(&sessions->doubts, id))
        gateway_control_arrive(sessions->gateway->control, id);
    model_stats_row(&slot->session.model->stats, &slot->timing);
    if (--slot->rows_left > 0)
        return;
    slot->result_ns = clock_now_ns();
    slot_answer(slot, &err);
    slot_finish(slot, &err, 0);
}

static void on_pushed(void *ctx, void *token, uint64_t id, status_t status)
{
    slot_t *slot = token;
    uint32_t row;
    if (!slot)
        return;
    if (find_task(ctx, id, &row) == slot) { /* else it was answered meanwhile */
        bit_clear(slot->receiving, row);
        if (status == STATUS_OK)
            on_row(slot, row);
    }
    slot_unref(slot);
}

/* Only for all rows of a request, of which no other worker has brought any. */
static void *on_place(void *ctx, const transfer_wanted_t *wanted, void **token)
{
    uint32_t row;
    slot_t *slot = find_task(ctx, wanted->task_id, &row);
    err_t err;
    if (!slot || row > 0 || wanted->count != slot->rows ||
        !transfer_handle_equal(slot->handle, wanted->handle) || !is_untouched(slot) ||
        slot_reserve_output(slot, wanted->len_bytes, &err) != STATUS_OK ||
        slot->item_out_bytes != wanted->len_bytes)
        return NULL;
    slot->placed = slot->output;
    slot->refs++;
    *token = slot;
    return slot->placed;
}

static void on_vacated(void *ctx, void *token, void *memory)
{
    slot_t *slot = token;
    (void)ctx;
    if (slot->placed == memory)
        slot->placed = NULL;
    slot_unref(slot);
}

transfer_receiver_t sessions_receiver(void)
{
    return (transfer_receiver_t){
        .begin = on_push, .done = on_pushed, .place = on_place, .vacate = on_vacated};
}
