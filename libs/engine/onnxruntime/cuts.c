/* Where a model can be cut, and what lies on the borders there. */
#include "engine/onnxruntime/parts.h"
#include "graph/ops/op.h"

#include <stdlib.h>
#include <string.h>

/* While the cuts are looked for. */
typedef struct {
    engine_model_t *model;
    source_t source;
    graph_t *instance;
    uint32_t batch;
    const char **name_of; /* values: copies of their names in parts.names */
    size_t names_used;
    uint32_t op; /* the cut that was looked at last */
    bool is_cut;
} look_t;

/* ---- The ends of a range ---- */

static edge_t edge_of_io(const engine_model_info_t *info, const engine_tensor_t *t)
{
    edge_t edge = {.name = t->name,
                   .batch = 1,
                   .t = {.dtype = t->dtype, .rank = t->rank + info->batchable, .dims = {1}}};
    memcpy(edge.t.dims + info->batchable, t->dims, t->rank * sizeof t->dims[0]);
    return edge;
}

/* Inputs in front of the first operator, outputs behind the last, else what is alive; at most ENGINE_MAX_IO. */
uint32_t edges_at(const engine_model_t *model, uint32_t op, edge_t *ends)
{
    const engine_model_info_t *info = model_info(model);
    bool first = op == 0;
    uint32_t count = first ? info->input_count : info->output_count;
    if (!first && op != model->blueprint.cuts.ops) {
        const edge_t *edges = border_edges(&model->blueprint, op, &count);
        memcpy(ends, edges, count * sizeof *ends);
        return count;
    }
    for (uint32_t i = 0; i < count; i++)
        ends[i] = edge_of_io(info, first ? &info->inputs[i] : &info->outputs[i]);
    return count;
}

/* ---- Borders: engine/compile/borders.h ---- */

static const char *keep_name(look_t *look, const char *name)
{
    char *to = (char *)look->model->parts.names + look->names_used;
    size_t len = strlen(name) + 1;
    look->names_used += len;
    return memcpy(to, name, len);
}

static status_t make_names(look_t *look, err_t *err)
{
    const graph_t *g = look->instance;
    size_t len = 1;
    for (uint32_t v = 0; v < g->value_count; v++)
        len += strlen(g->values[v].name ? g->values[v].name : "") + 1;
    for (uint32_t n = 0; n < g->node_count; n++)
        len += strlen(g->nodes[n].name ? g->nodes[n].name : "") + 1;
    free(look->model->parts.names);
    look->model->parts.names = calloc(len, 1);
    look->name_of = calloc(g->value_count + 1, sizeof *look->name_of);
    return look->model->parts.names && look->name_of
               ? STATUS_OK
               : err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
}

static status_t make(engine_model_t *model, uint32_t batch, const tensor_t *inputs, void **made, err_t *err)
{
    look_t *look = model->parts.looked_through;
    status_t status = blueprint_instance(&model->blueprint, inputs, &look->instance, err);
    if (status != STATUS_OK)
        look->instance = NULL;
    look->batch = model_info(model)->batchable ? batch : 1;
    *made = look;
    return status == STATUS_OK ? make_names(look, err) : status;
}

static void drop(engine_model_t *model, void *made)
{
    (void)model, (void)made; /* with the look itself */
}

/* Whether the outputs follow from what is alive there. */
static bool follows(const look_t *look, uint32_t op)
{
    const engine_model_info_t *info = model_info(look->model);
    const graph_cuts_t *cuts = &look->model->blueprint.graph_cuts;
    onnx_edge_t alive[CUTS_MAX_ALIVE], outputs[ENGINE_MAX_IO];
    const graph_cut_t *cut = cuts->cuts;
    while (cut->op != op)
        cut++;
    onnx_part_t rest = {.inputs = alive,
                        .outputs = outputs,
                        .input_count = cut->value_count,
                        .output_count = info->output_count};
    for (uint32_t i = 0; i < cut->value_count; i++)
        alive[i] = (onnx_edge_t){.name = look->instance->values[cut->values[i]].name};
    for (uint32_t i = 0; i < info->output_count; i++)
        outputs[i] = (onnx_edge_t){.name = info->outputs[i].name};
    return onnx_extract_check(look->source.extract, &rest, NULL) == STATUS_OK;
}

