#include "engine/onednn/lower/lower.h"

#include <stdlib.h>

static void *grow(void *array, uint32_t count, uint32_t *capacity, size_t size)
{
    if (count < *capacity)
        return array;
    uint32_t larger = *capacity ? 2 * *capacity : 16;
    void *moved = realloc(array, larger * size);
    if (moved)
        *capacity = larger;
    return moved;
}

status_t lower_no_memory(lower_t *l)
{
    return err_set(l->err, STATUS_NO_MEMORY, "no memory to compile the model");
}

status_t lower_status(lower_t *l, dnnl_status_t status)
{
    switch (status) {
    case dnnl_success:
        return STATUS_OK;
    case dnnl_out_of_memory:
        return lower_no_memory(l);
    default:
        return err_set(l->err, STATUS_UNSUPPORTED, "oneDNN has no such primitive (%d)", (int)status);
    }
}

const layout_t *lower_main(const lower_t *l, int32_t value)
{
    return &l->states[value].layouts[0];
}

uint32_t lower_add_buffer(lower_t *l, buffer_t buffer)
{
    plan_t *p = l->plan;
    buffer_t *buffers = grow(p->buffers, p->buffer_count, &p->buffer_capacity, sizeof *buffers);
    if (!buffers) {
        lower_no_memory(l);
        return UINT32_MAX;
    }
    p->buffers = buffers;
    buffers[p->buffer_count] = buffer;
    return p->buffer_count++;
}

uint32_t lower_buffer(lower_t *l, size_t len_bytes)
{
    return lower_add_buffer(l, (buffer_t){.kind = BUFFER_WORK, .len_bytes = len_bytes, .first = UINT32_MAX});
}

void lower_share(lower_t *l, int32_t value, uint32_t buffer)
{
    if (buffer != lower_main(l, value)->buffer && l->states[value].reads > 1)
        l->plan->buffers[buffer].reads++;
}

bool lower_dies(const lower_t *l, int32_t value)
{
    const buffer_t *buffer = &l->plan->buffers[lower_main(l, value)->buffer];
    return buffer->kind == BUFFER_WORK && buffer->reads == 1;
}

/* A descriptor takes 700 bytes: a row-major one is left to the value's shape. */
static status_t add_place(lower_t *l, int32_t value, const layout_t *layout, bool described)
{
    plan_t *p = l->plan;
    dnnl_memory_desc_t *md = layout->plain ? NULL : graph_alloc(l->graph, sizeof *md);
    place_t *places = grow(p->places, p->place_count, &p->place_capacity, sizeof *places);
    if (!places)
        return lower_no_memory(l);
    p->places = places;
    if (!layout->plain && !md)
        return lower_no_memory(l);
    if (md)
        *md = layout->md;
    places[p->place_count++] = (place_t){
        .value = value, .buffer = layout->buffer, .step = p->step_count, .described = described, .md = md};
    return STATUS_OK;
}

status_t lower_define(lower_t *l, int32_t value, const dnnl_memory_desc_t *md, uint32_t buffer)
{
    if (buffer == UINT32_MAX)
        return l->err->code;
    state_t *s = &l->states[value];
    dnnl_memory_desc_t plain;
    bool known = md_of(&l->graph->values[value].t, &plain);
    if (s->layout_count == VALUE_MAX_LAYOUTS)
        s->layout_count--; /* the newest copy is forgotten; it will be made again */
    layout_t *layout = &s->layouts[s->layout_count++];
    *layout = (layout_t){.plain = !md || (known && dnnl_memory_desc_equal(md, &plain)), .buffer = buffer};
    if (md)
        layout->md = *md;
    else if (known)
        layout->md = plain;
    if (s->layout_count == 1)
        l->plan->buffers[buffer].reads += s->reads;
    return l->graph->values[value].t.data ? STATUS_OK : add_place(l, value, layout, md || known);
}

void lower_touch(lower_t *l, uint32_t buffer, uint32_t step)
{
    buffer_t *u = &l->plan->buffers[buffer];
    u->first = step < u->first ? step : u->first;
    u->last = step > u->last ? step : u->last;
}

