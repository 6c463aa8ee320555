/*
 * Hot path. Rows that join a batch which runs (DVABatch's `stretch`), on GPUs whose mode can do it.
 *
 *        ┌ stages 0..k of n rows ┐                   ┌ stages k+1.. of n + c rows ┐
 *     ───┴───────────┬───────────┴───────────────────┴────────────────────────────┴──▶
 *                    └ start: stages 0..k of c rows ┘ joined                       finish
 *
 * While both go through their stages side by side the GPU is taken to be full, so together they take as long
 * as one after the other. A launch's fixed cost is then paid again for the part 0..k of the batch, and saved
 * for the rest of it.
 */
#include "sched/core.h"

typedef struct {
    batch_slot_t *batch; /* granted last, or the last that joined it */
    uint32_t most;       /* rows that may come, as many as the way is counted for */
    int64_t start_ns;    /* the rows are there */
    inside_join_t join;  /* at the border behind its stage then */
} stretch_t;

/* Where the batch is when the rows come. False: it does not run then, is in its last stage, or still waits
 * for others. */
static bool locate(stretch_t *stretch, const shard_t *shard)
{
    const batch_slot_t *batch = stretch->batch;
    inside_join_t *join = &stretch->join;
    int64_t latency_ns = shard_expected_ns(shard, batch->rows);
    int64_t begin_ns = batch->finish_ns - latency_ns; /* as if it had always had all its rows */
    if (stretch->start_ns < batch->joined_ns)
        return false;
    for (uint32_t stage = 0; stage + 1 < join->inside->stages; stage++) {
        join->part = join->inside->until[stage];
        join->border_ns = begin_ns + inside_part_ns(latency_ns, join->part);
        if (stretch->start_ns < join->border_ns)
            return true;
    }
    return false;
}

/* Nothing must be granted behind it or beside it, and nothing be late before it. */
static bool runs_alone(const sched_t *sched, const batch_slot_t *batch)
{
    uint32_t at = sched->batches.gpu_first[batch->gpu];
    while (at != BATCH_NONE && batch_table_together(&sched->batches.slots[at], batch))
        at = sched->batches.slots[at].next;
    return at == BATCH_NONE;
}

/* The batch of this model that rows may still join now. */
static bool find(sched_t *sched, int64_t now_ns, const shard_t *shard, stretch_t *stretch)
{
    const sched_inside_t *inside = &sched->shards[shard->model].inside;
    uint32_t batch = batch_table_find(&sched->batches, sched->latest[shard->model]);
    if (inside->stages < 2 || batch == BATCH_NONE || shard->candidate.skip)
        return false;
    batch_slot_t *slot = &sched->batches.slots[batch];
    const core_gpu_t *gpu = &sched->gpus[slot->gpu];
    if (slot->model != shard->model || gpu->draining || !runs_alone(sched, slot) ||
        !core_takes_more(sched, slot->gpu) || !matcher_may_use(&sched->matcher, shard->index, slot->gpu))
        return false;
    uint32_t most = shard->candidate.vague ? shard->queue.len : shard->candidate.batch;
    *stretch = (stretch_t){.batch = slot, .most = most, .start_ns = now_ns + shard_lead_ns(shard, most)};
    stretch->join = (inside_join_t){.inside = inside,
                                    .rows = slot->rows,
                                    .age_ns = stretch->start_ns - slot->begun_ns,
                                    .alone_ns = slot->finish_ns};
    return locate(stretch, shard);
}

/* The most rows that may join; 0: those are not worth it. */
static uint32_t choose(const stretch_t *stretch, const shard_t *shard)
{
    const batch_slot_t *batch = stretch->batch;
    int64_t head_ns = shard_task(shard, shard_head(shard))->deadline_ns, deadline_ns = head_ns;
    uint32_t low = 0;
    uint32_t limit = shard_limit(shard), high = limit > batch->rows ? limit - batch->rows : 0;
    if (batch->deadline_ns < deadline_ns)
        deadline_ns = batch->deadline_ns;
    deadline_ns -= shard_reserve_ns(shard, batch->rows);
    if (stretch->most < high)
        high = stretch->most;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (inside_together_ns(shard, &stretch->join, middle) <= deadline_ns)
            low = middle;
        else
            high = middle - 1;
    }
    return inside_may_join(shard, &stretch->join, low, head_ns) ? low : 0;
}

/* The rows are a batch of their own behind the one they join, and both end at the same time. */
static uint32_t join(sched_t *sched, int64_t now_ns, const stretch_t *stretch, shard_t *shard, uint32_t count)
{
    const batch_slot_t joined = *stretch->batch;
    int64_t end_ns = inside_together_ns(shard, &stretch->join, count);
    int64_t caught_up_ns = inside_joined_ns(shard, &stretch->join, count);
    int64_t deadline_ns = shard_task(shard, shard_head(shard))->deadline_ns;
    uint32_t index = batch_table_take(&sched->batches, joined.gpu);
    batch_slot_t *slot = &sched->batches.slots[index];
    slot->model = shard->model;
    slot->count = count;
    slot->first_task = shard_pop_batch(shard, count);
    slot->start_ns = stretch->start_ns;
    slot->beside = joined.beside;
    slot->busy = inside_busy(&sched->shards[shard->model], joined.rows + count);
    slot->together = joined.together;
    slot->rows = joined.rows + count;
    slot->begun_ns = joined.begun_ns;
    slot->deadline_ns = deadline_ns < joined.deadline_ns ? deadline_ns : joined.deadline_ns;
    slot->joined_ns = caught_up_ns;
    for (uint32_t b = sched->batches.gpu_first[joined.gpu]; b != BATCH_NONE;
         b = sched->batches.slots[b].next) {
        if (batch_table_together(&sched->batches.slots[b], slot))
            sched->batches.slots[b].finish_ns = end_ns;
    }
    slot->left_ns = slot->finish_ns - now_ns;
    sched->gpus[joined.gpu].shared_ns = now_ns;
    sched->latest[shard->model] = batch_table_id(&sched->batches, index);
    return index;
}

uint32_t core_stretch(sched_t *sched, int64_t now_ns, shard_t *shard)
{
    stretch_t stretch;
    uint32_t first = matcher_first_ready(&sched->matcher);
    bool spreads = shard->candidate.part && matcher_has_free(&sched->matcher); /* rather than to join */
    if (shard->candidate.batch == 0 || spreads || (first != UINT32_MAX && first != shard->index) ||
        !find(sched, now_ns, shard, &stretch))
        return BATCH_NONE;
    uint32_t count = choose(&stretch, shard);
    if (count == 0)
        return BATCH_NONE;
    int64_t before_ns = stretch.batch->finish_ns;
    uint32_t batch = join(sched, now_ns, &stretch, shard, count);
    const batch_slot_t *slot = &sched->batches.slots[batch];
    sched_model_stats_t *stats = &shard->counts->stats;
    stats->granted += count;
    stats->in_flight += count;
    stats->batches++;
    stats->stretches++;
    int64_t more_ns = slot->finish_ns - before_ns;
    stats->busy_ns += (uint64_t)(slot->beside ? more_ns * slot->busy / SCHED_WHOLE : more_ns);
    if (!slot->beside) {
        sched->gpus[slot->gpu].free_ns = slot->finish_ns;
        sched->gpus[slot->gpu].unsure_ns = shard_unsure_ns(shard, slot->rows);
    }
    return batch;
}
