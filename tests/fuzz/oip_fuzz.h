/*
 * The model and the memory that both protocol fuzzers parse for.
 */
#ifndef FUZZ_OIP_FUZZ_H
#define FUZZ_OIP_FUZZ_H

#include "oip/request.h"

#include <stdlib.h>

static const oip_tensor_spec_t fuzz_inputs[] = {
    {.name = "a", .datatype = OIP_FP32, .dims = {.rank = 2, .dims = {-1, 2}}},
    {.name = "b", .datatype = OIP_BYTES, .dims = {.rank = 1, .dims = {1}}},
    {.name = "c", .datatype = OIP_INT8, .dims = {.rank = 1, .dims = {2}}},
};
static const oip_tensor_spec_t fuzz_outputs[] = {
    {.name = "y", .datatype = OIP_FP32, .dims = {.rank = 1, .dims = {4}}},
};

/* The first byte of the input chooses the number of inputs, whether the model is batched and takes pictures. */
static inline oip_model_spec_t fuzz_spec(uint8_t choice)
{
    return (oip_model_spec_t){.name = "m",
                              .version = "1",
                              .platform = "p",
                              .max_batch = choice & 4 ? 0 : 4,
                              .input_count = 1 + choice % 3,
                              .output_count = 1,
                              .inputs = fuzz_inputs,
                              .outputs = fuzz_outputs,
                              .picture_input = choice & 8 ? 0 : -1,
                              .softmax_output = -1};
}

/* Every block its own malloc, so that overruns are seen; a bound, so that a short input that asks for much is. */
typedef struct {
    void *blocks[2 * OIP_MAX_TENSORS];
    uint32_t count;
    size_t left_bytes;
} fuzz_memory_t;

static inline void *fuzz_alloc(void *self, size_t len_bytes)
{
    fuzz_memory_t *memory = self;
    if (len_bytes > memory->left_bytes || memory->count == 2 * OIP_MAX_TENSORS)
        return NULL;
    memory->left_bytes -= len_bytes;
    return memory->blocks[memory->count++] = malloc(len_bytes);
}

static inline void fuzz_free(fuzz_memory_t *memory)
{
    while (memory->count > 0)
        free(memory->blocks[--memory->count]);
}

/* What a valid request promises to those behind it: every byte is there. */
static inline void fuzz_touch(const oip_request_t *request)
{
    volatile uint8_t sum = 0;
    for (uint32_t i = 0; i < request->input_count; i++)
        for (size_t at = 0; at < request->inputs[i].len_bytes; at++)
            sum = (uint8_t)(sum + request->inputs[i].data[at]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
