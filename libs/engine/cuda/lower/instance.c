/*
 * The walk over an instance: each node is lowered by what supports.c says, or becomes a step on the CPU.
 */
#include "engine/cuda/lower/supports.h"

#include <stdlib.h>

/* ---- reference kernels on the CPU ---- */

static bool make_host_step(lower_t *l, const node_t *node, host_step_t *h)
{
    uint32_t count = node->in_count + node->out_count;
    h->count = count;
    h->tensors = graph_alloc(l->graph, (count + 1) * sizeof *h->tensors);
    h->device = graph_alloc(l->graph, (count + 1) * sizeof *h->device);
    h->stored = graph_alloc(l->graph, (count + 1) * sizeof *h->stored);
    const tensor_t **in = graph_alloc(l->graph, (node->in_count + 1) * sizeof *in);
    tensor_t **out = graph_alloc(l->graph, (node->out_count + 1) * sizeof *out);
    if (!h->tensors || !h->device || !h->stored || !in || !out)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        int32_t value = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
        if (value < 0)
            continue;
        h->tensors[i] = *lower_tensor(l, value);
        h->stored[i] = lower_stored_type(l, h->tensors[i].dtype);
        if (i < node->in_count)
            in[i] = &h->tensors[i];
        else
            out[i - node->in_count] = &h->tensors[i];
    }
    h->ctx = (op_ctx_t){
        .node = node, .in_count = node->in_count, .out_count = node->out_count, .in = in, .out = out};
    return true;
}

static status_t add_host_step(lower_t *l, const node_t *node)
{
    step_t step = {.kind = STEP_HOST};
    uint32_t count = node->in_count + node->out_count;
    if (!make_host_step(l, node, &step.u.host))
        return lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
    view_t *views = graph_alloc(l->graph, (count + 1) * sizeof *views);
    if (!views)
        return lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !lower_is_constant(l, node->in[i])) {
            views[i] = lower_dense(l, node->in[i], step.u.host.stored[i], LAYOUT_PLAIN);
        }
    for (uint32_t i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0)
            views[node->in_count + i] = lower_result(l, node->out[i], LAYOUT_PLAIN);
    lower_add(l, &step);
    l->program->host_steps++;
    for (uint32_t i = 0; i < count; i++) {
        int32_t value = i < node->in_count ? node->in[i] : node->out[i - node->in_count];
        bool bound = value >= 0 && (i >= node->in_count || !lower_is_constant(l, value));
        if (bound)
            lower_bind(l, i, &views[i]);
        if (bound && i >= node->in_count)
            lower_define(l, value, &views[i]);
    }
    return l->status;
}

/* ---- the walk ---- */

static bool has_empty(const lower_t *l, const int32_t *values, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (values[i] >= 0 && !tensor_count(lower_tensor(l, values[i])))
            return true;
    return false;
}

static status_t lower_node(lower_t *l, const node_t *node)
{
    lower_fn lower = cuda_supports_op(node->op);
    bool empty = has_empty(l, node->in, node->in_count) || has_empty(l, node->out, node->out_count);
    status_t status = STATUS_UNSUPPORTED;
    l->node = node;
    if (lower && !empty)
        status = lower(l, node);
    if (l->status == STATUS_OK && status == STATUS_UNSUPPORTED && !node->epilogue_count)
        status = add_host_step(l, node);
    if (l->status == STATUS_OK && status != STATUS_OK)
        lower_fail(l, status, "an epilogue was given to a node that cannot take it");
    if (l->status != STATUS_OK)
        return err_prefix(l->err, "node '%.60s' (%s, opset %d)", node->name, node->op->name, node->opset);
    return STATUS_OK;
}

