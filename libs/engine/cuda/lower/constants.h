/*
 * The constants of a model on the device, each once per type and layout and shared by the programs of all batch sizes.
 */
#ifndef ENGINE_CUDA_LOWER_CONSTANTS_H
#define ENGINE_CUDA_LOWER_CONSTANTS_H

#include "engine/cuda/lower/view.h"
#include "graph/ir/graph.h"

typedef struct {
    blob_t *blob;  /* keeps `from` alive, and its address its own; NULL = owned by the template */
    tensor_t from; /* float32, or what the graph has */
    dtype_t dtype; /* on the device */
    layout_kind_t layout;
    size_t len_bytes;
    void *device; /* NULL until a device has it */
} constant_t;

typedef struct {
    constant_t *items;
    uint32_t count, capacity;
    uint64_t len_bytes;
} constants_t;

void constants_dispose(constants_t *constants); /* frees nothing on the device */

/* Index of the constant in this type and layout; UINT32_MAX = no memory. */
uint32_t constants_add(constants_t *constants, const value_t *value, dtype_t dtype, layout_kind_t layout);

/* Writes the bytes that the device gets: len_bytes. */
void constant_write(const constant_t *constant, void *to);

#endif
