/*
 * The core against a slow model of it that is obviously right: arrays that are searched and sorted anew at
 * every step, straight from Symphony's Algorithm 1 (no delays), and from what it tells of Clockwork. Both
 * must decide the same at every moment.
 */
#include "base/prng.h"
#include "sched/sched.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODELS = 4, GPUS = 3, TASKS = 512, ARRIVALS = 600, LOG_BYTES = 4096 };

typedef enum { DEFERRED, EAGER, TIMEOUT, CLOCKWORK, CLOCKWORK_POW2, CLOCKWORK_LARGEST, KINDS } kind_t;
static const char *const names[] = {"deferred", "eager", "timeout", "clockwork", "clockwork", "clockwork"};
static const char *const params[] = {NULL, NULL, "k_ms=3", NULL, "sizes=pow2", "take=largest"};
static const int64_t timeout_wait_ns = 3000000;

/* What is decided at one moment: the drops in any order, then the grants in theirs. */
typedef struct {
    uint64_t drops[TASKS];
    size_t drop_count;
    char grants[LOG_BYTES];
    size_t len;
} log_t;

typedef struct {
    uint64_t tag;
    int64_t arrival_ns, deadline_ns;
} waiting_t;

typedef struct {
    kind_t kind;
    int64_t alpha_ns[MODELS], beta_ns[MODELS];
    uint32_t max_batch;
    waiting_t waiting[MODELS][TASKS]; /* kept sorted by deadline, then by arrival */
    size_t count[MODELS];
    int64_t gpu_free_ns[GPUS];
    log_t log;
} slow_t;

typedef struct {
    size_t skip, batch;
    int64_t ready_ns, latest_ns; /* latest: also who goes first */
} slow_candidate_t;

static int64_t latency_ns(const slow_t *slow, int m, size_t batch)
{
    return slow->alpha_ns[m] * (int64_t)batch + slow->beta_ns[m];
}

static void slow_submit(slow_t *slow, int m, waiting_t task)
{
    size_t i = slow->count[m]++;
    for (; i > 0 && slow->waiting[m][i - 1].deadline_ns > task.deadline_ns; i--)
        slow->waiting[m][i] = slow->waiting[m][i - 1];
    slow->waiting[m][i] = task;
}

static void slow_pop(slow_t *slow, int m, size_t skip, size_t n)
{
    waiting_t *from = slow->waiting[m] + skip;
    memmove(from, from + n, (slow->count[m] - skip - n) * sizeof(waiting_t));
    slow->count[m] -= n;
}

/* The largest batch that meets the head's deadline; heads that cannot make it alone go. */
static size_t slow_gather(slow_t *slow, int m, int64_t now_ns)
{
    while (slow->count[m]) {
        const waiting_t *head = &slow->waiting[m][0];
        size_t batch = 0;
        while (batch < slow->count[m] && batch < slow->max_batch &&
               now_ns + latency_ns(slow, m, batch + 1) <= head->deadline_ns)
            batch++;
        if (batch)
            return batch;
        slow->log.drops[slow->log.drop_count++] = head->tag;
        slow_pop(slow, m, 0, 1);
    }
    return 0;
}

/* Of every size, begun at the first request that can wait for it. */
static slow_candidate_t slow_clockwork(const slow_t *slow, int m, int64_t now_ns)
{
    slow_candidate_t best = {.ready_ns = now_ns, .latest_ns = INT64_MAX};
    for (size_t b = 1; b <= slow->max_batch; b += slow->kind == CLOCKWORK_POW2 ? b : 1) {
        size_t skip = 0;
        while (skip < slow->count[m] && slow->waiting[m][skip].deadline_ns < now_ns + latency_ns(slow, m, b))
            skip++;
        if (skip + b > slow->count[m])
            continue;
        int64_t latest_ns = slow->waiting[m][skip].deadline_ns - latency_ns(slow, m, b);
        if (latest_ns <= best.latest_ns || slow->kind == CLOCKWORK_LARGEST) {
            best.skip = skip;
            best.batch = b;
        }
        if (latest_ns < best.latest_ns)
            best.latest_ns = latest_ns;
    }
    return best;
}

