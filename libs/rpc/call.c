/*
 * One unary call at the server. Hot path: calls come from the server's free list; nothing is allocated here.
 *
 *   accepted -> (request received) -> handler on the delivery thread -> finish -> (sent, closed) -> free list
 *
 * refs counts the operations in flight (recv, close, send) and the handler. The handler's reference is taken when the
 * call begins and given up by finish, or right away when the request never came.
 */
#include "base/clock.h"
#include "rpc/server_internal.h"

#include <stdlib.h>
#include <string.h>

rpc_call_t *rpc_call_new(rpc_server_t *server, rpc_queue_t *queue)
{
    rpc_call_t *call = calloc(1, sizeof *call);
    if (!call)
        return NULL;
    call->server = server;
    call->queue = queue;
    pthread_mutex_init(&call->lock, NULL);
    grpc_call_details_init(&call->details);
    grpc_metadata_array_init(&call->metadata);
    return call;
}

void rpc_call_destroy(rpc_call_t *call)
{
    grpc_call_details_destroy(&call->details);
    grpc_metadata_array_destroy(&call->metadata);
    pthread_mutex_destroy(&call->lock);
    free(call);
}

static void call_clear(rpc_call_t *call)
{
    if (call->call)
        grpc_call_unref(call->call);
    rpc_bytes_free(call->request);
    if (call->response)
        grpc_byte_buffer_destroy(call->response);
    grpc_call_details_destroy(&call->details);
    grpc_call_details_init(&call->details);
    call->call = NULL;
    call->request = NULL;
    call->received = call->response = NULL;
    call->cancelled = 0;
    call->closed = call->deliver_request = call->delivered = call->deliver_cancel = call->finished = false;
    call->method = NULL;
    call->on_cancel = NULL;
    call->peer[0] = '\0';
    /* The elements belonged to the grpc_call; the array itself is kept for the next one. */
    call->metadata.count = 0;
}

void rpc_call_recycle(rpc_call_t *call)
{
    rpc_server_t *server = call->server;
    call_clear(call);
    pthread_mutex_lock(&server->lock);
    server->calls -= call->counted;
    call->counted = false;
    call->next_free = server->free_calls;
    server->free_calls = call;
    pthread_mutex_unlock(&server->lock);
    rpc_server_release(server);
}

static void call_unref(rpc_call_t *call)
{
    pthread_mutex_lock(&call->lock);
    bool last = --call->refs == 0;
    pthread_mutex_unlock(&call->lock);
    if (last)
        rpc_call_recycle(call);
}

static void call_start(rpc_call_t *call, const grpc_op *ops, size_t count, rpc_tag_t *tag)
{
    if (rpc_start(call->call, ops, count, tag))
        return;
    grpc_call_cancel(call->call, NULL);
    tag->done(tag, false);
}

/* ---- Receiving and delivering ---- */

/* The client may go before, while and after the handler runs; before: the handler is spared. */
static void call_deliver(rpc_actor_t *actor)
{
    rpc_call_t *call = container_of(actor, rpc_call_t, actor);
    pthread_mutex_lock(&call->lock);
    actor->scheduled = false;
    bool gone = call->closed && call->cancelled;
    bool request = call->deliver_request, cancel = call->deliver_cancel && call->delivered;
    call->deliver_request = call->deliver_cancel = false;
    call->delivered |= request;
    cancel = cancel && !call->finished;
    pthread_mutex_unlock(&call->lock);
    if (request && gone)
        rpc_call_finish(call, RPC_CANCELLED, NULL, NULL);
    else if (request)
        call->method->unary(call, call->method->arg);
    else if (cancel && call->on_cancel)
        call->on_cancel(call, call->on_cancel_arg);
    call_unref(call); /* the posting's */
}

/* With the lock: each posting holds a reference until it is delivered. */
static bool call_mark(rpc_call_t *call)
{
    if (!rpc_actor_mark(&call->actor))
        return false;
    call->refs++;
    return true;
}

static void on_received(rpc_tag_t *tag, bool ok)
{
    rpc_call_t *call = container_of(tag, rpc_call_t, recv_tag);
    rpc_unfinished_take(&call->server->unfinished, &call->waiting,
                        call->received ? rpc_bytes_len(rpc_bytes_of(call->received)) : 0);
    pthread_mutex_lock(&call->lock);
    if (call->received)
        call->request = rpc_bytes_of(call->received);
    /* Nothing came and the call is over: the client went away, or its message was over the limit. */
    bool lost = !ok || !call->request;
    call->deliver_request = !lost;
    bool post = !lost && call_mark(call);
    pthread_mutex_unlock(&call->lock);
    if (post)
        rpc_actor_post(call->server->runtime, &call->actor);
    if (lost)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "no request message", NULL);
    call_unref(call); /* the operation's */
}

static void on_closed(rpc_tag_t *tag, bool ok)
{
    (void)ok;
    rpc_call_t *call = container_of(tag, rpc_call_t, close_tag);
    pthread_mutex_lock(&call->lock);
    call->closed = true;
    bool news = call->cancelled && !call->finished;
    call->deliver_cancel = news;
    bool post = news && call_mark(call);
    pthread_mutex_unlock(&call->lock);
    if (post)
        rpc_actor_post(call->server->runtime, &call->actor);
    call_unref(call);
}

