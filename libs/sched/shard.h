/*
 * Hot path. The model half of the core: one model's queue, its current candidate, and its plan. It sees no
 * GPU and no other model. Shards may live on several threads, each group of them with its own task pool.
 *
 * What is given up goes to the drop chain, in the order of the decisions, until shard_take_dropped takes it
 * away.
 */
#ifndef SCHED_SHARD_H
#define SCHED_SHARD_H

#include "base/heap.h"
#include "sched/candidate.h"
#include "sched/model_queue.h"
#include "sched/scatter.h"

/* In place of the time at which a GPU is free: */
#define SHARD_ANY_GPU INT64_MIN         /* no GPU is meant: only now and the lead count */
#define SHARD_LATER_GPU (INT64_MIN + 1) /* as that, and the candidate may be vague */

/* What the slow loop of a policy has decided about this model; the fast path only reads it. */
typedef struct {
    int64_t margin_ns;      /* ready so long before frontrun */
    int64_t idle_margin_ns; /* likewise while `idle` GPUs are free */
    int64_t quiet_ns;       /* but not as long as something came within so long */
    int64_t spell_ns;       /* what comes within so long counts as following; 0: nothing is counted */
    int64_t wait_ns;        /* policy `timeout`: after the first arrival */
    int64_t bias_ns;        /* taken off the key */
    double rate_per_ns;     /* as measured; 0: not known */
    double refuse;          /* part of the requests that is given up as they come */
    double refuse_debt;     /* how many are still to be: kept when the plan changes */
    uint64_t refuse_seen;   /* submitted when it was last looked at */
    uint32_t min_batch;     /* ready as soon as so many are there */
    uint32_t max_batch;     /* no batch is larger; 0: as large as can be */
    uint32_t idle;          /* 0: it does not go while others must stay free */
    uint32_t spread;        /* over so many GPUs go requests of clients that wait; 0: they go as one batch */
    bool spread_streams;    /* and all others that are there at once */
    uint32_t target_batch;  /* heads that would keep a batch below this are given up; 0: none are */
} shard_plan_t;

typedef struct {
    sched_model_stats_t stats;
    /* sum over all submitted: what was left when they came; it wraps, differences do not */
    uint64_t budget_ns;
    /* Sums over batches that took all that waited: from the last arrival to the grant, and what that would
     * be in the mean if requests came at random at the plan's rate. */
    double silence_ns, silence_expected_ns;
    /* A request that comes outside a spell begins one of plan.spell_ns; the others in it follow. */
    uint64_t spells, followers;
    /* Batches that were granted while all clients were there that are known to wait (shard_crowd_t). */
    uint64_t complete;
    /* As learned of any size (sched/scatter.h), in parts of the profile; 0: nothing was. */
    double mean, guard;
    double spared; /* of what only few delays need: so much is not counted on (scatter_rare) */
} shard_counts_t;

/*
 * Clients that wait for their answers: once all of them have asked, holding a batch brings nobody else. Seen by how many
 * requests are there (waiting or running) when batches are granted: with such clients it is again and again as many as there
 * are clients, and hardly ever does another come while they are all there: only when it has its answer before the core knows that
 * the batch is done. Of a stream that comes by itself others come no less often then.
 */
typedef struct {
    int64_t begun_ns;    /* of the window that runs */
    uint64_t submitted;  /* when it began */
    int64_t last_ns;     /* of the batches granted in it, */
    uint32_t batches;    /* that are so many */
    uint32_t usual;      /* so many were there at most of them, if there is such a number: found by */
    uint32_t votes;      /* the majority vote of Boyer and Moore. And since it was found: */
    uint32_t complete;   /* batches for which so many were there, */
    uint32_t beyond;     /* requests that came while so many were there, */
    int64_t complete_ns; /* and how long they were, by the profile */
    uint32_t all; /* as windows before have shown: so many are all of them; 0: there are always others */
} shard_crowd_t;

/* A window is so long, or until it has eight batches: fewer in a row can be alone by chance. If it has not by then it tells
 * nothing new. */
#define SHARD_CROWD_WINDOW_NS INT64_C(1000000000)
#define SHARD_CROWD_LONGEST_NS INT64_C(10000000000)

