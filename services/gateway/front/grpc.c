/*
 * The gRPC front end. Everything here runs on the gateway's loop; only the release of a sent reply comes from
 * elsewhere and is posted back.
 */
#include "base/pool.h"
#include "gateway/access/access.h"
#include "gateway/front/grpc_front.h"
#include "gateway/front/grpc_infer.h"
#include "gateway/front/grpc_regions.h"
#include "gateway/front/grpc_stream.h"
#include "gateway/front/readiness.h"
#include "gateway/links/control.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/session.h"
#include "health.pb-c.h"
#include "oip/grpc_codec.h"
#include "oip/rest_codec.h"
#include "open_inference.pb-c.h"
#include "rpc/pb.h"
#include "rpc/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICE "inference.GRPCInferenceService"
#define PATH(method) "/" SERVICE "/" method

enum {
    /* Inferences under way here, or sent and not yet taken by the kernel. */
    CALLS_MAX = 16384,
    /* Replies up to this size are copied into one slice: cheaper than lending memory across threads. */
    COPY_REPLY_BYTES = 32 * 1024,
    UNFINISHED_MESSAGES = 4,
    UNFINISHED_BYTES_MIN = 64 << 20,
    GUARDS_MAX = 32, /* methods of this file, and those of gateway_calls_t */
};

/* A method that not everybody may call, and what stands before it. */
typedef struct {
    grpc_front_t *front;
    const char *path;
    rpc_unary_fn handler;
    void *arg;
    auth_right_t right;
    bool of_model; /* its request begins with a model's name and version */
} guard_t;

struct grpc_front {
    gateway_t *gateway;
    rpc_server_t *server;
    grpc_streams_t *streams;
    guard_t guards[GUARDS_MAX];
    uint32_t guard_count;
    pool_t calls;
    strbuf_t document; /* the answer of a cold method while it is written */
    pb_arena_t unpacked;
    keyring_holder_t *caller; /* whose call is being handed to its handler; NULL: anybody's */
    bool stopped;             /* the server has no call left */
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;
};

/* One ModelInfer. call is NULL once it has been finished; then the session waits for its reply to be sent. */
typedef struct {
    grpc_front_t *front;
    session_t *session;
    rpc_call_t *call;
    atomic_uint parts; /* of the reply that gRPC still holds */
    loop_job_t job;
} infer_t;

/* ---- ending ---- */

static void finish_error(rpc_call_t *call, const err_t *error)
{
    rpc_call_finish(call, rpc_code_of(error->code), error->text, NULL);
}

static void finish_status(rpc_call_t *call, status_t status)
{
    if (status)
        rpc_call_finish(call, rpc_code_of(status), status_name(status), NULL);
}

static void tell_stopped(grpc_front_t *front)
{
    if (front->stopped && front->calls.lent == 0 && front->on_stopped) {
        void (*on_stopped)(void *arg) = front->on_stopped;
        front->on_stopped = NULL;
        on_stopped(front->on_stopped_arg);
    }
}

static void infer_close(infer_t *infer)
{
    grpc_front_t *front = infer->front;
    session_close(infer->session);
    pool_put(&front->calls, infer);
    tell_stopped(front);
}

static void on_released(void *arg)
{
    infer_close(arg);
}

/* Any thread: gRPC is done with one lent piece of the reply. */
static void release_part(void *arg)
{
    infer_t *infer = arg;
    if (atomic_fetch_sub_explicit(&infer->parts, 1, memory_order_acq_rel) == 1)
        loop_post_job(infer->front->gateway->loop, &infer->job);
}

/* ---- ModelInfer ---- */

/* The session's memory goes out from where it lies; the session is closed when all of it has gone. */
static void finish_lending(infer_t *infer)
{
    const oip_reply_t *reply = &infer->session->reply;
    rpc_part_t parts[OIP_REPLY_IOVECS];
    for (uint32_t i = 0; i < reply->iov_count; i++)
        parts[i] = (rpc_part_t){.data = reply->iov[i].iov_base,
                                .len_bytes = reply->iov[i].iov_len,
                                .release = release_part,
                                .arg = infer};
    atomic_store_explicit(&infer->parts, reply->iov_count, memory_order_relaxed);
    infer->job = (loop_job_t){.fn = on_released, .arg = infer};
    rpc_bytes_t *bytes = rpc_bytes_from_parts(parts, reply->iov_count);
    rpc_call_finish(infer->call, RPC_OK, NULL, bytes);
}

