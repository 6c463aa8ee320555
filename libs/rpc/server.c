#include "rpc/server.h"
#include "base/clock.h"
#include "base/log.h"
#include "rpc/server_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ACCEPT_SLOTS_DEFAULT = 128, CALLS_DEFAULT = 16384 };

/* ---- Accepting ---- */

static void stream_ended(void *owner, rpc_stream_t *stream, rpc_code_t code, const char *text)
{
    (void)stream;
    (void)code;
    (void)text;
    rpc_server_release(owner);
}

/* The slot's grpc_call goes on as a stream; the slot itself is free again. */
static void accept_stream(rpc_call_t *slot, const rpc_method_t *method)
{
    rpc_server_t *server = slot->server;
    rpc_stream_init_t init = {
        .queue = slot->queue,
        .ops = &method->stream,
        .arg = method->arg,
        .send_limit_bytes = rpc_send_queue_bytes(&server->limits),
        .unfinished = &server->unfinished,
        .owner = {.ended = stream_ended, .owner = server},
    };
    grpc_call *call = slot->call;
    slot->call = NULL;
    pthread_mutex_lock(&server->lock);
    server->objects++;
    pthread_mutex_unlock(&server->lock);
    if (!rpc_stream_accept(&init, call, &slot->metadata))
        rpc_server_release(server);
    rpc_call_recycle(slot);
}

/* calls_max; false = over it. */
static bool admit(rpc_server_t *server)
{
    pthread_mutex_lock(&server->lock);
    bool admitted = server->calls < server->calls_max;
    server->calls += admitted;
    pthread_mutex_unlock(&server->lock);
    return admitted;
}

static const rpc_method_t *method_of(const rpc_call_t *slot)
{
    const grpc_slice *path = &slot->details.method;
    return strmap_get_n(&slot->server->by_path, (const char *)GRPC_SLICE_START_PTR(*path),
                        GRPC_SLICE_LENGTH(*path));
}

/* Answers who may not call it; true: he may. */
static bool check_role(rpc_call_t *slot, const rpc_method_t *method)
{
    char text[RPC_TEXT_BYTES];
    const char *role = method->role ? rpc_peer_role(slot->call) : NULL;
    if (!role || !slot->server->shown.tls || strcmp(role, method->role) == 0)
        return true;
    rpc_peer_text(slot->call, slot->peer);
    log_warn_limited("role_refused", LOG_STR("peer", slot->peer), LOG_STR("role", *role ? role : "-"),
                     LOG_STR("wanted", method->role), LOG_STR("method", method->path));
    snprintf(text, sizeof text, "this call is for the role %s; the certificate shown is of %s%s",
             method->role, *role ? "the role " : "none", role);
    rpc_call_reject(slot, RPC_PERMISSION_DENIED, text);
    return false;
}

static void arm(rpc_server_t *server, rpc_queue_t *queue);

static void on_accepted(rpc_tag_t *tag, bool ok)
{
    rpc_call_t *slot = container_of(tag, rpc_call_t, accept_tag);
    rpc_server_t *server = slot->server;
    if (!ok) { /* the server stops */
        rpc_call_recycle(slot);
        return;
    }
    arm(server, slot->queue);
    const rpc_method_t *method = method_of(slot);
    if (!method)
        rpc_call_reject(slot, RPC_UNIMPLEMENTED, "unknown method");
    else if (!check_role(slot, method))
        return;
    else if (!method->unary)
        accept_stream(slot, method);
    else if (admit(server))
        rpc_call_begin(slot, method);
    else
        rpc_call_reject(slot, RPC_UNAVAILABLE, "too many calls at once");
}

static rpc_call_t *slot_take(rpc_server_t *server, rpc_queue_t *queue)
{
    pthread_mutex_lock(&server->lock);
    rpc_call_t *slot = NULL;
    if (!server->stopping) {
        slot = server->free_calls;
        if (slot)
            server->free_calls = slot->next_free;
        else
            slot = rpc_call_new(server, queue);
        server->objects += slot ? 1 : 0;
    }
    pthread_mutex_unlock(&server->lock);
    return slot;
}

