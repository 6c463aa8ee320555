/*
 * Models and memory for the protocol tests.
 */
#ifndef TESTS_OIP_FIXTURE_H
#define TESTS_OIP_FIXTURE_H

#include "oip/request.h"

#include <stdlib.h>
#include <string.h>

/* Memory of one test, with a bound so that "full" can be tested. Every block is its own malloc, so that the address
 * sanitizer sees overruns. */
typedef struct {
    void *blocks[256];
    uint32_t count;
    size_t left_bytes;
} fixture_memory_t;

static inline void *fixture_alloc(void *self, size_t len_bytes)
{
    fixture_memory_t *memory = self;
    if (len_bytes > memory->left_bytes || memory->count == 256)
        return NULL;
    memory->left_bytes -= len_bytes;
    return memory->blocks[memory->count++] = aligned_alloc(64, (len_bytes + 63) / 64 * 64);
}

static inline void fixture_free(fixture_memory_t *memory)
{
    for (uint32_t i = 0; i < memory->count; i++)
        free(memory->blocks[i]);
    memory->count = 0;
}

static const oip_tensor_spec_t fixture_pair_inputs[] = {
    {.name = "a", .datatype = OIP_FP32, .dims = {.rank = 1, .dims = {3}}},
    {.name = "b", .datatype = OIP_BYTES, .dims = {.rank = 1, .dims = {2}}},
};
static const oip_tensor_spec_t fixture_outputs[] = {
    {.name = "y", .datatype = OIP_FP32, .dims = {.rank = 1, .dims = {4}}},
    {.name = "z", .datatype = OIP_INT64, .dims = {.rank = 1, .dims = {1}}},
};
static const char *const fixture_labels[] = {"cat", "dog", "", "a:b"};

/* Two inputs, batched up to 4. */
static const oip_model_spec_t fixture_pair = {.name = "pair",
                                              .version = "1",
                                              .platform = "onnx",
                                              .max_batch = 4,
                                              .input_count = 2,
                                              .output_count = 2,
                                              .inputs = fixture_pair_inputs,
                                              .outputs = fixture_outputs,
                                              .labels = fixture_labels,
                                              .label_count = 4,
                                              .picture_input = -1,
                                              .softmax_output = -1};

static const oip_tensor_spec_t fixture_picture_inputs[] = {
    {.name = "image", .datatype = OIP_FP32, .dims = {.rank = 3, .dims = {1, 2, 2}}},
};
/* One input that takes pictures too. */
static const oip_model_spec_t fixture_picture = {.name = "picture",
                                                 .version = "1",
                                                 .platform = "onnx",
                                                 .max_batch = 8,
                                                 .input_count = 1,
                                                 .output_count = 2,
                                                 .inputs = fixture_picture_inputs,
                                                 .outputs = fixture_outputs,
                                                 .picture_input = 0,
                                                 .softmax_output = 0};

/* A model with one input "x" of any datatype and shape. */
static inline oip_model_spec_t fixture_single(oip_tensor_spec_t *input, uint32_t max_batch)
{
    oip_model_spec_t spec = fixture_pair;
    spec.max_batch = max_batch;
    spec.input_count = 1;
    spec.inputs = input;
    return spec;
}

#endif
