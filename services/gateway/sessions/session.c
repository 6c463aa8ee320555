/*
 * The life of a session: submitted, answered once. Hot path: a request costs pool and arena slots, no malloc.
 */
#include "gateway/sessions/session_private.h"

#include "base/clock.h"
#include "oip/rest_codec.h"

#include <stdlib.h>
#include <string.h>

enum { RETRY_PICTURES_MS = 1000 }; /* when too many wait to be decoded */

void session_count_refusal(gateway_t *gateway, protocol_t protocol, status_t status)
{
    metrics_add(metrics_series(gateway->metrics, METRIC_GATEWAY_BAD_REQUESTS, protocol_name(protocol),
                               status_name(status)),
                1);
}

/* ------------------------------------------------------------------ the backstop */

static void arm(sessions_t *sessions)
{
    int64_t next_ns = heap_min_key(&sessions->backstops);
    if (next_ns < sessions->timer_at_ns) {
        sessions->timer_at_ns = next_ns;
        loop_timer_start(&sessions->timer, next_ns);
    }
}

static void give_up(slot_t *slot)
{
    const gateway_control_t *control = slot->owner->gateway->control;
    err_t err;
    slot->missed = slot->state == SESSION_WAITING && slot->sent_rows == slot->rows;
    if (slot->state == SESSION_PREPROCESSING)
        err_set(&err, STATUS_DEADLINE_EXCEEDED, "the picture was not decoded by the deadline");
    else if (!gateway_control_is_up(control))
        err_set(&err, STATUS_UNAVAILABLE, "%s", gateway_control_away_reason(control));
    else if (slot->missed)
        err_set(&err, STATUS_DEADLINE_EXCEEDED, "no result by the deadline");
    else if (slot_target(slot))
        err_set(&err, STATUS_UNAVAILABLE, "the scheduler has not taken the request by the deadline");
    else if (slot->session.model->reason[0]) /* it is being unloaded, say */
        (void)model_entry_not_ready(slot->session.model, &err);
    else
        err_set(&err, STATUS_UNAVAILABLE, "no worker has model '%s' since the scheduler has come back",
                slot->session.model->spec.name);
    slot_finish(slot, &err, 0);
}

/* One at a time from the heap, since each answer may change it. */
static void on_backstop(loop_timer_t *timer, void *arg)
{
    sessions_t *sessions = arg;
    int64_t now_ns = clock_now_ns();
    (void)timer;
    sessions->timer_at_ns = INT64_MAX;
    while (heap_min_key(&sessions->backstops) <= now_ns)
        give_up(CONTAINER_OF(heap_min(&sessions->backstops), slot_t, backstop));
    arm(sessions);
}

/* ------------------------------------------------------------------ submitting */

static int64_t budget_of(const slot_t *slot, int64_t transport_ns)
{
    const oip_request_t *request = &slot->session.request;
    int64_t budget_ns = transport_ns;
    if (request->timeout_us > 0 && request->timeout_us * NS_PER_US < budget_ns)
        budget_ns = request->timeout_us * NS_PER_US;
    if (budget_ns == SESSION_NO_BUDGET)
        budget_ns = slot->session.model->spec.slo_ns;
    return budget_ns < SESSION_BUDGET_MAX_NS ? budget_ns : SESSION_BUDGET_MAX_NS;
}

static status_t check(slot_t *slot, int64_t budget_ns, err_t *err)
{
    session_t *session = &slot->session;
    const model_entry_t *model = session->model;
    if (!model->ready && model->listed)
        return model_entry_not_ready(model, err);
    if (session->request.sequence)
        return err_set(err, STATUS_UNSUPPORTED, "sequences are not supported");
    status_t status = slot_check_memory(slot, err);
    if (status == STATUS_OK)
        status = oip_validate_request(&session->request, &model->spec, err);
    if (status == STATUS_OK && slot->protocol == PROTOCOL_REST)
        status = oip_rest_check(&session->request, &model->spec, err);
    if (status != STATUS_OK)
        return status;
    if (session->request.rows == 0 || session->request.rows > SESSION_ROWS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a request has 1 to %d rows, not %u", SESSION_ROWS_MAX,
                       session->request.rows);
    if (budget_ns <= 0)
        return err_set(err, STATUS_DEADLINE_EXCEEDED, "the deadline has passed already");
    return STATUS_OK;
}

static status_t reserve(slot_t *slot, err_t *err)
{
    slot->rows = slot->rows_left = slot->session.request.rows;
    memset(slot->receiving, 0, (slot->rows + 63) / 64 * sizeof *slot->receiving);
    memset(slot->finished, 0, (slot->rows + 63) / 64 * sizeof *slot->finished);
    status_t status = slot_shape(slot, err);
    if (status == STATUS_OK && slot->session.model->open_outputs == 0)
        status = slot_reserve_output(slot, slot->session.model->output_row_bytes, err);
    if (status == STATUS_OK)
        status = slot_take_memory(slot, err);
    return status == STATUS_OK ? slot_gather(slot, err) : status;
}