/* Arms one more accept slot on the queue; nothing when the server stops. */
static void arm(rpc_server_t *server, rpc_queue_t *queue)
{
    rpc_call_t *slot = slot_take(server, queue);
    if (!slot)
        return;
    slot->queue = queue;
    slot->accept_tag.done = on_accepted;
    rpc_hand_over(&slot->accept_tag);
    grpc_call_error error = grpc_server_request_call(
        server->grpc, &slot->call, &slot->details, &slot->metadata, queue->cq, queue->cq, &slot->accept_tag);
    if (error != GRPC_CALL_OK) {
        log_error_limited("rpc_accept_refused", LOG_I64("error", error));
        rpc_call_recycle(slot);
    }
}

/* ---- Making and starting ---- */

/* It is alive while it looks at what is unfinished. */
static void on_look(void *arg, bool begins)
{
    rpc_server_t *server = arg;
    if (!begins) {
        rpc_server_release(server);
        return;
    }
    pthread_mutex_lock(&server->lock);
    server->objects++;
    pthread_mutex_unlock(&server->lock);
}

status_t rpc_server_create(rpc_runtime_t *runtime, const rpc_server_options_t *options, rpc_server_t **out,
                           err_t *err)
{
    rpc_server_t *server = calloc(1, sizeof *server);
    if (!server)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    server->host = strdup(options->address);
    if (!server->host || strmap_init(&server->by_path, RPC_METHODS_MAX, err) != STATUS_OK ||
        rpc_unfinished_init(&server->unfinished, &options->unfinished, on_look, server, err) != STATUS_OK) {
        strmap_dispose(&server->by_path);
        free(server->host);
        free(server);
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    }
    server->actor.deliver = rpc_server_deliver;
    server->runtime = runtime;
    server->limits = options->limits;
    server->reuse_port = options->reuse_port;
    server->shown.tls = options->tls;
    server->accept_slots = options->accept_slots != 0 ? options->accept_slots : ACCEPT_SLOTS_DEFAULT;
    server->calls_max = options->calls_max != 0 ? options->calls_max : CALLS_DEFAULT;
    pthread_mutex_init(&server->lock, NULL);
    *out = server;
    return STATUS_OK;
}

static status_t add_method(rpc_server_t *server, const char *path, rpc_method_t method)
{
    if (server->grpc || server->method_count == RPC_METHODS_MAX || path[0] != '/')
        return STATUS_INVALID_ARGUMENT;
    method.path = strdup(path);
    if (!method.path)
        return STATUS_NO_MEMORY;
    rpc_method_t *slot = &server->methods[server->method_count++];
    *slot = method;
    return strmap_put(&server->by_path, slot->path, slot) ? STATUS_OK : STATUS_NO_MEMORY;
}

status_t rpc_server_add_unary(rpc_server_t *server, const char *path, rpc_unary_fn handler, void *arg)
{
    return add_method(server, path, (rpc_method_t){.unary = handler, .arg = arg});
}

status_t rpc_server_add_stream(rpc_server_t *server, const char *path, const rpc_stream_ops_t *ops, void *arg)
{
    return add_method(server, path, (rpc_method_t){.stream = *ops, .arg = arg});
}

status_t rpc_server_require_role(rpc_server_t *server, const char *path, const char *role)
{
    rpc_method_t *method = strmap_get_n(&server->by_path, path, strlen(path));
    if (!method)
        return STATUS_NOT_FOUND;
    method->role = role;
    return STATUS_OK;
}

/* "host:port" with the port that was bound. */
static status_t note_address(rpc_server_t *server)
{
    const char *colon = strrchr(server->host, ':');
    int host_len = colon ? (int)(colon - server->host) : (int)strlen(server->host);
    return asprintf(&server->address, "%.*s:%d", host_len, server->host, server->port) > 0 ? STATUS_OK
                                                                                           : STATUS_NO_MEMORY;
}

