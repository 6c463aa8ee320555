#include "engine/onednn/run/fork.h"

#include "engine/onednn/run/md.h"

#include <stdlib.h>
#include <string.h>

/* Of a dnnl_memory_t: its description, and what is around it. */
enum { MEMORY_BYTES = sizeof(dnnl_memory_desc_t) + 128 };

static status_t no_memory(err_t *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory to run a model on one more stream, or cut");
}

/* ---- layouts of borders ---- */

bool edge_is_sliceable(const dnnl_memory_desc_t *md)
{
    const dnnl_blocking_desc_t *blocking = &md->format_desc.blocking;
    size_t row_bytes = dnnl_memory_desc_get_size(md) / (size_t)(md->dims[0] ? md->dims[0] : 1);
    bool good = md->format_kind == dnnl_blocked && md->offset0 == 0 && md->extra.flags == 0 &&
                md->padded_dims[0] == md->dims[0] &&
                (size_t)blocking->strides[0] * dnnl_data_type_size(md->data_type) == row_bytes;
    for (int i = 0; good && i < blocking->inner_nblks; i++)
        good = blocking->inner_idxs[i] != 0;
    return good;
}

/* The layout of so many rows; false: row-major, of a type that oneDNN does not know. */
static bool edge_md(const edge_t *edge, const tensor_t *t, dnnl_memory_desc_t *md)
{
    if (!edge->described)
        return md_of(t, md);
    *md = edge->md;
    md->dims[0] = md->padded_dims[0] = t->dims[0];
    return true;
}

size_t edge_row_bytes(const edge_t *edge, const tensor_t *t, uint32_t batch)
{
    dnnl_memory_desc_t md;
    return (edge_md(edge, t, &md) ? dnnl_memory_desc_get_size(&md) : tensor_bytes(t)) / batch;
}

/* ---- making ---- */

static void transfers_dispose(transfers_t *t)
{
    for (uint32_t i = 0; i < t->count; i++) {
        if (t->list[i].reorder)
            dnnl_primitive_destroy(t->list[i].reorder);
        dnnl_memory_destroy(t->list[i].from);
        dnnl_memory_destroy(t->list[i].to);
    }
    free(t->list);
}

static void steps_dispose(fork_t *f)
{
    for (uint32_t i = 0; f->steps && i < f->plan->step_count; i++) {
        for (int a = 0; a < f->steps[i].arg_count; a++)
            dnnl_memory_destroy(f->steps[i].args[a].memory);
        free(f->steps[i].args);
        free(f->steps[i].tensors);
        free((void *)(uintptr_t)f->steps[i].ctx.in);
        free((void *)(uintptr_t)f->steps[i].ctx.out);
    }
    free(f->steps);
}

void forks_destroy(fork_t *first)
{
    for (fork_t *next, *f = first; f; f = next) {
        next = f->next;
        for (uint32_t op = 0; f->loads && f->stores && op <= f->plan->instance->node_count; op++) {
            transfers_dispose(&f->loads[op]);
            transfers_dispose(&f->stores[op]);
        }
        free(f->loads);
        free(f->stores);
        steps_dispose(f);
        free(f->work);
        free(f->inputs);
        free(f);
    }
}

static bool is_bound(const binding_t *list, uint32_t count, const void *target)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].memory == target || (const void *)list[i].pointer == target)
            return true;
    return false;
}

const binding_t *fork_bindings_of(const binding_t *all, uint32_t all_count, uint32_t first, uint32_t end,
                                  uint32_t *count)
{
    uint32_t from = 0, to;
    while (from < all_count && all[from].step < first)
        from++;
    for (to = from; to < all_count && all[to].step < end; to++)
        ;
    *count = to - from;
    return all + from;
}

typedef struct {
    const binding_t *work, *inputs; /* of the plan, those of one step */
    uint32_t work_count, input_count;
} bound_t;

static bool fork_args(const step_t *from, step_t *to, const bound_t *bound, dnnl_engine_t engine)
{
    to->args = calloc((size_t)from->arg_count + 1, sizeof *to->args);
    for (; to->args && to->arg_count < from->arg_count; to->arg_count++) {
        dnnl_memory_t old = from->args[to->arg_count].memory, made;
        const dnnl_memory_desc_t *md;
        void *constant = NULL;
        if (!is_bound(bound->work, bound->work_count, old) &&
            !is_bound(bound->inputs, bound->input_count, old))
            dnnl_memory_get_data_handle(old, &constant);
        if (dnnl_memory_get_memory_desc(old, &md) != dnnl_success ||
            dnnl_memory_create(&made, md, engine, constant) != dnnl_success)
            return false;
        to->args[to->arg_count] = (dnnl_exec_arg_t){.arg = from->args[to->arg_count].arg, .memory = made};
    }
    return to->args;
}

