#include "worker/state/batch.h"

#include "grant_rows.h"

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

static bool reserve_sizes(batch_t *batch, const model_t *model)
{
    uint32_t open = model->shapes->axes.open_outputs;

    if (open <= batch->shapes->cap_sizes)
        return true;
    if (!grow(&batch->shapes->output_sizes, open, sizeof(uint32_t)))
        return false;
    batch->shapes->cap_sizes = open;
    return true;
}

bool batch_reserve(batch_t *batch, const model_t *model, uint32_t rows)
{
    uint32_t in = rows * (model->info->input_count ? model->info->input_count : 1);
    /* One more for the sizes behind the row. */
    uint32_t out = rows * (model->info->output_count + 1);

    if (rows > batch->cap_rows) {
        if (!grow(&batch->groups, rows, sizeof(*batch->groups)) ||
            !grow(&batch->pushes, rows, sizeof(*batch->pushes)) ||
            !grow(&batch->rows, rows, sizeof(*batch->rows)) ||
            !grow(&batch->items, rows, sizeof(*batch->items)) ||
            !grow(&batch->results, rows, sizeof(*batch->results)) ||
            !grow(&batch->failed_row, rows, sizeof(uint32_t)) ||
            !grow(&batch->failed_status, rows, sizeof(uint32_t)) ||
            !grow(&batch->group_of, rows, sizeof(uint32_t)) ||
            !grow(&batch->held, rows, sizeof(*batch->held)) ||
            !grow(&batch->placed, rows, sizeof(*batch->placed)))
            return false;
        batch->cap_rows = rows;
    }
    if (in > batch->cap_in) {
        if (!grow(&batch->in_iov, in, sizeof(struct iovec)) ||
            !grow(&batch->row_inputs, in, sizeof(*batch->row_inputs)))
            return false;
        batch->cap_in = in;
    }
    if (out > batch->cap_out) {
        if (!grow(&batch->out_iov, out, sizeof(struct iovec)) ||
            !grow(&batch->row_outputs, out, sizeof(*batch->row_outputs)))
            return false;
        batch->cap_out = out;
    }
    if (model->shapes && !batch->shapes)
        batch->shapes = calloc(1, sizeof(*batch->shapes));
    return !model->shapes || (batch->shapes && reserve_sizes(batch, model));
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
    free(batch->held);
    free(batch->placed);
    free(batch->row_inputs);
    free(batch->row_outputs);
    if (batch->shapes)
        free(batch->shapes->output_sizes);
    free(batch->shapes);
    free(batch);
}

/* Notes a row as failed. */
static void batch_fail_row(batch_t *batch, uint32_t grant_row, status_t status)
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