static void finish_copy(infer_t *infer)
{
    rpc_bytes_t *bytes = grpc_infer_copy(NULL, 0, &infer->session->reply);
    if (bytes)
        rpc_call_finish(infer->call, RPC_OK, NULL, bytes);
    else
        rpc_call_finish(infer->call, RPC_UNAVAILABLE, "no memory for the answer", NULL);
    infer_close(infer);
}

static void on_done(session_t *session, void *arg)
{
    infer_t *infer = arg;
    err_t err;
    if (session_write(session, oip_grpc_write, &err) != STATUS_OK) {
        finish_error(infer->call, &err);
        infer_close(infer);
    } else if (session->reply.len_bytes > COPY_REPLY_BYTES) {
        finish_lending(infer);
    } else {
        finish_copy(infer);
    }
}

static void on_cancel(rpc_call_t *call, void *arg)
{
    infer_t *infer = arg;
    (void)call;
    session_cancel(infer->session);
}

static void refuse(grpc_front_t *front, rpc_call_t *call, const err_t *err)
{
    session_count_refusal(front->gateway, PROTOCOL_GRPC, err->code);
    finish_error(call, err);
}

static void on_infer(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    err_t err;
    session_t *session = session_open(front->gateway, PROTOCOL_GRPC, &err);
    if (!session) {
        refuse(front, call, &err);
        return;
    }
    infer_t *infer = NULL;
    status_t status = session_admit(session, front->caller, rpc_call_peer(call), &err);
    if (status == STATUS_OK)
        status = grpc_infer_parse(session, rpc_call_request(call), &err);
    if (status == STATUS_OK && !(infer = pool_get(&front->calls)))
        status = err_set(&err, STATUS_UNAVAILABLE, "over %d answers are being sent", CALLS_MAX);
    if (status) {
        refuse(front, call, &err);
        session_close(session);
        return;
    }
    infer->front = front;
    infer->session = session;
    infer->call = call;
    rpc_call_on_cancel(call, on_cancel, infer);
    session_submit(session, rpc_call_remaining_ns(call), on_done, infer);
}

/* ---- the cold methods ---- */

static void finish_message(rpc_call_t *call, const ProtobufCMessage *message)
{
    rpc_bytes_t *bytes = rpc_pack(message);
    rpc_call_finish(call, bytes ? RPC_OK : RPC_UNAVAILABLE, bytes ? NULL : "no memory", bytes);
}

/* Sends what was written into front->document, or the status. */
static void finish_document(grpc_front_t *front, rpc_call_t *call, status_t status)
{
    if (status == STATUS_OK)
        rpc_call_finish(call, RPC_OK, NULL, rpc_bytes_copy(front->document.data, front->document.len_bytes));
    else
        finish_status(call, status);
    strbuf_clear(&front->document);
}

/* Name and version are fields 1 and 2 of every request about one model, as of ModelInfer. */
typedef struct {
    char name[OIP_NAME_BYTES], version[OIP_NAME_BYTES];
} model_name_t;

static status_t copy_name(char out[OIP_NAME_BYTES], const char *text, size_t len, err_t *err)
{
    if (len >= OIP_NAME_BYTES || (len > 0 && memchr(text, '\0', len)))
        return err_set(err, STATUS_INVALID_ARGUMENT, "a name has a NUL or over %d bytes", OIP_NAME_BYTES - 1);
    memcpy(out, text, len);
    out[len] = '\0';
    return STATUS_OK;
}

static status_t read_name(rpc_call_t *call, model_name_t *name, err_t *err)
{
    rpc_bytes_t *message = rpc_call_request(call);
    const uint8_t *flat = message ? rpc_bytes_flat(message) : NULL;
    const char *model, *version;
    size_t model_len, version_len;
    if (oip_grpc_peek_model(flat, flat ? rpc_bytes_len(message) : 0, &model, &model_len, &version,
                            &version_len))
        return err_set(err, STATUS_INVALID_ARGUMENT, "the request is no protobuf");
    status_t status = copy_name(name->name, model, model_len, err);
    if (status == STATUS_OK)
        status = copy_name(name->version, version, version_len, err);
    return status;
}

