#include "engine/blueprint.h"

#include "engine/cpu.h"
#include "engine/segment.h"

#include <stdlib.h>
#include <string.h>

enum { LAYOUT_BATCH = 8 }; /* borders have the layouts of this batch, or of the largest one */

static const engine_model_info_t *info(const blueprint_t *b)
{
    return &b->description.info;
}

/* ---- life ---- */

static bool has_varying_input(const blueprint_t *b)
{
    for (uint32_t i = 0; i < info(b)->input_count; i++)
        for (uint32_t d = 0; d < info(b)->inputs[i].rank; d++)
            if (info(b)->inputs[i].dims[d] < 0)
                return true;
    return false;
}

/* Models whose dimensions vary, and which do not take the trial size, find out at their first job. */
static status_t find_kind(blueprint_t *b, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *instance;
    b->varies = has_varying_input(b);
    blueprint_shapes(b, 1, BLUEPRINT_TRIAL_SIZE, inputs);
    status_t status = graph_instantiate(b->graph, inputs, &instance, err);
    if (status != STATUS_OK)
        return b->varies ? STATUS_OK : status;
    b->by_value = instance->open;
    graph_destroy(instance);
    return STATUS_OK;
}

status_t blueprint_open(blueprint_t *b, const engine_load_t *what, graph_allow_fn allows,
                        const border_layout_t *layout, err_t *err)
{
    *b = (blueprint_t){.allows = allows, .layout = layout};
    pthread_mutex_init(&b->cutting, NULL);
    status_t status = describe_open(what, &b->graph, err);
    if (status == STATUS_OK)
        status = graph_fold_batch_norms(b->graph, err);
    if (status == STATUS_OK)
        status = graph_recognise(b->graph, err);
    if (status == STATUS_OK)
        status = describe_graph(&b->description, b->graph, what, err);
    if (status == STATUS_OK)
        status = find_kind(b, err);
    if (status != STATUS_OK)
        blueprint_dispose(b);
    return status;
}

static void dispose_cuts(blueprint_t *b)
{
    free((void *)(uintptr_t)b->cuts.cuts);
    cuts_dispose(&b->graph_cuts);
    b->cuts = (engine_cuts_t){.ops = 0};
}

void blueprint_dispose(blueprint_t *b)
{
    if (!b->allows)
        return;
    dispose_cuts(b);
    description_dispose(&b->description);
    graph_destroy(b->graph);
    pthread_mutex_destroy(&b->cutting);
    *b = (blueprint_t){.allows = NULL};
}

void blueprint_shapes(const blueprint_t *b, uint32_t batch, int64_t size, tensor_t *inputs)
{
    bool batched = info(b)->batchable;
    for (uint32_t i = 0; i < info(b)->input_count; i++) {
        const engine_tensor_t *t = &info(b)->inputs[i];
        inputs[i] = (tensor_t){.dtype = t->dtype, .rank = t->rank + batched};
        inputs[i].dims[0] = batch;
        for (uint32_t d = 0; d < t->rank; d++)
            inputs[i].dims[d + batched] = t->dims[d] < 0 ? size : t->dims[d];
    }
}

void blueprint_trial_shapes(const blueprint_t *b, plan_table_t *plans, uint32_t batch, tensor_t *inputs)
{
    blueprint_shapes(b, batch, BLUEPRINT_TRIAL_SIZE, inputs);
    if (b->varies && plan_table_last_shapes(plans, inputs) && info(b)->batchable)
        for (uint32_t i = 0; i < info(b)->input_count; i++)
            inputs[i].dims[0] = batch;
}

status_t blueprint_instance(const blueprint_t *b, const tensor_t *inputs, graph_t **instance, err_t *err)
{
    tensor_t shapes[ENGINE_MAX_IO];
    graph_t *made;
    for (uint32_t i = 0; i < info(b)->input_count; i++) {
        shapes[i] = inputs[i];
        shapes[i].data = NULL;
    }
    status_t status = graph_instantiate(b->graph, shapes, &made, err);
    if (status != STATUS_OK)
        return status;
    status = made->open ? err_set(err, STATUS_UNSUPPORTED, "%.200s", made->by_value_text)
                        : graph_fold_shaped(made, err);
    if (status == STATUS_OK)
        status = graph_fuse_epilogues(made, b->allows, err);
    if (status == STATUS_OK)
        *instance = made;
    else
        graph_destroy(made);
    return status;
}

/* ---- cuts ---- */

uint32_t blueprint_layout_batch(const blueprint_t *b)
{
    uint32_t most = info(b)->max_batch;
    return most < LAYOUT_BATCH ? most : LAYOUT_BATCH;
}

uint32_t blueprint_value_count(const blueprint_t *b)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < b->graph_cuts.cut_count; c++)
        count += b->graph_cuts.cuts[c].value_count;
    return count;
}

static size_t cut_row_bytes(const blueprint_t *b, const engine_model_t *model, const graph_t *instance,
                            uint32_t cut, uint32_t batch)
{
    const graph_cut_t *at = &b->graph_cuts.cuts[cut];
    size_t bytes = 0;
    for (uint32_t v = 0; v < at->value_count; v++)
        bytes += b->layout->row_bytes(model, (uint32_t)(at->values + v - b->graph_cuts.values),
                                      &instance->values[at->values[v]].t, batch);
    return bytes;
}

void blueprint_values(const blueprint_t *b, uint32_t op, uint32_t *first, uint32_t *count)
{
    uint32_t cut = b->cuts.ops ? segment_find_cut(&b->cuts, op) : UINT32_MAX;
    const graph_cut_t *at = cut == UINT32_MAX ? NULL : &b->graph_cuts.cuts[cut];
    *first = at ? (uint32_t)(at->values - b->graph_cuts.values) : 0;
    *count = at ? at->value_count : 0;
}

