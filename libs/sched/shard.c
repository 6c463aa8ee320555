#include "sched/shard.h"

#include <math.h>
#include <stdlib.h>

void shard_init(shard_t *shard, task_pool_t *pool, uint32_t index)
{
    *shard = (shard_t){.pool = pool,
                       .index = index,
                       .model = index,
                       .counts = &shard->own,
                       .dropped_head = TASK_NONE,
                       .dropped_tail = TASK_NONE,
                       .lane = {.next = TASK_NONE}};
    model_queue_init(&shard->queue);
}

void shard_place(shard_t *shard, const profile_t *profile, profile_t *guarded, scatter_t *scatter)
{
    shard->profile = shard->guard = profile;
    shard->guarded = guarded;
    shard->scatter = scatter;
}

void shard_judge_no_more(shard_t *shard)
{
    shard->guard = shard->profile;
    shard->counts->mean = shard->counts->guard = shard->counts->spared = 0;
}

bool shard_count_on_delays(shard_t *shard)
{
    const double least = 0.05;
    const sched_delays_t *measured = &shard->measured;
    double spared = shard->counts->spared;
    int64_t ctrl_ns = measured->ctrl_ns - (int64_t)(spared * (double)measured->ctrl_rare_ns),
            fixed_ns = measured->fixed_ns - (int64_t)(spared * (double)measured->fixed_rare_ns);
    int64_t change_ns = llabs(ctrl_ns - shard->delays.ctrl_ns) + llabs(fixed_ns - shard->delays.fixed_ns);
    if ((double)change_ns <= least * (double)(ctrl_ns + fixed_ns))
        return false;
    shard->delays.ctrl_ns = ctrl_ns;
    shard->delays.fixed_ns = fixed_ns;
    return true;
}

void shard_set_delays(shard_t *shard, const sched_delays_t *delays)
{
    shard->measured = shard->delays = *delays;
    (void)shard_count_on_delays(shard);
}

static bool spare_delays(shard_t *shard)
{
    shard->counts->spared = 1 - scatter_rare(shard->scatter);
    return shard_count_on_delays(shard);
}

static void forget(shard_t *shard)
{
    shard_judge_no_more(shard);
    if (shard->scatter)
        *shard->scatter = (scatter_t){0};
    shard->delays = shard->measured;
}

static bool nothing_to_guard(const scatter_t *scatter)
{
    bool plain = scatter->mean == 1 && scatter->guard == 1;
    for (uint32_t c = 0; c < SCATTER_CLASSES; c++)
        plain = plain && scatter->means[c] == 1 && scatter->guards[c] == 1;
    return plain;
}

static void build_guard(shard_t *shard)
{
    const scatter_t *scatter = shard->scatter;
    shard->own.mean = scatter->mean;
    shard->own.guard = scatter->guard;
    shard->guard = shard->profile;
    if (scatter->guard == 0 || nothing_to_guard(scatter))
        return;
    scatter_build(scatter, shard->profile, shard->guarded);
    shard->guard = shard->guarded;
}

static bool differ_much(const profile_t *a, const profile_t *b)
{
    enum { MUCH = 4 }; /* more than a quarter, at either end */
    uint32_t most = a->max_batch < b->max_batch ? a->max_batch : b->max_batch;
    const uint32_t batches[] = {1, most};
    for (uint32_t i = 0; i < 2; i++) {
        int64_t then_ns = profile_latency_ns(a, batches[i]), now_ns = profile_latency_ns(b, batches[i]);
        int64_t apart_ns = then_ns < now_ns ? now_ns - then_ns : then_ns - now_ns;
        if (apart_ns > then_ns / MUCH || apart_ns > now_ns / MUCH)
            return true;
    }
    return false;
}

void shard_set_profile(shard_t *shard, profile_t *own, const profile_t *profile)
{
    bool other = differ_much(own, profile);
    if (!other && shard->scatter)
        scatter_change_profile(shard->scatter, own, profile);
    *own = *profile;
    if (other)
        forget(shard);
    else if (shard->scatter)
        build_guard(shard);
}

void shard_judge_on(shard_t *shard)
{
    build_guard(shard);
    (void)spare_delays(shard);
}

static uint32_t rows_close(const shard_t *shard, const shard_ran_t *ran, int64_t end_ns)
{
    uint32_t rows = 0, task = ran->first_task;
    while (rows < ran->count && shard_task(shard, task)->deadline_ns < end_ns) {
        task = shard->pool->slots[task].next;
        rows++;
    }
    return rows;
}