static bool lay_out(const void *made, int32_t value, uint32_t op, void *to)
{
    look_t *look = ((const look_t *)made)->model->parts.looked_through;
    const value_t *v = &look->instance->values[value];
    edge_t *edge = to;
    if (look->op != op)
        look->is_cut = follows(look, op);
    look->op = op;
    if (!look->is_cut)
        return false;
    if (!look->name_of[value])
        look->name_of[value] = keep_name(look, v->name);
    *edge = (edge_t){.name = look->name_of[value], .t = v->t, .batch = look->batch};
    edge->t.data = NULL;
    return true;
}

static size_t border_row_bytes(const void *edge, const tensor_t *t, uint32_t batch)
{
    (void)t, (void)batch;
    return edge_row_bytes(edge);
}

static status_t take(engine_model_t *model, uint64_t len_bytes, void **data, err_t *err)
{
    *data = cpu_buffer_alloc(model->engine, len_bytes);
    return *data ? STATUS_OK : err_set(err, STATUS_NO_MEMORY, "out of memory");
}

static void give(engine_model_t *model, void *data, uint64_t len_bytes)
{
    (void)len_bytes;
    cpu_buffer_free(model->engine, data);
}

static const border_ops_t borders = {
    .edge_bytes = sizeof(edge_t),
    .make = make,
    .drop = drop,
    .lay_out = lay_out,
    .row_bytes = border_row_bytes,
    .take = take,
    .give = give,
};

/* What onnxruntime makes one of, so that a cut does not come between. */
static bool allows(const graph_t *graph, const node_t *host, const epilogue_t *tail)
{
    (void)tail;
    if (host->out_count != 1 || graph->values[host->out[0]].t.dtype != DTYPE_F32)
        return false;
    return op_is(host, OP_CONV) || op_is(host, OP_GEMM) || op_is(host, OP_LINEAR) || op_is(host, OP_MATMUL);
}

/* ---- Cuts ---- */

/* The names of the operators are the graph's, which goes. */
static void keep_cut_names(look_t *look)
{
    const engine_cuts_t *cuts = &look->model->blueprint.cuts;
    engine_cut_t *list = (engine_cut_t *)(uintptr_t)cuts->cuts;
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        list[c].name = keep_name(look, list[c].name ? list[c].name : "");
}

static status_t check_kind(const engine_model_t *model, const source_t *source, err_t *err)
{
    const engine_model_info_t *info = model_info(model);
    for (uint32_t i = 0; i < info->output_count; i++)
        if (!info->outputs[i].row_bytes)
            return err_set(err, STATUS_UNSUPPORTED,
                           "dimensions beside the batch vary: onnxruntime runs it whole");
    if (model->blueprint.varies)
        return err_set(err, STATUS_UNSUPPORTED,
                       "dimensions beside the batch vary: onnxruntime runs it whole");
    if (source_has_halves(
            source)) /* libs/graph computes these in float32, and says so of what is alive at a cut */
        return err_set(err, STATUS_UNSUPPORTED, "it has half-precision tensors: onnxruntime runs it whole");
    return STATUS_OK;
}

static status_t look_through(engine_model_t *model, look_t *look, err_t *err)
{
    engine_cuts_t cuts;
    status_t status = blueprint_read(&model->blueprint, &model->load, err);
    if (status != STATUS_OK)
        return status;
    status = check_kind(model, &look->source, err);
    if (status == STATUS_OK)
        status = border_cuts(model, &cuts, err);
    if (status == STATUS_OK)
        keep_cut_names(look);
    blueprint_forget(&model->blueprint);
    return status;
}

static status_t find_cuts(engine_model_t *model, err_t *err)
{
    look_t look = {.model = model};
    status_t status = source_open(model, &look.source, err);
    if (status != STATUS_OK)
        return status;
    model->parts.looked_through = &look;
    status = look_through(model, &look, err);
    model->parts.looked_through = NULL;
    graph_destroy(look.instance);
    free(look.name_of);
    source_close(&look.source);
    return status;
}

status_t parts_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err)
{
    pthread_mutex_lock(&model->parts.mutex);
    status_t status = model->blueprint.cuts.ops ? STATUS_OK : find_cuts(model, err);
    if (status == STATUS_OK)
        *cuts = model->blueprint.cuts;
    pthread_mutex_unlock(&model->parts.mutex);
    return status;
}

void parts_init(engine_model_t *model)
{
    blueprint_begin(&model->blueprint, allows, &borders);
    pthread_mutex_init(&model->parts.mutex, NULL);
}