/* The model that a request names; finishes the call when there is none. */
static model_entry_t *find_model(grpc_front_t *front, rpc_call_t *call)
{
    model_name_t name;
    model_entry_t *entry;
    err_t err;
    status_t status = read_name(call, &name, &err);
    if (status == STATUS_OK)
        status = catalogue_find(front->gateway->catalogue, name.name, name.version, &entry, &err);
    if (status == STATUS_OK)
        return entry;
    finish_error(call, &err);
    return NULL;
}

/* As find_model, for what only a description of the model can answer. */
static model_entry_t *find_described(grpc_front_t *front, rpc_call_t *call)
{
    err_t err;
    model_entry_t *entry = find_model(front, call);
    if (!entry || model_entry_check_described(entry, &err) == STATUS_OK)
        return entry;
    finish_error(call, &err);
    return NULL;
}

static void on_server_live(rpc_call_t *call, void *arg)
{
    Inference__ServerLiveResponse response = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
    (void)arg;
    response.live = 1;
    finish_message(call, &response.base);
}

static void on_server_ready(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    Inference__ServerReadyResponse response = INFERENCE__SERVER_READY_RESPONSE__INIT;
    response.ready = gateway_is_ready(front->gateway, NULL);
    finish_message(call, &response.base);
}

/* A model that is not there is not ready: no error, as clients that wait for a model to appear expect. */
static void on_model_ready(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    Inference__ModelReadyResponse response = INFERENCE__MODEL_READY_RESPONSE__INIT;
    model_name_t name;
    model_entry_t *entry;
    err_t err;
    if (read_name(call, &name, &err)) {
        finish_error(call, &err);
        return;
    }
    if (catalogue_find(front->gateway->catalogue, name.name, name.version, &entry, NULL) == STATUS_OK)
        response.ready = entry->ready;
    finish_message(call, &response.base);
}

static bool has_regions(const grpc_front_t *front)
{
    return front->gateway->regions;
}

static void on_server_metadata(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    finish_document(
        front, call,
        oip_describe_server_pb(&front->document, GATEWAY_SERVER_NAME, FERMATA_VERSION, has_regions(front)));
}

static void on_model_metadata(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    const char *versions[CATALOGUE_VERSIONS_MAX];
    model_entry_t *entry = find_described(front, call);
    if (!entry)
        return;
    uint32_t count =
        catalogue_versions(front->gateway->catalogue, entry->spec.name, versions, CATALOGUE_VERSIONS_MAX);
    finish_document(front, call, oip_describe_model_pb(&front->document, &entry->spec, versions, count));
}

static void on_model_config(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    model_entry_t *entry = find_described(front, call);
    if (entry)
        finish_document(front, call, oip_describe_config_pb(&front->document, &entry->spec));
}

static void on_model_statistics(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    model_name_t name;
    err_t err;
    status_t status = read_name(call, &name, &err);
    if (status == STATUS_OK)
        status = catalogue_write_stats(front->gateway->catalogue, name.name, name.version, true,
                                       &front->document, &err);
    if (status == STATUS_OK) {
        finish_document(front, call, STATUS_OK);
        return;
    }
    strbuf_clear(&front->document);
    finish_error(call, &err);
}

static void on_repository_index(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    rpc_bytes_t *bytes = rpc_call_request(call);
    bool only_ready = false;
    if (bytes && rpc_bytes_len(bytes) > 0) {
        const Inference__RepositoryIndexRequest *request =
            (const Inference__RepositoryIndexRequest *)rpc_unpack(
                &inference__repository_index_request__descriptor, bytes, &front->unpacked);
        if (!request) {
            rpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request is no RepositoryIndexRequest", NULL);
            pb_arena_reset(&front->unpacked);
            return;
        }
        only_ready = request->ready;
        pb_arena_reset(&front->unpacked);
    }
    finish_document(front, call,
                    catalogue_write_index(front->gateway->catalogue, only_ready, true, &front->document));
}

/* ---- loading and unloading ---- */

