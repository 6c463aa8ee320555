#include "fermata/client/admin_call.h"

#include "base/clock.h"
#include "rpc/client.h"

#include <stdio.h>
#include <string.h>

/* The longest answer to wait for is a plan, whose solver has seconds. */
static const int64_t TIMEOUT_NS = 60 * NS_PER_S;

/* gRPC's text names its own inside where nobody listens; *text becomes what the kernel says of it. */
static bool nobody_listens(const char **text)
{
    static const char words[] = "Failed to connect to remote host: ";
    const char *found = strstr(*text, words);
    if (!found)
        return false;
    *text = found + strlen(words);
    return true;
}

static void on_done(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    admin_call_t *call = arg;
    (void)keep;
    if (code == RPC_OK)
        call->answer = rpc_unpack(call->type, response, &call->arena);
    if (code != RPC_OK && nobody_listens(&text))
        call->status =
            err_set(call->err, rpc_code_to_status(code),
                    "no scheduler at %s: %s (--scheduler names it; of `fermata serve` the gRPC port)",
                    call->scheduler, text);
    else if (code != RPC_OK)
        call->status = err_set(call->err, rpc_code_to_status(code), "%s: %s", call->scheduler, text);
    else if (!call->answer)
        call->status = err_set(call->err, STATUS_IO, "%s: the answer cannot be read", call->scheduler);
    loop_stop(call->loop);
}

static status_t call_on_loop(admin_call_t *call, tls_context_t *tls, const char *method,
                             const ProtobufCMessage *request)
{
    const rpc_runtime_options_t how = {.loop = call->loop};
    const rpc_client_options_t where = {.address = call->scheduler, .bearer = call->api_key, .tls = tls};
    char path[128];
    (void)snprintf(path, sizeof path, "/fermata.admin.v1.Admin/%s", method);
    const rpc_unary_options_t unary = {.method = path, .timeout_ns = TIMEOUT_NS};
    rpc_runtime_t *runtime;
    rpc_client_t *client;
    if (rpc_runtime_create(&how, &runtime, call->err) != STATUS_OK)
        return call->err->code;
    call->status = rpc_client_create(runtime, &where, &client, call->err);
    if (call->status == STATUS_OK) {
        if (rpc_client_unary(client, &unary, rpc_pack(request), on_done, call))
            loop_run(call->loop);
        else
            call->status = err_set(call->err, STATUS_NO_MEMORY, "no memory for the call");
        rpc_client_destroy(client);
    }
    rpc_runtime_destroy(runtime);
    return call->status;
}

status_t admin_call(admin_call_t *call, const char *method, const ProtobufCMessage *request)
{
    status_t status = loop_create(&call->loop, call->err);
    pb_arena_init(&call->arena, (size_t)64 << 20);
    tls_context_t *tls = NULL;
    if (status == STATUS_OK)
        status = tls_client_open(&call->tls, NULL, false, &tls, call->err);
    if (status == STATUS_OK)
        status = call_on_loop(call, tls, method, request);
    if (call->loop)
        loop_destroy(call->loop);
    tls_context_destroy(tls);
    return status;
}
