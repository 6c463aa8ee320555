/*
 * Input: one byte for the model, then a ModelInferRequest.
 */
#include "oip/grpc_codec.h"

#include "oip_fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static oip_request_t request;
    fuzz_memory_t memory = {.left_bytes = 1 << 20};
    oip_allocator_t allocator = {fuzz_alloc, &memory};
    const char *model, *version;
    size_t model_len, version_len;
    err_t err;
    if (size < 1)
        return 0;
    oip_model_spec_t spec = fuzz_spec(data[0]);
    uint8_t *message = malloc(size - 1 ? size - 1 : 1);
    memcpy(message, data + 1, size - 1);
    oip_grpc_peek_model(message, size - 1, &model, &model_len, &version, &version_len);
    if (oip_grpc_parse(&request, message, size - 1, &allocator, &err) == STATUS_OK &&
        oip_validate_request(&request, &spec, &err) == STATUS_OK)
        fuzz_touch(&request);
    free(message);
    fuzz_free(&memory);
    return 0;
}