/* A load or unload under way. */
typedef struct {
    grpc_front_t *front;
    rpc_call_t *call;
    uint64_t id;
    bool load;
} model_ask_t;

static void on_asked(void *ctx, const err_t *err)
{
    model_ask_t *ask = ctx;
    Inference__RepositoryModelLoadResponse loaded = INFERENCE__REPOSITORY_MODEL_LOAD_RESPONSE__INIT;
    Inference__RepositoryModelUnloadResponse unloaded = INFERENCE__REPOSITORY_MODEL_UNLOAD_RESPONSE__INIT;
    if (err->code != STATUS_OK)
        finish_error(ask->call, err);
    else
        finish_message(ask->call, ask->load ? &loaded.base : &unloaded.base);
    free(ask);
}

static void on_ask_cancelled(rpc_call_t *call, void *arg)
{
    model_ask_t *ask = arg;
    gateway_control_forget(ask->front->gateway->control, ask->id);
    free(ask);
    rpc_call_finish(call, RPC_CANCELLED, "the client is gone", NULL);
}

static void ask_for_model(grpc_front_t *front, rpc_call_t *call, bool load, const char *name)
{
    err_t err;
    model_ask_t *ask = malloc(sizeof *ask);
    status_t status = ask ? STATUS_OK : err_set(&err, STATUS_NO_MEMORY, "no memory for the call");
    if (status == STATUS_OK) {
        *ask = (model_ask_t){.front = front, .call = call, .load = load};
        status = gateway_control_ask(front->gateway->control, load, name, on_asked, ask, &ask->id, &err);
    }
    if (status == STATUS_OK) {
        rpc_call_on_cancel(call, on_ask_cancelled, ask);
        return;
    }
    free(ask);
    finish_error(call, &err);
}

static ProtobufCMessage *unpack_request(grpc_front_t *front, rpc_call_t *call,
                                        const ProtobufCMessageDescriptor *type)
{
    rpc_bytes_t *bytes = rpc_call_request(call);
    ProtobufCMessage *request = bytes ? rpc_unpack(type, bytes, &front->unpacked) : NULL;
    if (!request)
        rpc_call_finish(call, RPC_INVALID_ARGUMENT, "the request cannot be read", NULL);
    return request;
}

static void on_load(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    err_t err = {0};
    const Inference__RepositoryModelLoadRequest *request =
        (const Inference__RepositoryModelLoadRequest *)unpack_request(
            front, call, &inference__repository_model_load_request__descriptor);
    for (size_t i = 0; request && i < request->n_parameters && err.code == STATUS_OK; i++)
        oip_check_model_control(request->parameters[i]->key, &err);
    if (request && err.code == STATUS_OK)
        ask_for_model(front, call, true, request->model_name);
    else if (request)
        finish_error(call, &err);
    pb_arena_reset(&front->unpacked);
}

static void on_unload(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    err_t err = {0};
    const Inference__RepositoryModelUnloadRequest *request =
        (const Inference__RepositoryModelUnloadRequest *)unpack_request(
            front, call, &inference__repository_model_unload_request__descriptor);
    for (size_t i = 0; request && i < request->n_parameters && err.code == STATUS_OK; i++)
        oip_check_model_control(request->parameters[i]->key, &err);
    if (request && err.code == STATUS_OK)
        ask_for_model(front, call, false, request->model_name);
    else if (request)
        finish_error(call, &err);
    pb_arena_reset(&front->unpacked);
}

static void on_regions_status(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    grpc_regions_status(front->gateway, front->caller, call);
}

static void on_region_register(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    grpc_regions_register(front->gateway, front->caller, call);
}

static void on_region_unregister(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    grpc_regions_unregister(front->gateway, front->caller, call);
}

/* The whole server, or a service of it, for load balancers and kubelets. */
static void on_health_check(rpc_call_t *call, void *arg)
{
    grpc_front_t *front = arg;
    Grpc__Health__V1__HealthCheckResponse response = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    model_name_t name;
    err_t err;
    if (read_name(call, &name, &err)) {
        finish_error(call, &err);
        return;
    }
    if (name.name[0] && strcmp(name.name, SERVICE) != 0) {
        rpc_call_finish(call, RPC_NOT_FOUND, "unknown service", NULL);
        return;
    }
    response.status = gateway_is_ready(front->gateway, NULL)
                          ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                          : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    finish_message(call, &response.base);
}

