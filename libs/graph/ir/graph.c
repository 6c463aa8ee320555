#include "graph/ir/graph.h"

#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

/* Memory of a graph is a chain of chunks that only grows. */
struct graph_chunk {
    graph_chunk_t *next;
    size_t used, size;
    _Alignas(16) unsigned char bytes[];
};

/* The first is small, as an instance of a small model is kept for each batch size; each is twice the one before. */
enum { CHUNK_LEAST_BYTES = 1024, CHUNK_MOST_BYTES = 64 * 1024 };

static size_t next_chunk_bytes(const graph_t *g)
{
    size_t size = g->chunks ? 2 * g->chunks->size : CHUNK_LEAST_BYTES;
    return size < CHUNK_MOST_BYTES ? size : CHUNK_MOST_BYTES;
}

void *graph_alloc(graph_t *g, size_t len)
{
    if (len > SIZE_MAX / 2)
        return NULL;
    len = (len + 15) & ~(size_t)15;
    if (!g->chunks || g->chunks->size - g->chunks->used < len) {
        size_t size = next_chunk_bytes(g);
        size = len > size ? len : size;
        graph_chunk_t *chunk = malloc(sizeof *chunk + size);
        if (!chunk)
            return NULL;
        *chunk = (graph_chunk_t){.next = g->chunks, .size = size};
        g->chunks = chunk;
    }
    void *at = g->chunks->bytes + g->chunks->used;
    g->chunks->used += len;
    return memset(at, 0, len);
}

/* Nothing but a little room is lost where the smaller array is refused. */
static void *fit(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    void *fitted = realloc(array, (count + 1) * size);
    if (!fitted)
        return array;
    *capacity = count + 1;
    return fitted;
}

void graph_fit(graph_t *g)
{
    g->values = fit(g->values, g->value_count, &g->value_capacity, sizeof *g->values);
    g->nodes = fit(g->nodes, g->node_count, &g->node_capacity, sizeof *g->nodes);
}

char *graph_strdup(graph_t *g, const char *text)
{
    size_t len = strlen(text) + 1;
    char *copy = graph_alloc(g, len);
    return copy ? memcpy(copy, text, len) : NULL;
}

