#include "grpc_stream.h"

#include "base/pool.h"
#include "oip/grpc_codec.h"
#include "open_inference.pb-c.h"
#include "rpc/pb.h"
#include "session.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
    CALLS_MAX = 16384, /* of all streams */
    /* Field 2 of ModelStreamInferResponse, length-delimited: its tag and the longest length. */
    RESPONSE_TAG = 2 << 3 | 2,
    ENVELOPE_BYTES_MAX = 1 + 10,
};

typedef struct infer_stream infer_stream_t;

/* One request of a stream. */
typedef struct call {
    TAILQ_ENTRY(call) link;
    infer_stream_t *stream;
    session_t *session;  /* NULL once it has answered */
    rpc_bytes_t *answer; /* waits for those before it */
} call_t;

struct infer_stream {
    LIST_ENTRY(infer_stream) link;
    grpc_streams_t *streams;
    rpc_stream_t *rpc; /* NULL: closed */
    TAILQ_HEAD(, call) calls;
    uint32_t call_count;
    bool ending; /* no more requests come, or are taken */
};

struct grpc_streams {
    gateway_t *gateway;
    pool_t calls;
    LIST_HEAD(, infer_stream) list;
    bool stopping;
};

/* ---- Answers ---- */

static size_t put_envelope(uint8_t *out, size_t len_bytes)
{
    size_t used = 0;
    out[used++] = RESPONSE_TAG;
    for (; len_bytes >= 0x80; len_bytes >>= 7)
        out[used++] = (uint8_t)(len_bytes | 0x80);
    out[used++] = (uint8_t)len_bytes;
    return used;
}

/* NULL without memory. */
static rpc_bytes_t *wrap_reply(const oip_reply_t *reply)
{
    uint8_t envelope[ENVELOPE_BYTES_MAX], *data;
    size_t envelope_bytes = put_envelope(envelope, reply->len_bytes);
    rpc_bytes_t *bytes = rpc_bytes_reserve(envelope_bytes + reply->len_bytes, &data);
    if (!bytes)
        return NULL;
    memcpy(data, envelope, envelope_bytes);
    data += envelope_bytes;
    for (uint32_t i = 0; i < reply->iov_count; i++) {
        memcpy(data, reply->iov[i].iov_base, reply->iov[i].iov_len);
        data += reply->iov[i].iov_len;
    }
    return bytes;
}

/* The id tells the client which of its requests failed; it is "" when that could not be read. */
static rpc_bytes_t *wrap_error(const err_t *error, const char *id)
{
    Inference__ModelInferResponse response = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    Inference__ModelStreamInferResponse answer = INFERENCE__MODEL_STREAM_INFER_RESPONSE__INIT;
    response.id = (char *)(uintptr_t)id;
    answer.error_message = (char *)(uintptr_t)error->text;
    answer.infer_response = id[0] ? &response : NULL;
    return rpc_pack(&answer.base);
}

static rpc_bytes_t *session_answer(session_t *session)
{
    const char *id = session->request.id ? session->request.id : "";
    err_t err;
    if (session->error.code)
        return wrap_error(&session->error, id);
    if (oip_grpc_write(&session->reply, &session->response, &err))
        return wrap_error(&err, id);
    return wrap_reply(&session->reply);
}

static void close_if_ended(infer_stream_t *stream)
{
    if (stream->ending && stream->call_count == 0 && stream->rpc)
        rpc_stream_close(stream->rpc, RPC_OK, NULL);
}

static void call_free(call_t *call)
{
    infer_stream_t *stream = call->stream;
    TAILQ_REMOVE(&stream->calls, call, link);
    stream->call_count--;
    pool_put(&stream->streams->calls, call);
}

static void send_what_is_ready(infer_stream_t *stream)
{
    for (call_t *call; (call = TAILQ_FIRST(&stream->calls)) && call->answer;) {
        rpc_bytes_t *answer = call->answer;
        call_free(call);
        if (rpc_stream_send(stream->rpc, answer) == STATUS_NO_MEMORY)
            rpc_stream_cancel(
                stream->rpc); /* it takes no answers; one that is missing would shift the rest */
    }
    close_if_ended(stream);
}

static void on_done(session_t *session, void *arg)
{
    call_t *call = arg;
    infer_stream_t *stream = call->stream;
    call->session = NULL;
    if (stream->rpc)
        call->answer = session_answer(session);
    session_close(session);
    if (!stream->rpc) {
        call_free(call);
    } else if (!call->answer) {
        call_free(call);
        rpc_stream_cancel(stream->rpc); /* no memory */
    } else {
        send_what_is_ready(stream);
    }
}

/* ---- Requests ---- */

