/*
 * Constants in the layouts that primitives want, made once per model and shared by the plans of all batch sizes.
 *
 *   plain     [####]   as the template has it: dropped once it is
 *   as oneDNN [####]   made in another layout, and made again of that where a later plan wants
 *   wants it  [    ]   a third one, or reads it as it was: then it stays
 *
 * So weights that all plans read in one layout, nearly all of a model, are in memory once. Those of a Winograd convolution are other
 * numbers, from which the plain ones cannot be had: these stay unless another plan's layout holds them too.
 */
#ifndef ENGINE_ONEDNN_RUN_WEIGHTS_H
#define ENGINE_ONEDNN_RUN_WEIGHTS_H

#include "graph/ir/graph.h"

#include <oneapi/dnnl/dnnl.h>
#include <pthread.h>

typedef struct weights_entry weights_entry_t;
typedef struct weights_plain weights_plain_t;

typedef struct {
    pthread_mutex_t mutex;
    weights_entry_t *first;
    weights_plain_t *plains; /* that may be dropped */
    uint32_t plain_count;
    uint64_t len_bytes;       /* made */
    uint64_t extra_bytes;     /* of these: of other numbers than the weights (Winograd's) */
    uint64_t extra_max_bytes; /* set once, before there are plans; no bound unless set */
    uint64_t dropped_bytes;   /* of the template's */
} weights_t;

void weights_init(weights_t *weights);
void weights_dispose(weights_t *weights); /* before the template */

/* From now on those constants of the template may be dropped that no pass on its instances looks into: whoever reads one that is
 * no small one asks weights_get or weights_read for it. */
status_t weights_may_drop(weights_t *weights, const graph_t *template, err_t *err);

/* The constant in blob, whose layout is `from`, in the layout `to`. Any thread. NULL = no memory, or no
 * such reorder. */
void *weights_get(weights_t *weights, blob_t *blob, const dnnl_memory_desc_t *from,
                  const dnnl_memory_desc_t *to, dnnl_engine_t engine, dnnl_stream_t stream);

/* So much more of other numbers than the weights may be made for speed. */
bool weights_may_spend(weights_t *weights, size_t bytes);

/* From now on the constant that lies here is read as it is. False: no memory. */
bool weights_read(weights_t *weights, const void *data, dnnl_engine_t engine, dnnl_stream_t stream);

#endif
