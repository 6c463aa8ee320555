#include "engine/onednn/run/fork.h"
#include "graph/passes/memory_plan.h"

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

status_t plan_place(plan_t *plan, err_t *err)
{
    memory_piece_t *pieces = calloc(plan->buffer_count + 1, sizeof *pieces);
    uint32_t count = 0;
    if (!pieces)
        return err_set(err, STATUS_NO_MEMORY, "no memory to place %u buffers", plan->buffer_count);
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        const buffer_t *b = &plan->buffers[i];
        if (b->kind == BUFFER_WORK)
            pieces[count++] = (memory_piece_t){.len_bytes = b->len_bytes, .first = b->first, .last = b->last};
    }
    plan->work_bytes = memory_plan(pieces, count, WORK_ALIGN_BYTES);
    count = 0;
    for (uint32_t i = 0; i < plan->buffer_count; i++) {
        buffer_t *b = &plan->buffers[i];
        if (b->kind != BUFFER_WORK)
            continue;
        b->len_bytes = pieces[count].len_bytes;
        b->offset = pieces[count++].offset;
    }
    free(pieces);
    return STATUS_OK;
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
