/*
 * The inside of shards_t, shared by its source files only. Who writes what: `worker_t` its thread, `binder_t`
 * the matcher thread, `planner_t` the planner thread; between them only rings, slots, parcels and atomics.
 */
#ifndef SHARDS_INTERNAL_H
#define SHARDS_INTERNAL_H

#include "base/ring.h"
#include "sched/batch_table.h"
#include "sched/matcher.h"
#include "sched/policy.h"
#include "shards/gate.h"
#include "shards/parcel.h"
#include "shards/shards.h"
#include "shards/slot.h"
#include "shards/waiter.h"

#include <pthread.h>

typedef enum { ORDER_GRANT, ORDER_LOST, ORDER_GIVE } order_kind_t;

typedef struct {
    order_kind_t kind;
    uint32_t model, gpu; /* GIVE: gpu is the shard to give it to */
    uint32_t gpus;       /* GRANT: see match_grant_t */
    uint32_t number;     /* of the orders about the model, this one included; LOST is about none */
    uint64_t batch_id;
    int64_t gpu_free_ns;
    int64_t at_ns, due_ns; /* GRANT: when it is given, and since when it could have been */
} order_t;

typedef enum { ANSWER_TAKEN, ANSWER_UNUSED, ANSWER_DONE } answer_kind_t;

typedef struct {
    answer_kind_t kind;
    uint64_t batch_id;
    int64_t start_ns, finish_ns; /* DONE: finish_ns is when the GPU is free */
    int64_t unsure_ns;           /* TAKEN: see shard_unsure_ns */
} answer_t;

typedef enum { INBOX_TASK, INBOX_CANCEL, INBOX_RAN, INBOX_DONE, INBOX_UNDONE } inbox_kind_t;

typedef struct {
    inbox_kind_t kind;
    uint32_t model;
    union {
        sched_task_t task; /* CANCEL: only its tag counts */
        struct {
            uint64_t batch_id;
            int64_t at_ns;      /* it ended, or its GPU is free */
            int64_t started_ns; /* RAN */
        } batch;
    };
} inbox_t;

/* A batch that this shard has granted, by the index in its id. */
typedef struct {
    uint64_t batch_id; /* 0: none */
    uint32_t model, first_task, count;
    int64_t promised_ns; /* the start that its grant named */
} worker_batch_t;

typedef enum { BATCH_DONE, BATCH_UNDONE, BATCH_LOST } batch_end_t;

typedef struct {
    shards_t *shards;
    uint32_t index;
    task_pool_t pool;
    shard_t *models; /* models_max of them; `present`: it is here */
    uint32_t *seen;
    worker_batch_t *batches;
    heap_t expiry;
    heap_node_t *expiry_nodes;
    uint32_t dirty;
    sched_task_t *granted;
    uint32_t *places; /* by the low half of a tag: where its task is in the pool, if it is here */
    mpsc_t inbox;
    spsc_t orders, answers;
    parcel_list_t parcels;
    waiter_t waiter;
    gate_t gate;
    pthread_t thread;
    uint32_t delays_taken;    /* version */
    bool answered, published; /* in this turn: the matcher is to be woken */
    uint64_t unused, requeued;
    int64_t due_ns; /* of the grant that the sink sees */
    /* With the planner: it writes `ask` and `planned`, the shard `told`; what each of them covers is
     * written before it. */
    _Atomic uint32_t ask, told, planned;
    uint32_t plan_taken;
    shard_counts_t *counts; /* of each model, as of `told` */
} worker_t;

typedef enum {
    CONTROL_ADD_GPU,
    CONTROL_REMOVE_GPU,
    CONTROL_DRAIN_GPU,
    CONTROL_GPU_FREE,
    CONTROL_MOVE
} control_kind_t;

typedef struct {
    control_kind_t kind;
    uint32_t which, to;
    int64_t free_ns;
} control_t;

typedef struct {
    bool present, draining, asked; /* asked: granted, and not answered yet */
    int64_t free_ns;
    int64_t unsure_ns; /* how much later that may well be; see shard_unsure_ns */
} binder_gpu_t;

