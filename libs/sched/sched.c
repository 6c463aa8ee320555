/*
 * Hot path. The composite of the two halves: what happened (tasks and batches), and sched_run, which decides.
 * Models, GPUs and policies come and go in members.c.
 */
#include "sched/core.h"

void core_mark_all_dirty(sched_t *sched)
{
    for (uint32_t m = sched->shards_max; m-- > 0;) {
        if (sched->shards[m].present)
            core_mark_dirty(sched, m);
    }
}

status_t sched_submit(sched_t *sched, int64_t now_ns, uint32_t model, const sched_task_t *task,
                      sched_ref_t *ref)
{
    if (!core_has_model(sched, model))
        return STATUS_NOT_FOUND;
    uint32_t place = core_route(sched, model);
    uint32_t index = task_pool_take(&sched->pool, place, task);
    if (index == TASK_NONE)
        return STATUS_UNAVAILABLE;
    if (shard_submit(&sched->shards[place], now_ns, index))
        core_mark_dirty(sched, place);
    if (ref)
        *ref = task_pool_ref(&sched->pool, index);
    return STATUS_OK;
}

bool sched_cancel(sched_t *sched, int64_t now_ns, sched_ref_t ref)
{
    (void)now_ns;
    uint32_t task = task_pool_find(&sched->pool, ref);
    if (task == TASK_NONE)
        return false;
    uint32_t model = sched->pool.slots[task].model;
    if (!shard_cancel(&sched->shards[model], task))
        return false;
    core_mark_dirty(sched, model);
    return true;
}

/* Drops */

static void emit_dropped(sched_t *sched, shard_t *shard)
{
    for (uint32_t task; (task = shard_take_dropped(shard)) != TASK_NONE;) {
        const task_slot_t *slot = &sched->pool.slots[task];
        sched_action_t action = {.kind = SCHED_DROP,
                                 .model = shard->model,
                                 .drop = {.task = slot->task, .reason = (sched_drop_t)slot->reason}};
        task_pool_give(&sched->pool, task);
        sched->sink(sched->sink_ctx, &action);
    }
}

/* Grants */

void core_offer_gpu(sched_t *sched, uint32_t gpu)
{
    const core_gpu_t *entry = &sched->gpus[gpu];
    bool open = entry->present && !entry->draining && core_takes_more(sched, gpu);
    bool shared = core_has_slots(entry) && sched->batches.gpu_count[gpu] > 0;
    if (open && shared && core_share_has_slot(sched, gpu))
        matcher_on_gpu_shared(&sched->matcher, gpu, entry->free_ns);
    else if (open && !shared)
        matcher_on_gpu_free(&sched->matcher, gpu, entry->free_ns + entry->unsure_ns);
    else
        matcher_close_gpu(&sched->matcher, gpu);
}

static void emit_grant(sched_t *sched, uint32_t batch)
{
    const batch_slot_t *slot = &sched->batches.slots[batch];
    uint64_t id = batch_table_id(&sched->batches, batch);
    uint32_t task = slot->first_task;
    for (uint32_t i = 0; i < slot->count; i++) {
        sched->granted[i] = sched->pool.slots[task].task;
        task = sched->pool.slots[task].next;
    }
    sched_action_t action = {.kind = SCHED_GRANT,
                             .model = slot->model,
                             .grant = {.gpu = slot->gpu,
                                       .batch_id = id,
                                       .start_ns = slot->start_ns,
                                       .finish_ns = slot->finish_ns,
                                       .tasks = sched->granted,
                                       .count = slot->count,
                                       .stretches = slot->together == id ? 0 : slot->together}};
    sched->sink(sched->sink_ctx, &action);
}

/* After what is known of its GPU has changed by it. */
static void hand_out(sched_t *sched, uint32_t batch)
{
    core_offer_gpu(sched, sched->batches.slots[batch].gpu);
    emit_grant(sched, batch);
}

/* Candidates */

static void tell_candidate(sched_t *sched, int64_t now_ns, shard_t *shard)
{
    matcher_on_candidate(&sched->matcher, now_ns, shard->index, &shard->candidate);
    shard_set_expiry(shard, &sched->expiry, sched->expiry_nodes);
    emit_dropped(sched, shard);
}

