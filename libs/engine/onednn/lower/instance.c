/*
 * The walk over an instance: each node is lowered by what supports.c says, or becomes a call of its reference kernel.
 */
#include "engine/onednn/lower/supports.h"

#include <stdlib.h>

/* A plan stays for as long as its model does: nothing is kept to grow into. */
static void *fit(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    void *fitted = realloc(array, (count + 1) * size);
    if (!fitted)
        return array;
    *capacity = count + 1;
    return fitted;
}

static void fit_plan(plan_t *p)
{
    p->buffers = fit(p->buffers, p->buffer_count, &p->buffer_capacity, sizeof *p->buffers);
    p->steps = fit(p->steps, p->step_count, &p->step_capacity, sizeof *p->steps);
    p->work = fit(p->work, p->work_count, &p->work_capacity, sizeof *p->work);
    p->inputs = fit(p->inputs, p->input_count, &p->input_capacity, sizeof *p->inputs);
    p->places = fit(p->places, p->place_count, &p->place_capacity, sizeof *p->places);
}

static bool has_empty(const lower_t *l, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !tensor_count(lower_tensor(l, node->in[i])))
            return true;
    for (uint32_t i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && !tensor_count(lower_tensor(l, node->out[i])))
            return true;
    return false;
}

static void read_done(lower_t *l, int32_t value)
{
    l->states[value].reads--;
    l->plan->buffers[lower_main(l, value)->buffer].reads--;
}

static status_t lower_node(lower_t *l, const node_t *node)
{
    lower_fn lower = onednn_supports_op(node->op);
    status_t status = STATUS_UNSUPPORTED;
    if (lower && !has_empty(l, node))
        status = lower(l, node);
    if (status == STATUS_UNSUPPORTED)
        status = lower_kernel(l, node);
    if (status != STATUS_OK)
        return err_prefix(l->err, "node '%.60s' (%s)", node->name, node->op->name);
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            read_done(l, node->in[i]);
    for (uint32_t i = 0; i < node->epilogue_count; i++)
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            read_done(l, node->epilogue[i].value);
    return STATUS_OK;
}

static status_t define_sources(lower_t *l)
{
    graph_t *g = l->graph;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < g->input_count; i++) {
        if (lower_is_constant(l, g->inputs[i].value))
            continue;
        uint32_t buffer = lower_add_buffer(l, (buffer_t){.kind = BUFFER_INPUT, .input = i});
        status = lower_define(l, g->inputs[i].value, NULL, buffer);
    }
    for (uint32_t v = 0; status == STATUS_OK && v < g->value_count; v++) {
        if (!g->values[v].t.data)
            continue;
        uint32_t buffer =
            lower_add_buffer(l, (buffer_t){.kind = BUFFER_CONSTANT, .data = g->values[v].t.data});
        status = lower_define(l, (int32_t)v, NULL, buffer);
    }
    return status;
}

/* Results leave row-major, and stay until the end of the run. */
static status_t finish_outputs(lower_t *l)
{
    plan_t *p = l->plan;
    const graph_t *g = l->graph;
    p->outputs = calloc(g->output_count + 1, sizeof *p->outputs);
    if (!p->outputs)
        return lower_no_memory(l);
    for (; p->output_count < g->output_count; p->output_count++) {
        int32_t value = g->outputs[p->output_count].value;
        uint32_t buffer = lower_plain(l, value);
        if (buffer == UINT32_MAX)
            return l->err->code;
        lower_touch(l, buffer, p->step_count);
        lower_touch(l, buffer, UINT32_MAX - 1);
        p->outputs[p->output_count] = (plan_output_t){.buffer = buffer, .shape = *lower_tensor(l, value)};
    }
    return STATUS_OK;
}

static status_t compile(lower_t *l)
{
    graph_t *g = l->graph;
    int32_t *producer = calloc(g->value_count + 1, sizeof *producer);
    uint32_t *reads = calloc(g->value_count + 1, sizeof *reads);
    status_t status = producer && reads ? STATUS_OK : lower_no_memory(l);
    if (status == STATUS_OK) {
        graph_uses(g, producer, reads);
        for (uint32_t v = 0; v < g->value_count; v++)
            l->states[v].reads = reads[v];
        status = define_sources(l);
    }
    free(producer);
    free(reads);
    l->plan->op_steps = calloc(g->node_count + 1, sizeof *l->plan->op_steps);
    if (!l->plan->op_steps && status == STATUS_OK)
        status = lower_no_memory(l);
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++) {
        l->plan->op_steps[n] = l->plan->step_count;
        status = lower_node(l, &g->nodes[n]);
    }
    if (status == STATUS_OK)
        status = finish_outputs(l);
    if (status == STATUS_OK)
        l->plan->op_steps[g->node_count] = l->plan->step_count;
    return status;
}

status_t lower_plan(graph_t *instance, weights_t *weights, conv_choices_t *choices, dnnl_engine_t engine,
                    dnnl_stream_t stream, plan_t **out, err_t *err)
{
    err_t own;
    lower_t l = {.graph = instance,
                 .weights = weights,
                 .choices = choices,
                 .engine = engine,
                 .stream = stream,
                 .err = err ? err : &own};
    l.plan = calloc(1, sizeof *l.plan);
    l.states = calloc(instance->value_count + 1, sizeof *l.states);
    status_t status = STATUS_OK;
    if (!l.plan || !l.states || dnnl_primitive_attr_create(&l.attr) != dnnl_success)
        status = lower_no_memory(&l);
    if (!l.plan) {
        graph_destroy(instance);
    } else {
        l.plan->instance = instance;
    }
    if (status == STATUS_OK) {
        graph_fit(instance); /* before steps point to its nodes */
        dnnl_primitive_attr_set_scratchpad_mode(l.attr, dnnl_scratchpad_mode_user);
        status = compile(&l);
    }
    if (status == STATUS_OK)
        status = plan_place(l.plan, l.err);
    if (status == STATUS_OK)
        fit_plan(l.plan);
    if (l.attr)
        dnnl_primitive_attr_destroy(l.attr);
    free(l.states);
    if (status != STATUS_OK) {
        plan_destroy(l.plan);
        return status;
    }
    *out = l.plan;
    return STATUS_OK;
}
