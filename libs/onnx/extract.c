#include "onnx/extract.h"

#include "base/map.h"
#include "onnx/internal.h"

#include <stdlib.h>
#include <string.h>

enum { NOBODY = -1, INITIALISER = -2 }; /* in place of the node that makes a tensor: an input, a constant */

typedef struct {
    const char *name;
    int32_t maker;
    int32_t initialiser; /* of that kind: its index, those that are sparse behind the dense */
    bool stop;           /* an input of the part */
} tensor_at_t;

struct onnx_extract {
    const onnx_model_t *model;
    strmap_t names; /* -> tensors */
    tensor_at_t *tensors;
    uint32_t tensor_count;
    uint32_t *first, *reads; /* of node n: reads[first[n]] .. reads[first[n + 1] - 1], indices of tensors */
    uint32_t read_count;
    /* While a part is walked: */
    bool *wanted, *needed; /* nodes, initialisers */
    uint32_t *todo, todo_count;
};

static const Onnx__GraphProto *graph_of(const onnx_extract_t *x)
{
    return x->model->proto->graph;
}

static size_t initialisers(const Onnx__GraphProto *g)
{
    return g->n_initializer + g->n_sparse_initializer;
}

/* ---- Names ---- */

static tensor_at_t *find(const onnx_extract_t *x, const char *name)
{
    return name && *name ? strmap_get(&x->names, name) : NULL;
}

static status_t add(onnx_extract_t *x, const char *name, int32_t maker, int32_t initialiser, err_t *err)
{
    tensor_at_t *at = find(x, name);
    if (!name || !*name)
        return STATUS_OK;
    if (at && at->maker != NOBODY)
        return err_set(err, STATUS_INVALID_ARGUMENT, "tensor '%.80s' is made twice", name);
    if (!at)
        at = &x->tensors[x->tensor_count++];
    *at = (tensor_at_t){.name = name, .maker = maker, .initialiser = initialiser};
    strmap_put(&x->names, name, at);
    return STATUS_OK;
}

/* Old files name their initialisers as inputs, too: these come second and win. */
static status_t add_all(onnx_extract_t *x, err_t *err)
{
    const Onnx__GraphProto *g = graph_of(x);
    status_t status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < g->n_input; i++)
        status = find(x, g->input[i]->name) ? STATUS_OK : add(x, g->input[i]->name, NOBODY, 0, err);
    for (size_t i = 0; status == STATUS_OK && i < g->n_initializer; i++)
        status = add(x, g->initializer[i]->name, INITIALISER, (int32_t)i, err);
    for (size_t i = 0; status == STATUS_OK && i < g->n_sparse_initializer; i++) {
        const Onnx__TensorProto *values = g->sparse_initializer[i]->values;
        status = add(x, values ? values->name : NULL, INITIALISER, (int32_t)(g->n_initializer + i), err);
    }
    for (size_t n = 0; status == STATUS_OK && n < g->n_node; n++)
        for (size_t i = 0; status == STATUS_OK && i < g->node[n]->n_output; i++)
            status = add(x, g->node[n]->output[i], (int32_t)n, 0, err);
    return status;
}

static size_t name_count(const Onnx__GraphProto *g)
{
    size_t count = g->n_input + initialisers(g);
    for (size_t n = 0; n < g->n_node; n++)
        count += g->node[n]->n_output;
    return count;
}

/* ---- Reads ---- */

/* Of a node and of the graphs inside: what these take from outside has the same name, and no name is given twice. */
static size_t each_read(const onnx_extract_t *x, const Onnx__NodeProto *node, uint32_t *reads);

static size_t reads_of_graph(const onnx_extract_t *x, const Onnx__GraphProto *g, uint32_t *reads)
{
    size_t count = 0;
    for (size_t n = 0; n < g->n_node; n++)
        count += each_read(x, g->node[n], reads ? reads + count : NULL);
    for (size_t i = 0; i < g->n_output; i++) {
        const tensor_at_t *at = find(x, g->output[i]->name);
        if (at && reads)
            reads[count] = (uint32_t)(at - x->tensors);
        count += !!at;
    }
    return count;
}

static size_t each_read(const onnx_extract_t *x, const Onnx__NodeProto *node, uint32_t *reads)
{
    size_t count = 0;
    for (size_t i = 0; i < node->n_input; i++) {
        const tensor_at_t *at = find(x, node->input[i]);
        if (at && reads)
            reads[count] = (uint32_t)(at - x->tensors);
        count += !!at;
    }
    for (size_t a = 0; a < node->n_attribute; a++) {
        const Onnx__AttributeProto *attr = node->attribute[a];
        if (attr->g)
            count += reads_of_graph(x, attr->g, reads ? reads + count : NULL);
        for (size_t i = 0; i < attr->n_graphs; i++)
            count += reads_of_graph(x, attr->graphs[i], reads ? reads + count : NULL);
    }
    return count;
}