bool shard_learn(shard_t *shard, int64_t now_ns, const shard_ran_t *ran)
{
    if (!shard->scatter)
        return false;
    int64_t expected_ns = shard_expected_ns(shard, ran->rows);
    int64_t end_ns = ran->alone ? ran->promised_ns + expected_ns : ran->finish_ns;
    scatter_sample_t sample = {.batch = ran->rows,
                               .profile_ns = profile_latency_ns(shard->profile, ran->rows),
                               .took_ns = ran->ended_ns - end_ns + expected_ns,
                               .ran_ns = ran->alone ? ran->ended_ns - ran->started_ns : 0};
    if (sample.profile_ns <= 0)
        return false;
    if (sample.took_ns < sample.ran_ns) /* it began before it was to: that makes no batch shorter */
        sample.took_ns = sample.ran_ns;
    int64_t reach_ns = scatter_reach_ns(shard->scatter, ran->rows, sample.profile_ns);
    sample.close = rows_close(shard, ran, end_ns + reach_ns);
    bool changed = scatter_note(shard->scatter, now_ns, &sample);
    if (changed)
        build_guard(shard);
    return spare_delays(shard) || changed;
}

bool shard_doubts(shard_t *shard, int64_t now_ns, int64_t gpu_free_ns, int64_t deadline_ns)
{
    int64_t alone_ns =
        shard_earliest_ns(shard, now_ns, gpu_free_ns, 1) + profile_latency_ns(shard->profile, 1);
    if (alone_ns > deadline_ns)
        return false;
    int64_t old_ns = 2 * profile_latency_ns(shard->guard, 1);
    if (!scatter_doubt(shard->scatter, now_ns, old_ns))
        return false;
    shard->guard = shard->profile;
    return true;
}

void shard_end_doubt(shard_t *shard)
{
    if (shard->scatter && scatter_granted(shard->scatter))
        shard->guard = shard->guarded;
}

status_t shard_check_profile(const profile_t *profile, err_t *err)
{
    const char *broken = profile_validate(profile);
    return broken ? err_set(err, STATUS_INVALID_ARGUMENT, "profile: %s", broken) : STATUS_OK;
}

void shard_set_limit(shard_t *shard, uint32_t batch_max)
{
    uint32_t limit = batch_max;
    if (shard->profile->max_batch < limit)
        limit = shard->profile->max_batch;
    if (shard->opts.max_batch && shard->opts.max_batch < limit)
        limit = shard->opts.max_batch;
    shard->limit = limit;
}

void shard_set_up(shard_t *shard, const sched_model_opts_t *opts, uint32_t batch_max)
{
    shard->opts = opts ? *opts : (sched_model_opts_t){0};
    shard->plan = (shard_plan_t){0};
    shard->candidate = (candidate_t){0};
    shard->own = (shard_counts_t){0};
    forget(shard);
    shard->crowd = (shard_crowd_t){0};
    shard->spell_end_ns = 0;
    shard->inside = (sched_inside_t){0};
    shard_set_limit(shard, batch_max);
}

bool shard_cancel(shard_t *shard, uint32_t task)
{
    uint8_t state = shard->pool->slots[task].state;
    if (state != TASK_IN_ORDER && state != TASK_IN_HEAP)
        return false;
    model_queue_remove(&shard->queue, shard->pool, task);
    task_pool_give(shard->pool, task);
    shard->counts->stats.cancelled++;
    return true;
}

void shard_requeue(shard_t *shard, uint32_t task, bool lost)
{
    task_slot_t *slot = &shard->pool->slots[task];
    slot->next = slot->prev = slot->child = TASK_NONE;
    slot->model = shard->index;
    if (lost)
        slot->lost = 1;
    model_queue_push(&shard->queue, shard->pool, task);
}

void shard_give_up(shard_t *shard, uint32_t task, sched_drop_t reason)
{
    task_slot_t *slot = &shard->pool->slots[task];
    model_queue_remove(&shard->queue, shard->pool, task);
    slot->state = TASK_GIVEN_UP;
    slot->reason = (uint8_t)(slot->lost && reason != SCHED_DROP_MODEL_REMOVED ? SCHED_DROP_GPU_LOST : reason);
    shard->counts->stats.dropped[slot->reason]++;
    if (shard->dropped_tail == TASK_NONE)
        shard->dropped_head = task;
    else
        shard->pool->slots[shard->dropped_tail].next = task;
    shard->dropped_tail = task;
}

void shard_drop_all(shard_t *shard, sched_drop_t reason)
{
    for (uint32_t task; (task = shard_head(shard)) != TASK_NONE;)
        shard_give_up(shard, task, reason);
}

/* How many would have come at random while so many were there. */
static double crowd_at_random(const shard_t *shard)
{
    const shard_crowd_t *crowd = &shard->crowd;
    double lasted_ns = (double)(crowd->last_ns - crowd->begun_ns);
    double came = (double)(shard->counts->stats.submitted - crowd->submitted);
    return lasted_ns > 0 ? came * fmin((double)crowd->complete_ns / lasted_ns, 1) : 0;
}

