/*
 * Constants in the layouts that primitives want, made once per model and shared by the plans of all batch sizes.
 */
#ifndef ENGINE_ONEDNN_RUN_WEIGHTS_H
#define ENGINE_ONEDNN_RUN_WEIGHTS_H

#include "graph/ir/tensor.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

typedef struct weights_entry weights_entry_t;

typedef struct {
    pthread_mutex_t mutex;
    weights_entry_t *first;
    uint64_t len_bytes;
} weights_t;

void weights_init(weights_t *weights);
void weights_dispose(weights_t *weights);

/* The constant in blob, whose layout is `from`, in the layout `to`. Any thread. NULL = no memory, or no
 * such reorder. */
void *weights_get(weights_t *weights, blob_t *blob, const dnnl_memory_desc_t *from,
                  const dnnl_memory_desc_t *to, dnnl_engine_t engine, dnnl_stream_t stream);

#endif
