/*
 * Input: one byte for the model, two for the header length (0xffff: all is JSON), then the body.
 */
#include "oip/rest_codec.h"

#include "oip_fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static oip_request_t request;
    fuzz_memory_t memory = {.left_bytes = 1 << 20};
    oip_allocator_t allocator = {fuzz_alloc, &memory};
    uint16_t header;
    err_t err;
    if (size < 3)
        return 0;
    oip_model_spec_t spec = fuzz_spec(data[0]);
    memcpy(&header, data + 1, sizeof header);
    int64_t header_bytes = header == 0xffff ? OIP_REST_ALL_JSON : header;
    char *body = malloc(size - 3 ? size - 3 : 1);
    memcpy(body, data + 3, size - 3);
    if (oip_rest_parse(&request, &spec, body, size - 3, header_bytes, &allocator, &err) == STATUS_OK &&
        oip_validate_request(&request, &spec, &err) == STATUS_OK)
        fuzz_touch(&request);
    free(body);
    fuzz_free(&memory);
    return 0;
}