/* So many are all who will come; 0: there are others. What was known is kept for as long as others come clearly less often than at
 * random, since those who do not wait for all are held to the end of their SLO; and over a pause, if what came before it was no
 * stream of few requests. */
static uint32_t crowd_all(const shard_t *shard, bool enough)
{
    enum { TO_LEARN = 10, TO_KEEP = 2 }; /* so many times less often than at random */
    enum { TO_TELL = 2 };                /* so many would have come at random */
    const shard_crowd_t *crowd = &shard->crowd;
    double at_random = crowd_at_random(shard);
    bool known = crowd->all == crowd->usual;
    bool tells = enough || (known && at_random >= TO_TELL);
    bool seldom = (known ? TO_KEEP : TO_LEARN) * (double)crowd->beyond <= at_random;
    return tells && seldom && 2 * crowd->complete > crowd->batches ? crowd->usual : 0;
}

static void vote_for_usual(shard_crowd_t *crowd, uint32_t there)
{
    if (crowd->votes == 0) {
        crowd->usual = there;
        crowd->complete = crowd->beyond = 0;
        crowd->complete_ns = 0;
    }
    if (there == crowd->usual)
        crowd->votes++;
    else
        crowd->votes--;
}

static void note_crowd(shard_t *shard, int64_t now_ns, uint32_t count)
{
    enum { BATCHES_LEAST = 8 };
    shard_crowd_t *crowd = &shard->crowd;
    uint32_t there = shard_there(shard);
    int64_t passed_ns = now_ns - crowd->begun_ns;
    bool enough = crowd->batches >= BATCHES_LEAST;
    if (passed_ns >= SHARD_CROWD_LONGEST_NS || (enough && passed_ns >= SHARD_CROWD_WINDOW_NS)) {
        *crowd = (shard_crowd_t){
            .begun_ns = now_ns, .submitted = shard->counts->stats.submitted, .all = crowd_all(shard, enough)};
    }
    crowd->last_ns = now_ns;
    crowd->batches++;
    vote_for_usual(crowd, there);
    if (there != crowd->usual)
        return;
    crowd->complete++;
    crowd->complete_ns += now_ns - shard_last_arrival_ns(shard) + profile_latency_ns(shard->profile, count);
}

void shard_note_silence(shard_t *shard, int64_t now_ns, uint32_t count)
{
    note_crowd(shard, now_ns, count);
    shard->counts->complete += shard_is_complete(shard);
    double rate = shard->plan.rate_per_ns;
    uint32_t last = shard->queue.tail, head = shard_head(shard);
    if (!(rate > 0) || count < shard->queue.len || last == TASK_NONE)
        return;
    double held_ns = (double)(now_ns - shard_task(shard, head)->arrival_ns);
    shard->counts->silence_ns += (double)(now_ns - shard_task(shard, last)->arrival_ns);
    shard->counts->silence_expected_ns += (1 - exp(-rate * held_ns)) / rate;
}

/* The first task behind those that the candidate skips. */
static uint32_t behind_skipped(shard_t *shard)
{
    model_queue_line_up(&shard->queue, shard->pool);
    uint32_t at = shard->queue.head;
    for (uint32_t i = 0; i < shard->candidate.skip; i++)
        at = shard->pool->slots[at].next;
    return at;
}

uint32_t shard_pop_batch(shard_t *shard, uint32_t count)
{
    if (shard->candidate.skip == 0)
        return model_queue_pop_chain(&shard->queue, shard->pool, count, TASK_IN_FLIGHT);
    uint32_t first = TASK_NONE, *link = &first;
    uint32_t at = behind_skipped(shard);
    for (uint32_t i = 0; i < count; i++) {
        task_slot_t *slot = &shard->pool->slots[at];
        uint32_t next = slot->next;
        model_queue_remove(&shard->queue, shard->pool, at);
        slot->state = TASK_IN_FLIGHT;
        *link = at;
        link = &slot->next;
        at = next;
    }
    return first;
}

const char *shard_validate(const shard_t *shard)
{
    const candidate_t *candidate = &shard->candidate;
    const char *broken = model_queue_validate(&shard->queue, shard->pool, shard->index);
    if (broken || shard->dirty)
        return broken;
    if (candidate->batch && candidate->skip + candidate->batch > shard->queue.len)
        return "a candidate is larger than its queue";
    if (candidate->batch > shard->limit)
        return "a candidate is larger than its model allows";
    if (candidate->batch && candidate->latest_ns < candidate->ready_ns)
        return "a candidate is ready only when it is too late";
    if (shard->queue.len && !candidate->batch)
        return "tasks wait and there is no candidate";
    for (uint32_t at = shard->dropped_head; at != TASK_NONE; at = shard->pool->slots[at].next) {
        if (shard->pool->slots[at].state != TASK_GIVEN_UP)
            return "the drop chain holds a task that was not given up";
    }
    return NULL;
}