static status_t note_reads(onnx_extract_t *x, err_t *err)
{
    const Onnx__GraphProto *g = graph_of(x);
    size_t count = 0;
    for (size_t n = 0; n < g->n_node; n++)
        count += each_read(x, g->node[n], NULL);
    x->reads = calloc(count + 1, sizeof *x->reads);
    x->first = calloc(g->n_node + 1, sizeof *x->first);
    if (!x->reads || !x->first || count > UINT32_MAX)
        return err_set(err, STATUS_NO_MEMORY, "no memory to take a model apart");
    count = 0;
    for (size_t n = 0; n < g->n_node; n++) {
        x->first[n] = (uint32_t)count;
        count += each_read(x, g->node[n], x->reads + count);
    }
    x->first[g->n_node] = x->read_count = (uint32_t)count;
    return STATUS_OK;
}

/* ---- Life ---- */

static status_t fill(onnx_extract_t *x, err_t *err)
{
    const Onnx__GraphProto *g = graph_of(x);
    size_t names = name_count(g) + 1;
    if (names >= MAP_CAPACITY_MAX)
        return err_set(err, STATUS_TOO_LARGE, "the model has too many tensors");
    status_t status = strmap_init(&x->names, (uint32_t)names, err);
    x->tensors = calloc(names, sizeof *x->tensors);
    x->todo = calloc(names, sizeof *x->todo);
    x->wanted = calloc(g->n_node + 1, sizeof *x->wanted);
    x->needed = calloc(initialisers(g) + 1, sizeof *x->needed);
    if (status == STATUS_OK && (!x->tensors || !x->todo || !x->wanted || !x->needed))
        status = err_set(err, STATUS_NO_MEMORY, "no memory to take a model apart");
    if (status == STATUS_OK)
        status = add_all(x, err);
    return status == STATUS_OK ? note_reads(x, err) : status;
}

status_t onnx_extract_create(const onnx_model_t *model, onnx_extract_t **extract, err_t *err)
{
    onnx_extract_t *x = calloc(1, sizeof *x);
    if (!x)
        return err_set(err, STATUS_NO_MEMORY, "no memory to take a model apart");
    x->model = model;
    status_t status = fill(x, err);
    if (status == STATUS_OK)
        *extract = x;
    else
        onnx_extract_destroy(x);
    return status;
}

void onnx_extract_destroy(onnx_extract_t *x)
{
    if (!x)
        return;
    strmap_dispose(&x->names);
    free(x->tensors);
    free(x->todo);
    free(x->wanted);
    free(x->needed);
    free(x->first);
    free(x->reads);
    free(x);
}

/* ---- The walk, from the outputs to the inputs ---- */

static status_t mark_inputs(onnx_extract_t *x, const onnx_part_t *part, err_t *err)
{
    const Onnx__GraphProto *g = graph_of(x);
    memset(x->wanted, 0, g->n_node * sizeof *x->wanted);
    memset(x->needed, 0, initialisers(g) * sizeof *x->needed);
    for (uint32_t i = 0; i < x->tensor_count; i++)
        x->tensors[i].stop = false;
    for (uint32_t i = 0; i < part->input_count; i++) {
        tensor_at_t *at = find(x, part->inputs[i].name);
        if (!at)
            return err_set(err, STATUS_UNSUPPORTED, "the file has no tensor '%.80s'", part->inputs[i].name);
        at->stop = true;
    }
    return STATUS_OK;
}

/* What it follows from is to be looked at next: the node that makes it, once. */
static status_t want(onnx_extract_t *x, const tensor_at_t *at, err_t *err)
{
    if (at->stop)
        return STATUS_OK;
    if (at->maker == NOBODY)
        return err_set(err, STATUS_UNSUPPORTED, "it needs input '%.80s' of the model", at->name);
    if (at->maker == INITIALISER)
        x->needed[at->initialiser] = true;
    else if (!x->wanted[at->maker]) {
        x->wanted[at->maker] = true;
        x->todo[x->todo_count++] = (uint32_t)at->maker;
    }
    return STATUS_OK;
}

status_t onnx_extract_check(onnx_extract_t *x, const onnx_part_t *part, err_t *err)
{
    status_t status = mark_inputs(x, part, err);
    x->todo_count = 0;
    for (uint32_t i = 0; status == STATUS_OK && i < part->output_count; i++) {
        const tensor_at_t *at = find(x, part->outputs[i].name);
        status =
            at ? want(x, at, err)
               : err_set(err, STATUS_UNSUPPORTED, "the file has no tensor '%.80s'", part->outputs[i].name);
    }
    while (status == STATUS_OK && x->todo_count) {
        uint32_t node = x->todo[--x->todo_count];
        for (uint32_t r = x->first[node]; status == STATUS_OK && r < x->first[node + 1]; r++)
            status = want(x, &x->tensors[x->reads[r]], err);
    }
    return status;
}

/* ---- The file ---- */

/* What an edge is written as; nothing of it is the heap's. */
typedef struct {
    Onnx__ValueInfoProto info, *at;
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension dims[ONNX_MAX_RANK], *dim_at[ONNX_MAX_RANK];
} written_t;

