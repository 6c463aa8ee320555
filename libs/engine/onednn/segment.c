#include "engine/onednn/segment.h"

#include "base/clock.h"
#include "engine/onednn/build.h"
#include "engine/segment.h"

#include <stdlib.h>
#include <string.h>

static status_t no_memory(err_t *err)
{
    return err_set(err, STATUS_NO_MEMORY, "no memory for a segment of a model");
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
        return build_md(t, md);
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

void segments_destroy(segment_t *first)
{
    for (segment_t *next, *s = first; s; s = next) {
        next = s->next;
        for (uint32_t i = 0; s->steps && i < s->step_count; i++) {
            for (int a = 0; a < s->steps[i].arg_count; a++)
                dnnl_memory_destroy(s->steps[i].args[a].memory);
            free(s->steps[i].args);
            free(s->steps[i].tensors);
            free((void *)(uintptr_t)s->steps[i].ctx.in);
            free((void *)(uintptr_t)s->steps[i].ctx.out);
        }
        transfers_dispose(&s->loads);
        transfers_dispose(&s->stores);
        free(s->steps);
        free(s->work);
        free(s->inputs);
        free(s);
    }
}

static bool is_bound(const binding_t *list, uint32_t count, const void *target)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i].memory == target || (const void *)list[i].pointer == target)
            return true;
    return false;
}

