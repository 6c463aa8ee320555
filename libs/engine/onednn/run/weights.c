#include "engine/onednn/run/weights.h"

#include <stdlib.h>

struct weights_entry {
    weights_entry_t *next;
    blob_t *source, *made;
    dnnl_memory_desc_t from, to;
};

void weights_init(weights_t *weights)
{
    *weights = (weights_t){0};
    pthread_mutex_init(&weights->mutex, NULL);
}

void weights_dispose(weights_t *weights)
{
    for (weights_entry_t *next, *e = weights->first; e; e = next) {
        next = e->next;
        blob_unref(e->source);
        blob_unref(e->made);
        free(e);
    }
    pthread_mutex_destroy(&weights->mutex);
}

static status_t reorder(void *to_data, const dnnl_memory_desc_t *to, void *from_data,
                        const dnnl_memory_desc_t *from, dnnl_engine_t engine, dnnl_stream_t stream)
{
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t in = NULL, out = NULL;
    bool ok = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL) == dnnl_success &&
              dnnl_primitive_create(&primitive, pd) == dnnl_success &&
              dnnl_memory_create(&in, from, engine, from_data) == dnnl_success &&
              dnnl_memory_create(&out, to, engine, to_data) == dnnl_success;
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, in}, {DNNL_ARG_TO, out}};
    ok = ok && dnnl_primitive_execute(primitive, stream, 2, args) == dnnl_success &&
         dnnl_stream_wait(stream) == dnnl_success;
    dnnl_memory_destroy(in);
    dnnl_memory_destroy(out);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(pd);
    return ok ? STATUS_OK : STATUS_UNSUPPORTED;
}

static weights_entry_t *find(weights_t *weights, const blob_t *blob, const dnnl_memory_desc_t *from,
                             const dnnl_memory_desc_t *to)
{
    for (weights_entry_t *e = weights->first; e; e = e->next)
        if (e->source == blob && dnnl_memory_desc_equal(&e->from, from) && dnnl_memory_desc_equal(&e->to, to))
            return e;
    return NULL;
}

static weights_entry_t *make(blob_t *blob, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                             dnnl_engine_t engine, dnnl_stream_t stream)
{
    weights_entry_t *e = calloc(1, sizeof *e);
    blob_t *made = blob_create(dnnl_memory_desc_get_size(to));
    if (!e || !made || reorder(blob_data(made), to, blob_data(blob), from, engine, stream) != STATUS_OK) {
        blob_unref(made);
        free(e);
        return NULL;
    }
    *e = (weights_entry_t){.source = blob_ref(blob), .made = made, .from = *from, .to = *to};
    return e;
}

void *weights_get(weights_t *weights, blob_t *blob, const dnnl_memory_desc_t *from,
                  const dnnl_memory_desc_t *to, dnnl_engine_t engine, dnnl_stream_t stream)
{
    pthread_mutex_lock(&weights->mutex);
    weights_entry_t *e = find(weights, blob, from, to);
    if (!e && (e = make(blob, from, to, engine, stream))) {
        e->next = weights->first;
        weights->first = e;
        weights->len_bytes += dnnl_memory_desc_get_size(to);
    }
    pthread_mutex_unlock(&weights->mutex);
    return e ? blob_data(e->made) : NULL;
}