static void on_unimplemented(rpc_call_t *call, void *arg)
{
    rpc_call_finish(call, RPC_UNIMPLEMENTED, arg, NULL);
}

/* ---- life ---- */

typedef struct {
    const char *path;
    rpc_unary_fn handler;
    const char *refusal; /* of a method that is known and not served */
    auth_right_t right;  /* what a key must allow; 0: anybody's */
    bool of_model;       /* its request begins with a model's name and version */
} method_t;

/* clang-format off */
static const method_t methods[] = {
    {PATH("ServerLive"), on_server_live, NULL, 0, false},
    {PATH("ServerReady"), on_server_ready, NULL, 0, false},
    {PATH("ModelReady"), on_model_ready, NULL, AUTH_READ, true},
    {PATH("ServerMetadata"), on_server_metadata, NULL, 0, false},
    {PATH("ModelMetadata"), on_model_metadata, NULL, AUTH_READ, true},
    {PATH("ModelConfig"), on_model_config, NULL, AUTH_READ, true},
    {PATH("ModelStatistics"), on_model_statistics, NULL, AUTH_READ, true},
    {PATH("RepositoryIndex"), on_repository_index, NULL, AUTH_READ, false},
    {PATH("ModelInfer"), on_infer, NULL, AUTH_INFER, true},
    {"/grpc.health.v1.Health/Check", on_health_check, NULL, 0, false},
    {PATH("RepositoryModelLoad"), on_load, NULL, AUTH_ADMIN, false},
    {PATH("RepositoryModelUnload"), on_unload, NULL, AUTH_ADMIN, false},
    {PATH("SystemSharedMemoryStatus"), on_regions_status, NULL, AUTH_INFER, false},
    {PATH("SystemSharedMemoryRegister"), on_region_register, NULL, AUTH_INFER, false},
    {PATH("SystemSharedMemoryUnregister"), on_region_unregister, NULL, AUTH_INFER, false},
    {PATH("CudaSharedMemoryStatus"), on_unimplemented, GATEWAY_NO_CUDA_SHARED_MEMORY, 0, false},
    {PATH("CudaSharedMemoryRegister"), on_unimplemented, GATEWAY_NO_CUDA_SHARED_MEMORY, 0, false},
    {PATH("CudaSharedMemoryUnregister"), on_unimplemented, GATEWAY_NO_CUDA_SHARED_MEMORY, 0, false},
    {PATH("TraceSetting"), on_unimplemented, GATEWAY_NO_TRACING, 0, false},
    {PATH("LogSettings"), on_unimplemented, GATEWAY_NO_LOGGING, 0, false},
};
/* clang-format on */
static const char *peer_of(void *call)
{
    return rpc_call_peer(call);
}

static access_claim_t claim_of(rpc_call_t *call)
{
    access_claim_t claim = {.peer = peer_of, .arg = call};
    rpc_call_header(call, "authorization", &claim.authorization, &claim.authorization_bytes);
    rpc_call_header(call, "x-api-key", &claim.api_key, &claim.api_key_bytes);
    return claim;
}

static void on_guarded(rpc_call_t *call, void *arg)
{
    const guard_t *guard = arg;
    grpc_front_t *front = guard->front;
    access_claim_t claim = claim_of(call);
    model_name_t name;
    err_t err;
    status_t status = guard->of_model ? read_name(call, &name, &err) : STATUS_OK;
    const char *model = guard->of_model && name.name[0] ? name.name : NULL;
    if (status == STATUS_OK)
        status = access_check(front->gateway->access, &claim, guard->right, model, &front->caller, &err);
    if (status != STATUS_OK) {
        finish_error(call, &err);
        return;
    }
    if (guard->right == AUTH_ADMIN)
        access_audit(front->gateway->access, front->caller, rpc_call_peer(call), guard->path, "-");
    guard->handler(call, guard->arg);
    front->caller = NULL;
}

