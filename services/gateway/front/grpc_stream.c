#include "gateway/front/grpc_stream.h"

#include "base/pool.h"
#include "gateway/access/access.h"
#include "gateway/front/grpc_infer.h"
#include "oip/grpc_codec.h"
#include "open_inference.pb-c.h"
#include "rpc/pb.h"

#include <stdlib.h>
#include <sys/queue.h>

enum {
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
    rpc_bytes_t *answer; /* waits for those before it, and for room in the send queue */
    uint64_t bytes;      /* of the answer; as expected, before it is there */
} call_t;

struct infer_stream {
    LIST_ENTRY(infer_stream) link;
    grpc_streams_t *streams;
    rpc_stream_t *rpc;        /* NULL: closed */
    keyring_holder_t *holder; /* who opened it; NULL: anybody */
    pool_t pool;              /* its own: no stream takes the room of another */
    TAILQ_HEAD(, call) calls;
    uint32_t call_count;
    uint64_t bytes; /* of all calls */
    bool paused;    /* there is no room for more */
    bool ending;    /* no more requests come, or are taken */
};

struct grpc_streams {
    gateway_t *gateway;
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
    uint8_t envelope[ENVELOPE_BYTES_MAX];
    return grpc_infer_copy(envelope, put_envelope(envelope, reply->len_bytes), reply);
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
    err_t err;
    if (session_write(session, oip_grpc_write, &err))
        return wrap_error(&err, session->request.id ? session->request.id : "");
    return wrap_reply(&session->reply);
}

static void close_if_ended(infer_stream_t *stream)
{
    if (stream->ending && stream->call_count == 0 && stream->rpc)
        rpc_stream_close(stream->rpc, RPC_OK, NULL);
}

/* Requests are read while there is room for them and for their answers; what the client sends meanwhile
 * waits in HTTP/2. */
static void pace(infer_stream_t *stream)
{
    bool full = stream->call_count >= STREAM_CALLS_MAX || stream->bytes >= STREAM_BYTES_MAX;
    if (full == stream->paused || !stream->rpc)
        return;
    stream->paused = full;
    rpc_stream_pause(stream->rpc, full);
}

static void call_expect(call_t *call, uint64_t bytes)
{
    call->stream->bytes += bytes - call->bytes;
    call->bytes = bytes;
}

static void call_free(call_t *call)
{
    infer_stream_t *stream = call->stream;
    TAILQ_REMOVE(&stream->calls, call, link);
    stream->call_count--;
    stream->bytes -= call->bytes;
    pool_put(&stream->pool, call);
}

static void send_what_is_ready(infer_stream_t *stream)
{
    for (call_t *call; (call = TAILQ_FIRST(&stream->calls)) && call->answer;) {
        rpc_bytes_t *answer = call->answer;
        if (!rpc_stream_has_room(stream->rpc, rpc_bytes_len(answer)))
            break; /* on_writable goes on */
        call_free(call);
        (void)rpc_stream_send(stream->rpc,
                              answer); /* there is room: it is refused only by a stream that ends */
    }
    pace(stream);
    close_if_ended(stream);
}

/* NULL: without memory. Takes the answer. An answer that is missing would shift those behind it: then the
 * stream ends. */
static void answer(call_t *call, rpc_bytes_t *bytes)
{
    infer_stream_t *stream = call->stream;
    if (!bytes) {
        call_free(call);
        rpc_stream_cancel(stream->rpc);
        return;
    }
    call->answer = bytes;
    call_expect(call, rpc_bytes_len(bytes));
    send_what_is_ready(stream);
    if (stream->bytes > 2 * STREAM_BYTES_MAX) /* answers were larger than expected, and nobody takes them */
        rpc_stream_cancel(stream->rpc);
}

static void on_done(session_t *session, void *arg)
{
    call_t *call = arg;
    rpc_bytes_t *bytes = session_answer(session);
    call->session = NULL;
    session_close(session);
    if (call->stream->rpc) {
        answer(call, bytes);
    } else {
        rpc_bytes_free(bytes);
        call_free(call);
    }
}

static void on_writable(rpc_stream_t *rpc, void *arg)
{
    infer_stream_t *stream = arg;
    (void)rpc;
    if (stream)
        send_what_is_ready(stream);
}

/* ---- Requests ---- */

/* Answers in its turn, as all others. */
static void refuse(call_t *call, const err_t *error, const char *id)
{
    session_count_refusal(call->stream->streams->gateway, PROTOCOL_GRPC, error->code);
    answer(call, wrap_error(error, id));
}

