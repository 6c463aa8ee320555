#include "engine/cuda/lower/lower.h"

#include <stdlib.h>
#include <string.h>

/* ---- small things ---- */

status_t lower_fail(lower_t *l, status_t status, const char *text)
{
    if (l->status == STATUS_OK)
        l->status = err_set(l->err, status, "%s", text);
    return l->status;
}

static void no_memory(lower_t *l)
{
    lower_fail(l, STATUS_NO_MEMORY, "no memory to compile the model");
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

const tensor_t *lower_tensor(const lower_t *l, int32_t value)
{
    return &l->graph->values[value].t;
}

int32_t lower_input(const node_t *node, uint32_t i)
{
    return i < node->in_count ? node->in[i] : -1;
}

bool lower_is_constant(const lower_t *l, int32_t value)
{
    return l->graph->values[value].t.data;
}

dtype_t lower_stored_type(const lower_t *l, dtype_t dtype)
{
    return dtype == DTYPE_F32 ? l->storage : dtype;
}

bool lower_single_output(const node_t *node)
{
    for (uint32_t i = 1; i < node->out_count; i++)
        if (node->out[i] >= 0)
            return false;
    return node->out_count && node->out[0] >= 0;
}

bool lower_is_old_broadcast(const node_t *node)
{
    return node->opset < 7 && (node_attr(node, "axis") || node_attr(node, "broadcast"));
}

bool lower_ctx(const lower_t *l, const node_t *node, lower_ctx_t *c)
{
    if (node->in_count > LOWER_MAX_CTX || node->out_count > LOWER_MAX_CTX)
        return false;
    for (uint32_t i = 0; i < node->in_count; i++)
        c->in[i] = node->in[i] < 0 ? NULL : lower_tensor(l, node->in[i]);
    for (uint32_t i = 0; i < node->out_count; i++)
        c->out[i] = node->out[i] < 0 ? NULL : &c->results[i];
    c->ctx = (op_ctx_t){.node = node,
                        .in_count = node->in_count,
                        .out_count = node->out_count,
                        .in = c->in,
                        .out = c->out,
                        .err = l->err};
    return true;
}

/* ---- buffers and steps ---- */

uint32_t lower_buffer(lower_t *l, buffer_t buffer)
{
    program_t *p = l->program;
    buffer_t *moved = grow(p->buffers, p->buffer_count, &p->buffer_capacity, sizeof *moved);
    if (!moved) {
        no_memory(l);
        return 0;
    }
    p->buffers = moved;
    moved[p->buffer_count] = buffer;
    return p->buffer_count++;
}

uint32_t lower_constant_buffer(lower_t *l, uint32_t constant)
{
    return lower_buffer(l, (buffer_t){.kind = BUFFER_CONSTANT, .index = constant, .first = UINT32_MAX});
}

view_t lower_dense_view(uint32_t buffer, dtype_t dtype, uint32_t rank, const int64_t *dims,
                        layout_kind_t layout)
{
    view_t v = {.buffer = buffer, .dtype = dtype, .rank = rank};
    if (rank)
        memcpy(v.dims, dims, rank * sizeof *dims);
    view_set_layout(&v, layout);
    return v;
}

view_t lower_new(lower_t *l, dtype_t dtype, uint32_t rank, const int64_t *dims, layout_kind_t layout)
{
    view_t v = lower_dense_view(0, dtype, rank, dims, layout);
    if (!view_fits(&v)) {
        lower_fail(l, STATUS_UNSUPPORTED, "a tensor has more than 2^31 elements");
        return v;
    }
    v.buffer = lower_buffer(l, (buffer_t){.kind = BUFFER_WORK,
                                          .first = UINT32_MAX,
                                          .len_bytes = (size_t)view_count(&v) * dtype_size(dtype)});
    return v;
}

view_t lower_result(lower_t *l, int32_t value, layout_kind_t layout)
{
    const tensor_t *t = lower_tensor(l, value);
    return lower_new(l, lower_stored_type(l, t->dtype), t->rank, t->dims, layout);
}

static void add_place(lower_t *l, int32_t value, const view_t *view)
{
    program_t *p = l->program;
    if (lower_is_constant(l, value))
        return;
    place_t *moved = grow(p->places, p->place_count, &p->place_capacity, sizeof *moved);
    if (!moved) {
        no_memory(l);
        return;
    }
    p->places = moved;
    moved[p->place_count++] = (place_t){.value = value, .op = l->op, .view = *view};
}

void lower_define(lower_t *l, int32_t value, const view_t *view)
{
    if (value < 0 || l->status != STATUS_OK)
        return;
    l->states[value] = (state_t){.defined = true, .main = *view};
    add_place(l, value, view);
}

void lower_add(lower_t *l, const step_t *step)
{
    program_t *p = l->program;
    step_t *moved = grow(p->steps, p->step_count, &p->step_capacity, sizeof *moved);
    if (!moved) {
        no_memory(l);
        return;
    }
    p->steps = moved;
    moved[p->step_count] = *step;
    moved[p->step_count++].node = l->node;
}

void lower_bind(lower_t *l, size_t field, const view_t *view)
{
    program_t *p = l->program;
    if (l->status != STATUS_OK || !p->step_count)
        return;
    binding_t *moved = grow(p->bindings, p->binding_count, &p->binding_capacity, sizeof *moved);
    if (!moved) {
        no_memory(l);
        return;
    }
    p->bindings = moved;
    uint32_t step = p->step_count - 1;
    moved[p->binding_count++] = (binding_t){.step = step,
                                            .buffer = view->buffer,
                                            .field = field,
                                            .offset_bytes = (size_t)view->offset * dtype_size(view->dtype)};
    buffer_t *b = &p->buffers[view->buffer];
    b->first = step < b->first ? step : b->first;
    b->last = step > b->last ? step : b->last;
    if (b->kind == BUFFER_INPUT)
        p->input_used[b->index] = true;
}

/* ---- values ---- */

static view_t constant_view(lower_t *l, int32_t value, dtype_t dtype, layout_kind_t layout)
{
    const value_t *v = &l->graph->values[value];
    view_t view = lower_dense_view(0, dtype, v->t.rank, v->t.dims, layout);
    uint32_t index = constants_add(l->constants, v, dtype, layout);
    if (index == UINT32_MAX)
        no_memory(l);
    else if (!view_fits(&view))
        lower_fail(l, STATUS_UNSUPPORTED, "a constant has more than 2^31 elements");
    else
        view.buffer = lower_constant_buffer(l, index);
    return view;
}

view_t lower_view(lower_t *l, int32_t value)
{
    state_t *s = &l->states[value];
    if (!s->defined && lower_is_constant(l, value)) {
        view_t view = constant_view(l, value, lower_tensor(l, value)->dtype, LAYOUT_PLAIN);
        lower_define(l, value, &view);
    }
    if (!s->defined)
        lower_fail(l, STATUS_INTERNAL, "a value is read before it is made");
    return s->main;
}

view_t lower_dense(lower_t *l, int32_t value, dtype_t dtype, layout_kind_t layout)
{
    state_t *s = &l->states[value];
    if (s->defined && s->main.dtype == dtype && view_is(&s->main, layout))
        return s->main;
    for (uint32_t i = 0; i < s->copy_count; i++)
        if (s->copies[i].dtype == dtype && view_is(&s->copies[i], layout))
            return s->copies[i];
    const tensor_t *t = lower_tensor(l, value);
    view_t made;
    if (lower_is_constant(l, value)) {
        made = constant_view(l, value, dtype, layout);
    } else {
        view_t from = lower_view(l, value);
        made = lower_new(l, dtype, t->rank, t->dims, layout);
        lower_copy(l, &made, &from);
    }
    if (l->status != STATUS_OK)
        return made;
    s->copies[s->copy_count < STATE_MAX_COPIES ? s->copy_count++ : STATE_MAX_COPIES - 1] = made;
    add_place(l, value, &made);
    return made;
}

view_t lower_plain(lower_t *l, int32_t value)
{
    return lower_dense(l, value, lower_view(l, value).dtype, LAYOUT_PLAIN);
}

/* ---- copies ---- */

static dtype_t conversion_type(dtype_t to, dtype_t from)
{
    bool whole = to != DTYPE_F32 && to != DTYPE_F16 && to != DTYPE_BF16 && to != DTYPE_F64;
    if (from == DTYPE_U64 && whole)
        return DTYPE_I64; /* the same 64 bits */
    if (from == DTYPE_F64 || from == DTYPE_U64)
        return DTYPE_F64;
    return from == DTYPE_F32 || from == DTYPE_F16 || from == DTYPE_BF16 ? DTYPE_F32 : DTYPE_I64;
}

void lower_transfer(const view_t *to, const view_t *from, step_t *step)
{
    *step = (step_t){.kind = STEP_KERNEL, .kernel = KERNEL_COPY, .what = "copy"};
    if (to->dtype == from->dtype) {
        k_copy_t *k = &step->u.copy;
        k->size_bytes = (int32_t)dtype_size(to->dtype);
        view_collapse((const view_t *[]){to, from}, 2, &k->space, (k_view_t *[]){&k->out, &k->in});
        return;
    }
    ew_t e = {.views = {*from}, .view_count = 1, .compute = conversion_type(to->dtype, from->dtype)};
    step->kernel = KERNEL_ELEMENTWISE;
    step->what = "convert";
    ew_kernel(&e, to, &step->u.elementwise);
}

void lower_copy(lower_t *l, const view_t *to, const view_t *from)
{
    step_t step;
    if (l->status != STATUS_OK || !view_count(to))
        return;
    lower_transfer(to, from, &step);
    lower_add(l, &step);
    bool copies = step.kernel == KERNEL_COPY;
    lower_bind(l, copies ? LOWER_FIELD(copy.out.base) : LOWER_FIELD(elementwise.out.base), to);
    lower_bind(l, copies ? LOWER_FIELD(copy.in.base) : LOWER_FIELD(elementwise.in[0].base), from);
}

void lower_zero(lower_t *l, const view_t *dense)
{
    step_t step = {.kind = STEP_KERNEL, .kernel = KERNEL_FILL, .what = "zero"};
    step.u.fill =
        (k_fill_t){.size_bytes = (int32_t)dtype_size(dense->dtype), .count = (int32_t)view_count(dense)};
    lower_add(l, &step);
    lower_bind(l, LOWER_FIELD(fill.base), dense);
}
