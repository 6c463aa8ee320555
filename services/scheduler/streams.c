#include "scheduler/streams.h"

#include "base/log.h"
#include "scheduler/shell.h"

#include <stdlib.h>

typedef struct {
    scheduler_t *scheduler;
    link_t *link;
    peer_t *peer;       /* NULL: not let in */
    size_t large_bytes; /* of a large frame that may still wait to be sent; 0: none does */
} stream_t;

/* ---- Out ---- */

/* That wait to be sent, but for a large frame among them. */
static size_t waiting_bytes(stream_t *stream)
{
    size_t pending = link_pending_bytes(stream->link);
    if (pending < stream->large_bytes)
        stream->large_bytes = 0; /* it has left */
    return pending - stream->large_bytes;
}

bool stream_takes_large(void *arg)
{
    stream_t *stream = arg;
    return waiting_bytes(stream) <= STREAM_FRAMES_BYTES_MAX / 2 && stream->large_bytes == 0;
}

/* A frame of half of the limit and more does not count, if it is the only one. */
bool stream_send(void *arg, const ProtobufCMessage *message)
{
    stream_t *stream = arg;
    link_frame_t frame = link_pack(stream->link, message);
    size_t len = frame.len_bytes, waiting = waiting_bytes(stream);
    bool large = len >= STREAM_FRAMES_BYTES_MAX / 2 && stream->large_bytes == 0;
    if (waiting + (large ? 0 : len) > STREAM_FRAMES_BYTES_MAX) {
        log_warn_limited("stream_full", LOG_STR("peer", link_peer(stream->link)),
                         LOG_U64("waiting_bytes", waiting));
        link_drop(frame);
        return false;
    }
    if (large)
        stream->large_bytes = len;
    return link_put(stream->link, frame) != STATUS_NO_MEMORY;
}

void stream_close(void *arg, close_reason_t why, const char *text)
{
    static const rpc_code_t codes[] = {
        [CLOSE_STOPPING] = RPC_UNAVAILABLE,     [CLOSE_VERSION] = RPC_FAILED_PRECONDITION,
        [CLOSE_INVALID] = RPC_INVALID_ARGUMENT, [CLOSE_EXHAUSTED] = RPC_RESOURCE_EXHAUSTED,
        [CLOSE_SILENT] = RPC_DEADLINE_EXCEEDED,
    };
    const stream_t *stream = arg;
    link_close(stream->link, codes[why], text);
}

void stream_cancel(void *arg)
{
    const stream_t *stream = arg;
    link_cancel(stream->link);
}

/* ---- In ---- */

static stream_t *stream_open(link_t *link, void *scheduler)
{
    stream_t *stream = calloc(1, sizeof *stream);
    link_set_ctx(link, stream);
    if (!stream)
        link_close(link, RPC_RESOURCE_EXHAUSTED, "no memory for another stream");
    else
        *stream = (stream_t){.scheduler = scheduler, .link = link};
    return stream;
}

static void on_gateway_open(link_t *link, void *ctx)
{
    stream_t *stream = stream_open(link, ctx);
    if (!stream)
        return;
    gateway_t *gateway =
        control_gateway_opened(stream->scheduler->control, loop_now_ns(), stream, link_peer(link));
    stream->peer = gateway ? &gateway->peer : NULL;
}

static void on_worker_open(link_t *link, void *ctx)
{
    stream_t *stream = stream_open(link, ctx);
    if (!stream)
        return;
    worker_t *worker =
        control_worker_opened(stream->scheduler->control, loop_now_ns(), stream, link_peer(link));
    stream->peer = worker ? &worker->peer : NULL;
}

/* Whether somebody listens to it still, and it is one. */
static bool takes(const stream_t *stream, const ProtobufCMessage *frame)
{
    if (!stream || !stream->peer || stream->peer->closing)
        return false;
    if (!frame)
        control_unreadable(stream->scheduler->control, loop_now_ns(), stream->peer);
    return frame;
}

static void on_gateway_said(link_t *link, void *ctx, const ProtobufCMessage *frame)
{
    const stream_t *stream = ctx;
    (void)link;
    if (takes(stream, frame))
        control_gateway_said(stream->scheduler->control, loop_now_ns(), (gateway_t *)stream->peer,
                             (const Control__GatewayToScheduler *)frame);
}

static void on_worker_said(link_t *link, void *ctx, const ProtobufCMessage *frame)
{
    const stream_t *stream = ctx;
    (void)link;
    if (takes(stream, frame))
        control_worker_said(stream->scheduler->control, loop_now_ns(), (worker_t *)stream->peer,
                            (const Control__WorkerToScheduler *)frame);
}

static void on_gateway_closed(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    stream_t *stream = ctx;
    (void)link;
    if (stream && stream->peer)
        control_gateway_closed(stream->scheduler->control, loop_now_ns(), (gateway_t *)stream->peer,
                               rpc_code_name(code), text);
    free(stream);
}

static void on_worker_closed(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    stream_t *stream = ctx;
    (void)link;
    if (stream && stream->peer)
        control_worker_closed(stream->scheduler->control, loop_now_ns(), (worker_t *)stream->peer,
                              rpc_code_name(code), text);
    free(stream);
}

static status_t accept_links(scheduler_t *s, const link_kind_t *kind)
{
    return s->options.hub ? link_accept_within(s->options.hub, kind) : link_accept(s->server, kind);
}

status_t streams_add(scheduler_t *s)
{
    s->kinds.gateway = (link_kind_t){
        .method = "/fermata.control.v1.Control/Gateway",
        .hears = &control__gateway_to_scheduler__descriptor,
        .arena = &s->arena,
        .ops = {.opened = on_gateway_open, .said = on_gateway_said, .closed = on_gateway_closed},
        .ctx = s};
    s->kinds.worker =
        (link_kind_t){.method = "/fermata.control.v1.Control/Worker",
                      .hears = &control__worker_to_scheduler__descriptor,
                      .arena = &s->arena,
                      .ops = {.opened = on_worker_open, .said = on_worker_said, .closed = on_worker_closed},
                      .ctx = s};
    status_t status = accept_links(s, &s->kinds.gateway);
    return status == STATUS_OK ? accept_links(s, &s->kinds.worker) : status;
}
