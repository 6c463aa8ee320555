/*
 * Hot path: unary calls come from the client's free list; nothing is allocated here once it has grown.
 */
#include "rpc/client.h"
#include "base/log.h"
#include "rpc/client_internal.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rpc_unary {
    rpc_actor_t actor;
    rpc_client_t *client;
    rpc_queue_t *queue;
    rpc_unary_t *next_free;
    rpc_tag_t tag;
    grpc_call *call;
    grpc_byte_buffer *request, *response;
    grpc_metadata_array initial_metadata, trailing_metadata;
    grpc_status_code status;
    grpc_slice text;
    rpc_unary_done_fn done;
    void *arg;
};

static bool set_bearer(rpc_client_t *client, const char *key)
{
    if (!key)
        return true;
    if (asprintf(&client->authorization, "Bearer %s", key) < 0) {
        client->authorization = NULL;
        return false;
    }
    client->metadata.key = grpc_slice_from_static_string("authorization");
    client->metadata.value = grpc_slice_from_static_string(client->authorization); /* it outlives the calls */
    return true;
}

static grpc_channel *open_channel(rpc_client_t *client)
{
    grpc_arg list[RPC_ARGS_MAX];
    grpc_channel_args args = {.num_args = rpc_limits_args(&client->limits, false, list), .args = list};
    client->generation = client->tls ? tls_context_generation(client->tls) : 0;
    char *name = rpc_server_name(client->tls);
    if (name)
        list[args.num_args++] = (grpc_arg){.type = GRPC_ARG_STRING,
                                           .key = (char *)(uintptr_t)GRPC_SSL_TARGET_NAME_OVERRIDE_ARG,
                                           .value.string = name};
    grpc_channel_credentials *credentials = rpc_channel_credentials(client->tls);
    grpc_channel *channel = credentials ? grpc_channel_create(client->address, credentials, &args) : NULL;
    grpc_channel_credentials_release(credentials);
    free(name);
    return channel;
}

bool rpc_client_is_stale(rpc_client_t *client)
{
    return client->tls && client->generation != tls_context_generation(client->tls);
}

void rpc_client_renew(rpc_client_t *client)
{
    if (!rpc_client_is_stale(client))
        return;
    pthread_mutex_lock(&client->lock);
    grpc_channel *old = client->channel, *made = open_channel(client);
    if (made) { /* else the old one serves until there is memory */
        client->channel = made;
        grpc_channel_destroy(old);
    }
    pthread_mutex_unlock(&client->lock);
}

status_t rpc_client_create(rpc_runtime_t *runtime, const rpc_client_options_t *options, rpc_client_t **out,
                           err_t *err)
{
    rpc_client_t *client = calloc(1, sizeof *client);
    if (!client)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    client->address = strdup(options->address);
    if (!client->address || !set_bearer(client, options->bearer)) {
        free(client->address);
        free(client);
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    }
    client->runtime = runtime;
    client->limits = options->limits;
    pthread_mutex_init(&client->lock, NULL);
    client->tls = options->tls;
    client->channel = open_channel(client);
    if (!client->channel) {
        rpc_client_destroy(client);
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory for a connection");
    }
    *out = client;
    return STATUS_OK;
}

static void unary_destroy(rpc_unary_t *unary)
{
    grpc_metadata_array_destroy(&unary->initial_metadata);
    grpc_metadata_array_destroy(&unary->trailing_metadata);
    free(unary);
}

void rpc_client_destroy(rpc_client_t *client)
{
    if (!client)
        return;
    assert(client->alive == 0);
    while (client->free_calls) {
        rpc_unary_t *unary = client->free_calls;
        client->free_calls = unary->next_free;
        unary_destroy(unary);
    }
    if (client->channel)
        grpc_channel_destroy(client->channel);
    pthread_mutex_destroy(&client->lock);
    free(client->address);
    free(client->authorization);
    free(client);
}

/* ---- One call ---- */

static rpc_unary_t *unary_take(rpc_client_t *client)
{
    pthread_mutex_lock(&client->lock);
    rpc_unary_t *unary = client->free_calls;
    if (unary)
        client->free_calls = unary->next_free;
    else
        unary = calloc(1, sizeof *unary);
    client->alive += unary ? 1 : 0;
    pthread_mutex_unlock(&client->lock);
    return unary;
}