static status_t add_binding(lower_t *l, uint32_t buffer, dnnl_memory_t memory, void **pointer)
{
    plan_t *p = l->plan;
    binding_t binding = {.buffer = buffer, .step = p->step_count - 1, .memory = memory, .pointer = pointer};
    buffer_kind_t kind = p->buffers[buffer].kind;
    if (kind == BUFFER_CONSTANT) {
        if (!weights_read(l->weights, p->buffers[buffer].data, l->engine, l->stream))
            return lower_no_memory(l);
        if (memory)
            dnnl_memory_set_data_handle(memory, p->buffers[buffer].data);
        else
            *pointer = p->buffers[buffer].data;
        return STATUS_OK;
    }
    binding_t **list = kind == BUFFER_WORK ? &p->work : &p->inputs;
    uint32_t *count = kind == BUFFER_WORK ? &p->work_count : &p->input_count;
    uint32_t *capacity = kind == BUFFER_WORK ? &p->work_capacity : &p->input_capacity;
    binding_t *moved = grow(*list, *count, capacity, sizeof *moved);
    if (!moved)
        return lower_no_memory(l);
    *list = moved;
    moved[(*count)++] = binding;
    return STATUS_OK;
}

static step_t *add_step(lower_t *l, const node_t *node)
{
    plan_t *p = l->plan;
    step_t *steps = grow(p->steps, p->step_count, &p->step_capacity, sizeof *steps);
    if (!steps) {
        lower_no_memory(l);
        return NULL;
    }
    p->steps = steps;
    step_t *step = &steps[p->step_count++];
    *step = (step_t){.ctx = {.node = node}};
    return step;
}

static status_t add_arg(lower_t *l, step_t *step, const lower_arg_t *arg)
{
    dnnl_memory_t memory;
    dnnl_status_t made = dnnl_memory_create(&memory, &arg->md, l->engine, NULL);
    if (made != dnnl_success)
        return err_set(l->err, STATUS_INTERNAL, "oneDNN refuses a memory descriptor of its own (%d)",
                       (int)made);
    step->args[step->arg_count++] = (dnnl_exec_arg_t){.arg = arg->arg, .memory = memory};
    lower_touch(l, arg->buffer, l->plan->step_count - 1);
    return add_binding(l, arg->buffer, memory, NULL);
}

static status_t add_scratchpad(lower_t *l, step_t *step, const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t len = md ? dnnl_memory_desc_get_size(md) : 0;
    if (!len)
        return STATUS_OK;
    lower_arg_t arg = {.arg = DNNL_ARG_SCRATCHPAD, .buffer = lower_buffer(l, len), .md = *md};
    return arg.buffer == UINT32_MAX ? l->err->code : add_arg(l, step, &arg);
}

