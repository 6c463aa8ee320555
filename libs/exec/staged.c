/*
 * The executors of the staged mode: Run() of Figure 12 and the state diagram of Figure 11.
 */
#include "exec/staged_core.h"

static staged_t *of(exec_t *exec)
{
    return (staged_t *)exec;
}

static const staged_t *of_const(const exec_t *exec)
{
    return (const staged_t *)exec;
}

void staged_init(staged_t *staged, const staged_config_t *config, queries_slot_t *slots, uint32_t slot_count)
{
    staged->exec.ops = &staged_ops;
    staged->config = *config;
    queries_init(&staged->waiting, slots, slot_count);
    for (uint32_t border = 0; border <= config->stages; border++)
        for (uint32_t pair = 0; pair < config->pairs; pair++)
            staged->borders[border][pair].valid = true;
    for (uint32_t stage = 0; stage < config->stages; stage++)
        for (uint32_t slot = 0; slot < config->width; slot++)
            staged->executors[stage][slot].state = STAGED_ACTIVE;
}

static status_t staged_submit(exec_t *exec, int64_t now_ns, const exec_query_t *queries, uint32_t count,
                              uint64_t batch, err_t *err)
{
    (void)now_ns;
    staged_t *staged = of(exec);
    for (uint32_t i = 0; i < count; i++)
        if (queries[i].rows != 1)
            return err_set(err, STATUS_INVALID_ARGUMENT, "a staged query has one row, not %u",
                           queries[i].rows);
    if (queries_room(&staged->waiting) < count)
        return err_set(err, STATUS_UNAVAILABLE, "%u queries wait for the stages",
                       queries_len(&staged->waiting));
    queries_push(&staged->waiting, queries, count, batch);
    return STATUS_OK;
}

static bool staged_preempt(exec_t *exec, int64_t now_ns, uint64_t batch)
{
    (void)now_ns;
    return queries_give_back(&of(exec)->waiting, batch);
}

static bool staged_finished(exec_t *exec, int64_t now_ns, uint64_t launch)
{
    (void)now_ns;
    staged_t *staged = of(exec);
    for (uint32_t stage = 0; stage < staged->config.stages; stage++)
        for (uint32_t slot = 0; slot < staged->config.width; slot++) {
            staged_executor_t *executor = &staged->executors[stage][slot];
            if (executor->state == STAGED_WORKING && executor->launch == launch && !executor->ended)
                return executor->ended = true;
        }
    return false;
}

/* Another stream would have to fetch what the batch left in the caches of its last one. */
static uint32_t choose_stream(const staged_t *staged, uint32_t last)
{
    uint32_t best = last < staged->config.streams ? last : 0;
    for (uint32_t stream = 0; stream < staged->config.streams; stream++)
        if (staged->launches[stream] < staged->launches[best])
            best = stream;
    return best;
}

static void launch(staged_t *staged, uint32_t stage, uint32_t slot, const staged_out_t *out)
{
    staged_executor_t *executor = &staged->executors[stage][slot];
    staged_batch_t *batch = &staged->table[executor->item.slot];
    executor->stream = stage * staged->config.width + slot;
    if (staged->config.streams)
        executor->stream = batch->stream = choose_stream(staged, batch->stream);
    staged->launches[executor->stream]++;
    executor->launch = ++staged->next_launch;
    executor->ended = false;
    exec_action_t action = {.kind = EXEC_LAUNCH, .batch = batch->id};
    action.launch.launch = executor->launch;
    action.launch.count = 1;
    action.launch.parts[0] = (exec_part_t){.model = batch->queries[0].model,
                                           .stream = executor->stream,
                                           .from = stage,
                                           .to = stage + 1,
                                           .rows = executor->item.num,
                                           .length = batch->length};
    action.launch.start = batch->base + executor->item.start;
    action.launch.in_pair = executor->in_pair;
    action.launch.out_pair = executor->out_pair;
    action.launch.queries = batch->queries + executor->item.start;
    action.launch.query_count = executor->item.num;
    out->sink(out->ctx, &action);
}