static void make_candidate(sched_t *sched, int64_t now_ns, shard_t *shard, int64_t gpu_free_ns)
{
    sched->policy.ops->candidate(&sched->policy, shard, now_ns, gpu_free_ns, &shard->candidate);
}

/* What may join a batch that runs needs no candidate. Out of line, as most clusters have no GPU that stretches. */
__attribute__((cold, noinline)) static void join_what_runs(sched_t *sched, int64_t now_ns, shard_t *shard,
                                                           int64_t gpu_free_ns)
{
    for (uint32_t joined; (joined = core_stretch(sched, now_ns, shard)) != BATCH_NONE;) {
        hand_out(sched, joined);
        make_candidate(sched, now_ns, shard, gpu_free_ns);
    }
}

static void renew(sched_t *sched, int64_t now_ns, shard_t *shard, int64_t gpu_free_ns)
{
    make_candidate(sched, now_ns, shard, gpu_free_ns);
    if (sched->stretching)
        join_what_runs(sched, now_ns, shard, gpu_free_ns);
    tell_candidate(sched, now_ns, shard);
}

static void refresh(sched_t *sched, int64_t now_ns, shard_t *shard)
{
    renew(sched, now_ns, shard, SHARD_LATER_GPU);
}

static void refresh_dirty(sched_t *sched, int64_t now_ns)
{
    while (sched->dirty != TASK_NONE) {
        shard_t *shard = &sched->shards[sched->dirty];
        sched->dirty = shard->dirty_next;
        shard->dirty = false;
        if (shard->present)
            refresh(sched, now_ns, shard);
        else
            emit_dropped(sched, shard);
    }
}

static void refresh_expired(sched_t *sched, int64_t now_ns)
{
    while (heap_min_key(&sched->expiry) <= now_ns) {
        heap_node_t *node = heap_min(&sched->expiry);
        refresh(sched, now_ns, &sched->shards[node - sched->expiry_nodes]);
    }
}

/* Matches */

/* What a new batch means to its GPU, by the GPU's mode. */
static void place(sched_t *sched, int64_t now_ns, batch_slot_t *slot)
{
    core_gpu_t *gpu = &sched->gpus[slot->gpu];
    slot->rows = slot->count;
    slot->begun_ns = slot->joined_ns = slot->start_ns;
    slot->deadline_ns = sched->pool.slots[slot->first_task].task.deadline_ns;
    if (gpu->mode.stretches)
        sched->latest[slot->model] = slot->together;
    slot->beside = core_has_slots(gpu);
    if (!slot->beside) {
        gpu->free_ns = slot->finish_ns;
        gpu->unsure_ns = shard_unsure_ns(&sched->shards[slot->model], slot->count);
        return;
    }
    slot->busy = inside_busy(&sched->shards[slot->model], slot->count);
    gpu->shared_ns = now_ns; /* as of which it was found to fit */
    slot->left_ns = slot->finish_ns - now_ns;
    core_share_predict(sched, now_ns, slot->gpu);
}

/* "GPU granted" reaches the shard: it cuts its batch, and answers with "GPU free-at" and the next candidate.
 * The batch is the candidate's: refresh_dirty and refresh_expired have made sure that it is still right at
 * now_ns. */
static void grant(sched_t *sched, int64_t now_ns, const match_grant_t *match)
{
    shard_t *shard = &sched->shards[match->model];
    uint32_t count = candidate_share(&shard->candidate, match->gpus);
    uint32_t batch = batch_table_take(&sched->batches, match->gpu);
    batch_slot_t *slot = &sched->batches.slots[batch];
    slot->model = shard->model;
    slot->count = count;
    shard_note_silence(shard, now_ns, count);
    slot->first_task = shard_pop_batch(shard, count);
    slot->start_ns = shard_earliest_ns(shard, now_ns, match->gpu_free_ns, count);
    slot->promised_ns = slot->start_ns;
    slot->finish_ns = slot->start_ns + shard_expected_ns(shard, count);
    slot->together = batch_table_id(&sched->batches, batch);
    shard->counts->stats.granted += count;
    shard->counts->stats.in_flight += count;
    shard->counts->stats.batches++;
    shard->lane.turn_ns = now_ns;
    int64_t alone_ns = slot->finish_ns - slot->start_ns;
    place(sched, now_ns, slot);
    shard->counts->stats.busy_ns += (uint64_t)(slot->beside ? alone_ns * slot->busy / SCHED_WHOLE : alone_ns);
    hand_out(sched, batch);
    shard_end_doubt(shard);
    refresh(sched, now_ns, shard);
}

