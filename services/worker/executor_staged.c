/*
 * `staged`: one model's rows on their way through its stages (exec/staged.h), each granted batch coming in as rows and
 * leaving as rows, in whatever batches the stages formed.
 *
 * Which rows join a running batch is the scheduler's word (a grant that stretches another), for only it knows what was
 * promised to those that run; a schedule named in the model's config does as it likes. What the stages run lies in borders, the inputs of the
 * first where they were fetched as long as they are rows of one batch in order.
 */
#include "carrier.h"
#include "model_stages.h"
#include "run.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = RUN_QUEUE_MAX }; /* granted batches that are in the stages or wait for them */

typedef struct staged staged_t;

/* What one stage runs: it does one thing at a time. */
typedef struct {
    launch_t launch;
    staged_t *staged;
    uint64_t id; /* of libs/exec */
    const void *inputs[ENGINE_MAX_IO];
    uint64_t tags[EXEC_ROWS_MAX];
    uint32_t count;
} stage_t;

struct staged {
    carrier_t carrier; /* first */
    model_t *model;
    const model_stages_t *stages;
    model_buffers_t *ends[STAGES_PAIRS]; /* inputs of the first and outputs of the last stage */
    batch_t *slots[SLOTS];
    stage_t stage[STAGED_STAGES_MAX];
    staged_counts_t counted;
};

/* ---- rows ---- */

static uint64_t tag_of(uint32_t slot, uint32_t row)
{
    return (uint64_t)slot << 32 | row;
}

static batch_t *batch_of(const staged_t *staged, uint64_t tag)
{
    return staged->slots[tag >> 32];
}

static uint32_t row_of(uint64_t tag)
{
    return (uint32_t)tag;
}

static void copy_rows(void *to, uint32_t to_row, const void *from, uint32_t from_row, size_t row_bytes)
{
    memcpy((char *)to + to_row * row_bytes, (const char *)from + from_row * row_bytes, row_bytes);
}

/* They lie where they were fetched as they are to lie in the border. */
static bool in_place(const staged_t *staged, const stage_t *stage, uint32_t start)
{
    const batch_t *batch = batch_of(staged, stage->tags[0]);

    for (uint32_t i = 0; i < stage->count; i++)
        if (batch_of(staged, stage->tags[i]) != batch || row_of(stage->tags[i]) != start + i)
            return false;
    return true;
}

static void gather_inputs(staged_t *staged, stage_t *stage, uint32_t start, uint32_t pair)
{
    const engine_model_info_t *info = staged->model->info;
    bool there = in_place(staged, stage, start);

    for (uint32_t k = 0; k < info->input_count; k++) {
        void *border = staged->ends[pair]->inputs[k];
        stage->inputs[k] = there ? batch_of(staged, stage->tags[0])->buffers->inputs[k] : border;
        for (uint32_t i = 0; i < stage->count && !there; i++)
            copy_rows(border, start + i, batch_of(staged, stage->tags[i])->buffers->inputs[k],
                      row_of(stage->tags[i]), info->inputs[k].row_bytes);
    }
}

static void copy_outputs(staged_t *staged, uint64_t tag, uint32_t from_row, uint32_t pair)
{
    const engine_model_info_t *info = staged->model->info;
    batch_t *batch = batch_of(staged, tag);

    for (uint32_t k = 0; k < info->output_count; k++)
        copy_rows(batch->buffers->outputs[k], row_of(tag), staged->ends[pair]->outputs[k], from_row,
                  info->outputs[k].row_bytes);
}

/* ---- stages ---- */

static void count_changes(staged_t *staged)
{
    staged_counts_t now = staged_counts(staged->carrier.exec);

    metrics_add(staged->model->stage_splits, now.splits - staged->counted.splits);
    metrics_add(staged->model->stage_batches, now.batches - staged->counted.batches);
    metrics_add(staged->model->stage_stretched, now.stretched_rows - staged->counted.stretched_rows);
    staged->counted = now;
}