/* What is wrong with the request is found later; outputs that vary count as if they had one element. */
static uint64_t expected_bytes(const session_t *session)
{
    const oip_request_t *request = &session->request;
    const model_entry_t *model = session->model;
    bool batched = model->spec.max_batch > 0 && request->input_count > 0 && request->inputs[0].shape.rank > 0;
    int64_t rows = batched ? request->inputs[0].shape.dims[0] : 1;
    return rows > 0 && rows <= SESSION_ROWS_MAX ? (uint64_t)rows * model->output_row_bytes : 0;
}

/* A stream lives longer than a key may, and each of its requests names another model. */
static status_t check_model(const infer_stream_t *stream, const session_t *session, err_t *err)
{
    return access_check_again(session->gateway->access, stream->holder, rpc_stream_peer(stream->rpc),
                              AUTH_INFER, session->model->spec.name, err);
}

static void submit(call_t *call, rpc_bytes_t *bytes)
{
    err_t err;
    session_t *session = session_open(call->stream->streams->gateway, PROTOCOL_GRPC, &err);
    if (!session) {
        refuse(call, &err, "");
        return;
    }
    if (session_admit(session, call->stream->holder, rpc_stream_peer(call->stream->rpc), &err) ||
        grpc_infer_parse(session, bytes, &err) || check_model(call->stream, session, &err)) {
        refuse(call, &err, session->request.id ? session->request.id : "");
        session_close(session);
        return;
    }
    call->session = session;
    call_expect(call, expected_bytes(session));
    session_submit(session, SESSION_NO_BUDGET, on_done, call);
}

static void on_message(rpc_stream_t *rpc, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    infer_stream_t *stream = arg;
    (void)rpc, (void)keep;
    if (!stream || stream->ending)
        return;
    call_t *call = pool_get(&stream->pool); /* there is one: it is paused before they are all out */
    *call = (call_t){.stream = stream};
    TAILQ_INSERT_TAIL(&stream->calls, call, link);
    stream->call_count++;
    submit(call, bytes);
    pace(stream);
}

/* ---- Life ---- */

static infer_stream_t *stream_create(grpc_streams_t *streams, rpc_stream_t *rpc, keyring_holder_t *holder)
{
    infer_stream_t *stream = calloc(1, sizeof *stream);
    if (!stream || pool_init(&stream->pool, sizeof(call_t), STREAM_CALLS_MAX, NULL) != STATUS_OK) {
        free(stream);
        return NULL;
    }
    stream->streams = streams;
    stream->rpc = rpc;
    stream->holder = holder;
    access_hold(streams->gateway->access, holder);
    TAILQ_INIT(&stream->calls);
    LIST_INSERT_HEAD(&streams->list, stream, link);
    return stream;
}

static const char *peer_of(void *rpc)
{
    return rpc_stream_peer(rpc);
}

static access_claim_t claim_of(rpc_stream_t *rpc)
{
    access_claim_t claim = {.peer = peer_of, .arg = rpc};
    rpc_stream_header(rpc, "authorization", &claim.authorization, &claim.authorization_bytes);
    rpc_stream_header(rpc, "x-api-key", &claim.api_key, &claim.api_key_bytes);
    return claim;
}

static void on_open(rpc_stream_t *rpc, void *arg)
{
    grpc_streams_t *streams = arg;
    access_claim_t claim = claim_of(rpc);
    keyring_holder_t *holder;
    err_t err;
    rpc_stream_set_arg(rpc, NULL);
    if (access_check(streams->gateway->access, &claim, AUTH_INFER, NULL, &holder, &err) != STATUS_OK) {
        rpc_stream_close(rpc, rpc_code_of(err.code), err.text);
        return;
    }
    infer_stream_t *stream = streams->stopping ? NULL : stream_create(streams, rpc, holder);
    rpc_stream_set_arg(rpc, stream);
    if (!stream)
        rpc_stream_close(rpc, RPC_UNAVAILABLE, streams->stopping ? "the gateway stops" : "no memory");
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
    access_drop(stream->streams->gateway->access, stream->holder);
    pool_dispose(&stream->pool);
    free(stream);
}

const rpc_stream_ops_t grpc_stream_ops = {.on_open = on_open,
                                          .on_message = on_message,
                                          .on_writable = on_writable,
                                          .on_half_close = on_half_close,
                                          .on_close = on_close};

status_t grpc_streams_create(gateway_t *gateway, grpc_streams_t **streams, err_t *err)
{
    grpc_streams_t *created = calloc(1, sizeof *created);
    if (!created)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the streams of requests");
    created->gateway = gateway;
    LIST_INIT(&created->list);
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
    free(streams);
}
