#include "gateway/links/outbox.h"

#include "base/clock.h"
#include "control.pb-c.h"

#include <string.h>

/* A full outbox costs some 20 µs to walk, and one that was looked at a moment ago has hardly anything new to let go. */
#define LOOK_INTERVAL_NS NS_PER_MS

void outbox_clear(outbox_t *outbox)
{
    outbox->count = outbox->cancel_count = outbox->missed_count = outbox->arrived_count = 0;
    outbox->sizes_len = 0;
    outbox->look_ns = 0;
}

status_t outbox_add(outbox_t *outbox, const gateway_control_task_t *task)
{
    if (outbox->count == OUTBOX_TASKS_MAX || outbox->sizes_len + task->size_count > OUTBOX_SIZES_MAX)
        return STATUS_UNAVAILABLE;
    size_t i = outbox->count++;
    outbox->id[i] = task->id;
    outbox->model[i] = task->model;
    outbox->deadline_ns[i] = task->deadline_ns;
    outbox->handle_hi[i] = task->handle.hi;
    outbox->handle_lo[i] = task->handle.lo;
    outbox->offset_bytes[i] = task->offset_bytes;
    outbox->len_bytes[i] = task->len_bytes;
    outbox->priority[i] = task->priority;
    outbox->admitted[i] = task->admitted;
    outbox->size_count[i] = task->size_count;
    if (task->size_count > 0)
        memcpy(outbox->size + outbox->sizes_len, task->sizes, task->size_count * sizeof *task->sizes);
    outbox->sizes_len += task->size_count;
    return STATUS_OK;
}

void outbox_cancel(outbox_t *outbox, uint64_t id)
{
    if (outbox->cancel_count < OUTBOX_CANCELS_MAX)
        outbox->cancel[outbox->cancel_count++] = id;
}

void outbox_miss(outbox_t *outbox, uint64_t id)
{
    if (outbox->missed_count < OUTBOX_CANCELS_MAX)
        outbox->missed[outbox->missed_count++] = id;
}

void outbox_arrive(outbox_t *outbox, uint64_t id)
{
    if (outbox->arrived_count < OUTBOX_CANCELS_MAX)
        outbox->arrived[outbox->arrived_count++] = id;
}

static void move_task(outbox_t *outbox, size_t to, size_t from)
{
    outbox->id[to] = outbox->id[from];
    outbox->model[to] = outbox->model[from];
    outbox->deadline_ns[to] = outbox->deadline_ns[from];
    outbox->handle_hi[to] = outbox->handle_hi[from];
    outbox->handle_lo[to] = outbox->handle_lo[from];
    outbox->offset_bytes[to] = outbox->offset_bytes[from];
    outbox->len_bytes[to] = outbox->len_bytes[from];
    outbox->priority[to] = outbox->priority[from];
    outbox->admitted[to] = outbox->admitted[from];
    outbox->size_count[to] = outbox->size_count[from];
}

size_t outbox_let_go(outbox_t *outbox, int64_t now_ns)
{
    size_t kept = 0, sizes_kept = 0, sizes_at = 0, before = outbox->count;
    if (now_ns < outbox->look_ns)
        return 0;
    outbox->look_ns = now_ns + LOOK_INTERVAL_NS;
    for (size_t i = 0; i < before; i++) {
        uint32_t sizes = outbox->size_count[i];
        if (outbox->deadline_ns[i] > now_ns) {
            memmove(outbox->size + sizes_kept, outbox->size + sizes_at, sizes * sizeof *outbox->size);
            sizes_kept += sizes;
            move_task(outbox, kept++, i);
        }
        sizes_at += sizes;
    }
    outbox->count = kept;
    outbox->sizes_len = sizes_kept;
    return before - kept;
}

static bool any_admitted(const outbox_t *outbox)
{
    for (size_t i = 0; i < outbox->count; i++)
        if (outbox->admitted[i])
            return true;
    return false;
}

bool outbox_take_tasks(outbox_t *outbox, int64_t now_ns, Control__TaskBatch *batch)
{
    if (outbox->count == 0)
        return false;
    for (size_t i = 0; i < outbox->count; i++)
        outbox->deadline_ns[i] -= now_ns;
    control__task_batch__init(batch);
    batch->n_id = batch->n_model = batch->n_budget_ns = batch->n_handle_hi = batch->n_handle_lo =
        batch->n_offset_bytes = batch->n_len_bytes = batch->n_priority = outbox->count;
    batch->id = outbox->id;
    batch->model = outbox->model;
    batch->budget_ns = outbox->deadline_ns;
    batch->handle_hi = outbox->handle_hi;
    batch->handle_lo = outbox->handle_lo;
    batch->offset_bytes = outbox->offset_bytes;
    batch->len_bytes = outbox->len_bytes;
    batch->priority = outbox->priority;
    batch->n_admitted = any_admitted(outbox) ? outbox->count : 0;
    batch->admitted = outbox->admitted;
    batch->n_size_count = outbox->sizes_len > 0 ? outbox->count : 0;
    batch->size_count = outbox->size_count;
    batch->n_size = outbox->sizes_len;
    batch->size = outbox->size;
    outbox->count = outbox->sizes_len = 0;
    return true;
}

bool outbox_take_cancels(outbox_t *outbox, Control__CancelBatch *batch)
{
    if (outbox->cancel_count == 0 && outbox->missed_count == 0)
        return false;
    control__cancel_batch__init(batch);
    batch->n_id = outbox->cancel_count;
    batch->id = outbox->cancel;
    batch->n_missed = outbox->missed_count;
    batch->missed = outbox->missed;
    outbox->cancel_count = outbox->missed_count = 0;
    return true;
}

size_t outbox_take_arrived(outbox_t *outbox, uint64_t **ids)
{
    size_t count = outbox->arrived_count;
    *ids = outbox->arrived;
    outbox->arrived_count = 0;
    return count;
}
