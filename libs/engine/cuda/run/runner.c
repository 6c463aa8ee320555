#include "engine/cuda/run/runner.h"

#include "base/log.h"
#include "engine/cuda/device/kernel_body.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ---- */

static void drop_graph(recording_t *r)
{
    if (r->graph)
        device_graph_destroy(r->graph);
    r->graph = NULL;
}

void runners_destroy(runner_t *first)
{
    for (runner_t *next, *r = first; r; r = next) {
        next = r->next;
        for (uint32_t i = 0; i < r->recording_count; i++)
            drop_graph(&r->recordings[i]);
        if (r->host)
            device_pinned_free(r->plan->device, r->host);
        free(r->steps);
        free(r);
    }
}

static runner_t *find_runner(const plan_t *plan, const space_t *space)
{
    for (runner_t *r = plan->runners; r; r = r->next)
        if (r->space == space)
            return r;
    return NULL;
}

static status_t create(plan_t *plan, space_t *space, runner_t **out, err_t *err)
{
    runner_t *r = calloc(1, sizeof *r);
    if (!r)
        return err_set(err, STATUS_NO_MEMORY, "no memory to run a plan");
    r->plan = plan;
    r->space = space;
    r->records = !plan->program->host_steps;
    r->steps = program_copy_steps(plan->program);
    if (plan->host_bytes)
        r->host = device_pinned_alloc(plan->device, plan->host_bytes);
    if (r->steps && (r->host || !plan->host_bytes)) {
        *out = r;
        return STATUS_OK;
    }
    runners_destroy(r);
    return err_set(err, STATUS_NO_MEMORY, "no memory to run a plan");
}

status_t plan_runner(plan_t *plan, space_t *space, runner_t **runner, err_t *err)
{
    pthread_mutex_lock(&plan->mutex);
    runner_t *found = find_runner(plan, space);
    pthread_mutex_unlock(&plan->mutex);
    if (!found) { /* nobody else makes it: the caller has the stream */
        status_t status = create(plan, space, &found, err);
        if (status != STATUS_OK)
            return status;
        pthread_mutex_lock(&plan->mutex);
        found->next = plan->runners;
        plan->runners = found;
        pthread_mutex_unlock(&plan->mutex);
    }
    *runner = found;
    return STATUS_OK;
}

/* ---- binding ---- */

static void bind(runner_t *r, uint32_t slot)
{
    const space_t *space = r->space;
    plan_place_slot(r->plan, space->slots[slot], r->inputs, r->outputs);
    program_bind(r->plan->program, r->steps,
                 &(program_memory_t){.work = space->work,
                                     .constants = r->plan->constants,
                                     .inputs = r->inputs,
                                     .outputs = r->outputs});
    r->slot = slot;
}

bool runner_is_ready(const runner_t *r)
{
    return r->generation == r->space->generation && space_has_room(r->space, r->plan);
}

status_t runner_ready(runner_t *r, err_t *err)
{
    if (runner_is_ready(r))
        return STATUS_OK;
    status_t status = space_reserve(r->space, r->plan, err);
    for (uint32_t i = 0; i < r->recording_count; i++)
        drop_graph(&r->recordings[i]);
    if (status != STATUS_OK)
        return status;
    bind(r, 0);
    r->generation = r->space->generation;
    return STATUS_OK;
}

/* ---- steps on the CPU ---- */

/* Types as the operator wants them, between the device's and the reference kernel's. */
static void convert(const tensor_t *t, void *to, dtype_t to_type, const void *from, dtype_t from_type)
{
    size_t count = tensor_count(t);
    if (to_type == from_type && count)
        memcpy(to, from, count * dtype_size(to_type));
    for (size_t i = 0; to_type != from_type && i < count; i++)
        k_store_f32(to, (int)to_type, (int64_t)i, k_load_f32(from, (int)from_type, (int64_t)i));
}

/* Each tensor has room as the operator wants it and, behind that, as it is stored. */
static size_t room_of(const tensor_t *t)
{
    return pool_room(tensor_bytes(t));
}

