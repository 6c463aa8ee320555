#include "engine/compile/borders.h"

#include "engine/queue/cpu.h"
#include "engine/queue/segment.h"

#include <stdlib.h>
#include <string.h>

enum { LAYOUT_BATCH = 8 }; /* borders have the layouts of this batch, or of the largest one */

static blueprint_t *blueprint_of(engine_model_t *model)
{
    return (blueprint_t *)model;
}

static const engine_model_info_t *info(const blueprint_t *b)
{
    return &b->description.info;
}

/* ---- edges ---- */

static void *edge_at(const blueprint_t *b, const int32_t *value)
{
    return (char *)b->edges + (size_t)(value - b->graph_cuts.values) * b->borders->edge_bytes;
}

const void *border_edges(const blueprint_t *b, uint32_t op, uint32_t *count)
{
    uint32_t cut = b->cuts.ops ? segment_find_cut(&b->cuts, op) : UINT32_MAX;
    const graph_cut_t *at = cut == UINT32_MAX ? NULL : &b->graph_cuts.cuts[cut];
    *count = at ? at->value_count : 0;
    return at ? edge_at(b, at->values) : NULL;
}

/* What lies at one cut; false: no step behind it looks for any of it. */
static bool lay_out_cut(const blueprint_t *b, const void *made, const graph_cut_t *cut)
{
    bool any = false;
    for (uint32_t v = 0; v < cut->value_count; v++)
        any |= b->borders->lay_out(made, cut->values[v], cut->op, edge_at(b, cut->values + v));
    return any;
}

/* A cut at which no step looks for anything is none: what is behind it depends on nothing. */
static status_t lay_out_cuts(blueprint_t *b, const void *made, err_t *err)
{
    graph_cuts_t *cuts = &b->graph_cuts;
    uint32_t kept = 0, count = 1;
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        count += cuts->cuts[c].value_count;
    free(b->edges);
    b->edges = calloc(count, b->borders->edge_bytes);
    if (!b->edges)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < cuts->cut_count; c++)
        if (lay_out_cut(b, made, &cuts->cuts[c]))
            cuts->cuts[kept++] = cuts->cuts[c];
    cuts->cut_count = kept;
    return kept ? STATUS_OK : err_set(err, STATUS_UNSUPPORTED, "nothing is alive at any cut of the model");
}

static status_t choose_edges(blueprint_t *b, engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    void *made;
    uint32_t most = info(b)->max_batch, likely = most < LAYOUT_BATCH ? most : LAYOUT_BATCH;
    blueprint_trial_shapes(b, likely, inputs);
    status_t status = b->borders->make(model, likely, inputs, &made, err);
    if (status != STATUS_OK)
        return status;
    status = lay_out_cuts(b, made, err);
    b->borders->drop(model, made);
    return status;
}

/* ---- cuts ---- */

static size_t cut_row_bytes(const blueprint_t *b, const graph_t *instance, uint32_t cut, uint32_t batch)
{
    const graph_cut_t *at = &b->graph_cuts.cuts[cut];
    size_t bytes = 0;
    for (uint32_t v = 0; v < at->value_count; v++)
        bytes += b->borders->row_bytes(edge_at(b, at->values + v), &instance->values[at->values[v]].t, batch);
    return bytes;
}

static status_t publish(blueprint_t *b, const graph_t *instance, uint32_t batch, err_t *err)
{
    const graph_cuts_t *from = &b->graph_cuts;
    engine_cut_t *list = calloc(from->cut_count, sizeof *list);
    if (!list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < from->cut_count; c++) {
        uint32_t op = from->cuts[c].op;
        size_t row_bytes = b->varies ? 0 : cut_row_bytes(b, instance, c, batch);
        list[c] = (engine_cut_t){.op = op,
                                 .tensors = from->cuts[c].value_count,
                                 .row_bytes = row_bytes,
                                 .name = instance->nodes[op - 1].name};
    }
    b->cuts = (engine_cuts_t){.ops = from->ops, .cuts = list, .cut_count = from->cut_count};
    return STATUS_OK;
}

static void forget_cuts(blueprint_t *b)
{
    cuts_dispose(&b->graph_cuts);
    b->cuts = (engine_cuts_t){.ops = 0};
}

static status_t find_cuts(blueprint_t *b, engine_model_t *model, const graph_t *small, const graph_t *large,
                          uint32_t batch, err_t *err)
{
    status_t status = cuts_find(small, large, &b->graph_cuts, err);
    if (status == STATUS_OK)
        status = choose_edges(b, model, err);
    if (status == STATUS_OK)
        status = publish(b, small, batch, err);
    if (status != STATUS_OK)
        forget_cuts(b);
    return status;
}

