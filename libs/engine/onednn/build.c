#include "engine/onednn/build.h"

#include "engine/onednn/supports.h"

#include <stdlib.h>
#include <string.h>

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

static status_t no_memory(build_t *b)
{
    return err_set(b->err, STATUS_NO_MEMORY, "no memory to compile the model");
}

status_t build_status(build_t *b, dnnl_status_t status)
{
    switch (status) {
    case dnnl_success:
        return STATUS_OK;
    case dnnl_out_of_memory:
        return no_memory(b);
    default:
        return err_set(b->err, STATUS_UNSUPPORTED, "oneDNN has no such primitive (%d)", (int)status);
    }
}

bool build_md(const tensor_t *t, dnnl_memory_desc_t *md)
{
    static const dnnl_data_type_t types[] = {
        [DTYPE_F32] = dnnl_f32, [DTYPE_U8] = dnnl_u8,   [DTYPE_I8] = dnnl_s8,
        [DTYPE_I32] = dnnl_s32, [DTYPE_F16] = dnnl_f16, [DTYPE_BF16] = dnnl_bf16,
    };
    dnnl_data_type_t type =
        (size_t)t->dtype < sizeof types / sizeof types[0] ? types[t->dtype] : dnnl_data_type_undef;
    dnnl_dims_t dims = {1};
    if (type == dnnl_data_type_undef)
        return false;
    for (uint32_t d = 0; d < t->rank; d++)
        dims[d] = t->dims[d];
    return dnnl_memory_desc_init_by_strides(md, t->rank ? (int)t->rank : 1, dims, type, NULL) == dnnl_success;
}

bool build_place_md(const plan_t *plan, const place_t *place, dnnl_memory_desc_t *md)
{
    if (!place->described)
        return false;
    if (!place->md)
        return build_md(&plan->instance->values[place->value].t, md);
    *md = *place->md;
    return true;
}

dnnl_memory_desc_t build_md_strided(uint32_t rank, const int64_t *dims, const int64_t *strides)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t d = {0}, s = {0};
    memcpy(d, dims, rank * sizeof *dims);
    if (strides)
        memcpy(s, strides, rank * sizeof *strides);
    if (dnnl_memory_desc_init_by_strides(&md, (int)rank, d, dnnl_f32, strides ? s : NULL) != dnnl_success)
        memset(&md, 0, sizeof md); /* no primitive takes it */
    return md;
}

dnnl_memory_desc_t build_md_any(uint32_t rank, const int64_t *dims)
{
    dnnl_memory_desc_t md;
    dnnl_dims_t d = {0};
    memcpy(d, dims, rank * sizeof *dims);
    if (dnnl_memory_desc_init_by_tag(&md, (int)rank, d, dnnl_f32, dnnl_format_tag_any) != dnnl_success)
        memset(&md, 0, sizeof md);
    return md;
}

const layout_t *build_main(const build_t *b, int32_t value)
{
    return &b->states[value].layouts[0];
}

static uint32_t add_buffer(build_t *b, buffer_t buffer)
{
    plan_t *p = b->plan;
    buffer_t *buffers = grow(p->buffers, p->buffer_count, &p->buffer_capacity, sizeof *buffers);
    if (!buffers) {
        no_memory(b);
        return UINT32_MAX;
    }
    p->buffers = buffers;
    buffers[p->buffer_count] = buffer;
    return p->buffer_count++;
}

uint32_t build_buffer(build_t *b, size_t len_bytes)
{
    return add_buffer(b, (buffer_t){.kind = BUFFER_WORK, .len_bytes = len_bytes, .first = UINT32_MAX});
}

void build_share(build_t *b, int32_t value, uint32_t buffer)
{
    if (buffer != build_main(b, value)->buffer && b->states[value].reads > 1)
        b->plan->buffers[buffer].reads++;
}

bool build_dies(const build_t *b, int32_t value)
{
    const buffer_t *buffer = &b->plan->buffers[build_main(b, value)->buffer];
    return buffer->kind == BUFFER_WORK && buffer->reads == 1;
}

/* A descriptor takes 700 bytes: a row-major one is left to the value's shape. */
static status_t add_place(build_t *b, int32_t value, const layout_t *l, bool described)
{
    plan_t *p = b->plan;
    dnnl_memory_desc_t *md = l->plain ? NULL : graph_alloc(b->graph, sizeof *md);
    place_t *places = grow(p->places, p->place_count, &p->place_capacity, sizeof *places);
    if (!places)
        return no_memory(b);
    p->places = places;
    if (!l->plain && !md)
        return no_memory(b);
    if (md)
        *md = l->md;
    places[p->place_count++] = (place_t){
        .value = value, .buffer = l->buffer, .step = p->step_count, .described = described, .md = md};
    return STATUS_OK;
}

