/*
 * Hot path: nothing is allocated per message here; queue and inbox are rings inside the stream.
 *
 * Operations of a stream at gRPC, each with its own tag and at most once in flight:
 *   open   client: send + receive initial metadata    server: send initial metadata
 *   recv   one message
 *   send   one message, or the close after the last one
 *   end    client: the status                          server: the close
 * The stream may go when `end` has completed and no other operation is left (ops == 0).
 */
#include "rpc/security.h"
#include "rpc/stream_internal.h"

#include <stdlib.h>
#include <string.h>

/* Undelivered bytes after which no further message is asked for; one message of any allowed size may exceed it. */
enum { INBOX_BYTES = 1024 * 1024 };

struct rpc_stream {
    rpc_actor_t actor;
    pthread_mutex_t lock;
    grpc_call *call;
    rpc_queue_t *queue;
    const rpc_stream_ops_t *ops;
    void *arg;
    rpc_stream_owner_t owner;
    bool server;
    char peer[RPC_PEER_BYTES];

    rpc_tag_t open_tag, recv_tag, send_tag, end_tag;
    unsigned ops_in_flight;
    bool opened, ended, open_told;

    grpc_byte_buffer *received; /* filled by gRPC */
    rpc_unfinished_t *unfinished;
    rpc_waiting_t waiting;
    bool receiving, eof, eof_told;
    bool paused, delivering;
    unsigned inbox_head, inbox_count;
    size_t inbox_bytes;
    rpc_bytes_t *inbox[RPC_STREAM_INBOX];

    rpc_bytes_t *sending;
    size_t sending_bytes;
    bool send_busy, send_broken, want_writable, tell_writable;
    unsigned queue_head, queue_count;
    size_t send_limit_bytes;
    atomic_size_t pending_bytes;
    rpc_bytes_t *outbox[RPC_STREAM_QUEUE];

    bool close_wanted, close_sent;
    rpc_code_t close_code;
    char close_text[RPC_TEXT_BYTES];

    /* The end, as gRPC reports it. */
    int cancelled;
    grpc_status_code status;
    grpc_slice status_text;
    grpc_metadata_array initial_metadata, trailing_metadata;
};

typedef enum { SEND_NOTHING, SEND_MESSAGE, SEND_CLOSE } send_step_t;

static bool stream_over(const rpc_stream_t *s)
{
    return s->ended && s->ops_in_flight == 0;
}

/* Outside the lock. A refused start is reported as a failed completion, so that the counts stay right. */
static void stream_start(rpc_stream_t *s, const grpc_op *ops, size_t count, rpc_tag_t *tag)
{
    if (rpc_start(s->call, ops, count, tag))
        return;
    grpc_call_cancel(s->call, NULL);
    tag->done(tag, false);
}

/* Unlocks, then hands over to the delivery thread if there is news. */
static void stream_unlock_and_post(rpc_stream_t *s, bool news)
{
    bool post = news && rpc_actor_mark(&s->actor);
    pthread_mutex_unlock(&s->lock);
    if (post)
        rpc_actor_post(s->queue->runtime, &s->actor);
}

/* ---- Sending ---- */

static rpc_bytes_t *outbox_pop(rpc_stream_t *s)
{
    rpc_bytes_t *bytes = s->outbox[s->queue_head];
    s->queue_head = (s->queue_head + 1) % RPC_STREAM_QUEUE;
    s->queue_count--;
    return bytes;
}

static void outbox_clear(rpc_stream_t *s)
{
    while (s->queue_count > 0)
        rpc_bytes_free(outbox_pop(s));
    s->pending_bytes = 0;
}

/* With the lock: what is to be sent next, already booked as in flight. */
static send_step_t send_next(rpc_stream_t *s)
{
    if (!s->opened || s->send_busy || s->ended || s->send_broken)
        return SEND_NOTHING;
    send_step_t step = SEND_NOTHING;
    if (s->queue_count > 0) {
        s->sending = outbox_pop(s);
        s->sending_bytes = rpc_bytes_len(s->sending);
        step = SEND_MESSAGE;
    } else if (s->close_wanted && !s->close_sent) {
        s->close_sent = true;
        step = SEND_CLOSE;
    }
    if (step != SEND_NOTHING) {
        s->send_busy = true;
        s->ops_in_flight++;
    }
    return step;
}

