/* A link that is a stream of gRPC. */
#include "link/link_private.h"

#include "rpc/pb.h"

#include <stdlib.h>

typedef struct {
    link_t link;
    rpc_stream_t *stream;
} rpc_end_t;

typedef struct {
    link_dial_t dial;
    rpc_client_t *client;
    rpc_link_t *rpc;
    rpc_end_t end; /* of the stream that is up; its stream is NULL where none is */
} rpc_dial_t;

/* ---- either end ---- */

static link_frame_t pack(const link_t *link, const ProtobufCMessage *message)
{
    (void)link;
    rpc_bytes_t *bytes = rpc_pack(message);
    return (link_frame_t){.bytes = bytes, .len_bytes = bytes ? rpc_bytes_len(bytes) : 0};
}

static status_t put(link_t *link, link_frame_t frame)
{
    return frame.bytes ? rpc_stream_send(((rpc_end_t *)link)->stream, frame.bytes) : STATUS_NO_MEMORY;
}

static size_t pending_bytes(const link_t *link)
{
    return rpc_stream_pending_bytes(((const rpc_end_t *)link)->stream);
}

static void close_end(link_t *link, rpc_code_t code, const char *text)
{
    rpc_stream_close(((rpc_end_t *)link)->stream, code, text);
}

static void cancel(link_t *link)
{
    rpc_stream_cancel(((rpc_end_t *)link)->stream);
}

static const char *peer(const link_t *link)
{
    return rpc_stream_peer(((const rpc_end_t *)link)->stream);
}

static const link_body_t body = {.pack = pack,
                                 .put = put,
                                 .pending_bytes = pending_bytes,
                                 .close = close_end,
                                 .cancel = cancel,
                                 .peer = peer};

static void end_open(rpc_end_t *end, const link_kind_t *kind, rpc_stream_t *stream)
{
    end->link = (link_t){.body = &body, .kind = kind, .ctx = kind->ctx};
    end->stream = stream;
    kind->ops.opened(&end->link, end->link.ctx);
}

static void end_closed(rpc_end_t *end, rpc_code_t code, const char *text)
{
    end->link.kind->ops.closed(&end->link, end->link.ctx, code, text);
    end->stream = NULL;
}

/* ---- who accepts: a link for each stream ---- */

static void on_open(rpc_stream_t *stream, void *arg)
{
    rpc_end_t *end = calloc(1, sizeof(*end));

    rpc_stream_set_arg(stream, end);
    if (end)
        end_open(end, arg, stream);
    else
        rpc_stream_close(stream, RPC_RESOURCE_EXHAUSTED, "no memory for another stream");
}

static void on_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    rpc_end_t *end = arg;

    (void)stream, (void)keep;
    if (end)
        link_hear(&end->link, bytes);
}

static void on_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    rpc_end_t *end = arg;

    (void)stream;
    if (end)
        end_closed(end, code, text);
    free(end);
}

static void on_writable(rpc_stream_t *stream, void *arg)
{
    rpc_end_t *end = arg;

    (void)stream;
    if (end && end->link.kind->ops.writable)
        end->link.kind->ops.writable(&end->link, end->link.ctx);
}

status_t link_accept(rpc_server_t *server, const link_kind_t *kind)
{
    static const rpc_stream_ops_t ops = {
        .on_open = on_open, .on_message = on_message, .on_writable = on_writable, .on_close = on_close};

    return rpc_server_add_stream(server, kind->method, &ops, (void *)(uintptr_t)kind);
}

/* ---- who dials: one after the other, in one place ---- */

static void on_dialled(rpc_stream_t *stream, void *arg)
{
    rpc_dial_t *dial = arg;

    end_open(&dial->end, dial->dial.kind, stream);
}

static void on_dial_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    rpc_dial_t *dial = arg;

    (void)keep;
    if (stream == dial->end.stream)
        link_hear(&dial->end.link, bytes);
}

static void on_dial_writable(rpc_stream_t *stream, void *arg)
{
    rpc_dial_t *dial = arg;

    if (stream == dial->end.stream)
        on_writable(stream, &dial->end);
}

static void on_dial_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    rpc_dial_t *dial = arg;

    (void)stream;
    end_closed(&dial->end, code, text);
}

static void on_state(rpc_link_t *rpc, void *arg, rpc_link_state_t state, rpc_code_t code, const char *text)
{
    const rpc_dial_t *dial = arg;
    const link_kind_t *kind = dial->dial.kind;

    (void)rpc;
    if (state == RPC_LINK_DOWN && kind->ops.down)
        kind->ops.down(kind->ctx, code, text);
}

static link_t *dial_up(const link_dial_t *dial)
{
    const rpc_dial_t *of = (const rpc_dial_t *)dial;

    return of->end.stream ? (link_t *)(uintptr_t)&of->end.link : NULL;
}

static void dial_close(link_dial_t *dial, void (*on_closed)(void *arg), void *arg)
{
    rpc_link_close(((rpc_dial_t *)dial)->rpc, on_closed, arg);
}

static void dial_destroy(link_dial_t *dial)
{
    rpc_client_destroy(((rpc_dial_t *)dial)->client);
    free(dial);
}

status_t dial_over_rpc(const link_via_t *via, const link_kind_t *kind, link_dial_t **out, err_t *err)
{
    static const dial_body_t dial_body = {.up = dial_up, .close = dial_close, .destroy = dial_destroy};
    const rpc_client_options_t client = {.address = via->address, .tls = via->tls, .limits = via->limits};
    rpc_dial_t *dial = calloc(1, sizeof(*dial));

    if (!dial)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a link");
    dial->dial = (link_dial_t){.body = &dial_body, .kind = kind};
    status_t status = rpc_client_create(via->rpc, &client, &dial->client, err);
    if (status != STATUS_OK) {
        free(dial);
        return status;
    }
    const rpc_link_options_t link = {.method = kind->method,
                                     .ops = {.on_open = on_dialled,
                                             .on_message = on_dial_message,
                                             .on_writable = on_dial_writable,
                                             .on_close = on_dial_close},
                                     .on_state = on_state,
                                     .arg = dial};
    status = rpc_link_create(dial->client, &link, &dial->rpc, err);
    if (status != STATUS_OK) {
        dial_destroy(&dial->dial);
        return status;
    }
    *out = &dial->dial;
    return STATUS_OK;
}
