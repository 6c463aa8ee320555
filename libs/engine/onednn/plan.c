#include "engine/onednn/fork.h"

#include <stdlib.h>

enum { WORK_ALIGN_BYTES = 64 };

void plan_destroy(plan_t *plan)
{
    if (!plan)
        return;
    forks_destroy(plan->forks);
    for (uint32_t s = 0; s < plan->step_count; s++) {
        for (int a = 0; a < plan->steps[s].arg_count; a++)
            dnnl_memory_destroy(plan->steps[s].args[a].memory);
        if (plan->steps[s].primitive)
            dnnl_primitive_destroy(plan->steps[s].primitive);
    }
    graph_destroy(plan->instance);
    free(plan->buffers);
    free(plan->steps);
    free(plan->work);
    free(plan->inputs);
    free(plan->outputs);
    free(plan->places);
    free(plan->op_steps);
    free(plan);
}

/*
 * Greedy by size: the largest buffer first, each at the lowest place where it overlaps none that is alive with it. This
 * comes within a few percent of the lower bound on networks. `placed` is kept sorted by offset.
 */
typedef struct {
    buffer_t **order, **placed;
    uint32_t count;
} placer_t;

static int by_size(const void *a, const void *b)
{
    const buffer_t *x = *(buffer_t *const *)a, *y = *(buffer_t *const *)b;
    return x->len_bytes < y->len_bytes ? 1 : x->len_bytes > y->len_bytes ? -1 : x->first < y->first ? -1 : 1;
}

static bool alive_together(const buffer_t *a, const buffer_t *b)
{
    return a->first <= b->last && b->first <= a->last;
}

static void place_one(placer_t *p, buffer_t *buffer)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const buffer_t *other = p->placed[i];
        if (!alive_together(buffer, other) || other->offset + other->len_bytes <= at)
            continue;
        if (other->offset >= at + buffer->len_bytes)
            break;
        at = other->offset + other->len_bytes;
    }
    buffer->offset = at;
    uint32_t slot = p->count++;
    for (; slot > 0 && p->placed[slot - 1]->offset > at; slot--)
        p->placed[slot] = p->placed[slot - 1];
    p->placed[slot] = buffer;
}

/* Beyond this many buffers the square of it is too slow, and nobody reuses space. */
enum { PLACE_MAX = 20000 };

void plan_place(plan_t *plan)
{
    placer_t p = {.order = calloc(plan->buffer_count + 1, sizeof(buffer_t *)),
                  .placed = calloc(plan->buffer_count + 1, sizeof(buffer_t *))};
    uint32_t count = 0;
    size_t end = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        buffer_t *buffer = &plan->buffers[i];
        if (buffer->kind != BUFFER_WORK)
            continue;
        buffer->len_bytes = (buffer->len_bytes + WORK_ALIGN_BYTES) / WORK_ALIGN_BYTES * WORK_ALIGN_BYTES;
        buffer->offset = end; /* used as it is when there is no memory to do better */
        end += buffer->len_bytes;
        if (p.order)
            p.order[count++] = buffer;
    }
    if (p.order && p.placed && count <= PLACE_MAX) {
        qsort(p.order, count, sizeof *p.order, by_size);
        for (uint32_t i = 0; i < count; i++)
            place_one(&p, p.order[i]);
        end = 0;
        for (uint32_t i = 0; i < count; i++)
            end = p.order[i]->offset + p.order[i]->len_bytes > end
                      ? p.order[i]->offset + p.order[i]->len_bytes
                      : end;
    }
    plan->work_bytes = end;
    free(p.order);
    free(p.placed);
}

void plan_bind(const binding_t *binding, void *address)
{
    if (binding->memory)
        dnnl_memory_set_data_handle(binding->memory, address);
    else
        *binding->pointer = address;
}

static void bind_all(plan_t *plan, void *work, const void *const *inputs)
{
    for (uint32_t i = 0; plan->bound_to != work && i < plan->work_count; i++)
        plan_bind(&plan->work[i], (char *)work + plan->buffers[plan->work[i].buffer].offset);
    plan->bound_to = work;
    for (uint32_t i = 0; i < plan->input_count; i++)
        plan_bind(&plan->inputs[i], (void *)inputs[plan->buffers[plan->inputs[i].buffer].input]);
}

static status_t execute(step_t *step, dnnl_stream_t stream, err_t *err)
{
    if (step->primitive) {
        dnnl_status_t status = dnnl_primitive_execute(step->primitive, stream, step->arg_count, step->args);
        return status == dnnl_success ? STATUS_OK
                                      : err_set(err, STATUS_INTERNAL, "oneDNN reports error %d", (int)status);
    }
    step->ctx.err = err;
    return step->ctx.node->op->eval(&step->ctx);
}

status_t plan_run_step(step_t *step, dnnl_stream_t stream, err_t *err)
{
    status_t status = execute(step, stream, err);
    if (status != STATUS_OK)
        err_prefix(err, "node '%.60s' (%s)", step->ctx.node->name, step->ctx.node->op->name);
    return status;
}

status_t plan_run(plan_t *plan, dnnl_stream_t stream, void *work, const void *const *inputs, err_t *err)
{
    status_t status = STATUS_OK;
    bind_all(plan, work, inputs);
    for (uint32_t s = 0; status == STATUS_OK && s < plan->step_count; s++)
        status = plan_run_step(&plan->steps[s], stream, err);
    return status;
}

const void *plan_output(const plan_t *plan, uint32_t i, const void *work, const void *const *inputs)
{
    const buffer_t *buffer = &plan->buffers[plan->outputs[i].buffer];
    switch (buffer->kind) {
    case BUFFER_CONSTANT:
        return buffer->data;
    case BUFFER_INPUT:
        return inputs[buffer->input];
    default:
        return (const char *)work + buffer->offset;
    }
}