static void unary_recycle(rpc_unary_t *unary)
{
    rpc_client_t *client = unary->client;
    if (unary->call)
        grpc_call_unref(unary->call);
    if (unary->request)
        grpc_byte_buffer_destroy(unary->request);
    if (unary->response)
        grpc_byte_buffer_destroy(unary->response);
    grpc_slice_unref(unary->text);
    unary->call = NULL;
    unary->request = unary->response = NULL;
    unary->text = grpc_empty_slice();
    unary->initial_metadata.count = unary->trailing_metadata.count = 0;
    pthread_mutex_lock(&client->lock);
    unary->next_free = client->free_calls;
    client->free_calls = unary;
    client->alive--;
    pthread_mutex_unlock(&client->lock);
}

static void unary_deliver(rpc_actor_t *actor)
{
    rpc_unary_t *unary = container_of(actor, rpc_unary_t, actor);
    char text[RPC_TEXT_BYTES];
    rpc_slice_text(unary->text, text);
    rpc_bytes_t *response = unary->status == GRPC_STATUS_OK ? rpc_bytes_of(unary->response) : NULL;
    bool keep = false;
    unary->done(unary->arg, (rpc_code_t)unary->status, text, response, &keep);
    if (keep && response)
        unary->response = NULL;
    unary_recycle(unary);
}

static void on_unary_done(rpc_tag_t *tag, bool ok)
{
    rpc_unary_t *unary = container_of(tag, rpc_unary_t, tag);
    if (!ok) /* a batch with RECV_STATUS never fails; this is a refused start */
        unary->status = GRPC_STATUS_INTERNAL;
    rpc_actor_post(unary->client->runtime, &unary->actor);
}

static void unary_prepare(rpc_unary_t *unary, rpc_client_t *client, rpc_bytes_t *request,
                          rpc_unary_done_fn done, void *arg)
{
    unary->actor.deliver = unary_deliver;
    unary->client = client;
    unary->queue = rpc_runtime_pick(client->runtime);
    unary->tag.done = on_unary_done;
    unary->request = rpc_bytes_raw(request);
    unary->status = GRPC_STATUS_UNKNOWN;
    unary->done = done;
    unary->arg = arg;
}

rpc_unary_t *rpc_client_unary(rpc_client_t *client, const rpc_unary_options_t *options, rpc_bytes_t *request,
                              rpc_unary_done_fn done, void *arg)
{
    rpc_unary_t *unary = unary_take(client);
    if (!unary) {
        rpc_bytes_free(request);
        return NULL;
    }
    unary_prepare(unary, client, request, done, arg);
    pthread_mutex_lock(&client->lock); /* the channel may be renewed */
    unary->call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, unary->queue->cq,
                                           grpc_slice_from_static_string(options->method), NULL,
                                           rpc_deadline_after(options->timeout_ns), NULL);
    pthread_mutex_unlock(&client->lock);
    uint32_t wait = GRPC_INITIAL_METADATA_WAIT_FOR_READY_EXPLICITLY_SET;
    if (options->wait_for_ready)
        wait |= GRPC_INITIAL_METADATA_WAIT_FOR_READY;
    grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA, .flags = wait},
        {.op = GRPC_OP_SEND_MESSAGE},
        {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
        {.op = GRPC_OP_RECV_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_MESSAGE},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT},
    };
    if (client->authorization) {
        ops[0].data.send_initial_metadata.count = 1;
        ops[0].data.send_initial_metadata.metadata = &client->metadata;
    }
    ops[1].data.send_message.send_message = unary->request;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &unary->initial_metadata;
    ops[4].data.recv_message.recv_message = &unary->response;
    ops[5].data.recv_status_on_client.trailing_metadata = &unary->trailing_metadata;
    ops[5].data.recv_status_on_client.status = &unary->status;
    ops[5].data.recv_status_on_client.status_details = &unary->text;
    if (!rpc_start(unary->call, ops, sizeof ops / sizeof ops[0], &unary->tag))
        on_unary_done(&unary->tag, false);
    return unary;
}

void rpc_unary_cancel(rpc_unary_t *unary)
{
    grpc_call_cancel(unary->call, NULL);
}
