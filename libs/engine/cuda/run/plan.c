#include "engine/cuda/run/plan.h"

#include "engine/cuda/run/runner.h"
#include "engine/cuda/run/segment.h"

#include <stdlib.h>
#include <string.h>

enum { CHOOSE_SCRATCH_BYTES = 256 << 20 }; /* the most that a cuDNN or cuBLASLt choice may work in */

void plan_destroy(plan_t *plan)
{
    if (!plan)
        return;
    runners_destroy(plan->runners);
    transfers_destroy(plan->transfers);
    for (uint32_t i = 0; i < plan->program->step_count; i++)
        device_release(plan->device, &plan->program->steps[i]);
    pthread_mutex_destroy(&plan->mutex);
    program_destroy(plan->program);
    free(plan->constants);
    free(plan->input_offsets);
    free(plan->output_offsets);
    free(plan->io_before);
    free(plan);
}

/* ---- making ---- */

static status_t upload(constant_t *c, device_t *device, pool_t *pool, err_t *err)
{
    void *memory, *bytes = device_pinned_alloc(device, c->len_bytes + 1);
    if (!bytes)
        return err_set(err, STATUS_NO_MEMORY, "no memory to upload the weights");
    status_t status = pool_alloc(pool, c->len_bytes, &memory, err);
    if (status == STATUS_OK) {
        constant_write(c, bytes);
        status = device_copy(device, STREAM_PREPARE, memory, bytes, c->len_bytes, err);
        if (status == STATUS_OK)
            status = device_sync(device, STREAM_PREPARE, err);
        if (status == STATUS_OK)
            c->device = memory;
        else
            pool_free(pool, memory);
    }
    device_pinned_free(device, bytes);
    return status;
}

static status_t upload_all(plan_t *plan, constants_t *constants, pool_t *pool, err_t *err)
{
    const program_t *p = plan->program;
    status_t status = STATUS_OK;
    plan->constants = calloc(constants->count + 1, sizeof *plan->constants);
    if (!plan->constants)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    for (uint32_t i = 0; status == STATUS_OK && i < p->buffer_count; i++) {
        const buffer_t *b = &p->buffers[i];
        if (b->kind != BUFFER_CONSTANT || b->first == UINT32_MAX)
            continue;
        constant_t *c = &constants->items[b->index];
        if (!c->device)
            status = upload(c, plan->device, pool, err);
        plan->constants[b->index] = c->device;
    }
    return status;
}

/* Room for the tensors of the hungriest HOST step, once as stored and once as the operator wants them. */
static void measure_host(plan_t *plan)
{
    for (uint32_t i = 0; i < plan->program->step_count; i++) {
        const step_t *s = &plan->program->steps[i];
        size_t len = 0;
        for (uint32_t t = 0; s->kind == STEP_HOST && t < s->u.host.count; t++)
            len += 2 * pool_room(tensor_bytes(&s->u.host.tensors[t]));
        plan->host_bytes = len > plan->host_bytes ? len : plan->host_bytes;
    }
}

static bool has_choice(const program_t *p)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == STEP_CONV || p->steps[i].kind == STEP_GEMM)
            return true;
    return false;
}

static status_t choose_each(plan_t *plan, effort_t effort, void *scratch, size_t scratch_bytes, err_t *err)
{
    program_t *p = plan->program;
    for (uint32_t i = 0; i < p->step_count; i++) {
        step_t *s = &p->steps[i];
        if (s->kind != STEP_CONV && s->kind != STEP_GEMM)
            continue;
        if (device_choose(plan->device, s, plan->precision, effort, scratch, scratch_bytes, err) != STATUS_OK)
            return err_prefix(err, "node '%.60s' (%s)", s->node->name, s->node->op->name);
        if (device_step_scratch(s) > plan->scratch_bytes)
            plan->scratch_bytes = device_step_scratch(s);
    }
    return STATUS_OK;
}

/* Timing overwrites whatever it is pointed at, so it gets memory of its own beside the running batches. */
static status_t choose_all(plan_t *plan, pool_t *pool, effort_t effort, err_t *err)
{
    program_t *p = plan->program;
    void *memory, *inputs[ENGINE_MAX_IO], *outputs[ENGINE_MAX_IO];
    size_t scratch = CHOOSE_SCRATCH_BYTES, len = pool_room(p->work_bytes) + plan->slot_bytes;
    if (!has_choice(p))
        return STATUS_OK;
    while (pool_alloc(pool, len + scratch, &memory, err) != STATUS_OK)
        if ((scratch /= 2) < (1 << 20))
            return err_prefix(err, "choosing kernels");
    plan_place_slot(plan, (char *)memory + pool_room(p->work_bytes), inputs, outputs);
    program_bind(p, p->steps,
                 &(program_memory_t){
                     .work = memory, .constants = plan->constants, .inputs = inputs, .outputs = outputs});
    status_t status = device_zero(plan->device, STREAM_PREPARE, memory, len, err);
    if (status == STATUS_OK)
        status = choose_each(plan, effort, (char *)memory + len, scratch, err);
    pool_free(pool, memory);
    return status;
}

status_t plan_create(program_t *program, constants_t *constants, device_t *device, pool_t *pool,
                     engine_precision_t precision, effort_t effort, plan_t **out, err_t *err)
{
    plan_t *plan = calloc(1, sizeof *plan);
    if (!plan) {
        program_destroy(program);
        return err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    }
    plan->program = program;
    plan->device = device;
    plan->precision = precision;
    pthread_mutex_init(&plan->mutex, NULL);
    measure_host(plan);
    status_t status = plan_lay_out_slot(plan) && plan_count_io(plan)
                          ? upload_all(plan, constants, pool, err)
                          : err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    if (status == STATUS_OK)
        status = choose_all(plan, pool, effort, err);
    if (status == STATUS_OK)
        *out = plan;
    else
        plan_destroy(plan);
    return status;
}
