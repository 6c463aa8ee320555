/*
 * Hot path. The matcher's thread: what GPUs there are and what runs on them, the matcher, and the orders to the shards.
 */
#include "shards/internal.h"

#include <assert.h>

enum { CONTROLS_PER_TURN = 64 };

/* What the matcher has heard of a batch. An answer out of its turn is a fault in the protocol
 * (docs/protocols.md): builds with assertions stop there. */
enum { STAGE_NONE, STAGE_ASKED, STAGE_TAKEN };

static worker_t *worker_of(binder_t *binder, uint32_t model)
{
    return &binder->shards->workers[binder->route[model]];
}

/* ---- GPUs ---- */

static void offer(binder_t *binder, uint32_t gpu)
{
    const binder_gpu_t *entry = &binder->gpus[gpu];
    bool open = entry->present && !entry->draining && !entry->asked &&
                binder->batches.gpu_count[gpu] < binder->shards->options.limits.gpu_inflight_max;
    if (open)
        matcher_on_gpu_free(&binder->matcher, gpu, entry->free_ns + entry->unsure_ns);
    else
        matcher_close_gpu(&binder->matcher, gpu);
}

static void repredict(binder_t *binder, uint32_t gpu, int64_t free_ns)
{
    bool idle = true;
    for (uint32_t b = binder->batches.gpu_first[gpu]; b != BATCH_NONE; b = binder->batches.slots[b].next) {
        batch_slot_t *slot = &binder->batches.slots[b];
        if (binder->stage[b] == STAGE_ASKED)
            continue; /* its shard will say */
        idle = false;
        int64_t latency_ns = slot->finish_ns - slot->start_ns;
        if (slot->start_ns < free_ns)
            slot->start_ns = free_ns;
        slot->finish_ns = slot->start_ns + latency_ns;
        free_ns = slot->finish_ns;
    }
    binder->gpus[gpu].free_ns = free_ns;
    if (idle)
        binder->gpus[gpu].unsure_ns = 0;
    offer(binder, gpu);
}

/* ---- Orders ---- */

static void order(worker_t *worker, const order_t *message)
{
    bool sent = spsc_push(&worker->orders, message);
    assert(sent); /* see may_grant */
    (void)sent;
    waiter_wake(&worker->waiter);
}

/* Every grant may have to be followed by the word that its GPU is lost, and a GPU that joins again by
 * another grant: with grants only up to a quarter of the ring there is room for all that follows
 * (create.c). */
static bool may_grant(const worker_t *worker)
{
    return spsc_len(&worker->orders) < (worker->orders.mask + 1) / 4;
}

static void grant(binder_t *binder, int64_t now_ns, const match_grant_t *match)
{
    worker_t *worker = worker_of(binder, match->model);
    uint32_t index = batch_table_take(&binder->batches, match->gpu);
    batch_slot_t *slot = &binder->batches.slots[index];
    slot->model = binder->route[match->model]; /* here: the shard that has it */
    slot->start_ns = slot->finish_ns = match->gpu_free_ns;
    assert(!binder->gpus[match->gpu].asked && binder->stage[index] == STAGE_NONE);
    binder->gpus[match->gpu].asked = true;
    binder->stage[index] = STAGE_ASKED;
    binder->issued[match->model]++;
    uint64_t id = batch_table_id(&binder->batches, index) | (uint64_t)worker->index << BATCH_INDEX_BITS;
    order(worker, &(order_t){.kind = ORDER_GRANT,
                             .model = match->model,
                             .number = binder->issued[match->model],
                             .gpu = match->gpu,
                             .gpus = match->gpus,
                             .batch_id = id,
                             .gpu_free_ns = match->gpu_free_ns,
                             .at_ns = now_ns,
                             .due_ns = binder->due_ns});
}

/* ---- Answers ---- */

static uint32_t find_batch(const binder_t *binder, uint64_t batch_id)
{
    return batch_table_find(&binder->batches, batch_id & ~((uint64_t)(SHARDS_MAX - 1) << BATCH_INDEX_BITS));
}