status_t lower_step(lower_t *l, const node_t *node, dnnl_primitive_desc_t pd, const lower_arg_t *args,
                    uint32_t count)
{
    dnnl_primitive_t primitive;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].buffer == UINT32_MAX) {
            dnnl_primitive_desc_destroy(pd);
            return l->err->code;
        }
    dnnl_status_t made = dnnl_primitive_create(&primitive, pd);
    if (made != dnnl_success) {
        dnnl_primitive_desc_destroy(pd);
        return lower_status(l, made);
    }
    step_t *step = add_step(l, node);
    status_t status = step ? STATUS_OK : STATUS_NO_MEMORY;
    if (step) {
        step->primitive = primitive;
        step->args = graph_alloc(l->graph, (count + 1) * sizeof *step->args);
        status = step->args ? STATUS_OK : lower_no_memory(l);
    } else {
        dnnl_primitive_destroy(primitive);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        status = add_arg(l, step, &args[i]);
    if (status == STATUS_OK)
        status = add_scratchpad(l, step, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

status_t lower_from_main(lower_t *l, const node_t *node, dnnl_primitive_desc_t pd)
{
    const layout_t main = *lower_main(l, node->in[0]);
    dnnl_memory_desc_t dst = *dnnl_primitive_desc_query_md(pd, dnnl_query_dst_md, 0);
    lower_arg_t args[] = {{DNNL_ARG_SRC, main.buffer, main.md},
                          {DNNL_ARG_DST, lower_buffer(l, dnnl_memory_desc_get_size(&dst)), dst}};
    uint32_t to = args[1].buffer;
    status_t status = lower_step(l, node, pd, args, 2);
    return status == STATUS_OK ? lower_define(l, node->out[0], &dst, to) : status;
}

static uint32_t add_reorder(lower_t *l, uint32_t from, const dnnl_memory_desc_t *from_md,
                            const dnnl_memory_desc_t *to_md)
{
    static const op_t op = {.name = "reorder"};
    dnnl_primitive_desc_t pd;
    dnnl_status_t made =
        dnnl_reorder_primitive_desc_create(&pd, from_md, l->engine, to_md, l->engine, l->attr);
    if (made != dnnl_success) {
        lower_status(l, made);
        return UINT32_MAX;
    }
    uint32_t to = lower_buffer(l, dnnl_memory_desc_get_size(to_md));
    node_t *node = graph_alloc(l->graph, sizeof *node);
    if (!node || to == UINT32_MAX) {
        dnnl_primitive_desc_destroy(pd);
        return UINT32_MAX;
    }
    *node = (node_t){.op = &op, .name = "layout"};
    lower_arg_t args[] = {{DNNL_ARG_FROM, from, *from_md}, {DNNL_ARG_TO, to, *to_md}};
    return lower_step(l, node, pd, args, 2) == STATUS_OK ? to : UINT32_MAX;
}

uint32_t lower_weights(lower_t *l, int32_t value, const dnnl_memory_desc_t *seen_as,
                       const dnnl_memory_desc_t *want)
{
    uint32_t plain = lower_plain(l, value);
    if (plain == UINT32_MAX || dnnl_memory_desc_equal(seen_as, want))
        return plain;
    if (!lower_is_constant(l, value))
        return add_reorder(l, plain, seen_as, want);
    void *data = weights_get(l->weights, l->graph->values[value].blob, seen_as, want, l->engine, l->stream);
    if (!data) {
        err_set(l->err, STATUS_UNSUPPORTED, "oneDNN cannot reorder the weights");
        return UINT32_MAX;
    }
    return lower_add_buffer(l, (buffer_t){.kind = BUFFER_CONSTANT, .data = data});
}

uint32_t lower_need(lower_t *l, int32_t value, const dnnl_memory_desc_t *md)
{
    state_t *s = &l->states[value];
    for (uint32_t i = 0; i < s->layout_count; i++)
        if (dnnl_memory_desc_equal(&s->layouts[i].md, md))
            return s->layouts[i].buffer;
    layout_t main = s->layouts[0];
    uint32_t buffer = lower_is_constant(l, value) ? lower_weights(l, value, &main.md, md)
                                                  : add_reorder(l, main.buffer, &main.md, md);
    if (buffer != UINT32_MAX)
        lower_define(l, value, md, buffer);
    return buffer;
}

uint32_t lower_plain(lower_t *l, int32_t value)
{
    const state_t *s = &l->states[value];
    for (uint32_t i = 0; i < s->layout_count; i++)
        if (s->layouts[i].plain)
            return s->layouts[i].buffer;
    dnnl_memory_desc_t plain;
    if (!md_of(lower_tensor(l, value), &plain)) {
        err_set(l->err, STATUS_INTERNAL, "value '%.80s' has no layout", l->graph->values[value].name);
        return UINT32_MAX;
    }
    return lower_need(l, value, &plain);
}

/* One call of a reference kernel: inputs by buffer, one tensor each; outputs get new row-major buffers. */
typedef struct {
    const node_t *node;
    uint32_t in_count, out_count;
    const tensor_t *in[GRAPH_MAX_NODE_IO]; /* NULL = absent */
    uint32_t in_buffers[GRAPH_MAX_NODE_IO];
    const tensor_t *out[GRAPH_MAX_NODE_IO];
    uint32_t out_buffers[GRAPH_MAX_NODE_IO]; /* result */
} call_t;

static status_t bind_tensor(lower_t *l, const tensor_t *from, uint32_t buffer, tensor_t *to)
{
    *to = *from;
    lower_touch(l, buffer, l->plan->step_count - 1);
    return add_binding(l, buffer, NULL, &to->data);
}

static status_t add_call(lower_t *l, call_t *call)
{
    step_t *step = add_step(l, call->node);
    tensor_t *tensors = graph_alloc(l->graph, (call->in_count + call->out_count + 1) * sizeof *tensors);
    const tensor_t **in = graph_alloc(l->graph, (call->in_count + 1) * sizeof *in);
    tensor_t **out = graph_alloc(l->graph, (call->out_count + 1) * sizeof *out);
    status_t status = step && tensors && in && out ? STATUS_OK : lower_no_memory(l);
    for (uint32_t i = 0; status == STATUS_OK && i < call->in_count; i++) {
        if (!call->in[i])
            continue;
        in[i] = &tensors[i];
        status = bind_tensor(l, call->in[i], call->in_buffers[i], &tensors[i]);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < call->out_count; i++) {
        if (!call->out[i])
            continue;
        out[i] = &tensors[call->in_count + i];
        call->out_buffers[i] = lower_buffer(l, tensor_bytes(call->out[i]));
        status = call->out_buffers[i] == UINT32_MAX
                     ? l->err->code
                     : bind_tensor(l, call->out[i], call->out_buffers[i], out[i]);
    }
    if (step)
        step->tensors = tensors;
    if (status == STATUS_OK)
        step->ctx = (op_ctx_t){.node = call->node,
                               .in_count = call->in_count,
                               .out_count = call->out_count,
                               .in = in,
                               .out = out};
    return status;
}

/* The epilogue of a node that fell back to its reference kernel, as calls of their own on the result. */
static status_t add_epilogue(lower_t *l, const node_t *host, const epilogue_t *tail, call_t *call)
{
    const tensor_t *result = lower_tensor(l, host->out[0]);
    uint32_t so_far = call->out_buffers[0];
    node_t *node = graph_alloc(l->graph, sizeof *node);
    attr_t *bounds = graph_alloc(l->graph, 2 * sizeof *bounds);
    if (!node || !bounds)
        return lower_no_memory(l);
    bounds[0] = (attr_t){.kind = ATTR_FLOAT, .name = "min", .f = (float)tail->function.a};
    bounds[1] = (attr_t){.kind = ATTR_FLOAT, .name = "max", .f = (float)tail->function.b};
    *node = (node_t){
        .name = host->name, .opset = 8, .op = tail->op, .attrs = tail->attrs, .attr_count = tail->attr_count};
    *call = (call_t){
        .node = node, .in_count = 1, .in = {result}, .in_buffers = {so_far}, .out_count = 1, .out = {result}};
    if (tail->kind == EPILOGUE_ADD) {
        call->in_count = 2;
        call->in[1] = lower_tensor(l, tail->value);
        call->in_buffers[1] = lower_plain(l, tail->value);
        if (call->in_buffers[1] == UINT32_MAX)
            return l->err->code;
    } else if (op_is(node, OP_CLIP)) {
        node->attrs = bounds;
        node->attr_count = 2;
    }
    return add_call(l, call);
}

status_t lower_kernel(lower_t *l, const node_t *node)
{
    call_t *call = calloc(1, sizeof *call);
    if (!call)
        return lower_no_memory(l);
    *call = (call_t){.node = node, .in_count = node->in_count, .out_count = node->out_count};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < node->in_count; i++) {
        if (node->in[i] < 0)
            continue;
        call->in[i] = lower_tensor(l, node->in[i]);
        call->in_buffers[i] = lower_plain(l, node->in[i]);
        status = call->in_buffers[i] == UINT32_MAX ? l->err->code : STATUS_OK;
    }
    for (uint32_t i = 0; i < node->out_count; i++)
        call->out[i] = node->out[i] < 0 ? NULL : lower_tensor(l, node->out[i]);
    if (status == STATUS_OK)
        status = add_call(l, call);
    for (uint32_t i = 1; status == STATUS_OK && i < node->out_count; i++)
        if (node->out[i] >= 0)
            status = lower_define(l, node->out[i], NULL, call->out_buffers[i]);
    for (uint32_t i = 0; status == STATUS_OK && i < node->epilogue_count; i++)
        status = add_epilogue(l, node, &node->epilogue[i], call);
    if (status == STATUS_OK && node->out_count && node->out[0] >= 0)
        status = lower_define(l, node->out[0], NULL, call->out_buffers[0]);
    free(call);
    return status;
}

bool lower_ctx(const lower_t *l, const node_t *node, lower_ctx_t *c)
{
    if (node->in_count > LOWER_MAX_CTX || node->out_count > LOWER_MAX_CTX)
        return false;
    for (uint32_t i = 0; i < node->in_count; i++)
        c->in[i] = node->in[i] < 0 ? NULL : lower_tensor(l, node->in[i]);
    for (uint32_t i = 0; i < node->out_count; i++)
        c->out[i] = node->out[i] < 0 ? NULL : &c->results[i];
    c->ctx = (op_ctx_t){
        .node = node, .in_count = node->in_count, .out_count = node->out_count, .in = c->in, .out = c->out};
    c->ctx.err = l->err;
    return true;
}