/* Batches end */

static void requeue(sched_t *sched, uint32_t model, uint32_t task, bool lost)
{
    uint32_t place = core_route(sched, model);
    shard_requeue(&sched->shards[place], task, lost);
    core_mark_dirty(sched, place);
}

static void requeue_all(sched_t *sched, const batch_slot_t *slot, bool lost)
{
    uint32_t task = slot->first_task;
    for (uint32_t i = 0; i < slot->count; i++) {
        uint32_t next = sched->pool.slots[task].next;
        requeue(sched, slot->model, task, lost);
        task = next;
    }
}

static void release_tasks(sched_t *sched, const batch_slot_t *slot, core_tasks_t what)
{
    bool orphan = slot->model == BATCH_NO_MODEL;
    if (orphan || what == CORE_TASKS_DONE)
        task_pool_give_chain(&sched->pool, slot->first_task, slot->count);
    else
        requeue_all(sched, slot, what == CORE_TASKS_LOST);
    if (!orphan)
        sched->shards[slot->model].counts->stats.in_flight -= slot->count;
}

void core_end_batch(sched_t *sched, uint32_t batch, core_tasks_t what)
{
    release_tasks(sched, &sched->batches.slots[batch], what);
    batch_table_give(&sched->batches, batch);
}

/* What is measured moves the predictions of all that the GPU has still to do. */
static void repredict(sched_t *sched, uint32_t gpu, int64_t free_ns)
{
    const batch_slot_t *before = NULL;
    for (uint32_t b = sched->batches.gpu_first[gpu]; b != BATCH_NONE; b = sched->batches.slots[b].next) {
        batch_slot_t *slot = &sched->batches.slots[b];
        int64_t latency_ns = slot->finish_ns - slot->start_ns;
        bool joined = before && batch_table_together(before, slot);
        if (slot->start_ns < free_ns && !joined)
            slot->start_ns = free_ns;
        slot->finish_ns = joined ? free_ns : slot->start_ns + latency_ns;
        free_ns = slot->finish_ns;
        before = slot;
    }
    sched->gpus[gpu].free_ns = free_ns;
    if (!before)
        sched->gpus[gpu].unsure_ns = 0;
    core_offer_gpu(sched, gpu);
}

/* What it was one with goes on as that; the others are no more slowed by it. */
static void end_shared(sched_t *sched, int64_t now_ns, const batch_slot_t *ended)
{
    batch_slot_t *rest = NULL;
    for (uint32_t b = sched->batches.gpu_first[ended->gpu]; b != BATCH_NONE;
         b = sched->batches.slots[b].next) {
        if (batch_table_together(&sched->batches.slots[b], ended))
            rest = &sched->batches.slots[b];
    }
    if (rest && rest->rows < ended->rows) /* the last of them has gone */
        rest->left_ns = ended->left_ns;
    core_share_predict(sched, now_ns, ended->gpu);
    core_offer_gpu(sched, ended->gpu);
}

/* The model's lanes judge deadlines with it, too. */
static void judge_anew(sched_t *sched, const shard_t *owner)
{
    core_mark_dirty(sched, owner->index);
    for (uint32_t l = owner->lane.next; l != TASK_NONE; l = sched->shards[l].lane.next) {
        sched->shards[l].guard = owner->guard;
        (void)shard_count_on_delays(&sched->shards[l]);
        core_mark_dirty(sched, l);
    }
}

