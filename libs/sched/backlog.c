/*
 * What a task finds ahead of it, from below (sched_backlog).
 *
 * The tasks that wait are sorted into parts of the time until the last deadline, and are done part by part, as if all GPUs that may run the model had nothing
 * else to do and every batch were the one whose rows take least. What of a part cannot be ended by its begin is given up. That is the order of deadlines, and among
 * tasks of one cost no order serves more of them: whoever comes behind and finds no time left can be served only in another one's place.
 */
#include "sched/core.h"

enum { PARTS = 64, LOOK_MOST = 8192 };

/* Where less waits than so many batches for each GPU, a batch has the rows that just came: who turns some of them away makes batches smaller. */
enum { BATCHES_LEAST = 4 };
/* A batch is good if its rows take no more than so much of the least: larger ones gain next to nothing. */
static const double GOOD_PART = 1.125;

/* Batches may be quicker than is believed of them, by an eighth: what is told here turns requests away. */
static const double LEAST_PART = 0.875;

/* GPUs that may run this model now; *free_ns: when the first of them is expected to be free. */
static uint32_t count_gpus(const sched_t *sched, const shard_t *shard, int64_t *free_ns)
{
    uint32_t count = 0;
    *free_ns = INT64_MAX;
    for (uint32_t g = 0; g < sched->limits.gpus_max; g++) {
        const core_gpu_t *gpu = &sched->gpus[g];
        if (!gpu->present || gpu->draining || !matcher_may_use(&sched->matcher, shard->index, g))
            continue;
        count++;
        if (gpu->free_ns < *free_ns)
            *free_ns = gpu->free_ns;
    }
    return count;
}

/* Of the batch whose rows take least: in the table it may be any, on the line behind it is one of the ends. */
static double least_row_ns(const shard_t *shard)
{
    const profile_t *profile = shard->profile;
    uint32_t limit = shard->limit;
    double least_ns = (double)profile_latency_ns(profile, limit) / limit;
    for (uint32_t b = 2; b <= profile->table_len && b < limit; b++) {
        double row_ns = (double)profile_latency_ns(profile, b) / b;
        least_ns = row_ns < least_ns ? row_ns : least_ns;
    }
    double alone_ns = (double)profile_latency_ns(profile, 1);
    if (alone_ns < least_ns)
        least_ns = alone_ns;
    return least_ns;
}

/* Of the first good batch, in doublings. */
static int64_t good_batch_ns(const shard_t *shard, double least_row_ns)
{
    uint32_t batch = 1;
    while (batch < shard->limit &&
           (double)profile_latency_ns(shard->profile, batch) > GOOD_PART * least_row_ns * batch)
        batch *= 2;
    return profile_latency_ns(shard->profile, batch < shard->limit ? batch : shard->limit);
}

/* By the part of the time from now until `last_ns` that their deadlines lie in. The few behind that came out of order are nobody's concern. */
static void sort(const shard_t *shard, int64_t now_ns, int64_t last_ns, uint32_t counts[PARTS])
{
    const model_queue_t *queue = &shard->queue;
    double parts_per_ns = (double)PARTS / (double)(last_ns - now_ns + 1);
    uint32_t task = model_queue_any(queue);
    for (uint32_t seen = 0; task != TASK_NONE && seen < LOOK_MOST; seen++) {
        int64_t deadline_ns = shard_task(shard, task)->deadline_ns;
        if (deadline_ns >= now_ns && deadline_ns <= last_ns)
            counts[(uint32_t)((double)(deadline_ns - now_ns) * parts_per_ns)]++;
        task = model_queue_another(queue, shard->pool, task);
    }
}

/* When the tasks have been done, beginning at begin_ns; one needs alone_ns by itself. */
static int64_t work_off(const uint32_t counts[PARTS], int64_t begin_ns, int64_t now_ns, int64_t last_ns,
                        int64_t row_ns, int64_t alone_ns)
{
    int64_t end_ns = begin_ns, span_ns = last_ns - now_ns + 1;
    for (uint32_t part = 0; part < PARTS; part++) {
        int64_t room_ns = now_ns + span_ns * part / PARTS - alone_ns - end_ns;
        int64_t room = room_ns > 0 ? room_ns / row_ns : 0;
        end_ns += row_ns * (room < counts[part] ? room : counts[part]);
    }
    return end_ns;
}

/* When a GPU may take what waits at the earliest: what runs may be stopped, or end sooner than is expected. */
static int64_t begin_ns(const sched_t *sched, int64_t now_ns, int64_t free_ns)
{
    if (free_ns <= now_ns || sched->policy.stopping)
        return now_ns;
    return now_ns + (int64_t)((double)(free_ns - now_ns) * LEAST_PART);
}

bool sched_backlog(const sched_t *sched, int64_t now_ns, uint32_t model, sched_backlog_t *backlog)
{
    if (!core_has_model(sched, model) || sched->stretching || sched->sharing || sched->policy.lanes)
        return false;
    const shard_t *shard = &sched->shards[model];
    int64_t last_ns = shard->queue.len > 0 ? shard_last_deadline_ns(shard) : now_ns, free_ns;
    if (last_ns <= now_ns) /* as of most models, so nothing dear goes before */
        return false;
    uint32_t gpus = count_gpus(sched, shard, &free_ns);
    double least_ns = least_row_ns(shard), mean = shard_mean_factor(shard);
    int64_t row_ns = gpus > 0 ? (int64_t)(least_ns * (mean < 1 ? mean : 1) * LEAST_PART / gpus) : 0;
    if (row_ns <= 0)
        return false;
    uint32_t counts[PARTS] = {0};
    sort(shard, now_ns, last_ns, counts);
    int64_t alone_ns = shard_lead_ns(shard, 1) + profile_latency_ns(shard->guard, 1);
    int64_t ends_ns = work_off(counts, begin_ns(sched, now_ns, free_ns), now_ns, last_ns, row_ns, alone_ns);
    if (ends_ns - now_ns < BATCHES_LEAST * good_batch_ns(shard, least_ns))
        return false;
    *backlog = (sched_backlog_t){.ends_ns = ends_ns, .row_ns = row_ns, .deadline_ns = last_ns};
    return true;
}

void sched_note_refused(sched_t *sched, uint32_t model, uint32_t count)
{
    if (!core_has_model(sched, model))
        return;
    shard_t *shard = &sched->shards[model];
    shard_counts_t *counts = shard->counts;
    shard_plan_t *plan = &shard->plan;
    if (counts->stats.submitted > 0) /* as those that came had in the mean */
        counts->budget_ns += counts->budget_ns / counts->stats.submitted * count;
    counts->stats.submitted += count;
    counts->stats.dropped[SCHED_DROP_WINDOW] += count;
    /* Of all a part is refused by the policy: these are of it. */
    plan->refuse_seen += count;
    plan->refuse_debt -= (1 - plan->refuse) * count;
    if (plan->refuse_debt < 0)
        plan->refuse_debt = 0;
}
