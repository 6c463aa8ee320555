/* gRPC through libs/rpc, one connection per target: HTTP/2 carries any number of calls. Hot path: a pool slot
 * per call, the body sent from where it lies. */
#include "base/clock.h"
#include "base/pool.h"
#include "load/target.h"
#include "open_inference.pb-c.h"
#include "rpc/client.h"
#include "rpc/pb.h"

#include <stdlib.h>
#include <string.h>

/* As for REST. */
enum { CALLS_MAX = 65536 };

struct target {
    rpc_runtime_t *runtime;
    rpc_client_t *client;
    pool_t calls;
    int64_t timeout_ns;
};

typedef struct {
    target_t *target;
    target_done_fn done;
    void *arg;
    int64_t sent_ns;
} call_t;

static status_t grpc_create(target_t **out, loop_t *loop, const target_options_t *options, err_t *err)
{
    target_t *target = calloc(1, sizeof *target);
    if (!target)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a target");
    target->timeout_ns = options->timeout_ns;
    status_t st = pool_init(&target->calls, sizeof(call_t), CALLS_MAX, err);
    if (st != STATUS_OK)
        goto no_pool;
    st = rpc_runtime_create(&(rpc_runtime_options_t){.loop = loop, .name = "load"}, &target->runtime, err);
    if (st != STATUS_OK)
        goto no_runtime;
    rpc_client_options_t client = {
        .address = options->address, .bearer = options->api_key, .tls = options->tls};
    st = rpc_client_create(target->runtime, &client, &target->client, err);
    if (st != STATUS_OK)
        goto no_client;
    *out = target;
    return STATUS_OK;
no_client:
    rpc_runtime_destroy(target->runtime);
no_runtime:
    pool_dispose(&target->calls);
no_pool:
    free(target);
    return st;
}

static void grpc_destroy(target_t *target)
{
    rpc_client_destroy(target->client);
    rpc_runtime_destroy(target->runtime);
    pool_dispose(&target->calls);
    free(target);
}

/* gRPC has one code for the server's "too late" and for our own limit, and one for "overloaded" and "no
 * connection". The first are told apart by the time that passed, the second by the words that gRPC's own
 * transport uses. */
static outcome_t outcome_of(const call_t *call, rpc_code_t code, const char *text)
{
    static const char *const transport[] = {"onnect", "ocket", "GOAWAY", "ransport"};
    for (size_t i = 0; code == RPC_UNAVAILABLE && text && i < sizeof transport / sizeof *transport; i++) {
        if (strstr(text, transport[i]))
            return OUTCOME_CONNECTION;
    }
    if (code == RPC_DEADLINE_EXCEEDED && clock_now_ns() - call->sent_ns >= call->target->timeout_ns)
        return OUTCOME_NO_ANSWER;
    return outcome_of_grpc((int)code);
}

static void grpc_done(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    (void)keep;
    call_t call = *(call_t *)arg;
    pool_put(&call.target->calls, arg);
    answer_t answer = {.outcome = outcome_of(&call, code, text), .text = text};
    if (response) {
        answer.body = rpc_bytes_flat(response);
        answer.len_bytes = rpc_bytes_len(response);
    }
    call.done(call.arg, &answer);
}

static status_t grpc_call(target_t *target, const char *method, bool wait, rpc_bytes_t *request,
                          target_done_fn done, void *arg)
{
    call_t *call = request ? pool_get(&target->calls) : NULL;
    if (!call) {
        rpc_bytes_free(request);
        return STATUS_UNAVAILABLE;
    }
    *call = (call_t){.target = target, .done = done, .arg = arg, .sent_ns = clock_now_ns()};
    rpc_unary_options_t options = {
        .method = method, .timeout_ns = target->timeout_ns, .wait_for_ready = wait};
    if (rpc_client_unary(target->client, &options, request, grpc_done, call))
        return STATUS_OK;
    pool_put(&target->calls, call);
    return STATUS_NO_MEMORY;
}

/* The payload outlives every call, so there is nothing to release. */
static void payload_kept(void *arg)
{
    (void)arg;
}

static status_t grpc_infer(target_t *target, const model_t *model, const payload_t *payload,
                           target_done_fn done, void *arg)
{
    (void)model; /* its name is in the payload */
    rpc_part_t part = {.data = payload->bytes, .len_bytes = payload->len_bytes, .release = payload_kept};
    return grpc_call(target, "/inference.GRPCInferenceService/ModelInfer", false,
                     rpc_bytes_from_parts(&part, 1), done, arg);
}

static status_t grpc_describe(target_t *target, const char *model, target_done_fn done, void *arg)
{
    Inference__ModelMetadataRequest request = INFERENCE__MODEL_METADATA_REQUEST__INIT;
    request.name = (char *)model;
    return grpc_call(target, "/inference.GRPCInferenceService/ModelMetadata", true, rpc_pack(&request.base),
                     done, arg);
}

const target_ops_t target_grpc_ops = {.create = grpc_create,
                                      .destroy = grpc_destroy,
                                      .infer = grpc_infer,
                                      .describe = grpc_describe,
                                      .parse = model_parse_pb};
