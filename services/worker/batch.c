#include "batch.h"

#include <stdlib.h>
#include <string.h>

static bool grow(void *array, size_t count, size_t element_bytes)
{
    void *old, *grown;

    memcpy(&old, array, sizeof(old));
    grown = realloc(old, count * element_bytes);
    if (!grown)
        return false;
    memcpy(array, &grown, sizeof(grown));
    return true;
}

bool batch_reserve(batch_t *batch, const model_t *model, uint32_t rows)
{
    uint32_t in = rows * (model->info->input_count ? model->info->input_count : 1);
    uint32_t out = rows * (model->info->output_count ? model->info->output_count : 1);

    if (rows > batch->cap_rows) {
        if (!grow(&batch->groups, rows, sizeof(*batch->groups)) ||
            !grow(&batch->pushes, rows, sizeof(*batch->pushes)) ||
            !grow(&batch->rows, rows, sizeof(*batch->rows)) ||
            !grow(&batch->items, rows, sizeof(*batch->items)) ||
            !grow(&batch->results, rows, sizeof(*batch->results)) ||
            !grow(&batch->failed_row, rows, sizeof(uint32_t)) ||
            !grow(&batch->failed_status, rows, sizeof(uint32_t)) ||
            !grow(&batch->group_of, rows, sizeof(uint32_t)))
            return false;
        batch->cap_rows = rows;
    }
    if (in > batch->cap_in) {
        if (!grow(&batch->in_iov, in, sizeof(struct iovec)))
            return false;
        batch->cap_in = in;
    }
    if (out > batch->cap_out) {
        if (!grow(&batch->out_iov, out, sizeof(struct iovec)))
            return false;
        batch->cap_out = out;
    }
    return true;
}

void batch_free_memory(batch_t *batch)
{
    free(batch->groups);
    free(batch->pushes);
    free(batch->rows);
    free(batch->items);
    free(batch->results);
    free(batch->in_iov);
    free(batch->out_iov);
    free(batch->failed_row);
    free(batch->failed_status);
    free(batch->group_of);
    free(batch);
}

void batch_fail_row(batch_t *batch, uint32_t grant_row, status_t status)
{
    batch->failed_row[batch->failed_count] = grant_row;
    batch->failed_status[batch->failed_count++] = status;
}

void batch_lose_row(batch_t *batch, uint32_t row, status_t status)
{
    if (batch->rows[row].lost)
        return;
    batch->rows[row].lost = true;
    batch->lost++;
    batch_fail_row(batch, batch->rows[row].grant_row, status);
}

static uint32_t find_group(batch_t *batch, uint32_t gateway)
{
    /* The last one first: tasks of one request stand together. */
    for (uint32_t g = batch->group_count; g-- > 0;) {
        if (batch->groups[g].gateway == gateway)
            return g;
    }
    batch->groups[batch->group_count] = (batch_group_t){.batch = batch, .gateway = gateway};
    return batch->group_count++;
}

static status_t row_check(const batch_t *batch, const batch_group_t *group, const Control__Grant *grant,
                          uint32_t i)
{
    if (grant->len_bytes[i] != batch->model->row_in_bytes)
        return STATUS_INVALID_ARGUMENT;
    return group->peer ? STATUS_OK : STATUS_UNAVAILABLE;
}

static void group_rows(batch_t *batch, peers_t *peers, const Control__Grant *grant)
{
    for (uint32_t i = 0; i < batch->granted; i++) {
        uint32_t known = batch->group_count, g = find_group(batch, grant->gateway[i]);
        batch_group_t *group = &batch->groups[g];
        if (batch->group_count > known)
            group->peer = peers_hold(peers, grant->gateway[i]);
        batch->group_of[i] = g;
        status_t status = row_check(batch, group, grant, i);
        if (status == STATUS_OK) {
            group->count++;
        } else {
            batch_fail_row(batch, i, status);
            batch->group_of[i] = UINT32_MAX;
        }
    }
}

static void place_row(batch_t *batch, uint32_t at, const Control__Grant *grant, uint32_t i)
{
    const engine_model_info_t *info = batch->model->info;
    struct iovec *iov = &batch->in_iov[at * info->input_count];
    transfer_handle_t handle = {.hi = grant->handle_hi[i], .lo = grant->handle_lo[i]};

    for (uint32_t k = 0; k < info->input_count; k++) {
        size_t row_bytes = info->inputs[k].row_bytes;
        iov[k] = (struct iovec){(uint8_t *)batch->buffers->inputs[k] + at * row_bytes, row_bytes};
    }
    batch->rows[at] = (batch_row_t){.task_id = grant->task_id[i], .handle = handle, .grant_row = i};
    batch->items[at] = (transfer_item_t){.handle = handle,
                                         .offset = grant->offset_bytes[i],
                                         .len_bytes = batch->model->row_in_bytes,
                                         .iov = iov,
                                         .iov_count = info->input_count};
}

void batch_place(batch_t *batch, peers_t *peers, const Control__Grant *grant)
{
    uint32_t first = 0;

    batch->group_count = 0;
    batch->failed_count = 0;
    group_rows(batch, peers, grant);
    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch->groups[g].first = first;
        first += batch->groups[g].count;
        batch->groups[g].count = 0;
    }
    batch->count = first;
    for (uint32_t i = 0; i < batch->granted; i++) {
        if (batch->group_of[i] == UINT32_MAX)
            continue;
        batch_group_t *group = &batch->groups[batch->group_of[i]];
        place_row(batch, group->first + group->count++, grant, i);
    }
}

static void move_row(batch_t *batch, uint32_t to, uint32_t from)
{
    const engine_model_info_t *info = batch->model->info;

    if (to == from)
        return;
    batch->rows[to] = batch->rows[from];
    for (uint32_t k = 0; k < info->input_count; k++) {
        uint8_t *base = batch->buffers->inputs[k];
        memcpy(base + to * info->inputs[k].row_bytes, base + from * info->inputs[k].row_bytes,
               info->inputs[k].row_bytes);
    }
}

void batch_compact(batch_t *batch)
{
    uint32_t to = 0;

    for (uint32_t g = 0; g < batch->group_count; g++) {
        batch_group_t *group = &batch->groups[g];
        uint32_t from = group->first, end = group->first + group->count;
        group->first = to;
        for (; from < end; from++) {
            if (batch->items[from].status == STATUS_OK)
                move_row(batch, to++, from);
            else
                batch_fail_row(batch, batch->rows[from].grant_row, batch->items[from].status);
        }
        group->count = to - group->first;
    }
    batch->count = to;
}

void batch_fill_results(batch_t *batch, uint32_t first, uint32_t count, const transfer_timing_t *timing)
{
    const engine_model_info_t *info = batch->model->info;

    for (uint32_t row = first; row < first + count; row++) {
        struct iovec *iov = &batch->out_iov[row * info->output_count];
        for (uint32_t k = 0; k < info->output_count; k++) {
            size_t row_bytes = info->outputs[k].row_bytes;
            iov[k] = (struct iovec){(uint8_t *)batch->buffers->outputs[k] + row * row_bytes, row_bytes};
        }
        batch->results[row] = (transfer_result_t){.task_id = batch->rows[row].task_id,
                                                  .handle = batch->rows[row].handle,
                                                  .timing = *timing,
                                                  .iov = iov,
                                                  .iov_count = info->output_count};
    }
}

void batch_release_peers(batch_t *batch, peers_t *peers)
{
    for (uint32_t g = 0; g < batch->group_count; g++) {
        if (batch->groups[g].peer)
            peer_release(peers, batch->groups[g].peer);
        batch->groups[g].peer = NULL;
    }
}