/* The bindings of the steps of a segment: they are kept in the order of the steps. */
static const binding_t *bindings_of(const binding_t *all, uint32_t all_count, uint32_t first, uint32_t end,
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
    const binding_t *work, *inputs; /* of the plan, those of the segment's steps */
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
    return to->args != NULL;
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

static bool fork_step(const step_t *from, step_t *to, const bound_t *all, uint32_t step, dnnl_engine_t engine)
{
    bound_t own;
    own.work = bindings_of(all->work, all->work_count, step, step + 1, &own.work_count);
    own.inputs = bindings_of(all->inputs, all->input_count, step, step + 1, &own.input_count);
    *to = (step_t){.primitive = from->primitive, .ctx = {.node = from->ctx.node}};
    return from->primitive ? fork_args(from, to, &own, engine) : fork_kernel(from, to, &own);
}

/* The same bindings onto the arguments of the segment's steps. */
static binding_t *fork_bindings(const segment_t *s, const binding_t *list, uint32_t count)
{
    binding_t *made = calloc(count + 1, sizeof *made);
    for (uint32_t i = 0; made && i < count; i++) {
        const step_t *from = &s->plan->steps[list[i].step];
        const step_t *to = &s->steps[list[i].step - s->first_step];
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

static status_t fork_steps(segment_t *s, dnnl_engine_t engine, err_t *err)
{
    const plan_t *p = s->plan;
    uint32_t end = p->op_steps[s->range.to];
    bound_t bound;
    s->first_step = p->op_steps[s->range.from];
    bound.work = bindings_of(p->work, p->work_count, s->first_step, end, &bound.work_count);
    bound.inputs = bindings_of(p->inputs, p->input_count, s->first_step, end, &bound.input_count);
    s->steps = calloc(end - s->first_step + 1, sizeof *s->steps);
    if (!s->steps)
        return no_memory(err);
    for (uint32_t i = s->first_step; i < end; i++)
        if (!fork_step(&p->steps[i], &s->steps[s->step_count++], &bound, i, engine))
            return no_memory(err);
    s->work_count = bound.work_count;
    s->input_count = bound.input_count;
    s->work = fork_bindings(s, bound.work, bound.work_count);
    s->inputs = fork_bindings(s, bound.inputs, bound.input_count);
    return s->work && s->inputs ? STATUS_OK : no_memory(err);
}

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

static status_t add_transfer(segment_t *s, transfers_t *list, const edge_t *edge, const place_t *place,
                             bool loads, dnnl_engine_t engine, err_t *err)
{
    const tensor_t *t = &s->plan->instance->values[edge->value].t;
    transfer_t *made = &list->list[list->count++];
    dnnl_memory_desc_t md;
    if (t->rank && t->dims[0] % s->batch)
        return err_set(err, STATUS_UNSUPPORTED, "value '%.80s': %lld rows of %u cannot be taken apart",
                       s->plan->instance->values[edge->value].name, (long long)t->dims[0], s->batch);
    *made = (transfer_t){.buffer = place->buffer,
                         .row_bytes = edge_row_bytes(edge, t, s->batch),
                         .before_bytes = list->row_bytes};
    made->len_bytes = made->row_bytes * s->batch;
    if (!edge_md(edge, t, &md) || !place->described || dnnl_memory_desc_equal(&md, &place->md))
        return STATUS_OK;
    return loads ? make_reorder(made, &md, &place->md, engine, err)
                 : make_reorder(made, &place->md, &md, engine, err);
}

/* Loads fill every place where a value is looked for later; one of them is enough to store it from. */
static status_t make_transfers(segment_t *s, edges_t edges, uint32_t op, bool loads, transfers_t *list,
                               dnnl_engine_t engine, err_t *err)
{
    const plan_t *p = s->plan;
    status_t status = STATUS_OK;
    list->list = calloc(p->place_count + 1, sizeof *list->list);
    if (!list->list)
        return no_memory(err);
    for (uint32_t e = 0; status == STATUS_OK && e < edges.count; e++) {
        const edge_t *edge = &edges.edges[e];
        bool found = false;
        for (uint32_t i = 0; status == STATUS_OK && i < p->place_count && (loads || !found); i++) {
            if (p->places[i].value != edge->value || !is_alive(p, &p->places[i], p->op_steps[op]))
                continue;
            found = true;
            status = add_transfer(s, list, edge, &p->places[i], loads, engine, err);
        }
        if (status == STATUS_OK && !found)
            status = err_set(err, STATUS_INTERNAL, "value '%.80s' is nowhere at the cut before operator %u",
                             p->instance->values[edge->value].name, op);
        list->row_bytes += edge_row_bytes(edge, &p->instance->values[edge->value].t, s->batch);
    }
    return status;
}

status_t segment_create(plan_t *plan, const engine_range_t *range, uint32_t batch, edges_t source,
                        edges_t target, dnnl_engine_t engine, segment_t **out, err_t *err)
{
    segment_t *s = calloc(1, sizeof *s);
    if (!s)
        return no_memory(err);
    s->range = *range;
    s->plan = plan;
    s->batch = batch;
    s->is_last = range->to == plan->instance->node_count;
    status_t status = fork_steps(s, engine, err);
    if (status == STATUS_OK)
        status = make_transfers(s, source, range->from, true, &s->loads, engine, err);
    if (status == STATUS_OK)
        status = make_transfers(s, target, range->to, false, &s->stores, engine, err);
    if (status == STATUS_OK)
        *out = s;
    else
        segments_destroy(s);
    return status;
}

/* ---- running ---- */

static char *border_at(const engine_border_t *border, const transfer_t *t, uint32_t row)
{
    return border->data + t->before_bytes * border->rows + t->row_bytes * row;
}

static status_t move(const transfer_t *t, void *to, const void *from, dnnl_stream_t stream, err_t *err)
{
    if (!t->reorder) {
        if (t->len_bytes)
            memcpy(to, from, t->len_bytes);
        return STATUS_OK;
    }
    dnnl_memory_set_data_handle(t->from, (void *)(uintptr_t)from);
    dnnl_memory_set_data_handle(t->to, to);
    dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, t->from}, {DNNL_ARG_TO, t->to}};
    return dnnl_primitive_execute(t->reorder, stream, 2, args) == dnnl_success
               ? STATUS_OK
               : err_set(err, STATUS_INTERNAL, "oneDNN cannot reorder a value at a cut");
}

/* An input is row-major wherever it lies: in the buffers of the batch, or in the border. */
static const void *input_at(const segment_t *s, const engine_job_t *job, uint32_t input)
{
    const tensor_t *t = &s->plan->instance->values[s->plan->instance->inputs[input].value].t;
    if (!s->range.from)
        return (const char *)job->inputs[input] + tensor_bytes(t) / s->batch * job->row;
    for (uint32_t i = 0; i < s->loads.count; i++) {
        const buffer_t *b = &s->plan->buffers[s->loads.list[i].buffer];
        if (b->kind == BUFFER_INPUT && b->input == input)
            return border_at(job->source, &s->loads.list[i], job->row);
    }
    return NULL;
}

static void bind_segment(segment_t *s, void *work, const engine_job_t *job)
{
    const plan_t *p = s->plan;
    for (uint32_t i = 0; s->bound_to != work && i < s->work_count; i++)
        plan_bind(&s->work[i], (char *)work + p->buffers[s->work[i].buffer].offset);
    s->bound_to = work;
    for (uint32_t i = 0; i < s->input_count; i++)
        plan_bind(&s->inputs[i], (void *)(uintptr_t)input_at(s, job, p->buffers[s->inputs[i].buffer].input));
}

static status_t load(const segment_t *s, const segment_run_t *how, const engine_job_t *job, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->loads.count; i++) {
        const transfer_t *t = &s->loads.list[i];
        const buffer_t *b = &s->plan->buffers[t->buffer];
        if (b->kind == BUFFER_WORK)
            status =
                move(t, (char *)how->work + b->offset, border_at(job->source, t, job->row), how->stream, err);
    }
    return status;
}