static void on_sent(rpc_tag_t *tag, bool ok)
{
    (void)ok;
    call_unref(container_of(tag, rpc_call_t, send_tag));
}

static int64_t deadline_of(const rpc_call_t *call)
{
    if (gpr_time_cmp(call->details.deadline, gpr_inf_future(call->details.deadline.clock_type)) == 0)
        return RPC_NO_DEADLINE;
    gpr_timespec at = gpr_convert_clock_type(call->details.deadline, GPR_CLOCK_MONOTONIC);
    gpr_timespec left = gpr_time_sub(at, gpr_now(GPR_CLOCK_MONOTONIC));
    return clock_now_ns() + left.tv_sec * NS_PER_S + left.tv_nsec;
}

static void call_setup(rpc_call_t *call, const rpc_method_t *method)
{
    call->actor.deliver = call_deliver;
    call->recv_tag.done = on_received;
    call->close_tag.done = on_closed;
    call->send_tag.done = on_sent;
    call->method = method;
    call->deadline_ns = deadline_of(call);
}

static void start_close(rpc_call_t *call)
{
    grpc_op op = {.op = GRPC_OP_RECV_CLOSE_ON_SERVER};
    op.data.recv_close_on_server.cancelled = &call->cancelled;
    call_start(call, &op, 1, &call->close_tag);
}

void rpc_call_begin(rpc_call_t *call, const rpc_method_t *method)
{
    call_setup(call, method);
    call->counted = true;
    call->refs = 3; /* recv, close, handler */
    start_close(call);
    grpc_op op = {.op = GRPC_OP_RECV_MESSAGE};
    op.data.recv_message.recv_message = &call->received;
    call->waiting = (rpc_waiting_t){0};
    rpc_unfinished_wait(&call->server->unfinished, &call->waiting, call->call);
    call_start(call, &op, 1, &call->recv_tag);
}

void rpc_call_reject(rpc_call_t *call, rpc_code_t code, const char *text)
{
    call_setup(call, NULL);
    call->refs = 2; /* close, handler */
    start_close(call);
    rpc_call_finish(call, code, text, NULL);
}

/* ---- What the handler may ask ---- */

rpc_bytes_t *rpc_call_request(rpc_call_t *call)
{
    return call->request;
}

rpc_bytes_t *rpc_call_take_request(rpc_call_t *call)
{
    rpc_bytes_t *request = call->request;
    call->request = NULL;
    return request;
}

bool rpc_call_header(const rpc_call_t *call, const char *name, const char **value, size_t *len_bytes)
{
    return rpc_metadata_find(&call->metadata, name, value, len_bytes);
}

const char *rpc_call_peer(rpc_call_t *call)
{
    if (call->peer[0] == '\0')
        rpc_peer_text(call->call, call->peer);
    return call->peer;
}

int64_t rpc_call_remaining_ns(const rpc_call_t *call)
{
    return call->deadline_ns == RPC_NO_DEADLINE ? RPC_NO_DEADLINE : call->deadline_ns - clock_now_ns();
}

void rpc_call_on_cancel(rpc_call_t *call, void (*on_cancel)(rpc_call_t *call, void *arg), void *arg)
{
    call->on_cancel = on_cancel;
    call->on_cancel_arg = arg;
}

bool rpc_call_cancelled(rpc_call_t *call)
{
    pthread_mutex_lock(&call->lock);
    bool cancelled = call->closed && call->cancelled;
    pthread_mutex_unlock(&call->lock);
    return cancelled;
}

/* ---- Answering ---- */

static void send_answer(rpc_call_t *call, rpc_code_t code, const char *text)
{
    grpc_op ops[3] = {{.op = GRPC_OP_SEND_INITIAL_METADATA}, {.op = GRPC_OP_SEND_STATUS_FROM_SERVER}};
    grpc_slice details = text ? grpc_slice_from_copied_string(text) : grpc_empty_slice();
    ops[1].data.send_status_from_server.status = (grpc_status_code)code;
    ops[1].data.send_status_from_server.status_details = text ? &details : NULL;
    size_t count = 2;
    if (call->response) {
        ops[count] = (grpc_op){.op = GRPC_OP_SEND_MESSAGE};
        ops[count++].data.send_message.send_message = call->response;
    }
    call_start(call, ops, count, &call->send_tag);
    grpc_slice_unref(details);
}

void rpc_call_finish(rpc_call_t *call, rpc_code_t code, const char *text, rpc_bytes_t *response)
{
    pthread_mutex_lock(&call->lock);
    call->finished = true;
    bool send = !call->closed; /* closed before the answer: nobody listens any more */
    if (send)
        call->refs++;
    pthread_mutex_unlock(&call->lock);
    if (send && code == RPC_OK && response)
        call->response = rpc_bytes_raw(response);
    else
        rpc_bytes_free(response);
    if (send)
        send_answer(call, code, text);
    call_unref(call); /* the handler's */
}