static status_t fetch(runner_t *r, host_step_t *h, uint32_t count, err_t *err)
{
    char *at = r->host;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; status == STATUS_OK && i < h->count; i++) {
        tensor_t *t = &h->tensors[i];
        if (!h->device[i])
            continue;
        t->data = at;
        if (i < count)
            status = device_copy(r->plan->device, r->space->compute, at + room_of(t), h->device[i],
                                 tensor_count(t) * dtype_size(h->stored[i]), err);
        at += 2 * room_of(t);
    }
    if (status == STATUS_OK)
        status = device_sync(r->plan->device, r->space->compute, err);
    for (uint32_t i = 0; status == STATUS_OK && i < count; i++)
        if (h->device[i])
            convert(&h->tensors[i], h->tensors[i].data, h->tensors[i].dtype,
                    (char *)h->tensors[i].data + room_of(&h->tensors[i]), h->stored[i]);
    return status;
}

static status_t run_host_step(runner_t *r, step_t *step, err_t *err)
{
    host_step_t *h = &step->u.host;
    status_t status = fetch(r, h, h->ctx.in_count, err);
    h->ctx.err = err;
    if (status == STATUS_OK)
        status = step->node->op->eval(&h->ctx);
    for (uint32_t i = h->ctx.in_count; status == STATUS_OK && i < h->count; i++) {
        tensor_t *t = &h->tensors[i];
        if (!h->device[i])
            continue;
        char *stored = (char *)t->data + room_of(t);
        convert(t, stored, h->stored[i], t->data, t->dtype);
        status = device_copy(r->plan->device, r->space->compute, h->device[i], stored,
                             tensor_count(t) * dtype_size(h->stored[i]), err);
    }
    return status == STATUS_OK ? device_sync(r->plan->device, r->space->compute, err) : status;
}

/* ---- running ---- */

static status_t run_steps(runner_t *r, const step_range_t *steps, err_t *err)
{
    space_t *space = r->space;
    for (uint32_t i = steps->first; i < steps->end; i++) {
        step_t *s = &r->steps[i];
        status_t status = s->kind == STEP_HOST ? run_host_step(r, s, err)
                                               : device_run_step(r->plan->device, space->compute, s,
                                                                 space->scratch, space->scratch_bytes, err);
        if (status != STATUS_OK)
            return err_prefix(err, "node '%.60s' (%s)", s->node->name, s->node->op->name);
    }
    return STATUS_OK;
}

/* What was queued before holds its pointers already: only a graph or a queued launch could be disturbed,
 * and neither is. */
status_t runner_run_plainly(runner_t *r, const step_range_t *steps, err_t *err)
{
    if (steps->slot != r->slot)
        bind(r, steps->slot);
    return run_steps(r, steps, err);
}

/* In which slot matters to those only that touch it. */
static step_range_t key_of(const runner_t *r, const step_range_t *steps)
{
    bool touches = plan_touches_slot(r->plan, steps->first, steps->end);
    return (step_range_t){.first = steps->first, .end = steps->end, .slot = touches ? steps->slot : 0};
}

static bool is_same(const step_range_t *a, const step_range_t *b)
{
    return a->first == b->first && a->end == b->end && a->slot == b->slot;
}

/* The entry of these steps; a new one takes the place of the least recently used. */
static recording_t *entry_of(runner_t *r, const step_range_t *steps)
{
    step_range_t key = key_of(r, steps);
    recording_t *oldest = &r->recordings[0];
    for (uint32_t i = 0; i < r->recording_count; i++) {
        recording_t *at = &r->recordings[i];
        if (is_same(&at->steps, &key)) {
            at->used = ++r->clock;
            return at;
        }
        oldest = at->used < oldest->used ? at : oldest;
    }
    if (r->recording_count < RUNNER_GRAPHS_MAX)
        oldest = &r->recordings[r->recording_count++];
    return oldest;
}

