/*
 * Sessions that are answered by what the scheduler has told ahead (models/estimates.h), before their pictures are decoded, their rows laid out or a
 * task is made. Hot path.
 */
#include "gateway/sessions/session_private.h"

#include "base/clock.h"
#include "base/log.h"
#include "control.pb-c.h"
#include "gateway/models/estimates.h"

static status_t refuse_infeasible(const slot_t *slot, err_t *err)
{
    double least_ms = (double)slot->session.model->estimate.least_ns / 1e6;
    metrics_add(slot->owner->early_deadline, 1);
    return err_set(err, STATUS_DEADLINE_EXCEEDED,
                   "the deadline cannot be met: model '%s' takes %.1f ms on an idle device",
                   slot->session.model->spec.name, least_ms);
}

static status_t refuse_backlog(const slot_t *slot, err_t *err)
{
    const model_entry_t *model = slot->session.model;
    int64_t wait_ns = model->estimate.ends_ns - slot->begin_ns;
    metrics_add(slot->owner->early_backlog, 1);
    return err_set(err, STATUS_UNAVAILABLE,
                   "overloaded: what waits for model '%s' takes %.1f ms, so that the deadline cannot be met",
                   model->spec.name, wait_ns > 0 ? (double)wait_ns / 1e6 : 0);
}

static status_t refuse_overload(const slot_t *slot, err_t *err)
{
    metrics_add(slot->owner->early_overload, 1);
    return err_set(err, STATUS_UNAVAILABLE,
                   "overloaded: of requests of this priority for model '%s' a part is refused",
                   slot->session.model->spec.name);
}

/* There is too much to do. */
static status_t refuse(slot_t *slot, estimate_verdict_t verdict, uint32_t *retry_after_ms, err_t *err)
{
    if (slot_is_patient(slot))
        clients_ended(slot->owner->gateway->clients, &slot->hold, slot->session.model, false);
    *retry_after_ms = SHED_RETRY_AFTER_MS;
    return verdict == ESTIMATE_BACKLOG ? refuse_backlog(slot, err) : refuse_overload(slot, err);
}

status_t slot_foresee(slot_t *slot, uint32_t *retry_after_ms, err_t *err)
{
    const session_t *session = &slot->session;
    /* What comes to nothing with a version on trial begins again with the one that is trusted. */
    if (slot->any_version && catalogue_fallback(session->gateway->catalogue, session->model))
        return STATUS_OK;
    estimate_verdict_t verdict =
        estimate_judge(&session->model->estimate, slot->begin_ns, slot_priority(slot),
                       slot->deadline_ns - slot->begin_ns, session->request.rows);
    slot->admitted_up_ns = verdict == ESTIMATE_ADMITS ? slot->owner->up_ns : 0;
    if (verdict == ESTIMATE_SILENT || verdict == ESTIMATE_ADMITS)
        return STATUS_OK;
    slot->rows = session->request.rows; /* so many tasks are answered */
    return verdict == ESTIMATE_INFEASIBLE ? refuse_infeasible(slot, err)
                                          : refuse(slot, verdict, retry_after_ms, err);
}

void slot_note_sent(slot_t *slot)
{
    model_entry_t *model = slot->session.model;
    int64_t held_ns = slot->deadline_ns - slot->begin_ns;
    if (model->spec.slo_ns > 0 && model->spec.slo_ns < held_ns)
        held_ns = model->spec.slo_ns;
    estimate_sent(&model->estimate, slot->begin_ns, held_ns, slot->rows);
}

void sessions_on_estimate(void *ctx, const Control__Estimate *estimate)
{
    gateway_t *gateway = ((sessions_t *)ctx)->gateway;
    estimates_refused_t refused;
    if (gateway_control_has_room(gateway->control) && estimates_gather(gateway->catalogue, &refused))
        gateway_control_refused(gateway->control, &refused);
    if (!estimates_take(gateway->catalogue, estimate, clock_now_ns()))
        log_warn_limited("estimate_ignored", LOG_STR("reason", "its arrays do not fit together"));
}