/* Whether this item, which could begin its stage now, goes before the other one. */
static bool goes_before(const staged_t *staged, uint32_t stage, const staged_item_t *item,
                        const staged_item_t *other, double other_rank, int64_t now_ns)
{
    if (item->slot == other->slot || !staged_pair_legitimate(staged, stage, item))
        return false;
    staged_beside_t of = staged_beside_of(staged, item, stage, now_ns);
    double rank = staged->config.schedule->rank(&staged->config, &of);
    return rank < other_rank ||
           (rank <= other_rank && staged_is_older(&staged->table[item->slot], &staged->table[other->slot]));
}

/* Whether one that an executor has, or the first that an idle executor would pull, goes before this item. */
static bool is_outranked(const staged_t *staged, uint32_t stage, const staged_item_t *item, int64_t now_ns)
{
    staged_beside_t own = staged_beside_of(staged, item, stage, now_ns);
    double rank = staged->config.schedule->rank(&staged->config, &own);
    for (uint32_t at = 0; at < staged->config.stages; at++) {
        bool idle = false;
        for (uint32_t slot = 0; slot < staged->config.width; slot++) {
            const staged_executor_t *executor = &staged->executors[at][slot];
            idle |= executor->state == STAGED_ACTIVE || executor->state == STAGED_INACTIVE;
            if (executor->state == STAGED_CHECKING &&
                goes_before(staged, at, &executor->item, item, rank, now_ns))
                return true;
        }
        const staged_queue_t *queue = &staged->queues[at];
        if (idle && staged_queue_len(queue) > 0 &&
            goes_before(staged, at, staged_queue_at(queue, 0), item, rank, now_ns))
            return true;
    }
    return false;
}

/* Whether the schedule lets an executor run its item now, beside what others run. */
static bool may_start(const staged_t *staged, uint32_t stage, const staged_item_t *item, int64_t now_ns)
{
    const staged_batch_t *batch = &staged->table[item->slot];
    staged_beside_t beside[STAGED_BESIDE_MAX];
    if (batch->catching_up)
        return true;
    if (staged->config.schedule->rank && is_outranked(staged, stage, item, now_ns))
        return false;
    if (!staged->config.schedule->start)
        return true;
    staged_view_t view = {.config = &staged->config,
                          .now_ns = now_ns,
                          .batch = batch->id,
                          .rows = item->num,
                          .length = batch->length,
                          .stage = stage,
                          .age_ns = now_ns - batch->created_ns,
                          .beside = beside};
    view.beside_count = staged_running(staged, batch, now_ns, beside);
    return view.beside_count == 0 || staged->config.schedule->start(&view);
}

/* active -> checking -> working. An executor without a legitimate pair pulls only what came on the spare one. */
static bool pull(staged_t *staged, uint32_t stage, uint32_t slot, const staged_out_t *out)
{
    staged_executor_t *executor = &staged->executors[stage][slot];
    staged_queue_t *queue = &staged->queues[stage];
    bool changed = false;
    if (executor->state == STAGED_ACTIVE || executor->state == STAGED_INACTIVE) {
        if (staged_queue_len(queue) == 0 ||
            (executor->state == STAGED_INACTIVE &&
             !staged_pair_legitimate(staged, stage, staged_queue_at(queue, 0))))
            return false;
        executor->item = staged_queue_pop(queue);
        executor->state = STAGED_CHECKING;
        changed = true;
    }
    if (executor->state != STAGED_CHECKING || !staged_pair_legitimate(staged, stage, &executor->item) ||
        !may_start(staged, stage, &executor->item, out->now_ns))
        return changed;
    executor->state = STAGED_WORKING;
    staged_pair_begin(staged, stage, executor);
    launch(staged, stage, slot, out);
    return true;
}

static void finish(staged_t *staged, uint32_t stage, staged_executor_t *executor, const staged_out_t *out)
{
    executor->ended = false;
    staged->launches[executor->stream]--;
    staged_pair_end(staged, stage, executor);
    staged_leave(staged, stage, &executor->item, out);
    executor->state = STAGED_INACTIVE;
}

static void settle_idle(staged_t *staged, uint32_t stage)
{
    bool legitimate = stage + 1 == staged->config.stages || staged_stage_legitimate(staged, stage);
    for (uint32_t slot = 0; slot < staged->config.width; slot++) {
        staged_executor_t *executor = &staged->executors[stage][slot];
        if (executor->state == STAGED_INACTIVE && legitimate)
            executor->state = STAGED_ACTIVE;
    }
    staged_pair_tell(staged, stage);
}