void session_submit(session_t *session, int64_t budget_ns, session_done_fn done, void *arg)
{
    slot_t *slot = slot_of(session);
    sessions_t *sessions = slot->owner;
    uint32_t retry_after_ms = 0;
    err_t err = {0};
    slot->done = done;
    slot->arg = arg;
    slot->begin_ns = slot->result_ns = sessions->asked_ns = clock_now_ns();
    slot->timing = (row_timing_t){0};
    budget_ns = budget_of(slot, budget_ns);
    slot->deadline_ns = slot->begin_ns + budget_ns;
    model_stats_submitted(&session->model->stats);
    slot_follow(slot);
    sessions->waiting_count++;
    if (check(slot, budget_ns, &err) != STATUS_OK || slot_foresee(slot, &retry_after_ms, &err) != STATUS_OK ||
        reserve(slot, &err) != STATUS_OK) {
        slot_finish(slot, &err, retry_after_ms);
        return;
    }
    sessions->tasks_waiting += slot->rows;
    heap_insert(&sessions->backstops, &slot->backstop, slot->deadline_ns + SESSION_BACKSTOP_NS,
                slot->generation);
    arm(sessions);
    if (slot->job.rows > 0) {
        slot->state = SESSION_PREPROCESSING;
        if (slot_preprocess(slot, &err) != STATUS_OK)
            slot_finish(slot, &err, RETRY_PICTURES_MS);
    } else {
        slot_dispatch(slot);
    }
}

void session_cancel(session_t *session)
{
    slot_t *slot = slot_of(session);
    err_t err;
    if (slot->state != SESSION_PREPROCESSING && slot->state != SESSION_WAITING)
        return;
    err_set(&err, STATUS_CANCELLED, "the client is gone");
    slot_finish(slot, &err, 0);
}

/* ------------------------------------------------------------------ answering */

static void count_answer(slot_t *slot, status_t status)
{
    int64_t now_ns = clock_now_ns();
    uint32_t rows = slot->rows > 0 ? slot->rows : 1;
    const request_outcome_t outcome = {.protocol = slot->protocol,
                                       .status = status,
                                       .rows = rows,
                                       .total_ns = (uint64_t)(now_ns - slot->begin_ns),
                                       .output_ns = (uint64_t)(now_ns - slot->result_ns),
                                       .timing = slot->timing};
    model_stats_answered(&slot->session.model->stats, &outcome);
}

status_t session_write(session_t *session, session_write_fn write, err_t *err)
{
    status_t status = session->error.code;
    if (status == STATUS_OK)
        status = write(&session->reply, &session->response, err);
    else
        *err = session->error;
    count_answer(slot_of(session), status);
    return status;
}

/* ------------------------------------------------------------------ all sessions */

status_t sessions_create(gateway_t *gateway, uint32_t requests_max, sessions_t **sessions, err_t *err)
{
    if (requests_max == 0 || requests_max > SESSIONS_MAX)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the number of requests must be 1 to %d", SESSIONS_MAX);
    sessions_t *made = calloc(1, sizeof *made);
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the sessions");
    made->gateway = gateway;
    made->timer_at_ns = INT64_MAX;
    made->late = metrics_series(gateway->metrics, METRIC_GATEWAY_LATE_RESULTS);
    made->resubmitted = metrics_series(gateway->metrics, METRIC_GATEWAY_RESUBMITTED);
    made->refusals = metrics_series(gateway->metrics, METRIC_GATEWAY_ARENA_REFUSALS);
    made->early_overload = metrics_series(gateway->metrics, METRIC_GATEWAY_REFUSED_EARLY, "overload");
    made->early_backlog = metrics_series(gateway->metrics, METRIC_GATEWAY_REFUSED_EARLY, "backlog");
    made->early_deadline = metrics_series(gateway->metrics, METRIC_GATEWAY_REFUSED_EARLY, "deadline");
    status_t status = pool_init(&made->slots, sizeof(slot_t), requests_max, err);
    if (status != STATUS_OK)
        goto free_sessions;
    status = heap_init(&made->backstops, requests_max, err);
    if (status != STATUS_OK)
        goto dispose_slots;
    status = loop_timer_init(&made->timer, gateway->loop, on_backstop, made, err);
    if (status != STATUS_OK)
        goto dispose_heap;
    *sessions = made;
    return STATUS_OK;

dispose_heap:
    heap_dispose(&made->backstops);
dispose_slots:
    pool_dispose(&made->slots);
free_sessions:
    free(made);
    return status;
}

void sessions_destroy(sessions_t *sessions)
{
    if (!sessions)
        return;
    for (uint32_t i = 0; i < sessions->slots_prepared; i++) {
        slot_t *slot = pool_at(&sessions->slots, i);
        if (slot->prepared)
            oip_reply_dispose(&slot->session.reply);
    }
    loop_timer_dispose(&sessions->timer);
    heap_dispose(&sessions->backstops);
    pool_dispose(&sessions->slots);
    free(sessions);
}

int64_t sessions_asked_ns(const sessions_t *sessions)
{
    return sessions->asked_ns;
}

uint32_t sessions_waiting(const sessions_t *sessions)
{
    return sessions->waiting_count;
}

uint32_t sessions_tasks_waiting(const sessions_t *sessions)
{
    return sessions->tasks_waiting;
}