static void send_close(rpc_stream_t *s)
{
    grpc_op op = {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT};
    grpc_slice text = grpc_slice_from_copied_string(s->close_text);
    if (s->server) {
        op.op = GRPC_OP_SEND_STATUS_FROM_SERVER;
        op.data.send_status_from_server.status = (grpc_status_code)s->close_code;
        op.data.send_status_from_server.status_details = &text;
    }
    stream_start(s, &op, 1, &s->send_tag);
    grpc_slice_unref(text);
}

static void send_message(rpc_stream_t *s, bool more)
{
    grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .flags = more ? GRPC_WRITE_BUFFER_HINT : 0};
    op.data.send_message.send_message = rpc_bytes_raw(s->sending);
    stream_start(s, &op, 1, &s->send_tag);
}

/* Outside the lock. */
static void send_run(rpc_stream_t *s, send_step_t step, bool more)
{
    if (step == SEND_MESSAGE)
        send_message(s, more);
    else if (step == SEND_CLOSE)
        send_close(s);
}

static void on_send_done(rpc_tag_t *tag, bool ok)
{
    rpc_stream_t *s = container_of(tag, rpc_stream_t, send_tag);
    pthread_mutex_lock(&s->lock);
    s->ops_in_flight--;
    s->send_busy = false;
    rpc_bytes_t *sent = s->sending;
    s->sending = NULL;
    s->pending_bytes -= s->sending_bytes;
    s->sending_bytes = 0;
    if (!ok) {
        s->send_broken = true;
        outbox_clear(s);
    }
    if (s->want_writable && s->pending_bytes <= s->send_limit_bytes / 2 &&
        s->queue_count <= RPC_STREAM_QUEUE / 2) {
        s->want_writable = false;
        s->tell_writable = !s->send_broken;
    }
    send_step_t step = send_next(s);
    bool more = s->queue_count > 0, news = s->tell_writable || stream_over(s);
    bool post = news && rpc_actor_mark(&s->actor);
    pthread_mutex_unlock(&s->lock);
    rpc_bytes_free(sent);
    send_run(s, step, more);
    if (post)
        rpc_actor_post(s->queue->runtime, &s->actor);
}

/* With the lock: whether a message of the length finds room; on_writable is due where it finds none, or
 * makes it scarce. */
static bool outbox_has_room(rpc_stream_t *s, size_t len_bytes)
{
    size_t pending = s->pending_bytes;
    /* A message larger than the whole bound passes when nothing else waits. */
    bool full =
        s->queue_count == RPC_STREAM_QUEUE || (pending > 0 && pending + len_bytes > s->send_limit_bytes);
    if (full || pending + len_bytes > s->send_limit_bytes / 2)
        s->want_writable = true;
    return !full;
}

bool rpc_stream_has_room(rpc_stream_t *s, size_t len_bytes)
{
    pthread_mutex_lock(&s->lock);
    bool room = s->ended || s->close_wanted || s->send_broken || outbox_has_room(s, len_bytes);
    pthread_mutex_unlock(&s->lock);
    return room;
}

/* With the lock. */
static status_t outbox_push(rpc_stream_t *s, rpc_bytes_t *bytes)
{
    size_t len = rpc_bytes_len(bytes);
    if (s->ended || s->close_wanted || s->send_broken)
        return STATUS_UNAVAILABLE;
    if (!outbox_has_room(s, len))
        return STATUS_NO_MEMORY;
    s->outbox[(s->queue_head + s->queue_count) % RPC_STREAM_QUEUE] = bytes;
    s->queue_count++;
    s->pending_bytes += len;
    return STATUS_OK;
}

