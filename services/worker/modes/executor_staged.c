/*
 * `staged`: one model's rows on their way through its stages (exec/staged.h), each granted batch coming in as rows and
 * leaving as rows, in whatever batches the stages formed.
 *
 * Which rows join a running batch is the scheduler's word (a grant that stretches another), for only it knows
 * what was promised to those that run; a schedule of the model's own does as it likes. What the
 * stages run lies in borders, the inputs of the first where they were fetched as long as they are rows of one
 * batch in order.
 *
 * Where shapes vary, a batch of the stages is of one shape, and each launch says of which: that of its rows, or what they
 * are padded to (staged_rows.c). Batches on different pairs may be of different shapes: each border is laid out for the
 * rows that are in it. The outputs of the last stage grow when a shape needs more than there was.
 */
#include "worker/modes/executor_staged.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- stages ---- */

static void count_changes(staged_t *staged)
{
    staged_counts_t now = staged_counts(staged->carrier.driver.exec);

    metrics_add(staged->model->serving->stage_splits, now.splits - staged->counted.splits);
    metrics_add(staged->model->serving->stage_batches, now.batches - staged->counted.batches);
    metrics_add(staged->model->serving->stage_stretched, now.stretched_rows - staged->counted.stretched_rows);
    staged->counted = now;
}

/* Each row as much as the others, and the first with what does not divide. */
static void charge_rows(const staged_t *staged, const stage_t *stage)
{
    int64_t all_ns = stage->launch.time.charged_ns;

    batch_of(staged, stage->tags[0])->device_ns += all_ns % stage->count;
    for (uint32_t i = 0; i < stage->count; i++)
        batch_of(staged, stage->tags[i])->device_ns += all_ns / stage->count;
}

/* A failed stage goes on for libs/exec; its rows are lost and what the others make of them is thrown away. */
static void stage_ended(launch_t *launch)
{
    stage_t *stage = CONTAINER_OF(launch, stage_t, launch);
    staged_t *staged = stage->staged;

    charge_rows(staged, stage);
    if (staged_rows_grow(staged, stage)) {
        carrier_launch(&staged->carrier, launch);
        carrier_decide(&staged->carrier);
        return;
    }
    for (uint32_t i = 0; i < stage->count; i++) {
        batch_t *batch = batch_of(staged, stage->tags[i]);
        if (!batch->started_ns)
            batch->started_ns = launch->job.started_ns;
        if (launch->job.finished_ns)
            batch->finished_ns = launch->job.finished_ns;
        if (launch->status != STATUS_OK) {
            if (batch->lost == 0) /* later stages of a failed one fail on what it left */
                batch->err = launch->err;
            batch_lose_row(batch, row_of(stage->tags[i]), launch->status);
        }
    }
    carrier_end(&staged->carrier, stage->id, DRIVER_FINISHED);
    carrier_decide(&staged->carrier);
}

/* The times of batches that are in the stages together tell nothing about one that runs alone. */
static void mark_shared(staged_t *staged, uint64_t exec_batch, bool enters)
{
    uint32_t begun = 0, others = 0;

    for (uint32_t i = 0; i < SLOTS; i++) {
        const batch_t *batch = staged->slots[i];
        begun += batch && batch->begun;
        others += batch && batch->begun && batch->exec_batch != exec_batch;
    }
    for (uint32_t i = 0; i < SLOTS && begun > 1; i++) {
        if (staged->slots[i])
            staged->slots[i]->shared |= staged->slots[i]->begun;
    }
    metrics_add(staged->model->serving->stage_beside, enters && others > 0);
}

/* Which batch of the stages they are in, and whether the scheduler's wish that they join one came true. */
static void note_entry(staged_t *staged, const stage_t *stage, uint64_t exec_batch, uint32_t start)
{
    const model_t *model = staged->model;
    const batch_t *first = batch_of(staged, stage->tags[0]);

    for (uint32_t i = 0; i < stage->count; i++) {
        batch_t *batch = batch_of(staged, stage->tags[i]);
        bool joined = start > 0 || batch != first;
        batch->exec_batch = exec_batch;
        batch->begun = true;
        if (batch->stretches && row_of(stage->tags[i]) == 0)
            metrics_add(joined ? model->serving->stretch_joined : model->serving->stretch_alone, 1);
    }
}