static void finish_all(staged_t *staged, const staged_out_t *out)
{
    for (uint32_t stage = staged->config.stages; stage-- > 0;)
        for (uint32_t slot = 0; slot < staged->config.width; slot++)
            if (staged->executors[stage][slot].state == STAGED_WORKING &&
                staged->executors[stage][slot].ended)
                finish(staged, stage, &staged->executors[stage][slot], out);
}

/* From the last stage to the first: what becomes free behind is known in front in the same pass. */
static void advance(staged_t *staged, const staged_out_t *out)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t stage = staged->config.stages; stage-- > 0;) {
            settle_idle(staged, stage);
            for (uint32_t slot = 0; slot < staged->config.width; slot++)
                changed |= pull(staged, stage, slot, out);
        }
    }
}

static void give_back(staged_t *staged, const staged_out_t *out)
{
    exec_query_t query;
    exec_action_t action = {.kind = EXEC_REQUEUE};
    action.done.queries = &query;
    action.done.count = 1;
    while (queries_take_back(&staged->waiting, &query, &action.batch))
        out->sink(out->ctx, &action);
}

static int64_t staged_run(exec_t *exec, int64_t now_ns, exec_sink_fn sink, void *ctx)
{
    staged_t *staged = of(exec);
    staged_out_t out = {.sink = sink, .ctx = ctx, .now_ns = now_ns};
    give_back(staged, &out);
    /* First what waits: a batch whose stage has just ended can still be stretched. */
    staged_enter(staged, &out);
    finish_all(staged, &out);
    int64_t wake_ns = EXEC_NEVER;
    for (uint32_t before = UINT32_MAX; before != queries_len(&staged->waiting);) {
        advance(staged, &out);
        before = queries_len(&staged->waiting);
        wake_ns = staged_enter(staged, &out);
    }
    return wake_ns;
}

static uint32_t staged_room(const exec_t *exec)
{
    return queries_room(&of_const(exec)->waiting);
}

static const char *validate_batch(const staged_t *staged, const staged_batch_t *batch)
{
    if (batch->rows == 0 || batch->rows > staged->config.rows_max)
        return "a batch is empty or too large";
    for (uint32_t stage = 0; stage < staged->config.stages; stage++) {
        if (batch->done[stage] > batch->issued[stage] || batch->issued[stage] > batch->rows)
            return "a stage has done more rows than it was handed";
        if (stage > 0 && batch->issued[stage] > batch->done[stage - 1])
            return "rows were handed to a stage before the one ahead had done them";
    }
    return batch->base + batch->rows > staged->config.rows_max ? "a batch reaches out of its buffers" : NULL;
}

static const char *staged_validate(const exec_t *exec)
{
    const staged_t *staged = of_const(exec);
    uint32_t used = 0, rows = 0;
    if (staged->fault)
        return staged->fault;
    for (uint32_t slot = 0; slot < STAGED_BATCHES_MAX; slot++) {
        const staged_batch_t *batch = &staged->table[slot];
        if (!batch->id)
            continue;
        const char *fault = validate_batch(staged, batch);
        if (fault)
            return fault;
        used++;
        rows += batch->rows;
    }
    if (used != staged->used || rows != staged->active_rows)
        return "the batch table miscounts";
    for (uint32_t border = 0; border <= staged->config.stages; border++)
        for (uint32_t pair = 0; pair < staged->config.pairs; pair++)
            if (staged->borders[border][pair].writers > 1 || staged->borders[border][pair].readers > 1 ||
                (staged->borders[border][pair].writers && staged->borders[border][pair].readers))
                return "a buffer is used twice";
    return NULL;
}

staged_counts_t staged_counts(const exec_t *exec)
{
    return ((const staged_t *)exec)->counts;
}

const exec_ops_t staged_ops = {
    .submit = staged_submit,
    .finished = staged_finished,
    .preempt = staged_preempt,
    .run = staged_run,
    .room = staged_room,
    .validate = staged_validate,
};