status_t build_define(build_t *b, int32_t value, const dnnl_memory_desc_t *md, uint32_t buffer)
{
    if (buffer == UINT32_MAX)
        return b->err->code;
    state_t *s = &b->states[value];
    dnnl_memory_desc_t plain;
    bool known = build_md(&b->graph->values[value].t, &plain);
    if (s->layout_count == VALUE_MAX_LAYOUTS)
        s->layout_count--; /* the newest copy is forgotten; it will be made again */
    layout_t *l = &s->layouts[s->layout_count++];
    *l = (layout_t){.plain = !md || (known && dnnl_memory_desc_equal(md, &plain)), .buffer = buffer};
    if (md)
        l->md = *md;
    else if (known)
        l->md = plain;
    if (s->layout_count == 1)
        b->plan->buffers[buffer].reads += s->reads;
    return b->graph->values[value].t.data ? STATUS_OK : add_place(b, value, l, md || known);
}

static void touch(build_t *b, uint32_t buffer, uint32_t step)
{
    buffer_t *u = &b->plan->buffers[buffer];
    u->first = step < u->first ? step : u->first;
    u->last = step > u->last ? step : u->last;
}

static status_t add_binding(build_t *b, uint32_t buffer, dnnl_memory_t memory, void **pointer)
{
    plan_t *p = b->plan;
    binding_t binding = {.buffer = buffer, .step = p->step_count - 1, .memory = memory, .pointer = pointer};
    buffer_kind_t kind = p->buffers[buffer].kind;
    if (kind == BUFFER_CONSTANT) {
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
        return no_memory(b);
    *list = moved;
    moved[(*count)++] = binding;
    return STATUS_OK;
}

static step_t *add_step(build_t *b, const node_t *node)
{
    plan_t *p = b->plan;
    step_t *steps = grow(p->steps, p->step_count, &p->step_capacity, sizeof *steps);
    if (!steps) {
        no_memory(b);
        return NULL;
    }
    p->steps = steps;
    step_t *step = &steps[p->step_count++];
    *step = (step_t){.ctx = {.node = node}};
    return step;
}

static status_t add_arg(build_t *b, step_t *step, const build_arg_t *arg)
{
    dnnl_memory_t memory;
    dnnl_status_t made = dnnl_memory_create(&memory, &arg->md, b->engine, NULL);
    if (made != dnnl_success)
        return err_set(b->err, STATUS_INTERNAL, "oneDNN refuses a memory descriptor of its own (%d)",
                       (int)made);
    step->args[step->arg_count++] = (dnnl_exec_arg_t){.arg = arg->arg, .memory = memory};
    touch(b, arg->buffer, b->plan->step_count - 1);
    return add_binding(b, arg->buffer, memory, NULL);
}

static status_t add_scratchpad(build_t *b, step_t *step, const_dnnl_primitive_desc_t pd)
{
    const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t len = md ? dnnl_memory_desc_get_size(md) : 0;
    if (!len)
        return STATUS_OK;
    build_arg_t arg = {.arg = DNNL_ARG_SCRATCHPAD, .buffer = build_buffer(b, len), .md = *md};
    return arg.buffer == UINT32_MAX ? b->err->code : add_arg(b, step, &arg);
}

status_t build_step(build_t *b, const node_t *node, dnnl_primitive_desc_t pd, const build_arg_t *args,
                    uint32_t count)
{
    dnnl_primitive_t primitive;
    for (uint32_t i = 0; i < count; i++)
        if (args[i].buffer == UINT32_MAX) {
            dnnl_primitive_desc_destroy(pd);
            return b->err->code;
        }
    dnnl_status_t made = dnnl_primitive_create(&primitive, pd);
    if (made != dnnl_success) {
        dnnl_primitive_desc_destroy(pd);
        return build_status(b, made);
    }
    step_t *step = add_step(b, node);
    status_t status = step ? STATUS_OK : STATUS_NO_MEMORY;
    if (step) {
        step->primitive = primitive;
        step->args = graph_alloc(b->graph, (count + 1) * sizeof *step->args);
        status = step->args ? STATUS_OK : no_memory(b);
    } else {
        dnnl_primitive_destroy(primitive);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        status = add_arg(b, step, &args[i]);
    if (status == STATUS_OK)
        status = add_scratchpad(b, step, pd);
    dnnl_primitive_desc_destroy(pd);
    return status;
}

static uint32_t add_reorder(build_t *b, uint32_t from, const dnnl_memory_desc_t *from_md,
                            const dnnl_memory_desc_t *to_md)
{
    static const op_t op = {.name = "reorder"};
    dnnl_primitive_desc_t pd;
    dnnl_status_t made =
        dnnl_reorder_primitive_desc_create(&pd, from_md, b->engine, to_md, b->engine, b->attr);
    if (made != dnnl_success) {
        build_status(b, made);
        return UINT32_MAX;
    }
    uint32_t to = build_buffer(b, dnnl_memory_desc_get_size(to_md));
    node_t *node = graph_alloc(b->graph, sizeof *node);
    if (!node || to == UINT32_MAX) {
        dnnl_primitive_desc_destroy(pd);
        return UINT32_MAX;
    }
    *node = (node_t){.op = &op, .name = "layout"};
    build_arg_t args[] = {{DNNL_ARG_FROM, from, *from_md}, {DNNL_ARG_TO, to, *to_md}};
    return build_step(b, node, pd, args, 2) == STATUS_OK ? to : UINT32_MAX;
}

uint32_t build_weights(build_t *b, int32_t value, const dnnl_memory_desc_t *seen_as,
                       const dnnl_memory_desc_t *want)
{
    uint32_t plain = build_plain(b, value);
    if (plain == UINT32_MAX || dnnl_memory_desc_equal(seen_as, want))
        return plain;
    if (!build_is_constant(b, value))
        return add_reorder(b, plain, seen_as, want);
    void *data = weights_get(b->weights, b->graph->values[value].blob, seen_as, want, b->engine, b->stream);
    if (!data) {
        err_set(b->err, STATUS_UNSUPPORTED, "oneDNN cannot reorder the weights");
        return UINT32_MAX;
    }
    return add_buffer(b, (buffer_t){.kind = BUFFER_CONSTANT, .data = data});
}

uint32_t build_need(build_t *b, int32_t value, const dnnl_memory_desc_t *md)
{
    state_t *s = &b->states[value];
    for (uint32_t i = 0; i < s->layout_count; i++)
        if (dnnl_memory_desc_equal(&s->layouts[i].md, md))
            return s->layouts[i].buffer;
    layout_t main = s->layouts[0];
    uint32_t buffer = build_is_constant(b, value) ? build_weights(b, value, &main.md, md)
                                                  : add_reorder(b, main.buffer, &main.md, md);
    if (buffer != UINT32_MAX)
        build_define(b, value, md, buffer);
    return buffer;
}

uint32_t build_plain(build_t *b, int32_t value)
{
    const state_t *s = &b->states[value];
    for (uint32_t i = 0; i < s->layout_count; i++)
        if (s->layouts[i].plain)
            return s->layouts[i].buffer;
    dnnl_memory_desc_t plain;
    if (!build_md(build_tensor(b, value), &plain)) {
        err_set(b->err, STATUS_INTERNAL, "value '%.80s' has no layout", b->graph->values[value].name);
        return UINT32_MAX;
    }
    return build_need(b, value, &plain);
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

static status_t bind_tensor(build_t *b, const tensor_t *from, uint32_t buffer, tensor_t *to)
{
    *to = *from;
    touch(b, buffer, b->plan->step_count - 1);
    return add_binding(b, buffer, NULL, &to->data);
}

static status_t add_call(build_t *b, call_t *call)
{
    step_t *step = add_step(b, call->node);
    tensor_t *tensors = graph_alloc(b->graph, (call->in_count + call->out_count + 1) * sizeof *tensors);
    const tensor_t **in = graph_alloc(b->graph, (call->in_count + 1) * sizeof *in);
    tensor_t **out = graph_alloc(b->graph, (call->out_count + 1) * sizeof *out);
    status_t status = step && tensors && in && out ? STATUS_OK : no_memory(b);
    for (uint32_t i = 0; status == STATUS_OK && i < call->in_count; i++) {
        if (!call->in[i])
            continue;
        in[i] = &tensors[i];
        status = bind_tensor(b, call->in[i], call->in_buffers[i], &tensors[i]);
    }
    for (uint32_t i = 0; status == STATUS_OK && i < call->out_count; i++) {
        if (!call->out[i])
            continue;
        out[i] = &tensors[call->in_count + i];
        call->out_buffers[i] = build_buffer(b, tensor_bytes(call->out[i]));
        status = call->out_buffers[i] == UINT32_MAX
                     ? b->err->code
                     : bind_tensor(b, call->out[i], call->out_buffers[i], out[i]);
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
static status_t add_epilogue(build_t *b, const node_t *host, const epilogue_t *tail, call_t *call)
{
    const tensor_t *result = build_tensor(b, host->out[0]);
    uint32_t so_far = call->out_buffers[0];
    node_t *node = graph_alloc(b->graph, sizeof *node);
    attr_t *bounds = graph_alloc(b->graph, 2 * sizeof *bounds);
    if (!node || !bounds)
        return no_memory(b);
    bounds[0] = (attr_t){.kind = ATTR_FLOAT, .name = "min", .f = (float)tail->function.a};
    bounds[1] = (attr_t){.kind = ATTR_FLOAT, .name = "max", .f = (float)tail->function.b};
    *node = (node_t){
        .name = host->name, .opset = 8, .op = tail->op, .attrs = tail->attrs, .attr_count = tail->attr_count};
    *call = (call_t){
        .node = node, .in_count = 1, .in = {result}, .in_buffers = {so_far}, .out_count = 1, .out = {result}};
    if (tail->kind == EPILOGUE_ADD) {
        call->in_count = 2;
        call->in[1] = build_tensor(b, tail->value);
        call->in_buffers[1] = build_plain(b, tail->value);
        if (call->in_buffers[1] == UINT32_MAX)
            return b->err->code;
    } else if (op_is(node, OP_CLIP)) {
        node->attrs = bounds;
        node->attr_count = 2;
    }
    return add_call(b, call);
}

status_t build_kernel(build_t *b, const node_t *node)
{
    call_t *call = calloc(1, sizeof *call);
    if (!call)
        return no_memory(b);
    *call = (call_t){.node = node, .in_count = node->in_count, .out_count = node->out_count};
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < node->in_count; i++) {
        if (node->in[i] < 0)
            continue;
        call->in[i] = build_tensor(b, node->in[i]);
        call->in_buffers[i] = build_plain(b, node->in[i]);
        status = call->in_buffers[i] == UINT32_MAX ? b->err->code : STATUS_OK;
    }
    for (uint32_t i = 0; i < node->out_count; i++)
        call->out[i] = node->out[i] < 0 ? NULL : build_tensor(b, node->out[i]);
    if (status == STATUS_OK)
        status = add_call(b, call);
    for (uint32_t i = 1; status == STATUS_OK && i < node->out_count; i++)
        if (node->out[i] >= 0)
            status = build_define(b, node->out[i], NULL, call->out_buffers[i]);
    for (uint32_t i = 0; status == STATUS_OK && i < node->epilogue_count; i++)
        status = add_epilogue(b, node, &node->epilogue[i], call);
    if (status == STATUS_OK && node->out_count && node->out[0] >= 0)
        status = build_define(b, node->out[0], NULL, call->out_buffers[0]);
    free(call);
    return status;
}

bool build_ctx(const build_t *b, const node_t *node, build_ctx_t *c)
{
    if (node->in_count > BUILD_MAX_CTX || node->out_count > BUILD_MAX_CTX)
        return false;
    for (uint32_t i = 0; i < node->in_count; i++)
        c->in[i] = node->in[i] < 0 ? NULL : build_tensor(b, node->in[i]);
    for (uint32_t i = 0; i < node->out_count; i++)
        c->out[i] = node->out[i] < 0 ? NULL : &c->results[i];
    c->ctx = (op_ctx_t){
        .node = node, .in_count = node->in_count, .out_count = node->out_count, .in = c->in, .out = c->out};
    c->ctx.err = b->err;
    return true;
}

static bool has_empty(const build_t *b, const node_t *node)
{
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0 && !tensor_count(build_tensor(b, node->in[i])))
            return true;
    for (uint32_t i = 0; i < node->out_count; i++)
        if (node->out[i] >= 0 && !tensor_count(build_tensor(b, node->out[i])))
            return true;
    return false;
}

static void read_done(build_t *b, int32_t value)
{
    b->states[value].reads--;
    b->plan->buffers[build_main(b, value)->buffer].reads--;
}

static status_t lower_node(build_t *b, const node_t *node)
{
    lower_fn lower = onednn_supports_op(node->op);
    status_t status = STATUS_UNSUPPORTED;
    if (lower && !has_empty(b, node))
        status = lower(b, node);
    if (status == STATUS_UNSUPPORTED)
        status = build_kernel(b, node);
    if (status != STATUS_OK)
        return err_prefix(b->err, "node '%.60s' (%s)", node->name, node->op->name);
    for (uint32_t i = 0; i < node->in_count; i++)
        if (node->in[i] >= 0)
            read_done(b, node->in[i]);
    for (uint32_t i = 0; i < node->epilogue_count; i++)
        if (node->epilogue[i].kind == EPILOGUE_ADD)
            read_done(b, node->epilogue[i].value);
    return STATUS_OK;
}

static status_t define_sources(build_t *b)
{
    graph_t *g = b->graph;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < g->input_count; i++) {
        if (build_is_constant(b, g->inputs[i].value))
            continue;
        uint32_t buffer = add_buffer(b, (buffer_t){.kind = BUFFER_INPUT, .input = i});
        status = build_define(b, g->inputs[i].value, NULL, buffer);
    }
    for (uint32_t v = 0; status == STATUS_OK && v < g->value_count; v++) {
        if (!g->values[v].t.data)
            continue;
        uint32_t buffer = add_buffer(b, (buffer_t){.kind = BUFFER_CONSTANT, .data = g->values[v].t.data});
        status = build_define(b, (int32_t)v, NULL, buffer);
    }
    return status;
}

/* Results leave row-major, and stay until the end of the run. */
static status_t finish_outputs(build_t *b)
{
    plan_t *p = b->plan;
    const graph_t *g = b->graph;
    p->outputs = calloc(g->output_count + 1, sizeof *p->outputs);
    if (!p->outputs)
        return no_memory(b);
    for (; p->output_count < g->output_count; p->output_count++) {
        int32_t value = g->outputs[p->output_count].value;
        uint32_t buffer = build_plain(b, value);
        if (buffer == UINT32_MAX)
            return b->err->code;
        touch(b, buffer, p->step_count);
        touch(b, buffer, UINT32_MAX - 1);
        p->outputs[p->output_count] = (plan_output_t){.buffer = buffer, .shape = *build_tensor(b, value)};
    }
    return STATUS_OK;
}

static status_t compile(build_t *b)
{
    graph_t *g = b->graph;
    int32_t *producer = calloc(g->value_count + 1, sizeof *producer);
    uint32_t *reads = calloc(g->value_count + 1, sizeof *reads);
    status_t status = producer && reads ? STATUS_OK : no_memory(b);
    if (status == STATUS_OK) {
        graph_uses(g, producer, reads);
        for (uint32_t v = 0; v < g->value_count; v++)
            b->states[v].reads = reads[v];
        status = define_sources(b);
    }
    free(producer);
    free(reads);
    b->plan->op_steps = calloc(g->node_count + 1, sizeof *b->plan->op_steps);
    if (!b->plan->op_steps && status == STATUS_OK)
        status = no_memory(b);
    for (uint32_t n = 0; status == STATUS_OK && n < g->node_count; n++) {
        b->plan->op_steps[n] = b->plan->step_count;
        status = lower_node(b, &g->nodes[n]);
    }
    if (status == STATUS_OK)
        status = finish_outputs(b);
    if (status == STATUS_OK)
        b->plan->op_steps[g->node_count] = b->plan->step_count;
    return status;
}

status_t build_plan(graph_t *instance, weights_t *weights, dnnl_engine_t engine, dnnl_stream_t stream,
                    plan_t **out, err_t *err)
{
    err_t own;
    build_t b = {
        .graph = instance, .weights = weights, .engine = engine, .stream = stream, .err = err ? err : &own};
    b.plan = calloc(1, sizeof *b.plan);
    b.states = calloc(instance->value_count + 1, sizeof *b.states);
    status_t status = STATUS_OK;
    if (!b.plan || !b.states || dnnl_primitive_attr_create(&b.attr) != dnnl_success)
        status = no_memory(&b);
    if (!b.plan) {
        graph_destroy(instance);
    } else {
        b.plan->instance = instance;
    }
    if (status == STATUS_OK) {
        graph_fit(instance); /* before steps point to its nodes */
        dnnl_primitive_attr_set_scratchpad_mode(b.attr, dnnl_scratchpad_mode_user);
        status = compile(&b);
    }
    if (status == STATUS_OK)
        status = plan_place(b.plan, b.err);
    if (status == STATUS_OK)
        fit_plan(b.plan);
    if (b.attr)
        dnnl_primitive_attr_destroy(b.attr);
    free(b.states);
    if (status != STATUS_OK) {
        plan_destroy(b.plan);
        return status;
    }
    *out = b.plan;
    return STATUS_OK;
}