/* Of a batch that shares its GPU, or that rows may have joined, the prediction itself says how long it was to take. */
bool sched_batch_ran(sched_t *sched, int64_t now_ns, uint64_t batch_id, int64_t started_ns, int64_t ended_ns)
{
    uint32_t batch = batch_table_find(&sched->batches, batch_id);
    if (batch == BATCH_NONE || ended_ns < started_ns)
        return false;
    const batch_slot_t *slot = &sched->batches.slots[batch];
    if (slot->model == BATCH_NO_MODEL)
        return true;
    shard_ran_t ran = {.first_task = slot->first_task,
                       .count = slot->count,
                       .rows = slot->rows,
                       .alone = !slot->beside && !sched->gpus[slot->gpu].mode.stretches,
                       .promised_ns = slot->promised_ns,
                       .finish_ns = slot->finish_ns,
                       .started_ns = started_ns,
                       .ended_ns = ended_ns};
    if (shard_learn(&sched->shards[slot->model], now_ns, &ran))
        judge_anew(sched, &sched->shards[slot->model]);
    return true;
}

bool sched_batch_done(sched_t *sched, int64_t now_ns, uint64_t batch_id, int64_t free_at_ns)
{
    uint32_t batch = batch_table_find(&sched->batches, batch_id);
    if (batch == BATCH_NONE)
        return false;
    if (sched->batches.slots[batch].beside)
        core_share_advance(sched, now_ns, sched->batches.slots[batch].gpu);
    const batch_slot_t ended = sched->batches.slots[batch];
    core_end_batch(sched, batch, CORE_TASKS_DONE);
    uint32_t first = sched->batches.gpu_first[ended.gpu];
    const batch_slot_t *rest = first == BATCH_NONE ? NULL : &sched->batches.slots[first];
    if (ended.beside)
        end_shared(sched, now_ns, &ended);
    else if (rest && batch_table_together(rest, &ended))
        repredict(sched, ended.gpu, rest->start_ns); /* a part of what runs: the rest ends when it was to */
    else
        repredict(sched, ended.gpu, free_at_ns);
    return true;
}

status_t sched_gpu_free(sched_t *sched, int64_t now_ns, uint32_t gpu, int64_t free_at_ns)
{
    (void)now_ns;
    if (!core_has_gpu(sched, gpu))
        return STATUS_NOT_FOUND;
    if (core_has_slots(&sched->gpus[gpu])) {
        sched->gpus[gpu].free_ns = free_at_ns;
        core_offer_gpu(sched, gpu);
    } else {
        repredict(sched, gpu, free_at_ns);
    }
    return STATUS_OK;
}

/* Preemption */

/* When a GPU is free for this model if nothing is stopped. */
static int64_t next_free_ns(const sched_t *sched, const shard_t *shard)
{
    int64_t free_ns = INT64_MAX;
    for (uint32_t g = 0; g < sched->limits.gpus_max; g++) {
        const core_gpu_t *gpu = &sched->gpus[g];
        if (gpu->present && !gpu->draining && gpu->free_ns < free_ns &&
            matcher_may_use(&sched->matcher, shard->index, g))
            free_ns = gpu->free_ns;
    }
    return free_ns;
}

/* The only batch of a GPU that runs one at a time, if it has begun and is none that rows have joined. */
static const batch_slot_t *find_running(const sched_t *sched, int64_t now_ns, uint32_t gpu)
{
    uint32_t batch = sched->batches.gpu_first[gpu];
    if (sched->batches.gpu_count[gpu] != 1 || sched->gpus[gpu].draining || core_has_slots(&sched->gpus[gpu]))
        return NULL;
    const batch_slot_t *slot = &sched->batches.slots[batch];
    bool runs = slot->start_ns <= now_ns && slot->finish_ns > now_ns;
    return runs && slot->model != BATCH_NO_MODEL && slot->together == batch_table_id(&sched->batches, batch)
               ? slot
               : NULL;
}