/* What is bound may be written by another thread at this moment: it is not read. */
static bool fork_kernel(const step_t *from, step_t *to, const bound_t *bound)
{
    uint32_t in = from->ctx.in_count, count = in + from->ctx.out_count;
    const tensor_t **ins = calloc(in + 1, sizeof *ins);
    tensor_t **outs = calloc(from->ctx.out_count + 1, sizeof *outs);
    to->ctx.in = ins;
    to->ctx.out = outs;
    to->ctx.node = from->ctx.node;
    to->ctx.in_count = in;
    to->ctx.out_count = from->ctx.out_count;
    to->tensors = calloc(count + 1, sizeof *to->tensors);
    if (!ins || !outs || !to->tensors)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        tensor_t *old = &from->tensors[i], *new = &to->tensors[i];
        if (!(i < in ? from->ctx.in[i] : from->ctx.out[i - in]))
            continue;
        new->dtype = old->dtype;
        new->rank = old->rank;
        memcpy(new->dims, old->dims, sizeof new->dims);
        if (!is_bound(bound->work, bound->work_count, &old->data) &&
            !is_bound(bound->inputs, bound->input_count, &old->data))
            new->data = old->data;
        if (i < in)
            ins[i] = new;
        else
            outs[i - in] = new;
    }
    return true;
}

static bool fork_step(const plan_t *p, uint32_t step, step_t *to, dnnl_engine_t engine)
{
    const step_t *from = &p->steps[step];
    bound_t own;
    own.work = fork_bindings_of(p->work, p->work_count, step, step + 1, &own.work_count);
    own.inputs = fork_bindings_of(p->inputs, p->input_count, step, step + 1, &own.input_count);
    *to = (step_t){.primitive = from->primitive, .ctx = {.node = from->ctx.node}};
    return from->primitive ? fork_args(from, to, &own, engine) : fork_kernel(from, to, &own);
}

/* The same bindings onto the arguments of its own steps. */
static binding_t *fork_bindings(const fork_t *f, const binding_t *list, uint32_t count)
{
    binding_t *made = calloc(count + 1, sizeof *made);
    for (uint32_t i = 0; made && i < count; i++) {
        const step_t *from = &f->plan->steps[list[i].step];
        const step_t *to = &f->steps[list[i].step];
        made[i] = list[i];
        for (int a = 0; list[i].memory && a < from->arg_count; a++)
            if (from->args[a].memory == list[i].memory)
                made[i].memory = to->args[a].memory;
        if (list[i].pointer) {
            size_t offset = (size_t)((char *)list[i].pointer - (char *)from->tensors);
            made[i].pointer = (void **)(void *)((char *)to->tensors + offset);
        }
    }
    return made;
}

static bool fork_all(fork_t *f, dnnl_engine_t engine)
{
    const plan_t *p = f->plan;
    f->steps = calloc((size_t)p->step_count + 1, sizeof *f->steps);
    f->loads = calloc((size_t)p->instance->node_count + 1, sizeof *f->loads);
    f->stores = calloc((size_t)p->instance->node_count + 1, sizeof *f->stores);
    if (!f->steps || !f->loads || !f->stores)
        return false;
    for (uint32_t i = 0; i < p->step_count; i++)
        if (!fork_step(p, i, &f->steps[i], engine))
            return false;
    f->work = fork_bindings(f, p->work, p->work_count);
    f->inputs = fork_bindings(f, p->inputs, p->input_count);
    return f->work && f->inputs;
}

static size_t bytes_of(const fork_t *f)
{
    const plan_t *p = f->plan;
    size_t bytes = sizeof *f + p->step_count * sizeof *f->steps +
                   (p->work_count + p->input_count) * sizeof *f->work +
                   2 * (p->instance->node_count + 1) * sizeof *f->loads;
    for (uint32_t i = 0; i < p->step_count; i++)
        bytes += (uint32_t)f->steps[i].arg_count * (sizeof *f->steps[i].args + MEMORY_BYTES) +
                 (f->steps[i].ctx.in_count + f->steps[i].ctx.out_count) *
                     (sizeof *f->steps[i].tensors + sizeof(tensor_t *));
    return bytes;
}

status_t fork_create(plan_t *plan, uint32_t stream, uint32_t batch, dnnl_engine_t engine, fork_t **out,
                     err_t *err)
{
    fork_t *f = calloc(1, sizeof *f);
    if (f) {
        *f = (fork_t){.plan = plan, .stream = stream, .batch = batch};
        if (fork_all(f, engine)) {
            f->len_bytes = bytes_of(f);
            *out = f;
            return STATUS_OK;
        }
        forks_destroy(f);
    }
    return no_memory(err);
}