void batch_regain_rows(batch_t *batch)
{
    for (uint32_t row = 0; row < batch->count; row++)
        batch->rows[row].lost = false;
    batch->failed_count -= batch->lost; /* they were noted behind all others */
    batch->lost = 0;
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

/* ---- rows of any size ---- */

static bool reserve_inputs(batch_t *batch, const model_devices_t *devices)
{
    const axes_t *axes = &batch->model->shapes->axes;

    for (uint32_t k = 0; k < axes->info->input_count; k++) {
        uint64_t bytes, row_bytes = axes_row_bytes(axes, k, batch->shapes->sizes);
        if (__builtin_mul_overflow(row_bytes, (uint64_t)batch->granted, &bytes) ||
            !model_buffers_reserve(devices, batch->buffers, k, bytes))
            return false;
        batch->in_bytes[k] = row_bytes;
        batch->row_in_bytes += row_bytes;
    }
    return true;
}

bool batch_size(batch_t *batch, const model_devices_t *devices, const Control__Grant *grant)
{
    const engine_model_info_t *info = batch->model->info;

    batch->row_in_bytes = batch->model->row_in_bytes;
    for (uint32_t k = 0; k < info->input_count; k++)
        batch->in_bytes[k] = info->inputs[k].row_bytes;
    for (uint32_t k = 0; k < info->output_count; k++)
        batch->out_bytes[k] = info->outputs[k].row_bytes;
    if (!batch->model->shapes)
        return true;
    if (grant->n_size > 0) /* only outputs may vary */
        memcpy(batch->shapes->sizes, grant->size, grant->n_size * sizeof(grant->size[0]));
    return reserve_inputs(batch, devices);
}

/* Fills out_bytes from the shapes that the engine told. */
static status_t take_outputs(batch_t *batch)
{
    const engine_model_info_t *info = batch->model->info;
    uint64_t sum = batch->model->shapes->axes.open_outputs * sizeof(uint32_t);

    for (uint32_t k = 0; k < info->output_count; k++) {
        const engine_shape_t *shape = &batch->shapes->outputs[k];
        uint64_t bytes = axes_output_row_bytes(info, k, shape);
        if (!axes_output_fits(info, k, shape, batch->count))
            return err_set(&batch->err, STATUS_INTERNAL,
                           "output '%.80s' came out in another shape than the model's",
                           info->outputs[k].name);
        if (__builtin_add_overflow(sum, bytes, &sum) || sum > MODEL_ROW_BYTES_MAX)
            return err_set(&batch->err, STATUS_TOO_LARGE,
                           "the outputs of one row have over %d MiB, from '%.80s' on",
                           MODEL_ROW_BYTES_MAX >> 20, info->outputs[k].name);
        batch->out_bytes[k] = bytes;
    }
    return STATUS_OK;
}

void batch_put_shapes(batch_t *batch, engine_job_t *job)
{
    const model_t *model = batch->model;

    axes_input_shapes(&model->shapes->axes, batch->shapes->sizes, batch->count, batch->shapes->inputs);
    for (uint32_t k = 0; k < model->info->output_count; k++)
        batch->shapes->outputs[k].rank = BATCH_RANK_UNKNOWN;
    job->input_shapes = batch->shapes->inputs;
    job->output_shapes = batch->shapes->outputs;
    job->output_capacity_bytes = batch->buffers->capacity + model->info->input_count;
}

static status_t grow_outputs(batch_t *batch, const model_devices_t *devices, bool *again)
{
    const engine_model_info_t *info = batch->model->info;
    bool grown = false;

    for (uint32_t k = 0; k < info->output_count; k++) {
        uint32_t i = info->input_count + k;
        size_t bytes = batch->out_bytes[k] * batch->count;
        grown |= bytes > batch->buffers->capacity[i];
        if (!model_buffers_reserve(devices, batch->buffers, i, bytes))
            return err_set(&batch->err, STATUS_NO_MEMORY, "no memory for output '%.80s'",
                           info->outputs[k].name);
    }
    *again = grown;
    return STATUS_TOO_LARGE;
}

status_t batch_take_output_shapes(batch_t *batch, const model_devices_t *devices, status_t status,
                                  bool *again)
{
    const model_shapes_t *shapes = batch->model->shapes;

    *again = false;
    if (!shapes || (status != STATUS_OK && status != STATUS_TOO_LARGE))
        return status;
    for (uint32_t k = 0; k < batch->model->info->output_count; k++)
        if (batch->shapes->outputs[k].rank == BATCH_RANK_UNKNOWN)
            return status;
    status_t taken = take_outputs(batch);
    if (taken != STATUS_OK)
        return taken;
    if (status == STATUS_TOO_LARGE)
        return grow_outputs(batch, devices, again);
    axes_output_sizes(&shapes->axes, batch->shapes->outputs, batch->shapes->output_sizes);
    return status;
}

status_t batch_follow_shapes(batch_t *batch, const model_devices_t *devices, const engine_shape_t *outputs)
{
    const engine_model_info_t *info = batch->model->info;
    bool grown;

    for (uint32_t k = 0; k < info->output_count; k++) {
        if (outputs[k].rank == BATCH_RANK_UNKNOWN)
            return err_set(&batch->err, STATUS_INTERNAL,
                           "the engine did not tell the shape of output '%.80s'", info->outputs[k].name);
        batch->shapes->outputs[k] = outputs[k];
        if (info->batchable)
            batch->shapes->outputs[k].dims[0] = batch->count;
    }
    status_t status = take_outputs(batch);
    if (status != STATUS_OK)
        return status;
    if (grow_outputs(batch, devices, &grown) == STATUS_NO_MEMORY)
        return STATUS_NO_MEMORY;
    axes_output_sizes(&batch->model->shapes->axes, batch->shapes->outputs, batch->shapes->output_sizes);
    return STATUS_OK;
}

static status_t row_check(const batch_t *batch, const batch_group_t *group, const grant_row_t *row)
{
    if (row->len_bytes != batch->row_in_bytes)
        return STATUS_INVALID_ARGUMENT;
    return group->peer ? STATUS_OK : STATUS_UNAVAILABLE;
}

static void group_rows(batch_t *batch, peers_t *peers, const Control__Grant *grant)
{
    for (uint32_t i = 0; i < batch->granted; i++) {
        const grant_row_t row = grant_rows_at(grant, i);
        uint32_t known = batch->group_count, g = find_group(batch, row.gateway);
        batch_group_t *group = &batch->groups[g];
        if (batch->group_count > known)
            group->peer = peers_hold(peers, row.gateway);
        batch->group_of[i] = g;
        status_t status = row_check(batch, group, &row);
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
    const grant_row_t row = grant_rows_at(grant, i);
    transfer_handle_t handle = {.hi = row.handle_hi, .lo = row.handle_lo};

    for (uint32_t k = 0; k < info->input_count; k++) {
        size_t row_bytes = batch->in_bytes[k];
        iov[k] = (struct iovec){(uint8_t *)batch->buffers->inputs[k] + at * row_bytes, row_bytes};
    }
    batch->rows[at] = (batch_row_t){.task_id = row.task_id, .handle = handle, .grant_row = i};
    batch->items[at] = (transfer_item_t){.handle = handle,
                                         .offset = row.offset_bytes,
                                         .len_bytes = batch->row_in_bytes,
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

/* ---- inputs that stay where they are ---- */

enum { HELD_ALIGN_BYTES = 16 }; /* as malloc gives it: no engine asks for more */

/* One behind the other in the same region. */
static bool row_follows(const batch_t *batch, uint32_t row)
{
    const transfer_item_t *item = &batch->items[row], *before = item - 1;

    return transfer_handle_equal(item->handle, before->handle) &&
           item->offset == before->offset + batch->row_in_bytes;
}

static bool rows_follow(const batch_t *batch)
{
    for (uint32_t row = 1; row < batch->count; row++) {
        if (!row_follows(batch, row))
            return false;
    }
    return true;
}

/* So many rows from this one on, of which each input lies in one piece at inputs[k]. */
static bool hold_rows(batch_t *batch, const batch_group_t *group, uint32_t row, uint32_t count,
                      const void **inputs)
{
    const transfer_item_t *item = &batch->items[row];
    batch_held_t *held = &batch->held[batch->held_count];
    const uint8_t *data;

    held->owner = group->peer->here;
    if (transfer_hold(held->owner, item->handle, item->offset, count * batch->row_in_bytes, &held->pin,
                      &data) != STATUS_OK)
        return false;
    batch->held_count++;
    for (uint32_t k = 0; k < batch->model->info->input_count; k++) {
        inputs[k] = data;
        data += batch->in_bytes[k];
    }
    return true;
}

static bool are_aligned(const void *const *tensors, uint32_t count)
{
    for (uint32_t k = 0; k < count; k++) {
        if ((uintptr_t)tensors[k] % HELD_ALIGN_BYTES != 0)
            return false;
    }
    return true;
}

static bool hold_together(batch_t *batch)
{
    uint32_t inputs = batch->model->info->input_count;

    return batch->group_count == 1 && (batch->count == 1 || inputs == 1) && rows_follow(batch) &&
           hold_rows(batch, &batch->groups[0], 0, batch->count, batch->held_inputs) &&
           are_aligned(batch->held_inputs, inputs);
}

static bool hold_apart(batch_t *batch)
{
    uint32_t inputs = batch->model->info->input_count;

    for (uint32_t g = 0; g < batch->group_count; g++) {
        const batch_group_t *group = &batch->groups[g];
        for (uint32_t row = group->first; row < group->first + group->count; row++) {
            if (!hold_rows(batch, group, row, 1, &batch->row_inputs[row * inputs]))
                return false;
        }
    }
    return true;
}

static bool all_are_here(const batch_t *batch)
{
    for (uint32_t g = 0; g < batch->group_count; g++) {
        if (!batch->groups[g].peer->here)
            return false;
    }
    return true;
}

bool batch_hold(batch_t *batch, bool rows_apart)
{
    if (batch->model->shapes || batch->count != batch->granted || !all_are_here(batch))
        return false;
    if (hold_together(batch))
        return true;
    batch_let_go(batch);
    batch->apart = rows_apart && hold_apart(batch);
    if (!batch->apart)
        batch_let_go(batch);
    return batch->apart;
}

void batch_let_go(batch_t *batch)
{
    while (batch->held_count > 0) {
        const batch_held_t *held = &batch->held[--batch->held_count];
        transfer_release(held->owner, held->pin);
    }
}

void batch_aim(batch_t *batch, bool on_device)
{
    const engine_model_info_t *info = batch->model->info;
    void *const *inputs = on_device ? batch->buffers->device_inputs : batch->buffers->inputs;

    batch->on_device = on_device;
    for (uint32_t row = 0; row < batch->count; row++) {
        struct iovec *iov = &batch->in_iov[row * info->input_count];
        for (uint32_t k = 0; k < info->input_count; k++)
            iov[k].iov_base = (uint8_t *)inputs[k] + row * batch->in_bytes[k];
    }
}

static size_t row_out_bytes(const batch_t *batch)
{
    size_t sum = 0;

    for (uint32_t k = 0; k < batch->model->info->output_count; k++)
        sum += batch->out_bytes[k];
    return sum;
}

/* So many rows of one request, from this one on: where their outputs are to be written one behind the other. NULL: nowhere. */
static uint8_t *place_rows(batch_t *batch, const batch_group_t *group, uint32_t row, uint32_t count)
{
    batch_placed_t *placed = &batch->placed[batch->placed_count];
    const transfer_wanted_t wanted = {.task_id = batch->rows[row].task_id,
                                      .handle = batch->rows[row].handle,
                                      .count = count,
                                      .len_bytes = row_out_bytes(batch)};

    placed->owner = group->peer->here;
    placed->memory = transfer_place(placed->owner, &wanted, &placed->token);
    if (placed->memory)
        batch->placed_count++;
    return placed->memory;
}

static void aim_outputs(const batch_t *batch, uint8_t *at, void **outputs)
{
    for (uint32_t k = 0; k < batch->model->info->output_count; k++) {
        outputs[k] = at;
        at += batch->out_bytes[k];
    }
}

static bool place_together(batch_t *batch)
{
    uint32_t outputs = batch->model->info->output_count;
    bool in_pieces = batch->count > 1 && outputs > 1;
    uint8_t *at = in_pieces ? NULL : place_rows(batch, &batch->groups[0], 0, batch->count);

    if (!at)
        return false;
    aim_outputs(batch, at, batch->placed_outputs);
    if (!are_aligned((const void *const *)batch->placed_outputs, outputs))
        batch_vacate(batch);
    return batch->placed_count > 0;
}

/* Rows of its request that stand behind this one, and itself. */
static uint32_t rows_of_request(const batch_t *batch, const batch_group_t *group, uint32_t row)
{
    uint32_t count = 1;

    while (row + count < group->first + group->count && row_follows(batch, row + count) &&
           batch->rows[row + count].task_id == batch->rows[row].task_id + count)
        count++;
    return count;
}

/* False: they go to the buffers. */
static bool place_request(batch_t *batch, const batch_group_t *group, uint32_t first, uint32_t count)
{
    const engine_model_info_t *info = batch->model->info;
    uint8_t *at = place_rows(batch, group, first, count);

    for (uint32_t i = 0; i < count; i++) {
        void **outputs = &batch->row_outputs[(first + i) * info->output_count];
        if (at)
            aim_outputs(batch, at + i * row_out_bytes(batch), outputs);
        for (uint32_t k = 0; !at && k < info->output_count; k++)
            outputs[k] = (uint8_t *)batch->buffers->outputs[k] + (first + i) * batch->out_bytes[k];
    }
    return at;
}

static bool place_apart(batch_t *batch)
{
    bool all = true;

    for (uint32_t g = 0; g < batch->group_count; g++) {
        const batch_group_t *group = &batch->groups[g];
        for (uint32_t i = 0, count; i < group->count; i += count) {
            count = rows_of_request(batch, group, group->first + i);
            all &= place_request(batch, group, group->first + i, count);
        }
    }
    return all;
}

bool batch_place_outputs(batch_t *batch)
{
    if (batch->apart)
        return place_apart(batch);
    return batch->held_count > 0 && place_together(batch);
}

void batch_vacate(batch_t *batch)
{
    while (batch->placed_count > 0) {
        const batch_placed_t *placed = &batch->placed[--batch->placed_count];
        transfer_vacate(placed->owner, placed->token, placed->memory);
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
        memcpy(base + to * batch->in_bytes[k], base + from * batch->in_bytes[k], batch->in_bytes[k]);
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

static void *batch_output(const batch_t *batch, uint32_t row, uint32_t k)
{
    return batch->apart ? batch->row_outputs[row * batch->model->info->output_count + k]
                        : (uint8_t *)batch_outputs(batch)[k] + row * batch->out_bytes[k];
}

void batch_fill_results(batch_t *batch, uint32_t first, uint32_t count, const transfer_timing_t *timing)
{
    const engine_model_info_t *info = batch->model->info;
    uint32_t open = batch->model->shapes ? batch->model->shapes->axes.open_outputs : 0;
    uint32_t pieces = info->output_count + (open > 0);

    for (uint32_t row = first; row < first + count; row++) {
        struct iovec *iov = &batch->out_iov[row * pieces];
        for (uint32_t k = 0; k < info->output_count; k++)
            iov[k] = (struct iovec){batch_output(batch, row, k), batch->out_bytes[k]};
        if (open)
            iov[info->output_count] =
                (struct iovec){batch->shapes->output_sizes, open * sizeof(batch->shapes->output_sizes[0])};
        batch->results[row] = (transfer_result_t){.task_id = batch->rows[row].task_id,
                                                  .handle = batch->rows[row].handle,
                                                  .timing = *timing,
                                                  .iov = iov,
                                                  .iov_count = pieces};
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
