#include "engine/compile/blueprint.h"

#include "engine/queue/segment.h"

#include <stdlib.h>

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

static status_t read_graph(blueprint_t *b, const engine_load_t *what, err_t *err)
{
    status_t status = describe_open(what, &b->graph, err);
    if (status == STATUS_OK)
        status = graph_fold_batch_norms(b->graph, err);
    return status == STATUS_OK ? graph_recognise(b->graph, err) : status;
}

void blueprint_begin(blueprint_t *b, graph_allow_fn allows, const border_ops_t *borders)
{
    *b = (blueprint_t){.allows = allows, .borders = borders};
    pthread_mutex_init(&b->cutting, NULL);
}

status_t blueprint_read(blueprint_t *b, const engine_load_t *what, err_t *err)
{
    status_t status = read_graph(b, what, err);
    if (status == STATUS_OK)
        status = find_kind(b, err);
    if (status != STATUS_OK)
        blueprint_forget(b);
    return status;
}

void blueprint_forget(blueprint_t *b)
{
    graph_destroy(b->graph);
    b->graph = NULL;
}

status_t blueprint_open(blueprint_t *b, const engine_load_t *what, graph_allow_fn allows,
                        const border_ops_t *borders, err_t *err)
{
    blueprint_begin(b, allows, borders);
    status_t status = read_graph(b, what, err);
    if (status == STATUS_OK)
        status = describe_graph(&b->description, b->graph, what, err);
    if (status == STATUS_OK)
        status = find_kind(b, err);
    b->description.info.interpreted = b->by_value;
    if (status != STATUS_OK)
        blueprint_dispose(b);
    return status;
}

void blueprint_dispose(blueprint_t *b)
{
    if (!b->allows)
        return;
    free((void *)(uintptr_t)b->cuts.cuts);
    free(b->edges);
    cuts_dispose(&b->graph_cuts);
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

void blueprint_trial_shapes(blueprint_t *b, uint32_t batch, tensor_t *inputs)
{
    blueprint_shapes(b, batch, BLUEPRINT_TRIAL_SIZE, inputs);
    if (b->varies && plan_table_last_shapes(&b->plans, inputs) && info(b)->batchable)
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

/* ---- checks ---- */

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
