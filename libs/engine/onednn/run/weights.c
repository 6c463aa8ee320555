#include "engine/onednn/run/weights.h"

#include "graph/passes/weights.h"

#include <stdlib.h>

struct weights_entry {
    weights_entry_t *next;
    blob_t *source, *made;
    dnnl_memory_desc_t from, to;
};

struct weights_plain {
    blob_t *blob; /* the template's */
    size_t len_bytes;
    const weights_entry_t *made; /* what it is made again of; NULL: it is there */
    bool stays;                  /* some plan reads it */
};

void weights_init(weights_t *weights)
{
    *weights = (weights_t){.extra_max_bytes = UINT64_MAX};
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
    free(weights->plains);
    pthread_mutex_destroy(&weights->mutex);
}

/* ---- Layouts ---- */

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

/* ---- What is there twice ---- */

status_t weights_may_drop(weights_t *weights, const graph_t *g, err_t *err)
{
    bool *found = calloc(g->value_count + 1, sizeof *found);
    weights_plain_t *plains = calloc(g->value_count + 1, sizeof *plains);
    status_t status = found && plains ? graph_find_weights(g, found, err)
                                      : err_set(err, STATUS_NO_MEMORY, "no memory for the weights");
    uint32_t count = 0;
    for (uint32_t v = 0; status == STATUS_OK && v < g->value_count; v++)
        if (found[v] && g->values[v].t.dtype == DTYPE_F32 &&
            tensor_bytes(&g->values[v].t) >= BLOB_DROP_LEAST_BYTES)
            plains[count++] =
                (weights_plain_t){.blob = g->values[v].blob, .len_bytes = tensor_bytes(&g->values[v].t)};
    free(found);
    if (status != STATUS_OK) {
        free(plains);
        return status;
    }
    weights->plains = plains;
    weights->plain_count = count;
    return STATUS_OK;
}

/* NULL: it is not to be dropped. */
static weights_plain_t *plain_at(const weights_t *weights, const void *data)
{
    for (uint32_t i = 0; i < weights->plain_count; i++)
        if (blob_data(weights->plains[i].blob) == data)
            return &weights->plains[i];
    return NULL;
}

/* With strides, or in blocks: every element is in it, as it is. */
static bool is_blocked(const dnnl_memory_desc_t *md)
{
    return md->format_kind == dnnl_blocked && md->data_type == dnnl_f32 &&
           md->extra.flags == dnnl_memory_extra_flag_none;
}

/* All of the plain one can be made of it. */
static bool is_reversible(const weights_entry_t *e, size_t plain_bytes, dnnl_engine_t engine)
{
    dnnl_primitive_desc_t pd;
    size_t bytes = sizeof(float);
    for (int d = 0; d < e->from.ndims; d++)
        bytes *= (size_t)e->from.dims[d];
    if (bytes != plain_bytes || !is_blocked(&e->from) || !is_blocked(&e->to) ||
        dnnl_reorder_primitive_desc_create(&pd, &e->to, engine, &e->from, engine, NULL) != dnnl_success)
        return false;
    dnnl_primitive_desc_destroy(pd);
    return true;
}

/* Of what is made of it, one that it can be made of again. */
static const weights_entry_t *reversible_of(const weights_t *weights, const weights_plain_t *plain,
                                            dnnl_engine_t engine)
{
    const weights_entry_t *e = weights->first;
    while (e && (e->source != plain->blob || !is_reversible(e, plain->len_bytes, engine)))
        e = e->next;
    return e;
}

static void drop(weights_t *weights, weights_plain_t *plain, dnnl_engine_t engine)
{
    const weights_entry_t *made = plain->stays ? NULL : reversible_of(weights, plain, engine);
    size_t len = made ? blob_drop(plain->blob) : 0;
    weights->dropped_bytes += len;
    plain->made = len ? made : NULL;
}

static bool restore(weights_t *weights, weights_plain_t *plain, dnnl_engine_t engine, dnnl_stream_t stream)
{
    const weights_entry_t *e = plain->made;
    size_t len = e ? blob_restore(plain->blob) : 0;
    if (!e || !len)
        return !e;
    if (reorder(blob_data(plain->blob), &e->from, blob_data(e->made), &e->to, engine, stream) != STATUS_OK) {
        (void)blob_drop(plain->blob);
        return false;
    }
    weights->dropped_bytes -= len;
    plain->made = NULL;
    return true;
}

bool weights_read(weights_t *weights, const void *data, dnnl_engine_t engine, dnnl_stream_t stream)
{
    pthread_mutex_lock(&weights->mutex);
    weights_plain_t *plain = plain_at(weights, data);
    bool there = !plain || restore(weights, plain, engine, stream);
    if (plain && there)
        plain->stays = true;
    pthread_mutex_unlock(&weights->mutex);
    return there;
}

static weights_entry_t *add(weights_t *weights, blob_t *blob, const dnnl_memory_desc_t *from,
                            const dnnl_memory_desc_t *to, dnnl_engine_t engine, dnnl_stream_t stream)
{
    weights_plain_t *plain = plain_at(weights, blob_data(blob));
    if (plain && !restore(weights, plain, engine, stream))
        return NULL;
    weights_entry_t *e = make(blob, from, to, engine, stream);
    if (e) {
        e->next = weights->first;
        weights->first = e;
        weights->len_bytes += dnnl_memory_desc_get_size(to);
        weights->extra_bytes += is_blocked(to) ? 0 : dnnl_memory_desc_get_size(to);
        if (plain)
            drop(weights, plain, engine);
    }
    return e;
}

bool weights_may_spend(weights_t *weights, size_t bytes)
{
    pthread_mutex_lock(&weights->mutex);
    uint64_t spent = weights->extra_bytes;
    pthread_mutex_unlock(&weights->mutex);
    return spent <= weights->extra_max_bytes && bytes <= weights->extra_max_bytes - spent;
}

void *weights_get(weights_t *weights, blob_t *blob, const dnnl_memory_desc_t *from,
                  const dnnl_memory_desc_t *to, dnnl_engine_t engine, dnnl_stream_t stream)
{
    pthread_mutex_lock(&weights->mutex);
    weights_entry_t *e = find(weights, blob, from, to);
    if (!e)
        e = add(weights, blob, from, to, engine, stream);
    pthread_mutex_unlock(&weights->mutex);
    return e ? blob_data(e->made) : NULL;
}