void graph_destroy(graph_t *g)
{
    if (!g)
        return;
    for (uint32_t i = 0; i < g->value_count; i++)
        blob_unref(g->values[i].blob);
    for (graph_chunk_t *next, *chunk = g->chunks; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    free(g->values);
    free(g->nodes);
    free(g);
}

static void *grow(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    uint32_t larger = *capacity ? 2 * *capacity : 64;
    void *moved = realloc(array, larger * size);
    if (moved)
        *capacity = larger;
    return moved;
}

int32_t graph_add_value(graph_t *g, const char *name)
{
    value_t *values = grow(g->values, g->value_count, &g->value_capacity, sizeof *values);
    if (!values)
        return -1;
    g->values = values;
    values[g->value_count] = (value_t){.name = name};
    return (int32_t)g->value_count++;
}

void graph_set_constant(graph_t *g, int32_t value, const tensor_t *t, blob_t *blob)
{
    value_t *v = &g->values[value];
    blob_unref(v->blob);
    v->t = *t;
    v->t.data = blob_data(blob);
    v->blob = blob;
    v->shaped = true;
}

void graph_set_hollow(graph_t *g, int32_t value, const tensor_t *t)
{
    value_t *v = &g->values[value];
    v->t = *t;
    v->t.data = NULL;
    v->shaped = v->hollow = true;
}

bool value_is_constant(const value_t *value)
{
    return value->blob || value->hollow;
}

int32_t graph_add_constant(graph_t *g, const char *name, const tensor_t *t, blob_t *blob)
{
    int32_t value = graph_add_value(g, name);
    if (value < 0)
        blob_unref(blob);
    else
        graph_set_constant(g, value, t, blob);
    return value;
}

node_t *graph_add_node(graph_t *g, const op_t *op, uint32_t in_count, uint32_t out_count)
{
    node_t *nodes = grow(g->nodes, g->node_count, &g->node_capacity, sizeof *nodes);
    if (!nodes)
        return NULL;
    g->nodes = nodes;
    int32_t *links = graph_alloc(g, (in_count + out_count) * sizeof *links);
    if (!links)
        return NULL;
    node_t *node = &nodes[g->node_count++];
    *node = (node_t){
        .op = op, .name = "", .in_count = in_count, .out_count = out_count, .opset = (int32_t)g->opset};
    node->in = links;
    node->out = links + in_count;
    return node;
}

const attr_t *node_attr(const node_t *node, const char *name)
{
    for (uint32_t i = 0; i < node->attr_count; i++)
        if (!strcmp(node->attrs[i].name, name))
            return &node->attrs[i];
    return NULL;
}

void graph_uses(const graph_t *g, int32_t *producer, uint32_t *readers)
{
    for (uint32_t i = 0; i < g->value_count; i++) {
        producer[i] = -1;
        readers[i] = 0;
    }
    for (uint32_t n = 0; n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        if (node->dead)
            continue;
        for (uint32_t i = 0; i < node->in_count; i++)
            if (node->in[i] >= 0)
                readers[node->in[i]]++;
        for (uint32_t i = 0; i < node->epilogue_count; i++)
            if (node->epilogue[i].kind == EPILOGUE_ADD)
                readers[node->epilogue[i].value]++;
        for (uint32_t i = 0; i < node->out_count; i++)
            if (node->out[i] >= 0)
                producer[node->out[i]] = (int32_t)n;
    }
    for (uint32_t i = 0; i < g->output_count; i++)
        readers[g->outputs[i].value]++;
}

static void mark(bool *needed, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            needed[node->in[i]] = true;
    for (uint32_t i = 0; i < node->epilogue_count; i++)
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            needed[node->epilogue[i].value] = true;
}

static bool is_needed(const graph_t *g, const bool *needed, const node_t *node)
{
    bool any = false;
    for (uint32_t i = 0; i < node->out_count; i++)
        any |= node->out[i] >= 0 && needed[node->out[i]] && !value_is_constant(&g->values[node->out[i]]);
    return any;
}

void graph_clean(graph_t *g)
{
    bool *needed = calloc(g->value_count + 1, sizeof *needed);
    if (!needed)
        return; /* cleaning is not needed for correctness */
    for (uint32_t i = 0; i < g->output_count; i++)
        needed[g->outputs[i].value] = true;
    for (uint32_t n = g->node_count; n-- > 0;) {
        node_t *node = &g->nodes[n];
        if (!node->dead && is_needed(g, needed, node))
            mark(needed, node);
        else
            node->dead = true;
    }
    uint32_t kept = 0;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!g->nodes[n].dead)
            g->nodes[kept++] = g->nodes[n];
    g->node_count = kept;
    for (uint32_t i = 0; i < g->value_count; i++) {
        if (needed[i] || g->values[i].keep || !g->values[i].blob)
            continue;
        blob_unref(g->values[i].blob);
        g->values[i].blob = NULL;
        g->values[i].t.data = NULL;
    }
    free(needed);
}

/* Kahn's algorithm, stable: ready nodes run in file order. */
typedef struct {
    uint32_t *missing;         /* per node: inputs not made yet */
    uint32_t *first, *readers; /* per value: range of reader nodes */
    uint32_t *queue;
    node_t *sorted;
} sort_t;

static bool sort_init(sort_t *s, const graph_t *g, size_t links)
{
    *s = (sort_t){.missing = calloc(g->node_count + 1, sizeof(uint32_t)),
                  .first = calloc(g->value_count + 2, sizeof(uint32_t)),
                  .readers = calloc(links + 1, sizeof(uint32_t)),
                  .queue = calloc(g->node_count + 1, sizeof(uint32_t)),
                  .sorted = calloc(g->node_count + 1, sizeof(node_t))};
    return s->missing && s->first && s->readers && s->queue && s->sorted;
}