static status_t compare_batches(blueprint_t *b, engine_model_t *model, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *small, *large = NULL;
    uint32_t batch = info(b)->batchable ? 2 : 1;
    if (b->by_value)
        return err_set(err, STATUS_UNSUPPORTED, "shapes depend on contents: the model runs whole");
    blueprint_trial_shapes(b, batch, inputs);
    status_t status = blueprint_instance(b, inputs, &small, err);
    if (status != STATUS_OK)
        return status;
    if (info(b)->batchable) {
        blueprint_trial_shapes(b, batch + 1, inputs);
        status = blueprint_instance(b, inputs, &large, err);
    }
    if (status == STATUS_OK)
        status = find_cuts(b, model, small, large ? large : small, batch, err);
    graph_destroy(large);
    graph_destroy(small);
    return status;
}

status_t border_cuts(engine_model_t *model, engine_cuts_t *cuts, err_t *err)
{
    blueprint_t *b = blueprint_of(model);
    pthread_mutex_lock(&b->cutting);
    status_t status = b->cuts.ops ? STATUS_OK : compare_batches(b, model, err);
    if (status == STATUS_OK)
        *cuts = b->cuts;
    pthread_mutex_unlock(&b->cutting);
    return status;
}

/* ---- borders ---- */

/* An instance of one row, with these shapes. */
static status_t row_instance(const blueprint_t *b, const engine_shape_t *shapes, graph_t **instance,
                             err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    engine_shape_t one[ENGINE_MAX_IO];
    if (!shapes)
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "the dimensions of the model vary: say how large they get");
    memcpy(one, shapes, info(b)->input_count * sizeof *one);
    for (uint32_t i = 0; info(b)->batchable && i < info(b)->input_count; i++)
        one[i].dims[0] = 1;
    status_t status = cpu_input_shapes(info(b), 1, one, inputs, err);
    if (status == STATUS_OK)
        status = blueprint_instance(b, inputs, instance, err);
    return status == STATUS_OK ? blueprint_check_instance(b, *instance, err) : status;
}

/* What one row takes at the largest of these cuts. shapes: only of a model that varies. */
static status_t find_row_bytes(const blueprint_t *b, const uint32_t *cuts, uint32_t cut_count,
                               const engine_shape_t *shapes, size_t *row_bytes, err_t *err)
{
    graph_t *instance = NULL;
    status_t status = b->varies ? row_instance(b, shapes, &instance, err) : STATUS_OK;
    size_t most = 0;
    for (uint32_t i = 0; status == STATUS_OK && i < cut_count; i++) {
        uint32_t cut = b->cuts.ops ? segment_find_cut(&b->cuts, cuts[i]) : UINT32_MAX;
        if (cut == UINT32_MAX) {
            status =
                err_set(err, STATUS_INVALID_ARGUMENT, "the model cannot be cut before operator %u", cuts[i]);
            break;
        }
        size_t bytes = instance ? cut_row_bytes(b, instance, cut, 1) : b->cuts.cuts[cut].row_bytes;
        most = bytes > most ? bytes : most;
    }
    graph_destroy(instance);
    if (status == STATUS_OK)
        *row_bytes = most;
    return status;
}

status_t border_create(engine_model_t *model, const uint32_t *cuts, uint32_t cut_count, uint32_t rows,
                       const engine_shape_t *largest_shapes, engine_border_t **out, err_t *err)
{
    const blueprint_t *b = blueprint_of(model);
    size_t row_bytes;
    void *data;
    status_t status = find_row_bytes(b, cuts, cut_count, largest_shapes, &row_bytes, err);
    if (status != STATUS_OK)
        return status;
    uint64_t len = (uint64_t)rows * row_bytes;
    engine_border_t *border = calloc(1, sizeof *border);
    if (!border)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a border");
    status = b->borders->take(model, len, &data, err);
    if (status != STATUS_OK) {
        free(border);
        return err_prefix(err, "a border of %llu bytes", (unsigned long long)len);
    }
    *border =
        (engine_border_t){.model = model, .ops = b->borders, .rows = rows, .len_bytes = len, .data = data};
    *out = border;
    return STATUS_OK;
}

void border_destroy(engine_border_t *border)
{
    if (!border)
        return;
    border->ops->give(border->model, border->data, border->len_bytes);
    free(border);
}

uint64_t border_bytes(const engine_border_t *border)
{
    return border->len_bytes;
}

status_t border_check(const engine_border_t *border, const engine_job_t *job, size_t row_bytes, err_t *err)
{
    if (!border)
        return STATUS_OK;
    if (border->model != job->model)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the border is of another model");
    if (job->row > border->rows || border->rows - job->row < job->batch)
        return err_set(err, STATUS_INVALID_ARGUMENT, "rows %u..%u are outside a border of %u", job->row,
                       job->row + job->batch, border->rows);
    if (row_bytes * border->rows > border->len_bytes)
        return err_set(err, STATUS_UNSUPPORTED,
                       "a row of %zu bytes is larger than what the border was made for", row_bytes);
    return STATUS_OK;
}