static void on_taken(binder_t *binder, uint32_t index, const answer_t *message)
{
    batch_slot_t *slot = &binder->batches.slots[index];
    binder_gpu_t *gpu = &binder->gpus[slot->gpu];
    int64_t latency_ns = message->finish_ns - message->start_ns;
    slot->start_ns = message->start_ns < gpu->free_ns ? gpu->free_ns : message->start_ns;
    slot->finish_ns = slot->start_ns + latency_ns;
    gpu->free_ns = slot->finish_ns;
    gpu->unsure_ns = message->unsure_ns;
    gpu->asked = false;
    offer(binder, slot->gpu);
}

static void on_unused(binder_t *binder, uint32_t index)
{
    uint32_t gpu = binder->batches.slots[index].gpu;
    batch_table_give(&binder->batches, index);
    binder->stage[index] = STAGE_NONE;
    binder->gpus[gpu].asked = false;
    offer(binder, gpu);
}

static void on_done(binder_t *binder, uint32_t index, int64_t free_ns)
{
    uint32_t gpu = binder->batches.slots[index].gpu;
    batch_table_give(&binder->batches, index);
    binder->stage[index] = STAGE_NONE;
    repredict(binder, gpu, free_ns);
}

static void on_answer(binder_t *binder, const answer_t *message)
{
    uint32_t index = find_batch(binder, message->batch_id);
    if (index == BATCH_NONE)
        return; /* its GPU has left */
    bool asked = message->kind == ANSWER_TAKEN || message->kind == ANSWER_UNUSED;
    assert(binder->stage[index] == (asked ? STAGE_ASKED : STAGE_TAKEN));
    (void)asked;
    switch (message->kind) {
    case ANSWER_TAKEN:
        binder->stage[index] = STAGE_TAKEN;
        on_taken(binder, index, message);
        break;
    case ANSWER_UNUSED:
        on_unused(binder, index);
        break;
    case ANSWER_DONE:
        on_done(binder, index, message->finish_ns);
        break;
    }
}

static bool take_answers(binder_t *binder)
{
    answer_t message;
    bool any = false;
    for (uint32_t k = 0; k < binder->shards->options.shard_count; k++) {
        while (spsc_pop(&binder->shards->workers[k].answers, &message)) {
            on_answer(binder, &message);
            any = true;
        }
    }
    return any;
}

/* ---- Candidates ---- */

static void take_candidate(binder_t *binder, int64_t now_ns, uint32_t model)
{
    const slot_value_t *value = slot_take(&binder->shards->slots[model]);
    if (!value)
        return;
    binder->candidates++;
    if (value->seen != binder->issued[model]) {
        binder->stale++;
        return; /* its shard did not yet know of the last order: another one comes */
    }
    binder->current[model] = value->seen;
    matcher_on_candidate(&binder->matcher, now_ns, model, &value->candidate);
}

static bool take_candidates(binder_t *binder, int64_t now_ns)
{
    shards_t *shards = binder->shards;
    bool any = false;
    for (uint32_t w = 0; w < shards->fresh_words; w++) {
        if (atomic_load_explicit(&shards->fresh[w], memory_order_relaxed) == 0)
            continue;
        uint64_t bits = atomic_exchange_explicit(&shards->fresh[w], 0, memory_order_acquire);
        for (; bits; bits &= bits - 1)
            take_candidate(binder, now_ns, w * 64 + (uint32_t)__builtin_ctzll(bits));
        any = true;
    }
    return any;
}

/* ---- Control ---- */

static void count_usable(binder_t *binder, int change)
{
    atomic_fetch_add_explicit(&binder->gpus_usable, (uint32_t)change, memory_order_relaxed);
    atomic_fetch_add_explicit(&binder->gpus_changes, 1, memory_order_release);
    waiter_wake(&binder->shards->planner.waiter);
}

static void add_gpu(binder_t *binder, uint32_t gpu, int64_t free_ns)
{
    if (binder->gpus[gpu].present && !binder->gpus[gpu].draining)
        return;
    if (!binder->gpus[gpu].present)
        binder->gpus[gpu] = (binder_gpu_t){.free_ns = free_ns};
    binder->gpus[gpu].present = true;
    binder->gpus[gpu].draining = false;
    count_usable(binder, 1);
    offer(binder, gpu);
}