status_t rpc_stream_send(rpc_stream_t *s, rpc_bytes_t *bytes)
{
    pthread_mutex_lock(&s->lock);
    status_t status = outbox_push(s, bytes);
    send_step_t step = send_next(s);
    bool more = s->queue_count > 0;
    pthread_mutex_unlock(&s->lock);
    send_run(s, step, more);
    if (status != STATUS_OK)
        rpc_bytes_free(bytes);
    return status;
}

size_t rpc_stream_pending_bytes(const rpc_stream_t *s)
{
    return atomic_load(&s->pending_bytes);
}

void rpc_stream_close(rpc_stream_t *s, rpc_code_t code, const char *text)
{
    pthread_mutex_lock(&s->lock);
    if (!s->close_wanted) {
        s->close_wanted = true;
        s->close_code = code;
        rpc_copy_text(s->close_text, text);
    }
    send_step_t step = send_next(s);
    bool more = s->queue_count > 0;
    pthread_mutex_unlock(&s->lock);
    send_run(s, step, more);
}

void rpc_stream_cancel(rpc_stream_t *s)
{
    pthread_mutex_lock(&s->lock);
    s->close_wanted = true;
    s->send_broken =
        true; /* no close is sent any more; one under way reads its code and text without the lock */
    outbox_clear(s);
    s->pending_bytes = s->sending_bytes;
    pthread_mutex_unlock(&s->lock);
    grpc_call_cancel(s->call, NULL);
}

/* ---- Receiving ---- */

/* With the lock: true when the caller must receive_start after unlocking. */
static bool receive_wanted(rpc_stream_t *s)
{
    bool room = s->inbox_count < RPC_STREAM_INBOX && s->inbox_bytes < INBOX_BYTES;
    if (!s->opened || s->receiving || s->eof || s->ended || !room)
        return false;
    s->receiving = true;
    s->ops_in_flight++;
    return true;
}

static void receive_start(rpc_stream_t *s)
{
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &s->received;
    if (s->unfinished)
        rpc_unfinished_wait(s->unfinished, &s->waiting, s->call);
    stream_start(s, &op, 1, &s->recv_tag);
}

static void on_receive_done(rpc_tag_t *tag, bool ok)
{
    rpc_stream_t *s = container_of(tag, rpc_stream_t, recv_tag);
    if (s->unfinished)
        rpc_unfinished_take(s->unfinished, &s->waiting,
                            s->received ? rpc_bytes_len(rpc_bytes_of(s->received)) : 0);
    pthread_mutex_lock(&s->lock);
    s->ops_in_flight--;
    s->receiving = false;
    if (ok && s->received) {
        rpc_bytes_t *bytes = rpc_bytes_of(s->received);
        s->inbox[(s->inbox_head + s->inbox_count) % RPC_STREAM_INBOX] = bytes;
        s->inbox_count++;
        s->inbox_bytes += rpc_bytes_len(bytes);
    } else {
        s->eof = true;
    }
    s->received = NULL;
    bool again = receive_wanted(s);
    bool post = rpc_actor_mark(&s->actor);
    pthread_mutex_unlock(&s->lock);
    if (again)
        receive_start(s);
    if (post)
        rpc_actor_post(s->queue->runtime, &s->actor);
}

/* ---- Beginning and end ---- */

static void on_open_done(rpc_tag_t *tag, bool ok)
{
    rpc_stream_t *s = container_of(tag, rpc_stream_t, open_tag);
    if (ok && !s->server)
        rpc_peer_text(s->call, s->peer);
    pthread_mutex_lock(&s->lock);
    s->ops_in_flight--;
    s->opened = ok;
    bool receive = receive_wanted(s);
    send_step_t step = send_next(s);
    bool more = s->queue_count > 0;
    bool post = rpc_actor_mark(&s->actor);
    pthread_mutex_unlock(&s->lock);
    if (receive)
        receive_start(s);
    send_run(s, step, more);
    if (post)
        rpc_actor_post(s->queue->runtime, &s->actor);
}