static const void *buffer_at(const segment_t *s, const segment_run_t *how, const engine_job_t *job,
                             uint32_t buffer)
{
    const buffer_t *b = &s->plan->buffers[buffer];
    switch (b->kind) {
    case BUFFER_CONSTANT:
        return b->data;
    case BUFFER_INPUT:
        return input_at(s, job, b->input);
    default:
        return (const char *)how->work + b->offset;
    }
}

static status_t store(const segment_t *s, const segment_run_t *how, const engine_job_t *job, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < s->stores.count; i++) {
        const transfer_t *t = &s->stores.list[i];
        status =
            move(t, border_at(job->target, t, job->row), buffer_at(s, how, job, t->buffer), how->stream, err);
    }
    for (uint32_t i = 0; s->is_last && i < s->plan->output_count; i++) {
        size_t len = tensor_bytes(&s->plan->outputs[i].shape);
        if (len)
            memcpy((char *)job->outputs[i] + len / s->batch * job->row,
                   buffer_at(s, how, job, s->plan->outputs[i].buffer), len);
    }
    return status;
}

/* Operator by operator; looks at `stop` where the job has an exit. */
static status_t run_ops(segment_t *s, const segment_run_t *how, engine_job_t *job, err_t *err)
{
    int64_t before_ns = job->op_ns ? clock_now_ns() : 0;
    for (uint32_t op = s->range.from; op < s->range.to; op++) {
        if (job->exit_count && atomic_load(how->stop) && segment_is_exit(job, op))
            return segment_stopped(job, op, err);
        for (uint32_t i = s->plan->op_steps[op]; i < s->plan->op_steps[op + 1]; i++) {
            status_t status = plan_run_step(&s->steps[i - s->first_step], how->stream, err);
            if (status != STATUS_OK)
                return status;
        }
        if (!job->op_ns)
            continue;
        int64_t now_ns = clock_now_ns();
        job->op_ns[op - s->range.from] = now_ns - before_ns;
        before_ns = now_ns;
    }
    job->reached = s->range.to;
    return STATUS_OK;
}

status_t segment_run(segment_t *s, const segment_run_t *how, engine_job_t *job, err_t *err)
{
    status_t status = blueprint_check_border(job->source, job, s->loads.row_bytes, err);
    if (status == STATUS_OK)
        status = blueprint_check_border(job->target, job, s->stores.row_bytes, err);
    if (status != STATUS_OK)
        return status;
    bind_segment(s, how->work, job);
    status = load(s, how, job, err);
    if (status == STATUS_OK)
        status = run_ops(s, how, job, err);
    return status == STATUS_OK ? store(s, how, job, err) : status;
}