static void enter_rows(staged_t *staged, stage_t *stage, const exec_action_t *action)
{
    uint32_t start = action->launch.start;

    metrics_add(staged->model->serving->stage_padded,
                staged_rows_gather(staged, stage, start, action->launch.in_pair));
    note_entry(staged, stage, action->batch, start);
    mark_shared(staged, action->batch, start == 0);
}

static status_t launch_stage(void *on, const exec_action_t *action, err_t *err)
{
    staged_t *staged = on;
    const model_stages_t *stages = staged->stages;
    const exec_part_t *part = &action->launch.parts[0];
    uint32_t device = staged->carrier.executor.device, s = part->from, start = action->launch.start;
    stage_t *stage = &staged->stage[stage_at(s, action->launch.out_pair)];
    bool first = s == 0, last = s + 1 == stages->count;

    (void)err;
    stage->id = action->launch.launch;
    stage->count = action->launch.query_count;
    for (uint32_t i = 0; i < stage->count; i++)
        stage->tags[i] = action->launch.queries[i].tag;
    stage->ends = last ? staged->ends[action->launch.out_pair] : NULL;
    stage->launch.ended = stage_ended;
    stage->launch.job = (engine_job_t){
        .model = staged->model->on_device[device],
        .batch = part->rows,
        .row = start,
        .range = {.stream = part->stream % stages->devices->streams,
                  .from = stages->from[s],
                  .to = stages->from[s + 1]},
        .inputs = first ? stage->inputs : NULL,
        .source = first ? NULL : model_stages_border(stages, device, s - 1, action->launch.in_pair),
        .outputs = last ? stage->ends->outputs : NULL,
        .target = last ? NULL : model_stages_border(stages, device, s, action->launch.out_pair)};
    if (staged->shapes)
        staged_rows_shape(staged, stage);
    if (first)
        enter_rows(staged, stage, action);
    carrier_launch(&staged->carrier, &stage->launch);
    return STATUS_OK;
}

/* ---- exits ---- */

static void batch_left(staged_t *staged, batch_t *batch, uint32_t slot)
{
    staged->slots[slot] = NULL;
    carrier_over(&staged->carrier, batch, batch->lost < batch->count ? STATUS_OK : batch->err.code);
}

static bool follows(const staged_t *staged, uint64_t tag, uint64_t next)
{
    const batch_row_t *rows = batch_of(staged, tag)->rows;

    return next == tag + 1 && rows[row_of(tag)].lost == rows[row_of(next)].lost;
}

static void hand_over(staged_t *staged, batch_t *batch, uint32_t row, uint32_t count, uint32_t from_row,
                      const exec_action_t *action)
{
    if (!batch->rows[row].lost &&
        staged_rows_take(staged, batch, row, count, from_row, action->done.pair) == STATUS_OK)
        staged->carrier.executor.env->rows(batch, row, count, action->done.count);
}

/* Rows of one batch that lie one after the other leave together. */
static void complete(staged_t *staged, const exec_action_t *action)
{
    const exec_query_t *queries = action->done.queries;
    uint32_t count = action->done.count;

    for (uint32_t i = 0, next; i < count; i = next) {
        uint64_t tag = queries[i].tag;
        batch_t *batch = batch_of(staged, tag);
        for (next = i + 1; next < count && follows(staged, queries[next - 1].tag, queries[next].tag);)
            next++;
        hand_over(staged, batch, row_of(tag), next - i, action->done.start + i, action);
        batch->left -= next - i;
        if (batch->left == 0)
            batch_left(staged, batch, (uint32_t)(tag >> 32));
    }
}