static status_t publish(blueprint_t *b, const engine_model_t *model, const graph_t *instance, uint32_t batch,
                        err_t *err)
{
    const graph_cuts_t *from = &b->graph_cuts;
    engine_cut_t *list = calloc(from->cut_count, sizeof *list);
    if (!list)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the cuts of a model");
    for (uint32_t c = 0; c < from->cut_count; c++) {
        uint32_t op = from->cuts[c].op;
        size_t row_bytes = b->varies ? 0 : cut_row_bytes(b, model, instance, c, batch);
        list[c] = (engine_cut_t){.op = op,
                                 .tensors = from->cuts[c].value_count,
                                 .row_bytes = row_bytes,
                                 .name = instance->nodes[op - 1].name};
    }
    b->cuts = (engine_cuts_t){.ops = from->ops, .cuts = list, .cut_count = from->cut_count};
    return STATUS_OK;
}

static status_t find_cuts(blueprint_t *b, engine_model_t *model, const graph_t *small, const graph_t *large,
                          uint32_t batch, err_t *err)
{
    status_t status = cuts_find(small, large, &b->graph_cuts, err);
    if (status == STATUS_OK)
        status = b->layout->choose(model, err);
    if (status == STATUS_OK)
        status = publish(b, model, small, batch, err);
    if (status != STATUS_OK)
        dispose_cuts(b);
    return status;
}

static status_t compare_batches(blueprint_t *b, engine_model_t *model, plan_table_t *plans, err_t *err)
{
    tensor_t inputs[ENGINE_MAX_IO];
    graph_t *small, *large = NULL;
    uint32_t batch = info(b)->batchable ? 2 : 1;
    if (b->by_value)
        return err_set(err, STATUS_UNSUPPORTED, "shapes depend on contents: the model runs whole");
    blueprint_trial_shapes(b, plans, batch, inputs);
    status_t status = blueprint_instance(b, inputs, &small, err);
    if (status != STATUS_OK)
        return status;
    if (info(b)->batchable) {
        blueprint_trial_shapes(b, plans, batch + 1, inputs);
        status = blueprint_instance(b, inputs, &large, err);
    }
    if (status == STATUS_OK)
        status = find_cuts(b, model, small, large ? large : small, batch, err);
    graph_destroy(large);
    graph_destroy(small);
    return status;
}

status_t blueprint_cuts(blueprint_t *b, engine_model_t *model, plan_table_t *plans, engine_cuts_t *cuts,
                        err_t *err)
{
    pthread_mutex_lock(&b->cutting);
    status_t status = b->cuts.ops ? STATUS_OK : compare_batches(b, model, plans, err);
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
static status_t find_row_bytes(const blueprint_t *b, const engine_model_t *model, const uint32_t *cuts,
                               uint32_t cut_count, const engine_shape_t *shapes, size_t *row_bytes,
                               err_t *err)
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
        size_t bytes = instance ? cut_row_bytes(b, model, instance, cut, 1) : b->cuts.cuts[cut].row_bytes;
        most = bytes > most ? bytes : most;
    }
    graph_destroy(instance);
    if (status == STATUS_OK)
        *row_bytes = most;
    return status;
}

status_t blueprint_border_create(const blueprint_t *b, engine_model_t *model, const uint32_t *cuts,
                                 uint32_t cut_count, uint32_t rows, const engine_shape_t *largest_shapes,
                                 engine_border_t **out, err_t *err)
{
    size_t row_bytes;
    void *data;
    status_t status = find_row_bytes(b, model, cuts, cut_count, largest_shapes, &row_bytes, err);
    if (status != STATUS_OK)
        return status;
    uint64_t len = (uint64_t)rows * row_bytes;
    engine_border_t *border = calloc(1, sizeof *border);
    if (!border)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a border");
    status = b->layout->take(model, len, &data, err);
    if (status != STATUS_OK) {
        free(border);
        return err_prefix(err, "a border of %llu bytes", (unsigned long long)len);
    }
    *border =
        (engine_border_t){.model = model, .layout = b->layout, .rows = rows, .len_bytes = len, .data = data};
    *out = border;
    return STATUS_OK;
}

void blueprint_border_destroy(engine_border_t *border)
{
    if (!border)
        return;
    border->layout->give(border->model, border->data, border->len_bytes);
    free(border);
}

uint64_t blueprint_border_bytes(const engine_border_t *border)
{
    return border->len_bytes;
}

status_t blueprint_check_border(const engine_border_t *border, const engine_job_t *job, size_t row_bytes,
                                err_t *err)
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

status_t blueprint_check_range(const blueprint_t *b, const engine_range_t *range, uint32_t streams,
                               uint32_t ops, err_t *err)
{
    if (range->stream >= streams)
        return err_set(err, STATUS_INVALID_ARGUMENT, "there is no stream %u", range->stream);
    if ((range->from == 0 && range->to == ops) ||
        (b->cuts.ops && range->from < range->to && segment_is_cut(&b->cuts, range->from) &&
         segment_is_cut(&b->cuts, range->to)))
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT, "the model cannot be cut to operators %u..%u", range->from,
                   range->to);
}

status_t blueprint_check_instance(const blueprint_t *b, const graph_t *instance, err_t *err)
{
    if (cuts_signature(instance) == b->graph_cuts.signature)
        return STATUS_OK;
    return err_set(err, STATUS_UNSUPPORTED, "with these shapes the model has other operators: it runs whole");
}
