/*
 * Where the inputs and outputs of a batch lie in a slot, and which steps touch them.
 */
#include "engine/cuda/run/plan.h"

#include <stdlib.h>

bool plan_lay_out_slot(plan_t *plan)
{
    const program_t *p = plan->program;
    plan->input_offsets = calloc(p->input_count + 1, sizeof *plan->input_offsets);
    plan->output_offsets = calloc(p->output_count + 1, sizeof *plan->output_offsets);
    if (!plan->input_offsets || !plan->output_offsets)
        return false;
    for (uint32_t i = 0; i < p->input_count; i++) {
        plan->input_offsets[i] = plan->slot_bytes;
        plan->slot_bytes += pool_room(tensor_bytes(&p->inputs[i]));
    }
    for (uint32_t i = 0; i < p->output_count; i++) {
        plan->output_offsets[i] = plan->slot_bytes;
        plan->slot_bytes += pool_room(tensor_bytes(&p->outputs[i]));
    }
    return true;
}

void plan_place_slot(const plan_t *plan, void *base, void **inputs, void **outputs)
{
    for (uint32_t i = 0; i < plan->program->input_count; i++)
        inputs[i] = (char *)base + plan->input_offsets[i];
    for (uint32_t i = 0; i < plan->program->output_count; i++)
        outputs[i] = (char *)base + plan->output_offsets[i];
}

bool plan_count_io(plan_t *plan)
{
    const program_t *p = plan->program;
    plan->io_before = calloc(p->step_count + 1, sizeof *plan->io_before);
    if (!plan->io_before)
        return false;
    for (uint32_t i = 0; i < p->binding_count; i++) {
        buffer_kind_t kind = p->buffers[p->bindings[i].buffer].kind;
        plan->io_before[p->bindings[i].step + 1] += kind == BUFFER_INPUT || kind == BUFFER_OUTPUT;
    }
    for (uint32_t i = 0; i < p->step_count; i++)
        plan->io_before[i + 1] += plan->io_before[i];
    return true;
}

bool plan_touches_slot(const plan_t *plan, uint32_t first_step, uint32_t end_step)
{
    return plan->io_before[end_step] > plan->io_before[first_step];
}