/* Revoked: all its rows come back, one by one. */
static void take_back(staged_t *staged, const exec_action_t *action)
{
    batch_t *batch = carrier_batch(action->batch);

    if (--batch->left > 0)
        return;
    staged->slots[action->done.queries[0].tag >> 32] = NULL;
    err_set(&batch->err, STATUS_CANCELLED, "revoked");
    carrier_over(&staged->carrier, batch, STATUS_CANCELLED);
}

static void staged_act(void *ctx, const exec_action_t *action)
{
    staged_t *staged = ctx;

    if (action->kind == EXEC_COMPLETE)
        complete(staged, action);
    else if (action->kind == EXEC_REQUEUE)
        take_back(staged, action);
    count_changes(staged);
}

/* ---- what is to be decided ---- */

static staged_cost_t staged_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const staged_t *staged = ctx;
    int64_t ns =
        stage < staged->stages->count ? model_stages_cost_of_ns(staged->stages, stage, rows, length) : 0;

    return model_stages_busy(ns, staged->stages->beside, staged->stages->devices->streams);
}

/* Granted to join that one. A scheduler counts its batches from 1 again after a restart. */
static bool stretches(const batch_t *batch, const batch_t *other)
{
    return batch->stretches && batch->stretches == other->id && batch->generation == other->generation;
}

/* The batch of the stages that this one was granted to join; 0: it is in none (any more). */
static uint64_t wanted_by(const staged_t *staged, const batch_t *batch)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (staged->slots[i] && stretches(batch, staged->slots[i]))
            return staged->slots[i]->exec_batch;
    return 0;
}

/* Those that were granted to join this very batch. */
static uint32_t stretch_as_granted(const staged_view_t *view)
{
    const staged_t *staged = view->config->cost_ctx;
    uint32_t count = 0;

    for (; count < view->waiting_count; count++) {
        if (wanted_by(staged, batch_of(staged, view->waiting[count]->tag)) != view->batch)
            break;
    }
    return count;
}

/* One batch after the other, as the scheduler plans; with it what was granted to join it. */
static uint32_t enter_as_granted(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    const staged_t *staged = view->config->cost_ctx;
    uint32_t groups = staged_enter_together(view, group, wake_ns);

    for (uint32_t i = 0; i < view->waiting_count && groups > 0; i++) {
        const batch_t *first = batch_of(staged, view->waiting[0]->tag);
        const batch_t *batch = batch_of(staged, view->waiting[i]->tag);
        group[i] = batch == first || stretches(batch, first) ? 0 : STAGED_LATER;
    }
    return groups;
}

/* One batch after the other, as the scheduler plans, where none leaves room beside it. */
static bool start_as_granted(const staged_view_t *view)
{
    return staged_schedule_load.start(view);
}

static uint32_t split_where_cheaper(const staged_view_t *view)
{
    const staged_t *staged = view->config->cost_ctx;

    return staged->stages->splits ? staged_schedule_operator.split(view) : 0;
}

static const staged_schedule_t granted = {.name = "granted",
                                          .enter = enter_as_granted,
                                          .stretch = stretch_as_granted,
                                          .split = split_where_cheaper,
                                          .start = start_as_granted};

static exec_t *make_exec(staged_t *staged, err_t *err)
{
    const model_stages_t *stages = staged->stages;
    staged_config_t config = {
        .stages = stages->count,
        .pairs = STAGES_PAIRS,
        /* policy I runs batches side by side and past each other; else the other is for rows that catch up */
        .new_pairs = stages->beside ? STAGES_PAIRS : 1,
        .width = stages->beside ? STAGES_PAIRS : 1,
        .streams = stages->devices->streams,
        .rows_max = stages->rows_max,
        .queries_max = 2 * ENGINE_MAX_BATCH,
        .eager = true,
        .comp_wait_ns = stages->comp_wait_ns ? stages->comp_wait_ns : EXEC_NEVER,
        .split_slack = staged->model->config.split_slack,
        .cost = staged_cost,
        .cost_ctx = staged,
        .schedule = stages->schedule ? stages->schedule : &granted};

    return exec_create_staged(&config, err);
}