/* ---- at cuts ---- */

/* It holds its value between step `step` - 1 and step `step`. */
static bool is_alive(const plan_t *p, const place_t *place, uint32_t step)
{
    const buffer_t *b = &p->buffers[place->buffer];
    if (place->step > step)
        return false;
    return b->kind != BUFFER_WORK || (b->first < step && b->last >= step);
}

static status_t make_reorder(transfer_t *t, const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                             dnnl_engine_t engine, err_t *err)
{
    dnnl_primitive_desc_t pd = NULL;
    bool ok = dnnl_reorder_primitive_desc_create(&pd, from, engine, to, engine, NULL) == dnnl_success &&
              dnnl_primitive_create(&t->reorder, pd) == dnnl_success &&
              dnnl_memory_create(&t->from, from, engine, NULL) == dnnl_success &&
              dnnl_memory_create(&t->to, to, engine, NULL) == dnnl_success;
    dnnl_primitive_desc_destroy(pd);
    return ok ? STATUS_OK : err_set(err, STATUS_UNSUPPORTED, "oneDNN cannot reorder a value at a cut");
}

static status_t add_transfer(const fork_t *f, transfers_t *list, const edge_t *edge, const place_t *place,
                             bool loads, dnnl_engine_t engine, err_t *err)
{
    const tensor_t *t = &f->plan->instance->values[edge->value].t;
    transfer_t *made = &list->list[list->count++];
    dnnl_memory_desc_t md, at;
    if (t->rank && t->dims[0] % f->batch)
        return err_set(err, STATUS_UNSUPPORTED, "value '%.80s': %lld rows of %u cannot be taken apart",
                       f->plan->instance->values[edge->value].name, (long long)t->dims[0], f->batch);
    *made = (transfer_t){.buffer = place->buffer,
                         .row_bytes = edge_row_bytes(edge, t, f->batch),
                         .before_bytes = list->row_bytes};
    made->len_bytes = made->row_bytes * f->batch;
    if (!edge_md(edge, t, &md) || !md_of_place(f->plan, place, &at) || dnnl_memory_desc_equal(&md, &at))
        return STATUS_OK;
    return loads ? make_reorder(made, &md, &at, engine, err) : make_reorder(made, &at, &md, engine, err);
}

/* Loads fill every place where a value is looked for later; one of them is enough to store it from. */
static status_t add_edge(const fork_t *f, transfers_t *list, const edge_t *edge, uint32_t op, bool loads,
                         dnnl_engine_t engine, err_t *err)
{
    const plan_t *p = f->plan;
    status_t status = STATUS_OK;
    bool found = false;
    for (uint32_t i = 0; status == STATUS_OK && i < p->place_count && (loads || !found); i++) {
        if (p->places[i].value != edge->value || !is_alive(p, &p->places[i], p->op_steps[op]))
            continue;
        found = true;
        status = add_transfer(f, list, edge, &p->places[i], loads, engine, err);
    }
    if (status == STATUS_OK && !found)
        status = err_set(err, STATUS_INTERNAL, "value '%.80s' is nowhere at the cut before operator %u",
                         p->instance->values[edge->value].name, op);
    list->row_bytes += edge_row_bytes(edge, &p->instance->values[edge->value].t, f->batch);
    return status;
}

status_t fork_reach(fork_t *f, edges_t edges, uint32_t op, bool loads, dnnl_engine_t engine, err_t *err)
{
    transfers_t *kept = loads ? &f->loads[op] : &f->stores[op], made = {0};
    status_t status = STATUS_OK;
    if (kept->list)
        return STATUS_OK;
    made.list = calloc((size_t)f->plan->place_count + 1, sizeof *made.list);
    if (!made.list)
        return no_memory(err);
    for (uint32_t e = 0; status == STATUS_OK && e < edges.count; e++)
        status = add_edge(f, &made, &edges.edges[e], op, loads, engine, err);
    if (status != STATUS_OK) {
        transfers_dispose(&made);
        return status;
    }
    transfer_t *fitted = realloc(made.list, (made.count + 1) * sizeof *made.list);
    made.list = fitted ? fitted : made.list;
    f->len_bytes += (made.count + 1) * sizeof *made.list;
    for (uint32_t i = 0; i < made.count; i++)
        f->len_bytes += made.list[i].reorder ? 2 * MEMORY_BYTES : 0;
    *kept = made;
    return STATUS_OK;
}
