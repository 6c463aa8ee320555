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

static status_t refuse_overload(slot_t *slot, uint32_t *retry_after_ms, err_t *err)
{
    model_entry_t *model = slot->session.model;
    metrics_add(slot->owner->early_overload, 1);
    if (slot_is_patient(slot))
        clients_ended(slot->owner->gateway->clients, &slot->hold, model, false);
    *retry_after_ms = SHED_RETRY_AFTER_MS;
    return err_set(err, STATUS_UNAVAILABLE,
                   "overloaded: of requests of this priority for model '%s' a part is refused",
                   model->spec.name);
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
    if (verdict != ESTIMATE_INFEASIBLE && verdict != ESTIMATE_OVERLOAD)
        return STATUS_OK;
    slot->rows = session->request.rows; /* so many tasks are answered */
    return verdict == ESTIMATE_INFEASIBLE ? refuse_infeasible(slot, err)
                                          : refuse_overload(slot, retry_after_ms, err);
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