enum { LANE_FRONTENDS_MAX = 8 }; /* as many as the papers compare */

/* A lane is a shard that serves one model on one GPU only, for policies that route requests when they come (nexus). */
typedef struct {
    uint32_t gpu;
    uint32_t batch;                    /* as planned */
    double rate;                       /* as planned, requests/ms */
    double credit[LANE_FRONTENDS_MAX]; /* of the routing: each frontend knows only what it sent itself */
    int64_t duty_ns;                   /* as planned: between two turns; 0: no pause */
    int64_t turn_ns;                   /* when it was last granted its GPU */
    uint32_t next;                     /* lane of the same model, or TASK_NONE */
} shard_lane_t;

/* What some GPUs do besides running one batch after the other (sched_set_gpu_mode): see sched/inside.h. */
enum { SHARD_GPUS_STRETCH = 1, SHARD_GPUS_SHARE = 2 };

typedef struct {
    task_pool_t *pool;
    uint32_t index; /* its place: what the matcher and the task slots know it by */
    uint32_t model; /* its own index, or for a lane that of the model that it serves */
    bool present;
    uint8_t gpus;        /* bits SHARD_GPUS_*; 0: the fast path */
    bool dirty;          /* its candidate is to be made anew; in the chain of the composite */
    uint32_t dirty_next; /* a model */
    model_queue_t queue;
    uint32_t dropped_head, dropped_tail;
    uint32_t limit; /* no batch is larger */
    candidate_t candidate;
    shard_plan_t plan;
    sched_delays_t delays;   /* that are counted on, of those */
    sched_delays_t measured; /* that the caller knows */
    sched_model_opts_t opts;
    sched_inside_t inside;    /* of a model, not of a lane */
    const profile_t *profile; /* what batches were measured to take */
    /* what they take at most but for a few: deadlines are judged with it; see shard_learn */
    const profile_t *guard;
    profile_t *guarded;     /* the owner's room for it; NULL: this shard does not judge */
    scatter_t *scatter;     /* likewise */
    shard_counts_t *counts; /* own, or of the model that a lane serves */
    shard_counts_t own;
    shard_crowd_t crowd;
    int64_t spell_end_ns; /* see shard_counts_t */
    shard_lane_t lane;
} shard_t;

void shard_init(shard_t *shard, task_pool_t *pool, uint32_t index);
/* The places of its model's numbers, all the owner's; profile alone for a shard that only plans. */
void shard_place(shard_t *shard, const profile_t *profile, profile_t *guarded, scatter_t *scatter);

/* What a profile must be for any core to take it; INVALID_ARGUMENT says what is wrong. */
status_t shard_check_profile(const profile_t *profile, err_t *err);
/* A model begins here: nothing is planned, counted or offered. Its profile and queue are there already. */
void shard_set_up(shard_t *shard, const sched_model_opts_t *opts, uint32_t batch_max);
/* Before it is set up too. */
void shard_set_delays(shard_t *shard, const sched_delays_t *delays);
/* On as much of them as counts->spared says by now. True: that changes what is planned. */
bool shard_count_on_delays(shard_t *shard);
/* In place of the one that it has; what was learned of that stays if they differ by little. */
void shard_set_profile(shard_t *shard, profile_t *own, const profile_t *profile);
/* Another shard judges for this model from now on, or this one does with what the other has learned: they share the place of it,
 * and one of them at a time looks there. */
void shard_judge_no_more(shard_t *shard);
void shard_judge_on(shard_t *shard);
/* After its profile has changed. */
void shard_set_limit(shard_t *shard, uint32_t batch_max);

/* Puts shards[index] into the chain of those whose candidates are to be made anew, unless it is there. */
static inline void shard_mark_dirty(shard_t *shards, uint32_t *chain, uint32_t index)
{
    shard_t *shard = &shards[index];
    if (shard->dirty)
        return;
    shard->dirty = true;
    shard->dirty_next = *chain;
    *chain = index;
}

static inline void shard_count_spell(shard_t *shard, int64_t now_ns)
{
    if (now_ns < shard->spell_end_ns) {
        shard->counts->followers++;
    } else if (shard->plan.spell_ns > 0) {
        shard->counts->spells++;
        shard->spell_end_ns = now_ns + shard->plan.spell_ns;
    }
}