static void sort_dispose(sort_t *s)
{
    free(s->missing);
    free(s->first);
    free(s->readers);
    free(s->queue);
    free(s->sorted);
}

static void index_readers(sort_t *s, const graph_t *g, const int32_t *producer)
{
    for (uint32_t n = 0; n < g->node_count; n++)
        for (uint32_t i = 0; i < g->nodes[n].in_count; i++)
            if (g->nodes[n].in[i] >= 0)
                s->first[g->nodes[n].in[i] + 2]++;
    for (uint32_t v = 1; v < g->value_count + 2; v++)
        s->first[v] += s->first[v - 1];
    for (uint32_t n = 0; n < g->node_count; n++) {
        for (uint32_t i = 0; i < g->nodes[n].in_count; i++) {
            int32_t value = g->nodes[n].in[i];
            if (value < 0)
                continue;
            s->readers[s->first[value + 1]++] = n;
            s->missing[n] += producer[value] >= 0;
        }
    }
}

static uint32_t sort_run(sort_t *s, const graph_t *g)
{
    uint32_t head = 0, tail = 0;
    for (uint32_t n = 0; n < g->node_count; n++)
        if (!s->missing[n])
            s->queue[tail++] = n;
    while (head < tail) {
        const node_t *node = &g->nodes[s->queue[head]];
        s->sorted[head++] = *node;
        for (uint32_t o = 0; o < node->out_count; o++) {
            if (node->out[o] < 0)
                continue;
            for (uint32_t r = s->first[node->out[o]]; r < s->first[node->out[o] + 1]; r++)
                if (!--s->missing[s->readers[r]])
                    s->queue[tail++] = s->readers[r];
        }
    }
    return head;
}

static const char *find_stuck(const sort_t *s, const graph_t *g)
{
    for (uint32_t n = 0; n < g->node_count; n++)
        if (s->missing[n])
            return g->nodes[n].name;
    return "";
}

status_t graph_sort(graph_t *g, err_t *err)
{
    size_t links = 0;
    for (uint32_t n = 0; n < g->node_count; n++)
        links += g->nodes[n].in_count;
    int32_t *producer = calloc(g->value_count + 1, sizeof *producer);
    uint32_t *readers = calloc(g->value_count + 1, sizeof *readers);
    sort_t s;
    status_t status = STATUS_OK;
    if (!sort_init(&s, g, links) || !producer || !readers) {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to sort the graph");
    } else {
        graph_uses(g, producer, readers);
        index_readers(&s, g, producer);
        if (sort_run(&s, g) < g->node_count)
            status = err_set(err, STATUS_INVALID_ARGUMENT, "the graph has a cycle through node '%.100s'",
                             find_stuck(&s, g));
        else if (g->node_count)
            memcpy(g->nodes, s.sorted, g->node_count * sizeof *g->nodes);
    }
    sort_dispose(&s);
    free(producer);
    free(readers);
    return status;
}

static bool links_valid(const graph_t *g, const int32_t *links, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (links[i] < -1 || links[i] >= (int32_t)g->value_count)
            return false;
    return true;
}

bool graph_validate(const graph_t *g)
{
    bool *made = calloc(g->value_count + 1, sizeof *made);
    bool ok = made;
    for (uint32_t i = 0; ok && i < g->value_count; i++)
        made[i] = value_is_constant(&g->values[i]);
    for (uint32_t i = 0; ok && i < g->input_count; i++)
        made[g->inputs[i].value] = true;
    for (uint32_t n = 0; ok && n < g->node_count; n++) {
        const node_t *node = &g->nodes[n];
        ok = links_valid(g, node->in, node->in_count) && links_valid(g, node->out, node->out_count);
        for (uint32_t i = 0; ok && i < node->in_count; i++)
            ok = node->in[i] < 0 || made[node->in[i]];
        for (uint32_t i = 0; ok && i < node->out_count; i++) {
            if (node->out[i] < 0)
                continue;
            ok = !made[node->out[i]] || value_is_constant(&g->values[node->out[i]]);
            made[node->out[i]] = true;
        }
    }
    free(made);
    return ok;
}