status_t rpc_server_start(rpc_server_t *server, err_t *err)
{
    grpc_arg list[RPC_ARGS_MAX];
    grpc_channel_args args = {.num_args = rpc_limits_args(&server->limits, true, list), .args = list};
    /* Without it a port that another process listens on is an error, not shared silently. */
    list[args.num_args++] = (grpc_arg){
        .type = GRPC_ARG_INTEGER, .key = GRPC_ARG_ALLOW_REUSEPORT, .value.integer = server->reuse_port};
    server->grpc = grpc_server_create(&args, NULL);
    for (unsigned i = 0; i < server->runtime->queue_count; i++)
        grpc_server_register_completion_queue(server->grpc, server->runtime->queues[i].cq, NULL);
    grpc_server_credentials *credentials = rpc_server_credentials(&server->shown);
    if (!credentials)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory for TLS");
    server->port = grpc_server_add_http2_port(server->grpc, server->host, credentials);
    grpc_server_credentials_release(credentials);
    if (server->port <= 0) {
        server->port = 0;
        return err_set(err, STATUS_IO, "cannot listen on %s (address in use or not of this host)",
                       server->host);
    }
    if (note_address(server) != STATUS_OK)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    rpc_unfinished_start(&server->unfinished, &server->runtime->queues[0], server->port);
    grpc_server_start(server->grpc);
    for (unsigned i = 0; i < server->runtime->queue_count; i++)
        for (unsigned slot = 0; slot < server->accept_slots; slot++)
            arm(server, &server->runtime->queues[i]);
    return STATUS_OK;
}

const char *rpc_server_address(const rpc_server_t *server)
{
    return server->address;
}

void rpc_server_unfinished(rpc_server_t *server, rpc_unfinished_stats_t *stats)
{
    rpc_unfinished_read(&server->unfinished, stats);
}

int rpc_server_port(const rpc_server_t *server)
{
    return server->port;
}

/* ---- Stopping ---- */

static void on_drain_over(rpc_timer_t *timer)
{
    rpc_server_t *server = container_of(timer, rpc_server_t, drain_timer);
    grpc_server_cancel_all_calls(server->grpc);
    rpc_server_release(server);
}

static void on_shut_down(rpc_tag_t *tag, bool ok)
{
    (void)ok;
    rpc_server_t *server = container_of(tag, rpc_server_t, stop_tag);
    if (rpc_timer_stop(&server->runtime->queues[0], &server->drain_timer))
        rpc_server_release(server);
    rpc_server_release(server);
}

void rpc_server_stop(rpc_server_t *server, int64_t drain_ns, void (*on_stopped)(void *arg), void *arg)
{
    pthread_mutex_lock(&server->lock);
    bool first = !server->stopping;
    if (first) {
        server->stopping = true;
        server->on_stopped = on_stopped;
        server->on_stopped_arg = arg;
        server->objects += 2; /* the shutdown and the timer */
    }
    pthread_mutex_unlock(&server->lock);
    if (!first)
        return;
    server->stop_tag.done = on_shut_down;
    server->drain_timer.fire = on_drain_over;
    rpc_timer_start(&server->runtime->queues[0], &server->drain_timer, clock_now_ns() + drain_ns);
    rpc_hand_over(&server->stop_tag);
    grpc_server_shutdown_and_notify(server->grpc, server->runtime->queues[0].cq, &server->stop_tag);
}

void rpc_server_destroy(rpc_server_t *server)
{
    if (!server)
        return;
    if (server->grpc)
        grpc_server_destroy(server->grpc);
    while (server->free_calls) {
        rpc_call_t *call = server->free_calls;
        server->free_calls = call->next_free;
        rpc_call_destroy(call);
    }
    for (unsigned i = 0; i < server->method_count; i++)
        free(server->methods[i].path);
    strmap_dispose(&server->by_path);
    rpc_unfinished_dispose(&server->unfinished);
    pthread_mutex_destroy(&server->lock);
    free(server->address);
    free(server->host);
    free(server);
}
