#include "worker/batch/run_fetch.h"

#include "worker/batch/run_end.h"
#include "worker/batch/run_execute.h"
#include "worker/batch/run_private.h"

#include "base/clock.h"
#include "base/log.h"

#include <string.h>

/* One that is there answers sooner. */
static const int64_t ANSWER_NS = 20 * NS_PER_MS;

/* A gateway that knows nothing of an input any more has a client that went away, or gave up in time. */
static bool are_gone(const batch_t *batch)
{
    for (uint32_t i = 0; i < batch->failed_count; i++)
        if (batch->failed_status[i] != STATUS_NOT_FOUND)
            return false;
    return true;
}

/* Every gateway of the batch is silent, and to this worker others are not: another worker would fetch no better. */
static bool are_silent(const batch_t *batch)
{
    for (uint32_t g = 0; g < batch->group_count; g++)
        if (!batch->groups[g].peer ||
            !peers_only_it_is_silent(batch->run->options.peers, batch->groups[g].peer))
            return false;
    return true;
}

static void log_missing_rows(const batch_t *batch)
{
    if (are_gone(batch) || are_silent(batch)) {
        log_debug("inputs_gone", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
                  LOG_U64("rows", batch->failed_count), LOG_U64("of", batch->granted));
        return;
    }
    log_warn_limited("inputs_missing", LOG_STR("model", batch->model->name), LOG_U64("batch", batch->id),
                     LOG_U64("rows", batch->failed_count), LOG_U64("of", batch->granted),
                     LOG_STR("status", status_name((status_t)batch->failed_status[batch->failed_count - 1])),
                     LOG_MS("after_ms", batch->fetched_ns - batch->granted_ns));
}

static bool all_have_come(const batch_t *batch)
{
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->items[i].status != STATUS_OK)
            return false;
    return true;
}

static void fetch_groups(batch_t *batch, uint64_t timeout_ns);

static void batch_fetched(batch_t *batch)
{
    batch->fetched_ns = clock_now_ns();
    if (batch->on_device && !batch->revoked && !all_have_come(batch)) {
        /* A link broke, or a row is gone and nobody can close its gap there: all of it by the host's memory. */
        int64_t left_ns = batch->fetch_until_ns - batch->fetched_ns;
        batch_aim(batch, false);
        fetch_groups(batch, left_ns > 0 ? (uint64_t)left_ns : 1);
        return;
    }
    batch_compact(batch);
    if (batch->failed_count && !batch->revoked)
        log_missing_rows(batch);
    if (batch->revoked) {
        batch_abort(batch, STATUS_CANCELLED, "revoked");
    } else if (batch->count == 0) {
        batch_abort(batch, are_gone(batch) || are_silent(batch) ? STATUS_CANCELLED : STATUS_UNAVAILABLE,
                    "no input of the batch could be fetched");
    } else {
        batch_submit(batch);
    }
}

static void tell_breaker(const batch_group_t *group, metric_t *changes, log_level_t level, const char *event)
{
    metrics_add(changes, 1);
    log_at(level, event, LOG_STR("gateway", group->peer->address), LOG_U64("batch", group->batch->id));
}

/* Whatever ended it, the gateway had the time to answer and did not: greeting a connection that is never greeted back ends before a long
 * deadline does. A timer that is late by more than the gateway had: this worker itself stood still, which says nothing of the gateway. */
static bool had_time(const batch_t *batch, status_t status, int64_t now_ns)
{
    int64_t given_ns = batch->fetch_until_ns - batch->granted_ns;

    return status != STATUS_CANCELLED && !batch->run->stopping && now_ns - batch->granted_ns >= ANSWER_NS &&
           now_ns - batch->fetch_until_ns < given_ns;
}

static void breaker_note(const batch_group_t *group, status_t status)
{
    const run_t *run = group->batch->run;
    peer_t *peer = group->peer;
    int64_t now_ns = clock_now_ns();

    if (status == STATUS_OK) {
        peer->answered_ns = now_ns;
        if (breaker_answered(&peer->breaker))
            tell_breaker(group, run->heard_again, LOG_INFO, "gateway_answers_again");
    } else if (!had_time(group->batch, status, now_ns)) {
        breaker_nothing(&peer->breaker, now_ns);
    } else if (breaker_silent(&peer->breaker, group->batch->granted_ns, now_ns)) {
        tell_breaker(group, run->silent, LOG_WARN, "gateway_silent");
    }
}

static void group_on_fetched(void *ctx, status_t status)
{
    batch_group_t *group = ctx;

    group->request = 0;
    breaker_note(group, status);
    if (--group->batch->pending == 0)
        batch_fetched(group->batch);
}

static bool is_whole(const batch_t *batch)
{
    return batch->model->choice.mode == MODE_WHOLE;
}

/* Only whole batches are read by nobody but the engine, and only engines of the CPU read any memory. */
static bool reads_anywhere(const batch_t *batch)
{
    return is_whole(batch) && strcmp(batch->run->options.devices->kind, "cuda") != 0;
}

/* Each of its gateways can be read from straight into the device's memory. */
static bool lands_on_device(const batch_t *batch)
{
    const engine_model_info_t *info = batch->model->info;

    if (!is_whole(batch) || !batch->buffers->device_inputs || batch->count == 0)
        return false;
    for (uint32_t g = 0; g < batch->group_count; g++) {
        const batch_group_t *group = &batch->groups[g];
        for (uint32_t k = 0; group->count > 0 && k < info->input_count; k++) {
            if (!group->peer->transfer ||
                !transfer_lands(group->peer->transfer, batch->buffers->device_inputs[k],
                                batch->count * batch->in_bytes[k]))
                return false;
        }
    }
    return true;
}

/* OK: it is under way. */
static status_t group_fetch(batch_group_t *group, uint64_t timeout_ns)
{
    peer_t *peer = group->peer;
    transfer_item_t *items = group->batch->items + group->first;
    int64_t now_ns = clock_now_ns();

    if (!peer->transfer || !breaker_asks(&peer->breaker, now_ns))
        return STATUS_UNAVAILABLE;
    status_t status = (group->batch->on_device ? transfer_fetch_to_device : transfer_fetch)(
        peer->transfer, items, group->count, timeout_ns, group_on_fetched, group, &group->request);
    if (status != STATUS_OK)
        breaker_nothing(&peer->breaker, now_ns);
    return status;
}

static void fetch_groups(batch_t *batch, uint64_t timeout_ns)
{
    /* Requests never end within transfer_fetch, so pending cannot fall to 0 in this loop. */
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        if (group->count == 0)
            continue;
        if (group->peer->here) {
            transfer_take(group->peer->here, batch->items + group->first, group->count);
            continue;
        }
        status_t status = group_fetch(group, timeout_ns);
        if (status == STATUS_OK) {
            batch->pending++;
            continue;
        }
        for (uint32_t i = 0; i < group->count; i++)
            batch->items[group->first + i].status = status;
    }
    if (batch->pending == 0)
        batch_fetched(batch);
}

void batch_fetch(batch_t *batch, uint64_t timeout_ns)
{
    if (reads_anywhere(batch) && batch_hold(batch, batch->run->options.devices->ops->rows_apart)) {
        for (uint32_t i = 0; i < batch->count; i++)
            batch->items[i].status = STATUS_OK;
        metrics_add(batch->model->serving->inputs_in_place, 1);
        batch_fetched(batch);
        return;
    }
    batch->fetch_until_ns = clock_now_ns() + (int64_t)timeout_ns;
    if (lands_on_device(batch))
        batch_aim(batch, true);
    fetch_groups(batch, timeout_ns);
}