static void on_end_done(rpc_tag_t *tag, bool ok)
{
    (void)ok; /* these operations never fail */
    rpc_stream_t *s = container_of(tag, rpc_stream_t, end_tag);
    pthread_mutex_lock(&s->lock);
    s->ops_in_flight--;
    s->ended = true;
    outbox_clear(s);
    s->pending_bytes = s->sending_bytes;
    stream_unlock_and_post(s, stream_over(s));
}

static rpc_bytes_t *inbox_pop(rpc_stream_t *s)
{
    rpc_bytes_t *bytes = s->inbox[s->inbox_head];
    s->inbox_head = (s->inbox_head + 1) % RPC_STREAM_INBOX;
    s->inbox_count--;
    s->inbox_bytes -= rpc_bytes_len(bytes);
    return bytes;
}

static void stream_free(rpc_stream_t *s)
{
    while (s->inbox_count > 0) /* it ended while it was paused */
        rpc_bytes_free(inbox_pop(s));
    grpc_metadata_array_destroy(&s->initial_metadata);
    grpc_metadata_array_destroy(&s->trailing_metadata);
    if (!s->server)
        grpc_slice_unref(s->status_text);
    grpc_call_unref(s->call);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static void stream_tell_closed(rpc_stream_t *s)
{
    char text[RPC_TEXT_BYTES] = "";
    rpc_code_t code = s->server ? (s->cancelled ? RPC_CANCELLED : RPC_OK) : (rpc_code_t)s->status;
    if (!s->server)
        rpc_slice_text(s->status_text, text);
    else if (s->cancelled)
        rpc_copy_text(text, "the peer is gone");
    if (s->open_told && s->ops->on_close)
        s->ops->on_close(s, s->arg, code, text);
    if (s->owner.ended)
        s->owner.ended(s->owner.owner, s, code, text);
    stream_free(s);
}

/* ---- Delivery ---- */

static void deliver_open(rpc_stream_t *s)
{
    if (s->owner.opened)
        s->owner.opened(s->owner.owner, s);
    if (s->ops->on_open)
        s->ops->on_open(s, s->arg);
}

static void deliver_half_close(rpc_stream_t *s)
{
    if (s->ops->on_half_close)
        s->ops->on_half_close(s, s->arg);
    else if (s->server)
        rpc_stream_close(s, RPC_OK, NULL);
}

static void deliver_messages(rpc_stream_t *s, unsigned count)
{
    for (; count > 0; count--) {
        pthread_mutex_lock(&s->lock);
        rpc_bytes_t *bytes = s->paused ? NULL : inbox_pop(s);
        pthread_mutex_unlock(&s->lock);
        if (!bytes)
            return;
        bool keep = false;
        if (s->ops->on_message)
            s->ops->on_message(s, s->arg, bytes, &keep);
        if (!keep)
            rpc_bytes_free(bytes);
    }
}

/* With the lock: the peer has half-closed, and all that it said before was delivered. */
static bool eof_is_due(const rpc_stream_t *s)
{
    return s->eof && !s->eof_told && !s->ended && s->inbox_count == 0;
}

static bool take_eof(rpc_stream_t *s)
{
    pthread_mutex_lock(&s->lock);
    bool eof = eof_is_due(s);
    s->eof_told |= eof;
    pthread_mutex_unlock(&s->lock);
    return eof;
}

/* What arrived until now; what arrives meanwhile schedules the stream again. */
static void stream_deliver(rpc_actor_t *actor)
{
    rpc_stream_t *s = container_of(actor, rpc_stream_t, actor);
    pthread_mutex_lock(&s->lock);
    actor->scheduled = false;
    s->delivering = true;
    bool open = s->opened && !s->open_told;
    s->open_told |= open;
    unsigned messages = s->inbox_count;
    bool writable = s->tell_writable;
    s->tell_writable = false;
    bool over = stream_over(s);
    pthread_mutex_unlock(&s->lock);

    if (open)
        deliver_open(s);
    deliver_messages(s, messages);
    if (take_eof(s))
        deliver_half_close(s);
    if (writable && !over && s->ops->on_writable)
        s->ops->on_writable(s, s->arg);
    if (over) {
        stream_tell_closed(s);
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->delivering = false;
    bool receive = receive_wanted(s);
    bool left = !s->paused && s->inbox_count > 0; /* it went on after a pause */
    bool post = left && rpc_actor_mark(&s->actor);
    pthread_mutex_unlock(&s->lock);
    if (receive)
        receive_start(s);
    if (post)
        rpc_actor_post(s->queue->runtime, &s->actor);
}

void rpc_stream_pause(rpc_stream_t *s, bool paused)
{
    pthread_mutex_lock(&s->lock);
    bool resumed = s->paused && !paused;
    s->paused = paused;
    stream_unlock_and_post(s, resumed && !s->delivering);
}

/* ---- Making ---- */

static rpc_stream_t *stream_new(const rpc_stream_init_t *init, grpc_call *call, bool server)
{
    rpc_stream_t *s = calloc(1, sizeof *s);
    if (!s) {
        grpc_call_cancel(call, NULL);
        grpc_call_unref(call);
        return NULL;
    }
    pthread_mutex_init(&s->lock, NULL);
    s->actor.deliver = stream_deliver;
    s->call = call;
    s->queue = init->queue;
    s->ops = init->ops;
    s->arg = init->arg;
    s->owner = init->owner;
    s->server = server;
    s->send_limit_bytes = init->send_limit_bytes;
    s->unfinished = init->unfinished;
    s->waiting.is_stream = true;
    s->open_tag.done = on_open_done;
    s->recv_tag.done = on_receive_done;
    s->send_tag.done = on_send_done;
    s->end_tag.done = on_end_done;
    s->ops_in_flight = 2; /* open and end */
    grpc_metadata_array_init(&s->initial_metadata);
    grpc_metadata_array_init(&s->trailing_metadata);
    return s;
}

rpc_stream_t *rpc_stream_accept(const rpc_stream_init_t *init, grpc_call *call, grpc_metadata_array *metadata)
{
    rpc_stream_t *s = stream_new(init, call, true);
    if (!s)
        return NULL;
    grpc_metadata_array none = s->initial_metadata;
    s->initial_metadata = *metadata;
    *metadata = none;
    rpc_peer_text(call, s->peer);
    grpc_op end = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    end.data.recv_close_on_server.cancelled = &s->cancelled;
    grpc_op open = {.op = GRPC_OP_SEND_INITIAL_METADATA};
    stream_start(s, &end, 1, &s->end_tag);
    stream_start(s, &open, 1, &s->open_tag);
    return s;
}

rpc_stream_t *rpc_stream_connect(const rpc_stream_init_t *init, grpc_call *call)
{
    rpc_stream_t *s = stream_new(init, call, false);
    if (!s)
        return NULL;
    grpc_op end = {.op = GRPC_OP_RECV_STATUS_ON_CLIENT};
    end.data.recv_status_on_client.trailing_metadata = &s->trailing_metadata;
    end.data.recv_status_on_client.status = &s->status;
    end.data.recv_status_on_client.status_details = &s->status_text;
    grpc_op open[2] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA,
         .flags = GRPC_INITIAL_METADATA_WAIT_FOR_READY | GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET},
        {.op = GRPC_OP_RECV_INITIAL_METADATA},
    };
    open[1].data.recv_initial_metadata.recv_initial_metadata = &s->initial_metadata;
    /* The first operation may complete on the queue's thread before the second is started; `end` completes only
     * after everything else, so it is the one that must be started last to be safe against the stream's end. */
    stream_start(s, open, 2, &s->open_tag);
    stream_start(s, &end, 1, &s->end_tag);
    return s;
}

void rpc_stream_set_arg(rpc_stream_t *s, void *arg)
{
    s->arg = arg;
}

bool rpc_stream_header(const rpc_stream_t *s, const char *name, const char **value, size_t *len_bytes)
{
    return rpc_metadata_find(&s->initial_metadata, name, value, len_bytes);
}

const char *rpc_stream_peer(const rpc_stream_t *s)
{
    return s->peer;
}