static void write_edge(written_t *w, const onnx_edge_t *edge)
{
    onnx__value_info_proto__init(&w->info);
    onnx__type_proto__init(&w->type);
    onnx__type_proto__tensor__init(&w->tensor);
    onnx__tensor_shape_proto__init(&w->shape);
    w->info.name = (char *)(uintptr_t)edge->name;
    w->info.type = &w->type;
    w->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    w->type.tensor_type = &w->tensor;
    w->tensor.has_elem_type = 1;
    w->tensor.elem_type = (int32_t)edge->dtype;
    w->tensor.shape = &w->shape;
    w->shape.n_dim = edge->rank;
    w->shape.dim = w->dim_at;
    for (uint32_t d = 0; d < edge->rank; d++) {
        w->dim_at[d] = &w->dims[d];
        onnx__tensor_shape_proto__dimension__init(&w->dims[d]);
        if (edge->dims[d] < 0)
            continue;
        w->dims[d].value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        w->dims[d].dim_value = edge->dims[d];
    }
}

/* Lists of one part: what is kept of those of the model. */
typedef struct {
    written_t *edges; /* inputs, then outputs */
    Onnx__ValueInfoProto **infos;
    Onnx__NodeProto **nodes;
    Onnx__TensorProto **dense;
    Onnx__SparseTensorProto **sparse;
} lists_t;

static bool make_lists(lists_t *l, const Onnx__GraphProto *g, size_t edges)
{
    *l = (lists_t){.edges = calloc(edges + 1, sizeof *l->edges),
                   .infos = calloc(edges + 1, sizeof *l->infos),
                   .nodes = calloc(g->n_node + 1, sizeof *l->nodes),
                   .dense = calloc(g->n_initializer + 1, sizeof *l->dense),
                   .sparse = calloc(g->n_sparse_initializer + 1, sizeof *l->sparse)};
    return l->edges && l->infos && l->nodes && l->dense && l->sparse;
}

static void drop_lists(lists_t *l)
{
    free(l->edges);
    free(l->infos);
    free(l->nodes);
    free(l->dense);
    free(l->sparse);
}

static void keep_nodes(const onnx_extract_t *x, lists_t *l, Onnx__GraphProto *to)
{
    const Onnx__GraphProto *g = graph_of(x);
    to->n_node = to->n_initializer = to->n_sparse_initializer = 0;
    to->node = l->nodes;
    to->initializer = l->dense;
    to->sparse_initializer = l->sparse;
    for (size_t n = 0; n < g->n_node; n++)
        if (x->wanted[n])
            l->nodes[to->n_node++] = g->node[n];
    for (size_t i = 0; i < g->n_initializer; i++)
        if (x->needed[i])
            l->dense[to->n_initializer++] = g->initializer[i];
    for (size_t i = 0; i < g->n_sparse_initializer; i++)
        if (x->needed[g->n_initializer + i])
            l->sparse[to->n_sparse_initializer++] = g->sparse_initializer[i];
}

static void write_edges(const onnx_part_t *part, lists_t *l, Onnx__GraphProto *to)
{
    uint32_t ins = part->input_count, outs = part->output_count;
    for (uint32_t i = 0; i < ins + outs; i++) {
        write_edge(&l->edges[i], i < ins ? &part->inputs[i] : &part->outputs[i - ins]);
        l->infos[i] = &l->edges[i].info;
    }
    to->n_input = ins;
    to->input = l->infos;
    to->n_output = outs;
    to->output = l->infos + ins;
    to->n_value_info = 0; /* shapes between are of another batch, maybe, and whoever runs it finds them */
    to->n_quantization_annotation = 0;
}

static status_t pack(const Onnx__ModelProto *proto, void **bytes, size_t *len_bytes, err_t *err)
{
    size_t len = onnx__model_proto__get_packed_size(proto);
    void *packed = malloc(len + 1);
    if (!packed)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a part of %zu bytes", len);
    *len_bytes = onnx__model_proto__pack(proto, packed);
    *bytes = packed;
    return STATUS_OK;
}

status_t onnx_extract_pack(onnx_extract_t *x, const onnx_part_t *part, void **bytes, size_t *len_bytes,
                           err_t *err)
{
    lists_t lists;
    status_t status = onnx_extract_check(x, part, err);
    if (status != STATUS_OK)
        return status;
    Onnx__ModelProto proto = *x->model->proto;
    Onnx__GraphProto graph = *graph_of(x);
    if (make_lists(&lists, graph_of(x), (size_t)part->input_count + part->output_count)) {
        keep_nodes(x, &lists, &graph);
        write_edges(part, &lists, &graph);
        proto.graph = &graph;
        proto.n_training_info = 0;
        status = pack(&proto, bytes, len_bytes, err);
    } else {
        status = err_set(err, STATUS_NO_MEMORY, "no memory to take a model apart");
    }
    drop_lists(&lists);
    return status;
}