typedef struct {
    shards_t *shards;
    matcher_t matcher;
    batch_table_t batches;
    binder_gpu_t *gpus;
    uint32_t *issued, *current; /* per model: orders; of the latest candidate, those it had seen */
    uint32_t *route;
    uint8_t *stage; /* per batch slot: what its shard has answered (binder.c) */
    mpsc_t control;
    waiter_t waiter;
    gate_t gate;
    pthread_t thread;
    uint64_t candidates, stale, moves;
    int64_t due_ns; /* of this turn: when it was to begin, or now when nothing was to come */
    _Atomic uint32_t gpus_usable, gpus_changes; /* the planner plans anew after each change */
} binder_t;

typedef struct {
    shards_t *shards;
    policy_t policy;
    shard_t *view; /* what the policy sees: counts summed up, plans on their way out */
    uint64_t *submitted_seen;
    int64_t tick_ns, balance_ns;
    uint32_t gpus_seen; /* changes */
    uint32_t delays_taken;
    _Atomic uint32_t needed; /* as policy_t says, in millionths */
    waiter_t waiter;
    gate_t gate;
    pthread_t thread;
} planner_t;

struct shards {
    shards_options_t options;
    profile_t *profiles; /* per model; the other two are for its owner alone: */
    profile_t *guarded;  /* room for the one that deadlines are judged with, */
    scatter_t *scatter;  /* and what that is made from */
    worker_t *workers;
    binder_t binder;
    planner_t planner;
    slot_t *slots;           /* per model */
    _Atomic uint64_t *fresh; /* bit per model: its slot has something new */
    uint32_t fresh_words;
    _Atomic uint32_t *owner; /* per model; OWNER_NONE: it is not there */
    parcel_t *handover;      /* per model */
    struct {
        pthread_mutex_t lock;
        _Atomic uint32_t version;
        sched_delays_t now;
    } delays;
    sem_t door; /* of whoever has brought the threads to a stand */
    _Atomic bool stop;
    bool threaded;             /* set before the first thread runs */
    bool held;                 /* under the door: no thread of ours runs */
    _Atomic(pthread_t) holder; /* 0: nobody */
    uint32_t threads;          /* running */
};

#define OWNER_NONE UINT32_MAX

/* Batch ids: generation << 32 | shard << 24 | index; the table's own have no shard. */
enum { BATCH_INDEX_BITS = 24 };

static inline uint32_t batch_shard(uint64_t batch_id)
{
    return (uint32_t)batch_id >> BATCH_INDEX_BITS;
}

static inline uint32_t batch_index(uint64_t batch_id)
{
    return (uint32_t)batch_id & ((1u << BATCH_INDEX_BITS) - 1);
}

/* Nobody else is at work: what the halves do is done on this thread. */
static inline bool shards_alone(const shards_t *shards)
{
    return shards->held || !shards->threaded;
}

/* Each does what is due and says whether there was anything. */
bool worker_turn(worker_t *worker, int64_t now_ns);
bool binder_turn(binder_t *binder, int64_t now_ns, uint32_t grants_max);
/* True: the slow loop has run. */
bool planner_turn(planner_t *planner, int64_t now_ns);

/* Only takes in what has come, and decides nothing that need not be. */
bool worker_receive(worker_t *worker, int64_t now_ns);
void worker_mark_dirty(worker_t *worker, uint32_t model);

/* Alone: works off all messages that are under way, and decides nothing besides. */
void shards_settle(shards_t *shards, int64_t now_ns);
/* Alone: does all that is due, and says when there is more. */
int64_t shards_decide(shards_t *shards, int64_t now_ns);

enum { NEEDED_WHOLE = 1000000 };

/* At once, on the matcher's thread or alone. */
void binder_control(binder_t *binder, int64_t now_ns, const control_t *message);

int64_t worker_wake_ns(const worker_t *worker);
int64_t binder_wake_ns(const binder_t *binder);

status_t worker_submit(worker_t *worker, int64_t now_ns, uint32_t model, const sched_task_t *task);
void worker_batch_done(worker_t *worker, uint64_t batch_id, int64_t free_ns, batch_end_t how);
/* The shard's side of the planner's two questions, and of new delays. */
bool worker_tell(worker_t *worker);
/* shared.c */
bool shards_has_model(const shards_t *shards, uint32_t model); /* any number */
/* True: *delays are newer than *taken. */
bool shards_take_delays(shards_t *shards, uint32_t *taken, sched_delays_t *delays);

/* UNSUPPORTED: one that must see queues and GPUs at once. */
status_t shards_find_policy(const char *name, const char *params, const policy_ops_t **ops, double *values,
                            err_t *err);

void counts_add(shard_counts_t *sum, const shard_counts_t *counts);

#endif
