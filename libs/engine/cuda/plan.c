#include "engine/cuda/plan.h"

#include "base/log.h"
#include "engine/cuda/kernel_body.h"

#include <stdlib.h>
#include <string.h>

enum { CHOOSE_SCRATCH_BYTES = 256 << 20 }; /* the most that a cuDNN or cuBLASLt choice may work in */

static size_t aligned(size_t len)
{
    return (len + POOL_ALIGN_BYTES) / POOL_ALIGN_BYTES * POOL_ALIGN_BYTES;
}

void plan_destroy(plan_t *plan)
{
    if (!plan)
        return;
    for (uint32_t s = 0; s < PLAN_SLOTS; s++) {
        if (plan->graphs[s])
            device_graph_destroy(plan->graphs[s]);
        free(plan->inputs[s]);
        free(plan->outputs[s]);
    }
    for (uint32_t i = 0; plan->program && i < plan->program->step_count; i++)
        device_release(plan->device, &plan->program->steps[i]);
    if (plan->host)
        device_pinned_free(plan->device, plan->host);
    program_destroy(plan->program);
    free(plan->constants);
    free(plan->input_offsets);
    free(plan->output_offsets);
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

static bool lay_out_slot(plan_t *plan)
{
    const program_t *p = plan->program;
    plan->input_offsets = calloc(p->input_count + 1, sizeof *plan->input_offsets);
    plan->output_offsets = calloc(p->output_count + 1, sizeof *plan->output_offsets);
    for (uint32_t s = 0; s < PLAN_SLOTS; s++) {
        plan->inputs[s] = calloc(p->input_count + 1, sizeof(void *));
        plan->outputs[s] = calloc(p->output_count + 1, sizeof(void *));
        if (!plan->inputs[s] || !plan->outputs[s])
            return false;
    }
    if (!plan->input_offsets || !plan->output_offsets)
        return false;
    for (uint32_t i = 0; i < p->input_count; i++) {
        plan->input_offsets[i] = plan->slot_bytes;
        plan->slot_bytes += aligned(tensor_bytes(&p->inputs[i]));
    }
    for (uint32_t i = 0; i < p->output_count; i++) {
        plan->output_offsets[i] = plan->slot_bytes;
        plan->slot_bytes += aligned(tensor_bytes(&p->outputs[i]));
    }
    return true;
}

static void set_slot(plan_t *plan, uint32_t slot, char *base)
{
    for (uint32_t i = 0; i < plan->program->input_count; i++)
        plan->inputs[slot][i] = base + plan->input_offsets[i];
    for (uint32_t i = 0; i < plan->program->output_count; i++)
        plan->outputs[slot][i] = base + plan->output_offsets[i];
}

/* Room for the tensors of the hungriest HOST step, once as stored and once as the operator wants them. */
static status_t reserve_host(plan_t *plan, err_t *err)
{
    for (uint32_t i = 0; i < plan->program->step_count; i++) {
        const step_t *s = &plan->program->steps[i];
        size_t len = 0;
        for (uint32_t t = 0; s->kind == STEP_HOST && t < s->u.host.count; t++)
            len += 2 * aligned(tensor_bytes(&s->u.host.tensors[t]));
        plan->host_bytes = len > plan->host_bytes ? len : plan->host_bytes;
    }
    if (plan->host_bytes && !(plan->host = device_pinned_alloc(plan->device, plan->host_bytes)))
        return err_set(err, STATUS_NO_MEMORY, "no memory for the steps on the CPU");
    return STATUS_OK;
}

static bool has_choice(const program_t *p)
{
    for (uint32_t i = 0; i < p->step_count; i++)
        if (p->steps[i].kind == STEP_CONV || p->steps[i].kind == STEP_GEMM)
            return true;
    return false;
}

/* Timing overwrites whatever it is pointed at, so it gets memory of its own beside the running batches. */
static status_t choose_all(plan_t *plan, pool_t *pool, engine_precision_t precision, effort_t effort,
                           err_t *err)
{
    program_t *p = plan->program;
    void *memory;
    size_t scratch = CHOOSE_SCRATCH_BYTES, len = aligned(p->work_bytes) + plan->slot_bytes;
    if (!has_choice(p))
        return STATUS_OK;
    while (pool_alloc(pool, len + scratch, &memory, err) != STATUS_OK)
        if ((scratch /= 2) < (1 << 20))
            return err_prefix(err, "choosing kernels");
    set_slot(plan, 0, (char *)memory + aligned(p->work_bytes));
    program_bind(p, memory, plan->constants, plan->inputs[0], plan->outputs[0]);
    status_t status = device_zero(plan->device, STREAM_PREPARE, memory, len, err);
    for (uint32_t i = 0; status == STATUS_OK && i < p->step_count; i++) {
        step_t *s = &p->steps[i];
        if (s->kind != STEP_CONV && s->kind != STEP_GEMM)
            continue;
        status = device_choose(plan->device, s, precision, effort, (char *)memory + len, scratch, err);
        if (status != STATUS_OK)
            err_prefix(err, "node '%.60s' (%s)", s->node->name, s->node->op->name);
        else if (device_step_scratch(s) > plan->scratch_bytes)
            plan->scratch_bytes = device_step_scratch(s);
    }
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
    plan->captures = !program->host_steps;
    status_t status = lay_out_slot(plan) ? upload_all(plan, constants, pool, err)
                                         : err_set(err, STATUS_NO_MEMORY, "no memory for a plan");
    if (status == STATUS_OK)
        status = reserve_host(plan, err);
    if (status == STATUS_OK)
        status = choose_all(plan, pool, precision, effort, err);
    if (status == STATUS_OK)
        *out = plan;
    else
        plan_destroy(plan);
    return status;
}

/* ---- the shared space ---- */

void space_init(space_t *space, device_t *device, pool_t *pool)
{
    *space = (space_t){.device = device,
                       .pool = pool,
                       .generation = 1,
                       .in = STREAM_IN,
                       .compute = STREAM_COMPUTE,
                       .out = STREAM_OUT};
}

void space_init_aside(space_t *space, device_t *device, pool_t *pool)
{
    space_init(space, device, pool);
    space->in = space->compute = space->out = STREAM_PREPARE;
}

void space_dispose(space_t *space)
{
    pool_free(space->pool, space->work);
    pool_free(space->pool, space->scratch);
    for (uint32_t s = 0; s < PLAN_SLOTS; s++)
        pool_free(space->pool, space->slots[s]);
}

/* The old piece goes first: what grows may need its room. After a failure there is none, and the next run asks again. */
static status_t regrow(space_t *space, void **memory, size_t *have, size_t want, err_t *err)
{
    if (want <= *have)
        return STATUS_OK;
    pool_free(space->pool, *memory);
    *memory = NULL;
    *have = 0;
    space->generation++;
    status_t status = pool_alloc(space->pool, want, memory, err);
    if (status == STATUS_OK)
        *have = want;
    return status;
}

status_t space_reserve(space_t *space, const plan_t *plan, err_t *err)
{
    status_t status = regrow(space, &space->work, &space->work_bytes, plan->program->work_bytes, err);
    if (status == STATUS_OK)
        status = regrow(space, &space->scratch, &space->scratch_bytes, plan->scratch_bytes, err);
    size_t have = space->slot_bytes, want = plan->slot_bytes;
    for (uint32_t s = 0; status == STATUS_OK && want > have && s < PLAN_SLOTS; s++) {
        space->slot_bytes = have;
        status = regrow(space, &space->slots[s], &space->slot_bytes, want, err);
    }
    if (status != STATUS_OK)
        space->slot_bytes = space->slots[0] && space->slots[1] ? space->slot_bytes : 0;
    return status;
}

/* ---- running ---- */

/* Types as the operator wants them, between the device's and the reference kernel's. */
static void convert(const tensor_t *t, void *to, dtype_t to_type, const void *from, dtype_t from_type)
{
    size_t count = tensor_count(t);
    if (to_type == from_type && count)
        memcpy(to, from, count * dtype_size(to_type));
    for (size_t i = 0; to_type != from_type && i < count; i++)
        k_store_f32(to, (int)to_type, (int64_t)i, k_load_f32(from, (int)from_type, (int64_t)i));
}

static status_t fetch(plan_t *plan, stream_t stream, host_step_t *h, uint32_t count, err_t *err)
{
    char *at = plan->host;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < h->count; i++) {
        tensor_t *t = &h->tensors[i];
        size_t room = aligned(tensor_bytes(t));
        if (!h->device[i])
            continue;
        t->data = at;
        if (i < count)
            status = device_copy(plan->device, stream, at + room, h->device[i],
                                 tensor_count(t) * dtype_size(h->stored[i]), err);
        at += 2 * room;
    }
    if (status == STATUS_OK)
        status = device_sync(plan->device, stream, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        if (h->device[i])
            convert(&h->tensors[i], h->tensors[i].data, h->tensors[i].dtype,
                    (char *)h->tensors[i].data + aligned(tensor_bytes(&h->tensors[i])), h->stored[i]);
    return status;
}

static status_t run_host_step(plan_t *plan, stream_t stream, step_t *step, err_t *err)
{
    host_step_t *h = &step->u.host;
    status_t status = fetch(plan, stream, h, h->ctx.in_count, err);
    h->ctx.err = err;
    if (status == STATUS_OK)
        status = step->node->op->eval(&h->ctx);
    for (uint32_t i = h->ctx.in_count; status == STATUS_OK && i < h->count; i++) {
        tensor_t *t = &h->tensors[i];
        if (!h->device[i])
            continue;
        char *stored = (char *)t->data + aligned(tensor_bytes(t));
        convert(t, stored, h->stored[i], t->data, t->dtype);
        status = device_copy(plan->device, stream, h->device[i], stored,
                             tensor_count(t) * dtype_size(h->stored[i]), err);
    }
    return status == STATUS_OK ? device_sync(plan->device, stream, err) : status;
}

static status_t run_steps(plan_t *plan, space_t *space, err_t *err)
{
    program_t *p = plan->program;
    for (uint32_t i = 0; i < p->step_count; i++) {
        step_t *s = &p->steps[i];
        status_t status = s->kind == STEP_HOST ? run_host_step(plan, space->compute, s, err)
                                               : device_run_step(plan->device, space->compute, s,
                                                                 space->scratch, space->scratch_bytes, err);
        if (status != STATUS_OK)
            return err_prefix(err, "node '%.60s' (%s)", s->node->name, s->node->op->name);
    }
    return STATUS_OK;
}

static void bind_slot(plan_t *plan, space_t *space, uint32_t slot)
{
    set_slot(plan, slot, space->slots[slot]);
    program_bind(plan->program, space->work, plan->constants, plan->inputs[slot], plan->outputs[slot]);
}

static void drop_graphs(plan_t *plan)
{
    for (uint32_t s = 0; s < PLAN_SLOTS; s++) {
        if (plan->graphs[s])
            device_graph_destroy(plan->graphs[s]);
        plan->graphs[s] = NULL;
    }
}

static status_t record(plan_t *plan, space_t *space, uint32_t slot, err_t *err)
{
    bind_slot(plan, space, slot);
    status_t status = device_capture_begin(plan->device, space->compute, err);
    if (status != STATUS_OK)
        return status;
    status_t ran = run_steps(plan, space, err);
    err_t own;
    status =
        device_capture_end(plan->device, space->compute, &plan->graphs[slot], ran == STATUS_OK ? err : &own);
    return ran == STATUS_OK ? status : ran;
}

/* The steps run once before they are recorded: kernels must not be loaded for the first time during a recording. */
status_t plan_ready(plan_t *plan, space_t *space, err_t *err)
{
    if (plan->generation == space->generation)
        return STATUS_OK;
    status_t status = space_reserve(space, plan, err);
    drop_graphs(plan);
    for (uint32_t s = 0; status == STATUS_OK && s < PLAN_SLOTS; s++)
        status = device_zero(plan->device, space->compute, space->slots[s], space->slot_bytes, err);
    bind_slot(plan, space, 0);
    if (status == STATUS_OK && plan->captures)
        status = run_steps(plan, space, err);
    if (status == STATUS_OK)
        status = device_sync(plan->device, space->compute, err);
    if (status != STATUS_OK)
        return status;
    for (uint32_t s = 0; plan->captures && s < PLAN_SLOTS; s++) {
        err_t why = {.text = ""};
        if (record(plan, space, s, &why) == STATUS_OK)
            continue;
        log_warn("cuda_graph_failed", LOG_ERR(&why));
        plan->captures = false;
        drop_graphs(plan);
    }
    plan->generation = space->generation;
    return STATUS_OK;
}

status_t plan_copy_in(plan_t *plan, space_t *space, uint32_t slot, const void *const *inputs, err_t *err)
{
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < plan->program->input_count; i++)
        if (plan->program->input_used[i])
            status = device_copy(plan->device, space->in, (char *)space->slots[slot] + plan->input_offsets[i],
                                 inputs[i], tensor_bytes(&plan->program->inputs[i]), err);
    return status;
}

status_t plan_compute(plan_t *plan, space_t *space, uint32_t slot, err_t *err)
{
    if (plan->graphs[slot])
        return device_graph_launch(plan->device, space->compute, plan->graphs[slot], err);
    bind_slot(plan, space, slot);
    return run_steps(plan, space, err);
}

status_t plan_copy_out(plan_t *plan, space_t *space, uint32_t slot, uint32_t output, void *to, err_t *err)
{
    return device_copy(plan->device, space->out, to,
                       (char *)space->slots[slot] + plan->output_offsets[output],
                       tensor_bytes(&plan->program->outputs[output]), err);
}