/* Of the batches that run alone on their GPUs, the smallest one that the policy would stop for this model. */
static uint32_t find_victim(sched_t *sched, int64_t now_ns, const shard_t *shard, int64_t *free_ns)
{
    uint32_t victim = BATCH_NONE;
    policy_running_t running = {.otherwise_ns = next_free_ns(sched, shard), .pool = &sched->pool};
    for (uint32_t g = 0; g < sched->limits.gpus_max; g++) {
        const batch_slot_t *slot = find_running(sched, now_ns, g);
        if (!slot || !matcher_may_use(&sched->matcher, shard->index, g) ||
            (victim != BATCH_NONE && slot->count >= sched->batches.slots[victim].count))
            continue;
        running.gpu = g;
        running.model = slot->model;
        running.count = slot->count;
        running.start_ns = slot->start_ns;
        running.finish_ns = slot->finish_ns;
        running.first_task = slot->first_task;
        int64_t stop_ns;
        if (sched->policy.ops->preempts(&sched->policy, shard, &sched->shards[slot->model], &running, now_ns,
                                        &stop_ns)) {
            victim = sched->batches.gpu_first[g];
            *free_ns = stop_ns;
        }
    }
    return victim;
}

/* The stopped batch's tasks are queued again after the grant that it made room for (Shepherd, Algorithm 1, line 19). */
static bool preempt(sched_t *sched, int64_t now_ns)
{
    uint32_t model = matcher_first_ready(&sched->matcher);
    match_grant_t match = {.model = model};
    if (model == UINT32_MAX)
        return false;
    uint32_t victim = find_victim(sched, now_ns, &sched->shards[model], &match.gpu_free_ns);
    if (victim == BATCH_NONE)
        return false;
    shard_t *waiting = &sched->shards[model];
    sched->policy.ops->candidate(&sched->policy, waiting, now_ns, match.gpu_free_ns, &waiting->candidate);
    tell_candidate(sched, now_ns, waiting);
    if (waiting->candidate.batch == 0)
        return true; /* all that waited was given up: nothing is left to stop it for */
    batch_slot_t stopped = sched->batches.slots[victim];
    shard_t *shard = &sched->shards[stopped.model];
    sched_action_t action = {
        .kind = SCHED_PREEMPT,
        .model = stopped.model,
        .preempt = {.gpu = stopped.gpu, .batch_id = batch_table_id(&sched->batches, victim)}};
    shard->counts->stats.preempted_batches++;
    shard->counts->stats.busy_ns -= (uint64_t)(stopped.finish_ns - match.gpu_free_ns);
    batch_table_give(&sched->batches, victim);
    sched->sink(sched->sink_ctx, &action);
    match.gpu = stopped.gpu;
    matcher_on_candidate(&sched->matcher, now_ns, model, &(candidate_t){0});
    grant(sched, now_ns, &match);
    release_tasks(sched, &stopped, CORE_TASKS_REQUEUE);
    return true;
}

/* Deciding */

static void tick(sched_t *sched, int64_t now_ns)
{
    if (now_ns < sched->tick_ns || !sched->policy.ops->tick)
        return;
    sched->tick_ns = sched->policy.ops->tick(&sched->policy, now_ns);
    core_mark_all_dirty(sched);
}

int64_t sched_run(sched_t *sched, int64_t now_ns, sched_sink_fn sink, void *ctx)
{
    match_grant_t match;
    sched->sink = sink;
    sched->sink_ctx = ctx;
    tick(sched, now_ns);
    do {
        refresh_dirty(sched, now_ns);
        refresh_expired(sched, now_ns);
        while (matcher_next(&sched->matcher, now_ns, &match)) {
            if (match.vague)
                renew(sched, now_ns, &sched->shards[match.model], match.gpu_free_ns);
            else
                grant(sched, now_ns, &match);
        }
    } while (sched->policy.stopping && preempt(sched, now_ns));
    int64_t wake_ns = matcher_wake_ns(&sched->matcher);
    int64_t expiry_ns = heap_min_key(&sched->expiry);
    if (expiry_ns < wake_ns)
        wake_ns = expiry_ns;
    if (sched->policy.ops->tick && sched->tick_ns < wake_ns)
        wake_ns = sched->tick_ns;
    return wake_ns;
}
