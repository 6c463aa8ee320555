#include "gateway/front/grpc_regions.h"

#include "gateway/front/regions_list.h"
#include "oip/describe.h"
#include "open_inference.pb-c.h"
#include "rpc/pb.h"

#include <string.h>

/* One call while it is answered. */
typedef struct {
    rpc_call_t *call;
    pb_arena_t unpacked;
    err_t err;
} answer_t;

/* NULL: why stands in err. A call without a message is one with an empty one. */
static const ProtobufCMessage *begin(answer_t *answer, const gateway_t *gateway, rpc_call_t *call,
                                     const ProtobufCMessageDescriptor *type, const ProtobufCMessage *empty)
{
    answer->call = call;
    answer->err.code = STATUS_OK;
    pb_arena_init(&answer->unpacked, 0);
    if (regions_check_peer(gateway->regions, rpc_call_peer(call), &answer->err) != STATUS_OK)
        return NULL;
    rpc_bytes_t *bytes = rpc_call_request(call);
    if (!bytes || rpc_bytes_len(bytes) == 0)
        return empty;
    const ProtobufCMessage *request = rpc_unpack(type, bytes, &answer->unpacked);
    if (!request)
        err_set(&answer->err, STATUS_INVALID_ARGUMENT, "the request cannot be read");
    return request;
}

/* Takes the bytes; they are the answer where nothing is wrong. */
static void end(answer_t *answer, rpc_bytes_t *bytes)
{
    if (answer->err.code != STATUS_OK)
        rpc_call_finish(answer->call, rpc_code_of(answer->err.code), answer->err.text, NULL);
    else if (!bytes)
        rpc_call_finish(answer->call, RPC_UNAVAILABLE, "no memory", NULL);
    else
        rpc_call_finish(answer->call, RPC_OK, NULL, bytes);
    pb_arena_dispose(&answer->unpacked);
}

void grpc_regions_status(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call)
{
    const Inference__SystemSharedMemoryStatusRequest empty =
        INFERENCE__SYSTEM_SHARED_MEMORY_STATUS_REQUEST__INIT;
    answer_t answer;
    rpc_bytes_t *bytes = NULL;
    strbuf_t document;
    strbuf_init(&document, GATEWAY_DOCUMENT_BYTES_MAX);
    const Inference__SystemSharedMemoryStatusRequest *request =
        (const Inference__SystemSharedMemoryStatusRequest *)begin(
            &answer, gateway, call, &inference__system_shared_memory_status_request__descriptor, &empty.base);
    if (request && regions_write_list(gateway->regions, regions_owner(caller), request->name,
                                      oip_describe_regions_pb, &document, &answer.err) == STATUS_OK)
        bytes = rpc_bytes_copy(document.data, document.len_bytes);
    end(&answer, bytes);
    strbuf_dispose(&document);
}

void grpc_regions_register(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call)
{
    const Inference__SystemSharedMemoryRegisterRequest empty =
        INFERENCE__SYSTEM_SHARED_MEMORY_REGISTER_REQUEST__INIT;
    const Inference__SystemSharedMemoryRegisterResponse done =
        INFERENCE__SYSTEM_SHARED_MEMORY_REGISTER_RESPONSE__INIT;
    answer_t answer;
    const Inference__SystemSharedMemoryRegisterRequest *request =
        (const Inference__SystemSharedMemoryRegisterRequest *)begin(
            &answer, gateway, call, &inference__system_shared_memory_register_request__descriptor,
            &empty.base);
    if (request) {
        const oip_region_t wanted = {request->name, request->key, request->offset, request->byte_size};
        (void)regions_register(gateway->regions, regions_owner(caller), &wanted, &answer.err);
    }
    end(&answer, answer.err.code == STATUS_OK ? rpc_pack(&done.base) : NULL);
}

void grpc_regions_unregister(gateway_t *gateway, const keyring_holder_t *caller, rpc_call_t *call)
{
    const Inference__SystemSharedMemoryUnregisterRequest empty =
        INFERENCE__SYSTEM_SHARED_MEMORY_UNREGISTER_REQUEST__INIT;
    const Inference__SystemSharedMemoryUnregisterResponse done =
        INFERENCE__SYSTEM_SHARED_MEMORY_UNREGISTER_RESPONSE__INIT;
    answer_t answer;
    const Inference__SystemSharedMemoryUnregisterRequest *request =
        (const Inference__SystemSharedMemoryUnregisterRequest *)begin(
            &answer, gateway, call, &inference__system_shared_memory_unregister_request__descriptor,
            &empty.base);
    if (request)
        regions_unregister(gateway->regions, regions_owner(caller), request->name);
    end(&answer, answer.err.code == STATUS_OK ? rpc_pack(&done.base) : NULL);
}