/* A failed stage goes on for libs/exec; its rows are lost and what the others make of them is thrown away. */
static void stage_ended(launch_t *launch)
{
    stage_t *stage = CONTAINER_OF(launch, stage_t, launch);
    staged_t *staged = stage->staged;

    for (uint32_t i = 0; i < stage->count; i++) {
        batch_t *batch = batch_of(staged, stage->tags[i]);
        if (!batch->started_ns)
            batch->started_ns = launch->job.started_ns;
        if (launch->job.finished_ns)
            batch->finished_ns = launch->job.finished_ns;
        if (launch->status != STATUS_OK) {
            batch->err = launch->err;
            batch_lose_row(batch, row_of(stage->tags[i]), launch->status);
        }
    }
    exec_finished(staged->carrier.exec, clock_now_ns(), stage->id);
    carrier_decide(&staged->carrier);
}

/* Which batch of the stages they are in, and whether the scheduler's wish that they join one came true. */
static void note_entry(staged_t *staged, const stage_t *stage, uint64_t exec_batch, uint32_t start)
{
    const model_t *model = staged->model;

    for (uint32_t i = 0; i < stage->count; i++) {
        batch_t *batch = batch_of(staged, stage->tags[i]);
        batch->exec_batch = exec_batch;
        if (batch->stretches && row_of(stage->tags[i]) == 0)
            metrics_add(start > 0 ? model->stretch_joined : model->stretch_alone, 1);
    }
}

static void launch_stage(staged_t *staged, const exec_action_t *action)
{
    const model_stages_t *stages = staged->stages;
    const exec_part_t *part = &action->launch.parts[0];
    uint32_t device = staged->carrier.executor.device, s = part->from, start = action->launch.start;
    stage_t *stage = &staged->stage[s];
    bool first = s == 0, last = s + 1 == stages->count;

    stage->id = action->launch.launch;
    stage->count = action->launch.query_count;
    for (uint32_t i = 0; i < stage->count; i++)
        stage->tags[i] = action->launch.queries[i].tag;
    if (first) {
        gather_inputs(staged, stage, start, action->launch.in_pair);
        note_entry(staged, stage, action->batch, start);
    }
    stage->launch.ended = stage_ended;
    stage->launch.job = (engine_job_t){
        .model = staged->model->on_device[device],
        .batch = part->rows,
        .row = start,
        .range = {.stream = s % stages->devices->streams, .from = stages->from[s], .to = stages->from[s + 1]},
        .inputs = first ? stage->inputs : NULL,
        .source = first ? NULL : model_stages_border(stages, device, s - 1, action->launch.in_pair),
        .outputs = last ? staged->ends[action->launch.out_pair]->outputs : NULL,
        .target = last ? NULL : model_stages_border(stages, device, s, action->launch.out_pair)};
    carrier_launch(&staged->carrier, &stage->launch);
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
        for (uint32_t k = i; k < next; k++)
            copy_outputs(staged, queries[k].tag, action->done.start + k, action->done.pair);
        if (!batch->rows[row_of(tag)].lost)
            staged->carrier.executor.env->rows(batch, row_of(tag), next - i, count);
        batch->left -= next - i;
        if (batch->left == 0)
            batch_left(staged, batch, (uint32_t)(tag >> 32));
    }
}

static void staged_act(carrier_t *carrier, const exec_action_t *action)
{
    staged_t *staged = (staged_t *)carrier;

    if (action->kind == EXEC_LAUNCH)
        launch_stage(staged, action);
    else if (action->kind == EXEC_COMPLETE)
        complete(staged, action);
    count_changes(staged);
}

/* ---- what is to be decided ---- */

static staged_cost_t staged_cost(void *ctx, uint32_t stage, uint32_t rows, uint32_t length)
{
    const staged_t *staged = ctx;
    int64_t ns = stage < staged->stages->count ? model_stages_cost_ns(staged->stages, stage, rows) : 0;

    (void)length;
    return (staged_cost_t){.ns = ns, .busy_ns = ns};
}

/* The batch of the stages that the grant of this id is in; 0: in none (any more). */
static uint64_t exec_batch_of(const staged_t *staged, uint64_t grant)
{
    for (uint32_t i = 0; i < SLOTS; i++)
        if (staged->slots[i] && staged->slots[i]->id == grant)
            return staged->slots[i]->exec_batch;
    return 0;
}

/* Those that were granted to join this very batch. */
static uint32_t stretch_as_granted(const staged_view_t *view)
{
    const staged_t *staged = view->config->cost_ctx;
    uint32_t count = 0;

    for (; count < view->waiting_count; count++) {
        const batch_t *batch = batch_of(staged, view->waiting[count]->tag);
        if (!batch->stretches || exec_batch_of(staged, batch->stretches) != view->batch)
            break;
    }
    return count;
}