static status_t parse(session_t *session, rpc_bytes_t *bytes, err_t *err)
{
    const uint8_t *flat = rpc_bytes_flat(bytes);
    status_t status =
        oip_grpc_parse(&session->request, flat, flat ? rpc_bytes_len(bytes) : 0, &session->allocator, err);
    if (status)
        return status;
    return session_set_model(session, session->request.model, session->request.version, err);
}

/* Answers in its turn, as all others. */
static void refuse(call_t *call, const err_t *error, const char *id)
{
    infer_stream_t *stream = call->stream;
    session_count_refusal(stream->streams->gateway, PROTOCOL_GRPC, error->code);
    call->answer = wrap_error(error, id);
    if (call->answer) {
        send_what_is_ready(stream);
        return;
    }
    call_free(call);
    rpc_stream_cancel(stream->rpc);
}

static void submit(call_t *call, rpc_bytes_t *bytes)
{
    infer_stream_t *stream = call->stream;
    err_t err;
    if (stream->call_count > STREAM_CALLS_MAX) {
        (void)err_set(&err, STATUS_UNAVAILABLE, "over %d requests of this stream are under way",
                      STREAM_CALLS_MAX);
        refuse(call, &err, "");
        return;
    }
    session_t *session = session_open(stream->streams->gateway, PROTOCOL_GRPC, &err);
    if (!session) {
        refuse(call, &err, "");
        return;
    }
    if (parse(session, bytes, &err)) {
        refuse(call, &err, session->request.id ? session->request.id : "");
        session_close(session);
        return;
    }
    call->session = session;
    session_submit(session, SESSION_NO_BUDGET, on_done, call);
}

static void on_message(rpc_stream_t *rpc, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    infer_stream_t *stream = arg;
    (void)keep;
    if (!stream || stream->ending)
        return;
    call_t *call = pool_get(&stream->streams->calls);
    if (!call) {
        rpc_stream_close(rpc, RPC_RESOURCE_EXHAUSTED, "too many requests of streams are under way");
        return;
    }
    *call = (call_t){.stream = stream};
    TAILQ_INSERT_TAIL(&stream->calls, call, link);
    stream->call_count++;
    submit(call, bytes);
}

/* ---- Life ---- */

static void on_open(rpc_stream_t *rpc, void *arg)
{
    grpc_streams_t *streams = arg;
    infer_stream_t *stream = streams->stopping ? NULL : calloc(1, sizeof *stream);
    rpc_stream_set_arg(rpc, stream);
    if (!stream) {
        rpc_stream_close(rpc, RPC_UNAVAILABLE, streams->stopping ? "the gateway stops" : "no memory");
        return;
    }
    stream->streams = streams;
    stream->rpc = rpc;
    TAILQ_INIT(&stream->calls);
    LIST_INSERT_HEAD(&streams->list, stream, link);
}

static void on_half_close(rpc_stream_t *rpc, void *arg)
{
    infer_stream_t *stream = arg;
    (void)rpc;
    if (!stream)
        return;
    stream->ending = true;
    close_if_ended(stream);
}

static void on_close(rpc_stream_t *rpc, void *arg, rpc_code_t code, const char *text)
{
    infer_stream_t *stream = arg;
    (void)rpc, (void)code, (void)text;
    if (!stream)
        return;
    stream->rpc = NULL;
    for (call_t *call; (call = TAILQ_FIRST(&stream->calls));) {
        if (call->session) {
            session_cancel(call->session); /* on_done frees the call from within */
        } else {
            rpc_bytes_free(call->answer);
            call_free(call);
        }
    }
    LIST_REMOVE(stream, link);
    free(stream);
}

const rpc_stream_ops_t grpc_stream_ops = {
    .on_open = on_open, .on_message = on_message, .on_half_close = on_half_close, .on_close = on_close};

status_t grpc_streams_create(gateway_t *gateway, grpc_streams_t **streams, err_t *err)
{
    grpc_streams_t *created = calloc(1, sizeof *created);
    if (!created)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the streams of requests");
    created->gateway = gateway;
    LIST_INIT(&created->list);
    status_t status = pool_init(&created->calls, sizeof(call_t), CALLS_MAX, err);
    if (status) {
        free(created);
        return status;
    }
    *streams = created;
    return STATUS_OK;
}

void grpc_streams_stop(grpc_streams_t *streams)
{
    infer_stream_t *stream;
    streams->stopping = true;
    LIST_FOREACH(stream, &streams->list, link)
    {
        stream->ending = true;
        close_if_ended(stream);
    }
}

void grpc_streams_destroy(grpc_streams_t *streams)
{
    if (!streams)
        return;
    pool_dispose(&streams->calls);
    free(streams);
}
