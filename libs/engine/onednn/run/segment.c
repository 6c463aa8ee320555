#include "engine/onednn/run/segment.h"

#include "base/clock.h"
#include "engine/queue/segment.h"

#include <string.h>

static const transfers_t *loads_of(const segment_t *s)
{
    return &s->fork->loads[s->range.from];
}

static const transfers_t *stores_of(const segment_t *s)
{
    return &s->fork->stores[s->range.to];
}

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
    const plan_t *p = s->fork->plan;
    const tensor_t *t = &p->instance->values[p->instance->inputs[input].value].t;
    const transfers_t *loads = loads_of(s);
    if (!s->range.from)
        return (const char *)job->inputs[input] + tensor_bytes(t) / s->fork->batch * job->row;
    for (uint32_t i = 0; i < loads->count; i++) {
        const buffer_t *b = &p->buffers[loads->list[i].buffer];
        if (b->kind == BUFFER_INPUT && b->input == input)
            return border_at(job->source, &loads->list[i], job->row);
    }
    return NULL;
}

static void bind_segment(const segment_t *s, void *work, const engine_job_t *job)
{
    fork_t *f = s->fork;
    const plan_t *p = f->plan;
    uint32_t count;
    const binding_t *inputs = fork_bindings_of(f->inputs, p->input_count, p->op_steps[s->range.from],
                                               p->op_steps[s->range.to], &count);
    for (uint32_t i = 0; f->bound_to != work && i < p->work_count; i++)
        plan_bind(&f->work[i], (char *)work + p->buffers[f->work[i].buffer].offset);
    f->bound_to = work;
    for (uint32_t i = 0; i < count; i++)
        plan_bind(&inputs[i], (void *)(uintptr_t)input_at(s, job, p->buffers[inputs[i].buffer].input));
}

static status_t load(const segment_t *s, const segment_run_t *how, const engine_job_t *job, err_t *err)
{
    status_t status = STATUS_OK;
    const transfers_t *loads = loads_of(s);
    for (uint32_t i = 0; status == STATUS_OK && i < loads->count; i++) {
        const transfer_t *t = &loads->list[i];
        const buffer_t *b = &s->fork->plan->buffers[t->buffer];
        if (b->kind == BUFFER_WORK)
            status =
                move(t, (char *)how->work + b->offset, border_at(job->source, t, job->row), how->stream, err);
    }
    return status;
}

static const void *buffer_at(const segment_t *s, const segment_run_t *how, const engine_job_t *job,
                             uint32_t buffer)
{
    const buffer_t *b = &s->fork->plan->buffers[buffer];
    switch (b->kind) {
    case BUFFER_CONSTANT:
        return b->data;
    case BUFFER_INPUT:
        return input_at(s, job, b->input);
    default:
        return (const char *)how->work + b->offset;
    }
}

static void write_outputs(const segment_t *s, const segment_run_t *how, const engine_job_t *job)
{
    const plan_t *p = s->fork->plan;
    for (uint32_t i = 0; i < p->output_count; i++) {
        size_t len = tensor_bytes(&p->outputs[i].shape);
        if (len)
            memcpy((char *)job->outputs[i] + len / s->fork->batch * job->row,
                   buffer_at(s, how, job, p->outputs[i].buffer), len);
    }
}

static status_t store(const segment_t *s, const segment_run_t *how, const engine_job_t *job, err_t *err)
{
    const transfers_t *stores = stores_of(s);
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < stores->count; i++) {
        const transfer_t *t = &stores->list[i];
        status =
            move(t, border_at(job->target, t, job->row), buffer_at(s, how, job, t->buffer), how->stream, err);
    }
    if (s->range.to == s->fork->plan->instance->node_count)
        write_outputs(s, how, job);
    return status;
}

/* Operator by operator; looks at `stop` where the job has an exit. */
static status_t run_ops(const segment_t *s, const segment_run_t *how, engine_job_t *job, err_t *err)
{
    const plan_t *p = s->fork->plan;
    int64_t before_ns = job->op_ns ? clock_now_ns() : 0;
    for (uint32_t op = s->range.from; op < s->range.to; op++) {
        if (job->exit_count && atomic_load(how->stop) && segment_is_exit(job, op))
            return segment_stopped(job, op, err);
        for (uint32_t i = p->op_steps[op]; i < p->op_steps[op + 1]; i++) {
            status_t status = plan_run_step(&s->fork->steps[i], how->stream, err);
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

status_t segment_run(const segment_t *s, const segment_run_t *how, engine_job_t *job, err_t *err)
{
    status_t status = border_check(job->source, job, loads_of(s)->row_bytes, err);
    if (status == STATUS_OK)
        status = border_check(job->target, job, stores_of(s)->row_bytes, err);
    if (status != STATUS_OK)
        return status;
    bind_segment(s, how->work, job);
    status = load(s, how, job, err);
    if (status == STATUS_OK)
        status = run_ops(s, how, job, err);
    return status == STATUS_OK ? store(s, how, job, err) : status;
}
