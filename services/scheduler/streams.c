#include "scheduler/streams.h"

#include "base/log.h"
#include "scheduler/shell.h"

#include <stdlib.h>

typedef struct {
    scheduler_t *scheduler;
    rpc_stream_t *stream;
    peer_t *peer;       /* NULL: not let in */
    size_t large_bytes; /* of a large frame that may still wait to be sent; 0: none does */
} link_t;

/* ---- Out ---- */

/* That wait to be sent, but for a large frame among them. */
static size_t waiting_bytes(link_t *link)
{
    size_t pending = rpc_stream_pending_bytes(link->stream);
    if (pending < link->large_bytes)
        link->large_bytes = 0; /* it has left */
    return pending - link->large_bytes;
}

bool stream_takes_large(void *arg)
{
    link_t *link = arg;
    return waiting_bytes(link) <= STREAM_FRAMES_BYTES_MAX / 2 && link->large_bytes == 0;
}

/* A frame of half of the limit and more does not count, if it is the only one. */
bool stream_send(void *arg, const ProtobufCMessage *frame)
{
    link_t *link = arg;
    rpc_bytes_t *bytes = rpc_pack(frame);
    size_t len = rpc_bytes_len(bytes), waiting = waiting_bytes(link);
    bool large = len >= STREAM_FRAMES_BYTES_MAX / 2 && link->large_bytes == 0;
    if (waiting + (large ? 0 : len) > STREAM_FRAMES_BYTES_MAX) {
        log_warn("stream_full", LOG_STR("peer", rpc_stream_peer(link->stream)),
                 LOG_U64("waiting_bytes", waiting));
        rpc_bytes_free(bytes);
        return false;
    }
    if (large)
        link->large_bytes = len;
    return rpc_stream_send(link->stream, bytes) != STATUS_NO_MEMORY;
}

void stream_close(void *arg, close_reason_t why, const char *text)
{
    static const rpc_code_t codes[] = {
        [CLOSE_STOPPING] = RPC_UNAVAILABLE,     [CLOSE_VERSION] = RPC_FAILED_PRECONDITION,
        [CLOSE_INVALID] = RPC_INVALID_ARGUMENT, [CLOSE_EXHAUSTED] = RPC_RESOURCE_EXHAUSTED,
        [CLOSE_SILENT] = RPC_DEADLINE_EXCEEDED,
    };
    const link_t *link = arg;
    rpc_stream_close(link->stream, codes[why], text);
}

void stream_cancel(void *arg)
{
    const link_t *link = arg;
    rpc_stream_cancel(link->stream);
}

/* ---- In ---- */

static link_t *link_open(rpc_stream_t *stream, void *scheduler)
{
    link_t *link = calloc(1, sizeof *link);
    rpc_stream_set_arg(stream, link);
    if (!link)
        rpc_stream_close(stream, RPC_RESOURCE_EXHAUSTED, "no memory for another stream");
    else
        *link = (link_t){.scheduler = scheduler, .stream = stream};
    return link;
}

static void on_gateway_open(rpc_stream_t *stream, void *arg)
{
    link_t *link = link_open(stream, arg);
    if (!link)
        return;
    gateway_t *gateway =
        control_gateway_opened(link->scheduler->control, loop_now_ns(), link, rpc_stream_peer(stream));
    link->peer = gateway ? &gateway->peer : NULL;
}

static void on_worker_open(rpc_stream_t *stream, void *arg)
{
    link_t *link = link_open(stream, arg);
    if (!link)
        return;
    worker_t *worker =
        control_worker_opened(link->scheduler->control, loop_now_ns(), link, rpc_stream_peer(stream));
    link->peer = worker ? &worker->peer : NULL;
}

/* NULL: nobody listens to it any more, or it is none. */
static void *read_frame(const link_t *link, const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes)
{
    if (!link || !link->peer || link->peer->closing)
        return NULL;
    void *frame = rpc_unpack(type, bytes, &link->scheduler->arena);
    if (!frame)
        control_unreadable(link->scheduler->control, loop_now_ns(), link->peer);
    return frame;
}

static void on_gateway_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    const link_t *link = arg;
    const Control__GatewayToScheduler *frame =
        read_frame(link, &control__gateway_to_scheduler__descriptor, bytes);
    if (!frame)
        return;
    scheduler_t *s = link->scheduler;
    control_gateway_said(s->control, loop_now_ns(), (gateway_t *)link->peer, frame);
    pb_arena_reset(&s->arena);
}

static void on_worker_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    (void)stream;
    (void)keep;
    const link_t *link = arg;
    const Control__WorkerToScheduler *frame =
        read_frame(link, &control__worker_to_scheduler__descriptor, bytes);
    if (!frame)
        return;
    scheduler_t *s = link->scheduler;
    control_worker_said(s->control, loop_now_ns(), (worker_t *)link->peer, frame);
    pb_arena_reset(&s->arena);
}

static void on_gateway_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    link_t *link = arg;
    if (link && link->peer)
        control_gateway_closed(link->scheduler->control, loop_now_ns(), (gateway_t *)link->peer,
                               rpc_code_name(code), text);
    free(link);
}

static void on_worker_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    link_t *link = arg;
    if (link && link->peer)
        control_worker_closed(link->scheduler->control, loop_now_ns(), (worker_t *)link->peer,
                              rpc_code_name(code), text);
    free(link);
}

status_t streams_add(scheduler_t *s)
{
    static const rpc_stream_ops_t gateway = {
        .on_open = on_gateway_open, .on_message = on_gateway_message, .on_close = on_gateway_close};
    static const rpc_stream_ops_t worker = {
        .on_open = on_worker_open, .on_message = on_worker_message, .on_close = on_worker_close};
    status_t status = rpc_server_add_stream(s->server, "/fermata.control.v1.Control/Gateway", &gateway, s);
    if (status == STATUS_OK)
        status = rpc_server_add_stream(s->server, "/fermata.control.v1.Control/Worker", &worker, s);
    return status;
}