/* Waiting or running. */
static inline uint32_t shard_there(const shard_t *shard)
{
    return shard->queue.len + shard->counts->stats.in_flight;
}

/* True: the candidate must be made anew. */
static inline bool shard_submit(shard_t *shard, int64_t now_ns, uint32_t task)
{
    task_pool_t *pool = shard->pool;
    bool closed = shard->candidate.closed;
    uint32_t head = closed ? model_queue_head(&shard->queue, pool) : TASK_NONE;
    shard->crowd.beyond += shard_there(shard) >= shard->crowd.usual;
    model_queue_push(&shard->queue, pool, task);
    shard->counts->stats.submitted++;
    shard_count_spell(shard, now_ns);
    shard->counts->budget_ns += (uint64_t)(pool->slots[task].task.deadline_ns - now_ns);
    return !closed || model_queue_head(&shard->queue, pool) != head;
}

bool shard_cancel(shard_t *shard, uint32_t task);
/* A task of a batch that did not come to its end; lost: its GPU went away. */
void shard_requeue(shard_t *shard, uint32_t task, bool lost);
void shard_drop_all(shard_t *shard, sched_drop_t reason);

/* A batch of this model as it was granted, and as it ran. */
typedef struct {
    uint32_t first_task;  /* in the shard's pool, earliest deadline first */
    uint32_t count, rows; /* rows: with those of others that it has joined */
    /* Nothing else could make it longer: it was to take what is expected of it from promised_ns on. Else finish_ns
     * says when it was to end. */
    bool alone;
    int64_t promised_ns, finish_ns;
    int64_t started_ns, ended_ns; /* as measured, in this order */
} shard_ran_t;
/* It has ended, and its tasks are still there. True: the model's candidate must be made anew. */
bool shard_learn(shard_t *shard, int64_t now_ns, const shard_ran_t *ran);
/* A request of this deadline is about to be given up. True: by the profile alone it could make it, and what speaks against it was
 * learned longer ago than that is believed; so the profile alone is the guard until shard_end_doubt(). Only asked where they differ. */
__attribute__((cold)) bool shard_doubts(shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                        int64_t deadline_ns);
/* A batch was granted, and is planned: if it is tried by the profile alone what comes next waits for what comes of it. */
void shard_end_doubt(shard_t *shard);

/* What a batch is expected to take. */
static inline int64_t shard_expected_ns(const shard_t *shard, uint32_t batch)
{
    int64_t latency_ns = profile_latency_ns(shard->profile, batch);
    if (shard->guard == shard->profile)
        return latency_ns;
    return (int64_t)((double)latency_ns * scatter_mean(shard->scatter, batch));
}

/* What it takes beyond that at most, but for a few. */
static inline int64_t shard_reserve_ns(const shard_t *shard, uint32_t batch)
{
    if (shard->guard == shard->profile)
        return 0;
    return profile_latency_ns(shard->guard, batch) - shard_expected_ns(shard, batch);
}

static inline int64_t shard_lead_ns(const shard_t *shard, uint32_t batch)
{
    return shard->delays.ctrl_ns + shard->delays.fixed_ns + shard->delays.data_ns * (int64_t)batch;
}

/* Until a batch is known to have ended its GPU is counted on so much later than expected: what is granted behind one that
 * takes longer starts late, and a short batch may be late for the little that a long one scatters. A lead that goes
 * before the next grant anyway is not waited for twice. */
static inline int64_t shard_unsure_ns(const shard_t *shard, uint32_t batch)
{
    int64_t reserve_ns = shard_reserve_ns(shard, batch);
    if (reserve_ns == 0)
        return 0;
    int64_t lead_ns = shard_lead_ns(shard, batch);
    return reserve_ns > lead_ns ? reserve_ns - lead_ns : 0;
}

/* The same two for slow loops that may be on another thread, in parts of the profile. */
static inline double shard_mean_factor(const shard_t *shard)
{
    return shard->counts->mean > 0 ? shard->counts->mean : 1;
}

static inline double shard_guard_factor(const shard_t *shard)
{
    return shard->counts->guard > 0 ? shard->counts->guard : 1;
}

