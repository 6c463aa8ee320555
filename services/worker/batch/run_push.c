#include "worker/batch/run_push.h"

#include "worker/batch/run_end.h"
#include "worker/batch/run_private.h"

#include "base/clock.h"
#include "base/log.h"

/* Long beyond any deadline: only keeps a stuck gateway from holding batch buffers. */
static const uint64_t PUSH_TIMEOUT_NS = 10 * (uint64_t)NS_PER_S;

static void push_on_done(void *ctx, status_t status);

static status_t push_send(batch_push_t *push)
{
    batch_t *batch = push->group->batch;
    transfer_peer_t *peer = push->group->peer->transfer;
    transfer_request_t request; /* a push is never given up: its bytes may be half sent */
    status_t status = STATUS_UNAVAILABLE;

    if (peer)
        status = transfer_push(peer, batch->results + push->first, push->count, PUSH_TIMEOUT_NS, push_on_done,
                               push, &request);
    if (status == STATUS_OK)
        batch->pending++;
    return status;
}

static void push_failed(const batch_push_t *push, status_t status)
{
    metrics_add(push->group->batch->model->serving->push_failed, push->count);
    log_warn_limited("push_failed", LOG_STR("gateway", push->group->peer->address),
                     LOG_STR("model", push->group->batch->model->name), LOG_U64("tasks", push->count),
                     LOG_STR("status", status_name(status)));
}

void batch_settle_pushes(batch_t *batch)
{
    if (batch->state != BATCH_PUSHING || batch->pending > 0)
        return;
    if (batch->push_count)
        metrics_observe(batch->model->serving->push, clock_now_ns() - batch->finished_ns);
    batch_recycle(batch);
}

static void push_on_done(void *ctx, status_t status)
{
    batch_push_t *push = ctx;
    batch_t *batch = push->group->batch;

    batch->pending--;
    if (status == STATUS_UNAVAILABLE && !push->again && !batch->run->stopping) {
        /* The connection broke; if the gateway still lives the results reach it on a new one. */
        push->again = true;
        status = push_send(push);
    }
    if (status != STATUS_OK)
        push_failed(push, status);
    batch_settle_pushes(batch);
}

static void on_handed(transfer_handover_t *handover)
{
    batch_push_t *push = CONTAINER_OF(handover, batch_push_t, handover);
    batch_t *batch = push->group->batch;

    batch->pending--;
    peers_handed(batch->run->options.peers);
    batch_settle_pushes(batch);
}

/* To a gateway of this process. */
static void push_hand(batch_push_t *push)
{
    batch_t *batch = push->group->batch;

    push->handover = (transfer_handover_t){.owner = push->group->peer->here,
                                           .results = batch->results + push->first,
                                           .count = push->count,
                                           .done = on_handed};
    if (!peers_hand(batch->run->options.peers, &push->handover))
        batch->pending++;
}

/* Nobody will hear of these rows but by the report, which is still to come. */
static void push_lose(const batch_push_t *push, status_t status)
{
    batch_t *batch = push->group->batch;

    push_failed(push, status);
    err_set(&batch->err, status, "the results could not be sent to gateway %s", push->group->peer->address);
    for (uint32_t i = 0; i < push->count; i++)
        batch_lose_row(batch, push->first + i, status);
}

void batch_push(batch_t *batch, uint32_t first, uint32_t count)
{
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        uint32_t from = group->first > first ? group->first : first;
        uint32_t to =
            group->first + group->count < first + count ? group->first + group->count : first + count;
        if (from >= to)
            continue;
        batch_push_t *push = &batch->pushes[batch->push_count++];
        *push = (batch_push_t){.group = group, .first = from, .count = to - from};
        if (group->peer->here) {
            push_hand(push);
            continue;
        }
        status_t status = push_send(push);
        if (status != STATUS_OK)
            push_lose(push, status);
    }
}