static slow_candidate_t slow_candidate(slow_t *slow, int m, int64_t now_ns)
{
    slow_candidate_t candidate = {.batch = slow_gather(slow, m, now_ns)};
    if (candidate.batch == 0)
        return candidate;
    if (slow->kind >= CLOCKWORK)
        return slow_clockwork(slow, m, now_ns);
    const waiting_t *head = &slow->waiting[m][0];
    candidate.latest_ns = head->deadline_ns - latency_ns(slow, m, candidate.batch);
    bool full = candidate.batch == slow->max_batch;
    if (slow->kind == DEFERRED)
        candidate.ready_ns = head->deadline_ns - latency_ns(slow, m, candidate.batch + 1);
    if (slow->kind == TIMEOUT)
        candidate.ready_ns = head->arrival_ns + timeout_wait_ns;
    if (slow->kind == EAGER || full || candidate.ready_ns < now_ns)
        candidate.ready_ns = now_ns;
    if (candidate.ready_ns > candidate.latest_ns)
        candidate.ready_ns = candidate.latest_ns;
    return candidate;
}

static void slow_grant(slow_t *slow, int m, int g, const slow_candidate_t *chosen, int64_t now_ns)
{
    log_t *log = &slow->log;
    size_t batch = chosen->batch;
    slow->gpu_free_ns[g] = now_ns + latency_ns(slow, m, batch);
    log->len += (size_t)snprintf(log->grants + log->len, LOG_BYTES - log->len, "m%d g%d n%zu first%llu; ", m,
                                 g, batch, (unsigned long long)slow->waiting[m][chosen->skip].tag);
    slow_pop(slow, m, chosen->skip, batch);
}

/* All that is due now; returns when to look again. */
static int64_t slow_run(slow_t *slow, int64_t now_ns)
{
    for (;;) {
        int best = -1, gpu = 0;
        slow_candidate_t chosen = {0};
        int64_t wake_ns = INT64_MAX;
        for (int m = 0; m < MODELS; m++) {
            slow_candidate_t candidate = slow_candidate(slow, m, now_ns);
            if (candidate.batch == 0)
                continue;
            if (candidate.ready_ns <= now_ns && (best < 0 || candidate.latest_ns < chosen.latest_ns)) {
                best = m;
                chosen = candidate;
            }
            int64_t next_ns = candidate.ready_ns > now_ns ? candidate.ready_ns : candidate.latest_ns + 1;
            wake_ns = next_ns < wake_ns ? next_ns : wake_ns;
        }
        while (gpu < GPUS && slow->gpu_free_ns[gpu] > now_ns)
            gpu++;
        if (best >= 0 && gpu < GPUS) {
            slow_grant(slow, best, gpu, &chosen, now_ns);
            continue;
        }
        for (int g = 0; g < GPUS; g++) {
            if (slow->gpu_free_ns[g] > now_ns && slow->gpu_free_ns[g] < wake_ns)
                wake_ns = slow->gpu_free_ns[g];
        }
        return wake_ns;
    }
}

typedef struct {
    sched_t *sched;
    log_t log;
    struct {
        int64_t at_ns;
        uint64_t id;
    } ends[GPUS];
    int64_t now_ns;
} quick_t;

static void on_action(void *ctx, const sched_action_t *action)
{
    quick_t *quick = ctx;
    log_t *log = &quick->log;
    if (action->kind == SCHED_DROP) {
        log->drops[log->drop_count++] = action->drop.task.tag;
        return;
    }
    cr_assert_eq(action->kind, SCHED_GRANT);
    cr_assert_eq(action->grant.start_ns, quick->now_ns);
    quick->ends[action->grant.gpu].at_ns = action->grant.finish_ns;
    quick->ends[action->grant.gpu].id = action->grant.batch_id;
    log->len += (size_t)snprintf(log->grants + log->len, LOG_BYTES - log->len, "m%u g%u n%u first%llu; ",
                                 action->model, action->grant.gpu, action->grant.count,
                                 (unsigned long long)action->grant.tasks[0].tag);
}

static int64_t quick_run(quick_t *quick, int64_t now_ns)
{
    quick->now_ns = now_ns;
    for (int g = 0; g < GPUS; g++) {
        if (quick->ends[g].id && quick->ends[g].at_ns <= now_ns) {
            cr_assert(sched_batch_done(quick->sched, now_ns, quick->ends[g].id, quick->ends[g].at_ns));
            quick->ends[g].id = 0;
        }
    }
    return sched_run(quick->sched, now_ns, on_action, quick);
}