/* For the policies. */
void shard_give_up(shard_t *shard, uint32_t task, sched_drop_t reason);
static inline uint32_t shard_head(const shard_t *shard) /* TASK_NONE when empty */
{
    return model_queue_head(&shard->queue, shard->pool);
}

/* Of the newest in order, which has the latest deadline but for a few that came out of order; the queue is
 * not empty. */
static inline const sched_task_t *shard_last(const shard_t *shard)
{
    uint32_t last = shard->queue.tail != TASK_NONE ? shard->queue.tail : shard->queue.root;
    return &shard->pool->slots[last].task;
}

static inline int64_t shard_last_deadline_ns(const shard_t *shard)
{
    return shard_last(shard)->deadline_ns;
}

static inline int64_t shard_last_arrival_ns(const shard_t *shard)
{
    return shard_last(shard)->arrival_ns;
}

static inline const sched_task_t *shard_task(const shard_t *shard, uint32_t task)
{
    return &shard->pool->slots[task].task;
}

/* No batch is larger now. */
static inline uint32_t shard_limit(const shard_t *shard)
{
    uint32_t planned = shard->plan.max_batch;
    return planned && planned < shard->limit ? planned : shard->limit;
}

/* The largest batch, of the queue or not, that can start at or after gpu_free_ns and end by the deadline. */
static inline uint32_t shard_feasible(const shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                      int64_t deadline_ns)
{
    int64_t first_ns = now_ns + shard->delays.ctrl_ns + shard->delays.fixed_ns;
    uint32_t batch =
        profile_largest_batch_sloped(shard->guard, deadline_ns - first_ns, shard->delays.data_ns);
    if (gpu_free_ns > first_ns) {
        uint32_t later = profile_largest_batch(shard->guard, deadline_ns - gpu_free_ns);
        batch = later < batch ? later : batch;
    }
    uint32_t limit = shard_limit(shard);
    return batch < limit ? batch : limit;
}

/* Earliest start of a batch on a GPU that is free from gpu_free_ns on. */
static inline int64_t shard_earliest_ns(const shard_t *shard, int64_t now_ns, int64_t gpu_free_ns,
                                        uint32_t batch)
{
    int64_t arrived_ns = now_ns + shard_lead_ns(shard, batch);
    return arrived_ns > gpu_free_ns ? arrived_ns : gpu_free_ns;
}

/* When the candidate cannot be met any more and must be made anew, if nothing happens before. */
static inline int64_t shard_wake_ns(const shard_t *shard)
{
    return shard->candidate.batch ? shard->candidate.latest_ns - shard->candidate.lead_ns + 1 : SCHED_NEVER;
}

/* Brings the heap of those times in line with the candidate; nodes has one for each shard. */
static inline void shard_set_expiry(const shard_t *shard, heap_t *expiry, heap_node_t *nodes)
{
    heap_node_t *node = &nodes[shard->index];
    int64_t wake_ns = shard_wake_ns(shard);
    if (wake_ns == SCHED_NEVER)
        heap_remove(expiry, node);
    else if (heap_contains(node))
        heap_update(expiry, node, wake_ns, shard->index);
    else
        heap_insert(expiry, node, wake_ns, shard->index);
}

/* The next one given up, or TASK_NONE; its slot is still valid and is the caller's to give back to the pool.
 */
static inline uint32_t shard_take_dropped(shard_t *shard)
{
    uint32_t task = shard->dropped_head;
    if (task == TASK_NONE)
        return TASK_NONE;
    shard->dropped_head = shard->pool->slots[task].next;
    if (shard->dropped_head == TASK_NONE)
        shard->dropped_tail = TASK_NONE;
    return task;
}

/* Whether all are there who are ever there at once. */
static inline bool shard_is_complete(const shard_t *shard)
{
    return shard->crowd.all && shard_there(shard) >= shard->crowd.all;
}

/* Before a batch of `count` is popped from a queue that has as many: was it worth waiting for? */
void shard_note_silence(shard_t *shard, int64_t now_ns, uint32_t count);

/* Pops `count` tasks, behind those that the candidate skips, into a chain (through next), earliest deadline first;
 * returns the first. */
uint32_t shard_pop_batch(shard_t *shard, uint32_t count);

const char *shard_validate(const shard_t *shard);

#endif