/* A graph that runs may not be destroyed: what is dropped here was waited for, or waits for the stream. */
static status_t take_entry(runner_t *r, const step_range_t *steps, recording_t **out, err_t *err)
{
    recording_t *entry = entry_of(r, steps);
    step_range_t key = key_of(r, steps);
    status_t status = STATUS_OK;
    *out = entry;
    if (is_same(&entry->steps, &key))
        return status;
    if (entry->graph)
        status = device_sync(r->plan->device, r->space->compute, err);
    drop_graph(entry);
    *entry = (recording_t){.steps = key, .used = ++r->clock};
    return status;
}

static status_t record(runner_t *r, recording_t *entry, err_t *err)
{
    device_t *device = r->plan->device;
    err_t own;
    bind(r, entry->steps.slot);
    status_t status = device_capture_begin(device, r->space->compute, err);
    if (status != STATUS_OK)
        return status;
    status_t ran = run_steps(r, &entry->steps, err);
    status = device_capture_end(device, r->space->compute, &entry->graph, ran == STATUS_OK ? err : &own);
    return ran == STATUS_OK ? status : ran;
}

/* Where recording fails the steps are run one by one from then on. */
static void try_to_record(runner_t *r, recording_t *entry)
{
    err_t why = {.text = ""};
    if (record(r, entry, &why) == STATUS_OK)
        return;
    log_warn("cuda_graph_failed", LOG_ERR(&why));
    r->records = false;
}

status_t runner_run(runner_t *r, const step_range_t *steps, err_t *err)
{
    recording_t *entry;
    if (steps->first == steps->end)
        return STATUS_OK;
    if (!r->records)
        return runner_run_plainly(r, steps, err);
    status_t status = take_entry(r, steps, &entry, err);
    if (status != STATUS_OK)
        return status;
    if (!entry->graph && entry->runs >= RUNNER_RECORD_AFTER)
        try_to_record(r, entry);
    if (entry->graph)
        return device_graph_launch(r->plan->device, r->space->compute, entry->graph, err);
    entry->runs++;
    return runner_run_plainly(r, steps, err);
}

/* The steps run once before they are recorded: kernels must not be loaded for the first time during a recording. */
status_t runner_prepare(runner_t *r, uint32_t first, uint32_t end, err_t *err)
{
    step_range_t steps = {.first = first, .end = end};
    recording_t *entry;
    if (!r->records || first == end)
        return STATUS_OK;
    status_t status = take_entry(r, &steps, &entry, err);
    if (status != STATUS_OK || entry->graph)
        return status;
    status = space_clear(r->space, err);
    if (status == STATUS_OK)
        status = runner_run_plainly(r, &steps, err);
    if (status == STATUS_OK)
        status = device_sync(r->plan->device, r->space->compute, err);
    uint32_t slots = plan_touches_slot(r->plan, first, end) ? SPACE_SLOTS : 1;
    for (; status == STATUS_OK && r->records && steps.slot < slots; steps.slot++) {
        status = take_entry(r, &steps, &entry, err);
        if (status == STATUS_OK)
            entry->runs = RUNNER_RECORD_AFTER;
        if (status == STATUS_OK && !entry->graph)
            try_to_record(r, entry);
    }
    return status;
}

/* ---- inputs and outputs ---- */

status_t runner_copy_in(runner_t *r, uint32_t slot, uint32_t input, const void *from, err_t *err)
{
    const plan_t *plan = r->plan;
    if (!plan->program->input_used[input])
        return STATUS_OK;
    return device_copy(plan->device, r->space->in, (char *)r->space->slots[slot] + plan->input_offsets[input],
                       from, tensor_bytes(&plan->program->inputs[input]), err);
}

status_t runner_copy_out(runner_t *r, uint32_t slot, uint32_t output, void *to, err_t *err)
{
    const plan_t *plan = r->plan;
    return device_copy(plan->device, r->space->out, to,
                       (char *)r->space->slots[slot] + plan->output_offsets[output],
                       tensor_bytes(&plan->program->outputs[output]), err);
}