/* One batch after the other, as the scheduler plans, where none leaves room beside it. */
static uint32_t enter_as_granted(const staged_view_t *view, uint8_t *group, int64_t *wake_ns)
{
    return staged_schedule_load.enter(view, group, wake_ns);
}

static uint32_t split_where_cheaper(const staged_view_t *view)
{
    const staged_t *staged = view->config->cost_ctx;

    return staged->stages->splits ? staged_schedule_operator.split(view) : 0;
}

static const staged_schedule_t granted = {.name = "granted",
                                          .enter = enter_as_granted,
                                          .stretch = stretch_as_granted,
                                          .split = split_where_cheaper};

static exec_t *make_exec(staged_t *staged, err_t *err)
{
    const model_stages_t *stages = staged->stages;
    const staged_schedule_t *schedule = staged_schedule_find(staged->model->config.schedule);
    staged_config_t config = {
        .stages = stages->count,
        .pairs = STAGES_PAIRS,
        /* policy I runs batches side by side; else the other is for rows that catch up */
        .new_pairs = schedule == &staged_schedule_input ? STAGES_PAIRS : 1,
        .width = 1,
        .rows_max = stages->rows_max,
        .queries_max = 2 * ENGINE_MAX_BATCH,
        .eager = true,
        .comp_wait_ns = staged->model->config.comp_wait_ns,
        .split_slack = staged->model->config.split_slack,
        .cost = staged_cost,
        .cost_ctx = staged,
        .schedule = schedule ? schedule : &granted};

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

    return free_slot(staged) < SLOTS && exec_room(staged->carrier.exec) >= batch->count;
}

/* Their times tell nothing about a batch that runs alone. */
static void mark_shared(staged_t *staged, batch_t *batch)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        if (staged->slots[i])
            staged->slots[i]->shared = batch->shared = true;
    }
}

static void staged_submit(executor_t *executor, batch_t *batch)
{
    staged_t *staged = (staged_t *)executor;
    uint32_t slot = free_slot(staged);
    int64_t now_ns = clock_now_ns();

    mark_shared(staged, batch);
    staged->slots[slot] = batch;
    batch->begun = true;
    batch->left = batch->count;
    batch->exec_batch = 0;
    for (uint32_t row = 0; row < batch->count; row++) {
        exec_query_t query = {.tag = tag_of(slot, row), .rows = 1, .length = 1, .arrival_ns = now_ns};
        (void)exec_submit(staged->carrier.exec, now_ns, &query, 1, 0, NULL); /* there is room */
    }
    carrier_decide(&staged->carrier);
}

static bool staged_revoke(executor_t *executor, batch_t *batch)
{
    (void)executor, (void)batch;
    return false;
}

static void staged_destroy(executor_t *executor)
{
    staged_t *staged = (staged_t *)executor;

    for (uint32_t i = 0; i < STAGES_PAIRS; i++) {
        if (staged->ends[i])
            model_buffers_put(staged->model, staged->ends[i]);
    }
    carrier_destroy(executor);
}

static const executor_ops_t staged_ops = {.mode = MODE_STAGED,
                                          .takes = staged_takes,
                                          .submit = staged_submit,
                                          .revoke = staged_revoke,
                                          .destroy = staged_destroy};

executor_t *executor_create_staged(const executor_env_t *env, uint32_t device, model_t *model, err_t *err)
{
    staged_t *staged = calloc(1, sizeof(*staged));

    if (!staged) {
        err_set(err, STATUS_NO_MEMORY, "out of memory");
        return NULL;
    }
    staged->model = model;
    staged->stages = model->choice.stages;
    for (uint32_t s = 0; s < STAGED_STAGES_MAX; s++)
        staged->stage[s].staged = staged;
    if (carrier_init(&staged->carrier, &staged_ops, env, device, make_exec(staged, err), staged_act, err) !=
        STATUS_OK) {
        free(staged);
        return NULL;
    }
    staged->carrier.executor.model = model;
    for (uint32_t i = 0; i < STAGES_PAIRS; i++) {
        staged->ends[i] = model_buffers_get(model, env->devices, device);
        if (!staged->ends[i]) {
            err_set(err, STATUS_NO_MEMORY, "no memory for the ends of the stages");
            staged_destroy(&staged->carrier.executor);
            return NULL;
        }
    }
    return &staged->carrier.executor;
}