static void drain_gpu(binder_t *binder, uint32_t gpu)
{
    if (!binder->gpus[gpu].present || binder->gpus[gpu].draining)
        return;
    binder->gpus[gpu].draining = true;
    count_usable(binder, -1);
    offer(binder, gpu);
}

static void remove_gpu(binder_t *binder, uint32_t gpu)
{
    if (!binder->gpus[gpu].present)
        return;
    count_usable(binder, binder->gpus[gpu].draining ? 0 : -1);
    for (uint32_t b; (b = binder->batches.gpu_first[gpu]) != BATCH_NONE;) {
        worker_t *worker = &binder->shards->workers[binder->batches.slots[b].model];
        uint64_t id = batch_table_id(&binder->batches, b) | (uint64_t)worker->index << BATCH_INDEX_BITS;
        batch_table_give(&binder->batches, b);
        binder->stage[b] = STAGE_NONE;
        order(worker, &(order_t){.kind = ORDER_LOST, .gpu = gpu, .batch_id = id});
    }
    binder->gpus[gpu] = (binder_gpu_t){0};
    offer(binder, gpu);
    for (uint32_t m = 0; m < binder->shards->options.limits.models_max; m++)
        matcher_allow(&binder->matcher, m, gpu, true);
}

/* Only from a shard that has worked off all orders about the model, so that it is certainly there. */
static void move_model(binder_t *binder, int64_t now_ns, uint32_t model, uint32_t to)
{
    if (binder->current[model] != binder->issued[model] || binder->route[model] == to)
        return;
    worker_t *worker = worker_of(binder, model);
    matcher_on_candidate(&binder->matcher, now_ns, model, &(candidate_t){0});
    binder->issued[model]++;
    binder->route[model] = to;
    binder->moves++;
    order(worker, &(order_t){.kind = ORDER_GIVE, .model = model, .gpu = to, .number = binder->issued[model]});
}

void binder_control(binder_t *binder, int64_t now_ns, const control_t *message)
{
    switch (message->kind) {
    case CONTROL_ADD_GPU:
        add_gpu(binder, message->which, message->free_ns);
        break;
    case CONTROL_REMOVE_GPU:
        remove_gpu(binder, message->which);
        break;
    case CONTROL_DRAIN_GPU:
        drain_gpu(binder, message->which);
        break;
    case CONTROL_GPU_FREE:
        if (binder->gpus[message->which].present)
            repredict(binder, message->which, message->free_ns);
        break;
    case CONTROL_MOVE:
        move_model(binder, now_ns, message->which, message->to);
        break;
    }
}

static bool take_controls(binder_t *binder, int64_t now_ns)
{
    control_t message;
    int taken = 0;
    for (; taken < CONTROLS_PER_TURN && mpsc_pop(&binder->control, &message); taken++)
        binder_control(binder, now_ns, &message);
    return taken > 0;
}

/* ---- The turn ---- */

bool binder_turn(binder_t *binder, int64_t now_ns, uint32_t grants_max)
{
    match_grant_t match;
    int64_t wake_ns = matcher_wake_ns(&binder->matcher);
    binder->due_ns = wake_ns < now_ns ? wake_ns : now_ns;
    bool any = take_answers(binder); /* first: what a shard has answered for a GPU that then leaves */
    any |= take_controls(binder, now_ns);
    any |= take_candidates(binder, now_ns);
    for (uint32_t k = 0; k < binder->shards->options.shard_count; k++) {
        if (!may_grant(&binder->shards->workers[k]))
            return any; /* that shard is far behind; nobody is granted a GPU until it has caught up a little */
    }
    for (uint32_t n = 0; n < grants_max && matcher_next(&binder->matcher, now_ns, &match); n++) {
        grant(binder, now_ns, &match);
        any = true;
    }
    return any;
}

int64_t binder_wake_ns(const binder_t *binder)
{
    return matcher_wake_ns(&binder->matcher);
}