static status_t define_inputs(lower_t *l)
{
    program_t *p = l->program;
    const graph_t *g = l->graph;
    p->inputs = calloc(g->input_count + 1, sizeof *p->inputs);
    p->input_used = calloc(g->input_count + 1, sizeof *p->input_used);
    if (!p->inputs || !p->input_used)
        return lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
    for (; p->input_count < g->input_count; p->input_count++) {
        int32_t value = g->inputs[p->input_count].value;
        const tensor_t *t = lower_tensor(l, value);
        p->inputs[p->input_count] = *t;
        p->inputs[p->input_count].data = NULL;
        if (lower_is_constant(l, value))
            continue;
        uint32_t buffer =
            lower_buffer(l, (buffer_t){.kind = BUFFER_INPUT, .index = p->input_count, .first = UINT32_MAX});
        view_t view = lower_dense_view(buffer, t->dtype, t->rank, t->dims, LAYOUT_PLAIN);
        if (!view_fits(&view))
            return lower_fail(l, STATUS_UNSUPPORTED, "an input has more than 2^31 elements");
        lower_define(l, value, &view);
    }
    return l->status;
}

/* Results leave row-major, in the type that the model declares. */
static status_t copy_outputs(lower_t *l)
{
    static const op_t op = {.name = "Output"};
    program_t *p = l->program;
    const graph_t *g = l->graph;
    node_t *node = graph_alloc(l->graph, sizeof *node);
    p->outputs = calloc(g->output_count + 1, sizeof *p->outputs);
    if (!p->outputs || !node)
        return lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
    *node = (node_t){.op = &op, .name = "output"};
    l->node = node;
    for (; l->status == STATUS_OK && p->output_count < g->output_count; p->output_count++) {
        const tensor_t *t = lower_tensor(l, g->outputs[p->output_count].value);
        uint32_t buffer =
            lower_buffer(l, (buffer_t){.kind = BUFFER_OUTPUT, .index = p->output_count, .first = UINT32_MAX});
        view_t to = lower_dense_view(buffer, t->dtype, t->rank, t->dims, LAYOUT_PLAIN);
        p->outputs[p->output_count] = *t;
        p->outputs[p->output_count].data = NULL;
        if (!view_count(&to))
            continue;
        view_t from = lower_view(l, g->outputs[p->output_count].value);
        lower_copy(l, &to, &from);
    }
    return l->status;
}

static status_t walk(lower_t *l)
{
    int32_t *producer = calloc(l->graph->value_count + 1, sizeof *producer);
    l->readers = calloc(l->graph->value_count + 1, sizeof *l->readers);
    l->program->op_steps = calloc(l->graph->node_count + 1, sizeof *l->program->op_steps);
    if (!producer || !l->readers || !l->program->op_steps) {
        free(producer);
        return lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
    }
    graph_uses(l->graph, producer, l->readers);
    free(producer);
    l->op = -1;
    status_t status = define_inputs(l);
    for (uint32_t n = 0; status == STATUS_OK && n < l->graph->node_count; n++) {
        l->op = (int32_t)n;
        l->program->op_steps[n] = l->program->step_count;
        if (!l->graph->nodes[n].dead)
            status = lower_node(l, &l->graph->nodes[n]);
    }
    if (status != STATUS_OK)
        return status;
    l->op = (int32_t)l->graph->node_count;
    l->program->op_steps[l->op] = l->program->step_count;
    return copy_outputs(l);
}

status_t lower_program(graph_t *instance, engine_precision_t precision, constants_t *constants,
                       program_t **out, err_t *err)
{
    err_t own;
    lower_t l = {.graph = instance, .constants = constants, .err = err ? err : &own};
    l.storage = precision == ENGINE_FP16 ? DTYPE_F16 : precision == ENGINE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    l.program = calloc(1, sizeof *l.program);
    l.states = calloc(instance->value_count + 1, sizeof *l.states);
    if (l.program)
        l.program->instance = instance;
    else
        graph_destroy(instance);
    status_t status =
        l.program && l.states ? walk(&l) : lower_fail(&l, STATUS_NO_MEMORY, "no memory to compile the model");
    if (status == STATUS_OK)
        status = program_place(l.program, l.err);
    free(l.states);
    free(l.readers);
    if (status != STATUS_OK) {
        program_destroy(l.program);
        return status;
    }
    *out = l.program;
    return STATUS_OK;
}