static int by_tag(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void compare(log_t *quick, log_t *slow, kind_t kind, uint64_t seed, int64_t now_ns)
{
    cr_assert_str_eq(quick->grants, slow->grants, "%s, seed %llu, at %lld: '%s' but should '%s'", names[kind],
                     (unsigned long long)seed, (long long)now_ns, quick->grants, slow->grants);
    cr_assert_eq(quick->drop_count, slow->drop_count, "%s, seed %llu, at %lld: %zu drops but should be %zu",
                 names[kind], (unsigned long long)seed, (long long)now_ns, quick->drop_count,
                 slow->drop_count);
    qsort(quick->drops, quick->drop_count, sizeof(uint64_t), by_tag);
    qsort(slow->drops, slow->drop_count, sizeof(uint64_t), by_tag);
    cr_assert(memcmp(quick->drops, slow->drops, quick->drop_count * sizeof(uint64_t)) == 0, "other drops");
    quick->len = slow->len = quick->drop_count = slow->drop_count = 0;
    quick->grants[0] = slow->grants[0] = '\0';
}

static void set_up(quick_t *quick, slow_t *slow, prng_t *prng)
{
    sched_limits_t limits = {
        .models_max = MODELS, .gpus_max = GPUS, .tasks_max = TASKS, .batch_max = slow->max_batch};
    err_t err;
    quick->sched = sched_create(&limits, &err);
    cr_assert_not_null(quick->sched, "%s", err.text);
    cr_assert_eq(sched_set_policy(quick->sched, 0, names[slow->kind], params[slow->kind], &err), STATUS_OK);
    for (uint32_t m = 0; m < MODELS; m++) {
        profile_t profile;
        slow->alpha_ns[m] = prng_range(prng, 100000, 3000000);
        slow->beta_ns[m] = prng_range(prng, 0, 8000000);
        cr_assert_eq(profile_from_line(&profile, slow->alpha_ns[m], slow->beta_ns[m], 1000, &err), STATUS_OK);
        cr_assert_eq(sched_add_model(quick->sched, 0, m, &profile, NULL, &err), STATUS_OK);
    }
    for (uint32_t g = 0; g < GPUS; g++)
        cr_assert_eq(sched_add_gpu(quick->sched, 0, g, 0), STATUS_OK);
}

static void arrive(quick_t *quick, slow_t *slow, prng_t *prng, int64_t now_ns, uint64_t tag, bool mixed)
{
    int m = (int)prng_below(prng, MODELS);
    int64_t budget_ns = mixed ? prng_range(prng, 1000000, 60000000) : 25000000;
    sched_task_t task = {.tag = tag, .arrival_ns = now_ns, .deadline_ns = now_ns + budget_ns};
    cr_assert_eq(sched_submit(quick->sched, now_ns, (uint32_t)m, &task, NULL), STATUS_OK);
    slow_submit(slow, m, (waiting_t){.tag = tag, .arrival_ns = now_ns, .deadline_ns = task.deadline_ns});
}

static void race(kind_t kind, uint64_t seed)
{
    static quick_t quick;
    static slow_t slow;
    prng_t prng;
    memset(&quick, 0, sizeof(quick));
    memset(&slow, 0, sizeof(slow));
    prng_init(&prng, seed);
    slow.kind = kind;
    slow.max_batch = seed % 3 ? 100 : 8;
    set_up(&quick, &slow, &prng);
    int64_t arrival_ns = 0, quick_ns = INT64_MAX, slow_ns = INT64_MAX;
    double gap_ns = 1e6 * (0.3 + 2 * prng_uniform(&prng));
    for (uint64_t tag = 0; tag < ARRIVALS || quick_ns != INT64_MAX || slow_ns != INT64_MAX;) {
        int64_t now_ns = quick_ns < slow_ns ? quick_ns : slow_ns;
        if (tag < ARRIVALS && arrival_ns <= now_ns) {
            now_ns = arrival_ns;
            arrive(&quick, &slow, &prng, now_ns, tag++, seed % 2);
            arrival_ns += 1 + (int64_t)prng_exponential(&prng, gap_ns);
        }
        quick_ns = quick_run(&quick, now_ns);
        slow_ns = slow_run(&slow, now_ns);
        compare(&quick.log, &slow.log, kind, seed, now_ns);
        for (int g = 0; g < GPUS; g++) { /* either wakes for GPUs only when it needs one */
            if (quick.ends[g].id && quick.ends[g].at_ns < quick_ns)
                quick_ns = quick.ends[g].at_ns;
        }
    }
    sched_destroy(quick.sched);
}

Test(reference, the_core_decides_what_the_papers_say, .timeout = 300)
{
    for (uint64_t seed = 1; seed <= 60; seed++) {
        for (kind_t kind = 0; kind < KINDS; kind++)
            race(kind, seed);
    }
}