/* ---- the executor ---- */

static uint32_t free_slot(const staged_t *staged)
{
    uint32_t slot = 0;

    while (slot < SLOTS && staged->slots[slot])
        slot++;
    return slot;
}

static bool staged_takes(const executor_t *executor, const batch_t *batch)
{
    const staged_t *staged = (const staged_t *)executor;

    return free_slot(staged) < SLOTS && exec_room(staged->carrier.driver.exec) >= batch->count;
}

static void staged_submit(executor_t *executor, batch_t *batch)
{
    staged_t *staged = (staged_t *)executor;
    uint32_t slot = free_slot(staged);
    int64_t now_ns = clock_now_ns();

    staged->slots[slot] = batch;
    batch->left = batch->count;
    batch->exec_batch = 0;
    staged_rows_come(staged, batch);
    for (uint32_t row = 0; row < batch->count; row++)
        staged->entering[row] = (exec_query_t){.tag = tag_of(slot, row),
                                               .rows = 1,
                                               .length = batch->length,
                                               .shape = batch->shape,
                                               .arrival_ns = now_ns};
    carrier_submit(&staged->carrier, batch, staged->entering, batch->count);
}

static void staged_destroy(executor_t *executor)
{
    staged_t *staged = (staged_t *)executor;

    for (uint32_t i = 0; i < STAGES_PAIRS; i++) {
        if (staged->ends[i])
            model_buffers_put(staged->model, staged->ends[i]);
    }
    free(staged->shapes);
    carrier_destroy(executor);
}

static const driver_device_ops_t staged_device = {.launch = launch_stage, .carry_out = carrier_carry_out};
static const driver_user_ops_t staged_user = {.act = staged_act};

static const executor_ops_t staged_ops = {.mode = MODE_STAGED,
                                          .takes = staged_takes,
                                          .submit = staged_submit,
                                          .revoke = carrier_revoke,
                                          .destroy = staged_destroy};

/* Inputs of any shape that comes here fit; outputs grow when they are known. */
static bool take_ends(staged_t *staged, const model_devices_t *devices)
{
    const model_shapes_t *shapes = staged->model->shapes;
    uint32_t inputs = shapes ? staged->model->info->input_count : 0;

    for (uint32_t i = 0; i < STAGES_PAIRS; i++) {
        staged->ends[i] = model_buffers_get(staged->model, devices, staged->carrier.executor.device);
        for (uint32_t k = 0; staged->ends[i] && k < inputs; k++) {
            uint64_t bytes = axes_row_bytes(&shapes->axes, k, shapes_largest(shapes));
            if (!model_buffers_reserve(devices, staged->ends[i], k, bytes * staged->stages->rows_max))
                return false;
        }
        if (!staged->ends[i])
            return false;
    }
    if (shapes)
        staged->shapes = calloc(stage_at(staged->stages->count, 0), sizeof(*staged->shapes));
    return !shapes || staged->shapes;
}

executor_t *executor_create_staged(const executor_env_t *env, uint32_t device, model_t *model, err_t *err)
{
    staged_t *staged = calloc(1, sizeof(*staged));

    if (!staged) {
        err_set(err, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    staged->model = model;
    staged->stages = model->choice.stages;
    for (uint32_t i = 0; i < STAGED_STAGES_MAX * STAGES_PAIRS; i++)
        staged->stage[i].staged = staged;
    if (carrier_init(&staged->carrier, &staged_ops, env, device, make_exec(staged, err), &staged_device,
                     &staged_user, err) != STATUS_OK) {
        free(staged);
        return NULL;
    }
    staged->carrier.executor.model = model;
    if (!take_ends(staged, env->devices)) {
        err_set(err, STATUS_NO_MEMORY, "no memory for the ends of the stages");
        staged_destroy(&staged->carrier.executor);
        return NULL;
    }
    return &staged->carrier.executor;
}