static status_t add_method(grpc_front_t *front, const guard_t *method)
{
    if (!front->gateway->access || !method->right)
        return rpc_server_add_unary(front->server, method->path, method->handler, method->arg);
    if (front->guard_count == GUARDS_MAX)
        return STATUS_NO_MEMORY;
    guard_t *guard = &front->guards[front->guard_count++];
    *guard = *method;
    return rpc_server_add_unary(front->server, guard->path, on_guarded, guard);
}

static status_t add_methods(grpc_front_t *front)
{
    status_t status = STATUS_OK;
    for (const method_t *m = methods; m < methods + sizeof methods / sizeof *methods && status == STATUS_OK;
         m++) {
        void *arg = m->refusal ? (void *)(uintptr_t)m->refusal : front;
        status = add_method(front, &(guard_t){front, m->path, m->handler, arg, m->right, m->of_model});
    }
    const gateway_calls_t *calls = &front->gateway->calls;
    for (const rpc_unary_method_t *m = calls->methods; m && m->path && status == STATUS_OK; m++)
        status = add_method(front, &(guard_t){front, m->path, m->handler, calls->arg, AUTH_ADMIN, false});
    if (status)
        return status;
    return rpc_server_add_stream(front->server, PATH("ModelStreamInfer"), &grpc_stream_ops, front->streams);
}

/* Room for several of the largest, and for many of the usual. */
static int64_t unfinished_max(size_t body_bytes_max)
{
    int64_t largest = UNFINISHED_MESSAGES * (int64_t)body_bytes_max;
    return largest > UNFINISHED_BYTES_MIN ? largest : UNFINISHED_BYTES_MIN;
}

static status_t start_server(grpc_front_t *front, const grpc_front_options_t *where, err_t *err)
{
    rpc_server_options_t options = {
        .address = where->listen,
        .limits = {.max_receive_bytes = (int64_t)front->gateway->body_bytes_max, .idle_ns = where->idle_ns},
        .reuse_port = where->reuse_port,
        .tls = where->tls,
        .unfinished = {.bytes_max = unfinished_max(front->gateway->body_bytes_max),
                       .step_ns = where->step_ns},
        .calls_max = CALLS_MAX};
    status_t status = rpc_server_create(where->rpc, &options, &front->server, err);
    if (status)
        return status;
    status = add_methods(front);
    if (status)
        return err_set(err, status, "no memory for the methods of the gRPC server");
    return rpc_server_start(front->server, err);
}

status_t grpc_front_create(gateway_t *gateway, const grpc_front_options_t *options, grpc_front_t **front,
                           err_t *err)
{
    grpc_front_t *created = calloc(1, sizeof *created);
    if (!created)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the gRPC front end");
    created->gateway = gateway;
    strbuf_init(&created->document, GATEWAY_DOCUMENT_BYTES_MAX);
    pb_arena_init(&created->unpacked, 0);
    status_t status = pool_init(&created->calls, sizeof(infer_t), CALLS_MAX, err);
    if (status == STATUS_OK)
        status = grpc_streams_create(gateway, &created->streams, err);
    if (status == STATUS_OK)
        status = start_server(created, options, err);
    if (status) {
        grpc_front_destroy(created);
        return status;
    }
    *front = created;
    return STATUS_OK;
}

void grpc_front_unfinished(const grpc_front_t *front, rpc_unfinished_stats_t *stats)
{
    rpc_server_unfinished(front->server, stats);
}

const char *grpc_front_address(const grpc_front_t *front)
{
    return rpc_server_address(front->server);
}

static void on_server_stopped(void *arg)
{
    grpc_front_t *front = arg;
    front->stopped = true;
    tell_stopped(front);
}

void grpc_front_stop(grpc_front_t *front, int64_t grace_ns, void (*done)(void *arg), void *arg)
{
    front->on_stopped = done;
    front->on_stopped_arg = arg;
    grpc_streams_stop(front->streams);
    rpc_server_stop(front->server, grace_ns, on_server_stopped, front);
}

void grpc_front_destroy(grpc_front_t *front)
{
    if (!front)
        return;
    if (front->server)
        rpc_server_destroy(front->server);
    grpc_streams_destroy(front->streams);
    pool_dispose(&front->calls);
    pb_arena_dispose(&front->unpacked);
    strbuf_dispose(&front->document);
    free(front);
}
