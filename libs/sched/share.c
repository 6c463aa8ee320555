/*
 * Batches side by side on one GPU (`overlap`), as the scheduler predicts them: the emulated accelerator's
 * rule for whole batches. While the parts of the GPU that they keep busy sum to more than all of it, each is
 * slowed by that sum. What a GPU has left for others is the time by which its batches could still be slowed:
 * its headroom (Abacus, equation 2).
 */
#include "sched/core.h"

/* One that runs: rows that have joined a batch run as one with it. */
typedef struct {
    batch_slot_t *batch; /* the last of those together; NULL: the candidate */
    int64_t left_ns;     /* if it ran alone */
    uint32_t busy;
    int64_t finish_ns; /* predicted */
    bool ended;        /* so far in the prediction */
} share_t;

typedef struct {
    share_t of[SCHED_SLOTS_MAX + 1];
    uint32_t count;
} shares_t;

static void collect(sched_t *sched, uint32_t gpu, shares_t *shares)
{
    shares->count = 0;
    for (uint32_t b = sched->batches.gpu_first[gpu]; b != BATCH_NONE; b = sched->batches.slots[b].next) {
        batch_slot_t *slot = &sched->batches.slots[b];
        uint32_t i = 0;
        while (i < shares->count && !batch_table_together(shares->of[i].batch, slot))
            i++;
        shares->of[i] = (share_t){.batch = slot, .left_ns = slot->left_ns, .busy = slot->busy};
        shares->count += i == shares->count;
    }
}

static int64_t slowed_by(const shares_t *shares)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < shares->count; i++)
        sum += shares->of[i].ended ? 0 : shares->of[i].busy;
    return sum > SCHED_WHOLE ? sum : SCHED_WHOLE;
}

static share_t *next_to_end(shares_t *shares)
{
    share_t *next = NULL;
    for (uint32_t i = 0; i < shares->count; i++) {
        share_t *share = &shares->of[i];
        if (!share->ended && (!next || share->left_ns < next->left_ns))
            next = share;
    }
    return next;
}

/* All of them from now_ns on, if nothing comes. */
static void predict(shares_t *shares, int64_t now_ns)
{
    int64_t passed_ns = 0; /* of what each has left */
    for (share_t *next; (next = next_to_end(shares));) {
        now_ns += (next->left_ns - passed_ns) * slowed_by(shares) / SCHED_WHOLE;
        passed_ns = next->left_ns;
        next->finish_ns = now_ns;
        next->ended = true;
    }
}

void core_share_advance(sched_t *sched, int64_t now_ns, uint32_t gpu)
{
    shares_t shares;
    core_gpu_t *entry = &sched->gpus[gpu];
    int64_t passed_ns = now_ns - entry->shared_ns;
    entry->shared_ns = now_ns;
    collect(sched, gpu, &shares);
    int64_t slowed = slowed_by(&shares);
    for (uint32_t i = 0; i < shares.count; i++) {
        batch_slot_t *batch = shares.of[i].batch;
        int64_t left_ns = batch->left_ns - passed_ns * SCHED_WHOLE / slowed;
        batch->left_ns = left_ns > 0 ? left_ns : 0;
    }
}

void core_share_predict(sched_t *sched, int64_t now_ns, uint32_t gpu)
{
    shares_t shares;
    collect(sched, gpu, &shares);
    predict(&shares, now_ns);
    for (uint32_t b = sched->batches.gpu_first[gpu]; b != BATCH_NONE; b = sched->batches.slots[b].next) {
        for (uint32_t i = 0; i < shares.count; i++) {
            if (batch_table_together(shares.of[i].batch, &sched->batches.slots[b]))
                sched->batches.slots[b].finish_ns = shares.of[i].finish_ns;
        }
    }
}

bool core_share_has_slot(sched_t *sched, uint32_t gpu)
{
    shares_t shares;
    uint32_t busy = 0;
    collect(sched, gpu, &shares);
    for (uint32_t i = 0; i < shares.count; i++)
        busy += shares.of[i].busy;
    return shares.count < sched->gpus[gpu].mode.slots &&
           busy < INSIDE_ROOM_LEAST + sched->gpus[gpu].mode.ahead;
}

/* Per mille of a GPU that may be granted that much ahead. */
static int64_t filled_most(uint32_t ahead)
{
    return (int64_t)INSIDE_FILLED_MOST * (SCHED_WHOLE + ahead) / SCHED_WHOLE;
}

/* What is kept back for several at once, or what was learned of the model alone: the larger one covers the other. */
static bool makes_it(const share_t *share, int64_t now_ns, int64_t deadline_ns, int64_t reserve_ns)
{
    int64_t kept_ns = (share->finish_ns - now_ns) / INSIDE_KEPT_BACK;
    return share->finish_ns + (kept_ns > reserve_ns ? kept_ns : reserve_ns) <= deadline_ns;
}

static int64_t reserve_of(const sched_t *sched, const batch_slot_t *batch)
{
    return batch->model == BATCH_NO_MODEL ? 0 : shard_reserve_ns(&sched->shards[batch->model], batch->rows);
}

bool core_share_fits(void *ctx, int64_t now_ns, uint32_t index, uint32_t gpu)
{
    sched_t *sched = ctx;
    const shard_t *shard = &sched->shards[index];
    const candidate_t *candidate = &shard->candidate;
    shares_t shares;
    core_share_advance(sched, now_ns, gpu);
    collect(sched, gpu, &shares);
    int64_t latency_ns = shard_expected_ns(shard, candidate->batch);
    int64_t reserve_ns = shard_reserve_ns(shard, candidate->batch);
    share_t *own = &shares.of[shares.count++];
    *own = (share_t){.left_ns = candidate->lead_ns + latency_ns,
                     .busy = inside_busy(&sched->shards[shard->model], candidate->batch)};
    if (slowed_by(&shares) > filled_most(sched->gpus[gpu].mode.ahead))
        return false;
    predict(&shares, now_ns);
    if (!makes_it(own, now_ns, candidate->latest_ns + latency_ns + reserve_ns, reserve_ns))
        return false;
    for (uint32_t i = 0; i + 1 < shares.count; i++) {
        const batch_slot_t *batch = shares.of[i].batch;
        bool lost = batch->finish_ns > batch->deadline_ns; /* it is late already */
        if (!lost && !makes_it(&shares.of[i], now_ns, batch->deadline_ns, reserve_of(sched, batch)))
            return false;
    }
    return true;
}
