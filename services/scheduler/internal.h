/*
 * The scheduler's state, shared by the files of this folder. One thread: the loop's.
 *
 * Ownership: a peer (gateway or worker) belongs to its stream and is freed when that has closed. A device belongs to
 * its worker. Tasks and batches are pool slots; a task is referred to from libs/sched by a tag that holds its slot and
 * generation, so that a tag of a slot that was given back is recognised.
 *
 *   task:   queued in the core --grant--> in a batch --done--> free
 *               |  ^                        |
 *               |  +------ worker lost -----+
 *               +--dropped or cancelled--> free
 */
#ifndef SCHEDULER_INTERNAL_H
#define SCHEDULER_INTERNAL_H

#include "base/map.h"
#include "base/pool.h"
#include "control.pb-c.h"
#include "http/server.h"
#include "loop/timer.h"
#include "metrics/metrics.h"
#include "profile/family.h"
#include "profile/profile.h"
#include "rpc/pb.h"
#include "rpc/server.h"
#include "sched/sched.h"
#include "scheduler/delay.h"
#include "scheduler/planner.h"
#include "scheduler/scheduler.h"
#include "scheduler/subcluster.h"

enum {
    CONTROL_VERSION_MIN = 1,
    CONTROL_VERSION_MAX = 1,
    PEERS_MAX = 256, /* of each kind; a cluster of thousands of devices needs no more processes */
    DEVICES_PER_WORKER_MAX = 1024, /* emulated ones; a host has 16 real ones at most */
    PEER_NAME_BYTES = 64,
    PEER_ADDRESS_BYTES = 128,
    REASON_BYTES = 192,
    POLICY_PARAMS_BYTES = BACKEND_PARAMS_BYTES,
    SHUN_MOST_MS = 1000, /* by then what failed once on a worker has been tried on another, or is too late */
    SHAPE_AXES_MAX = 16, /* as workers have it */
    SHAPES_PER_MODEL_MAX =
        64,           /* with more shapes under way at once no two rows would share a batch any more */
    SHAPES_MAX = 256, /* of all models; each is a model of its own to the core */
    RETRY_AFTER_FULL_MS = 100,
    RETRY_AFTER_SHED_MS = 50,
    RETRY_AFTER_LOST_MS = 1000,
    RETRIES_MAX = 1, /* a batch that failed is tried once more; what fails twice is not the device's fault */
};

/* No duration on the wire is believed beyond this: it bounds every sum of times. */
#define DURATION_MOST_NS (INT64_C(3600) * 1000000000)

typedef struct gateway gateway_t;
typedef struct worker worker_t;
typedef struct batch batch_t;
typedef struct task task_t;
typedef struct revoked revoked_t;
typedef struct command command_t;
typedef struct model_answer model_answer_t;
typedef struct shape shape_t;

/* ---- Tasks and batches ---- */

struct task {
    gateway_t *gateway;  /* NULL: nobody waits for it any more */
    task_t *prev, *next; /* of the same gateway */
    task_t *next_row;    /* of the same batch */
    batch_t *batch;      /* NULL while it is queued */
    subcluster_t *queue; /* where it was submitted last */
    uint64_t id;
    uint64_t handle_hi, handle_lo, offset_bytes;
    sched_ref_t ref;
    int64_t arrival_ns;
    int64_t
        answer_ns; /* when the answer must leave the gateway, on our clock, for the farthest the gateway may be */
    uint32_t model;
    shape_t *shape; /* of a model whose dimensions vary; else NULL */
    uint32_t len_bytes;
    uint32_t generation;
    uint8_t retries;
    /* Where it is tried again: how its last try ended, which is what its gateway is told if no other succeeds. */
    uint8_t failed_status, failed_stage;
};

struct batch {
    uint64_t id;      /* on the wire: unique in the epoch */
    uint64_t core_id; /* in its sub-cluster */
    device_t *device;
    batch_t *prev, *next; /* of the same device */
    task_t *first;
    uint32_t model, count;
    int64_t granted_ns, finish_ns; /* finish: predicted */
};

/* ---- Peers ---- */

/* Each kind of nonsense is logged once per peer. */
typedef enum {
    NONSENSE_GARBAGE,
    NONSENSE_EPOCH,
    NONSENSE_ARRAYS,
    NONSENSE_TIME,
    NONSENSE_DUPLICATE,
    NONSENSE_BATCH,
    NONSENSE_DEVICE,
    NONSENSE_MODEL,
    NONSENSE_HELLO,
    NONSENSE_FLOOD,
    NONSENSE_KINDS,
} nonsense_t;

typedef struct peer {
    scheduler_t *scheduler;
    struct peer *prev, *next; /* among those that have not said hello */
    rpc_stream_t *stream;
    bool joined;  /* Hello and Welcome were exchanged */
    bool closing; /* its stream is on its way out: nothing more is taken from it */
    uint32_t index;
    uint32_t version;
    uint64_t instance_id;
    char name[PEER_NAME_BYTES];
    int64_t heard_ns;
    delay_window_t rtt;
    int64_t delay_ns;        /* one-way bound */
    uint32_t complained;     /* bits of nonsense_t */
    bool has_ping, has_pong; /* to be sent with the next frame */
    uint64_t pong_sent_ns;
    int64_t pong_heard_ns;
} peer_t;

typedef struct {
    uint64_t *id;
    uint32_t *status, *stage, *retry_after_ms;
    uint32_t count, capacity;
} drops_t;

struct gateway {
    peer_t peer; /* first */
    char data_address[PEER_ADDRESS_BYTES];
    task_t *tasks;
    idmap_t by_id;
    drops_t drops;
    bool catalogue_due;
    uint64_t catalogue_seen; /* the version that its newest tasks were made with */
    model_answer_t *answers; /* to be sent with the next frame */
    uint64_t tasks_total;
};

struct device {
    worker_t *worker;
    subcluster_t *subcluster;
    uint32_t index;              /* in the worker */
    uint32_t gpu;                /* its seat in the sub-cluster */
    bool open, failed, draining; /* open: the sub-cluster knows of it */
    sched_gpu_mode_t mode;
    char name[PEER_NAME_BYTES];
    char kind[16];
    uint64_t memory_bytes;
    batch_t *batches;
    uint32_t inflight;
    revoked_t *revoked; /* told to stop, and not heard of since */
};

typedef struct grant_node {
    Control__Grant grant;
    struct grant_node *next;
} grant_node_t;

struct worker {
    peer_t peer; /* first */
    device_t *devices;
    uint32_t device_count;
    bool draining, leaving, drain_due, model_ids_due, peers_due; /* leaving: it ends when it is drained */
    uint64_t batches_total;
    grant_node_t *grants, **grants_tail; /* of this turn, in the scratch arena */
    uint32_t grant_count;
    uint64_t revoked[64]; /* of this turn */
    uint32_t revoked_count;
    command_t *commands; /* loads and unloads that it has not answered, oldest first */
    uint32_t command_count;
};

/* ---- Models ---- */

typedef struct instance {
    struct instance *next;
    worker_t *worker;
    Control__ModelState state;
    bool conflict; /* another worker serves a model of this name with another interface */
    bool released; /* UNLOADING, and told that nothing waits for it */
    uint64_t signature;
    uint64_t devices[DEVICES_PER_WORKER_MAX / 64]; /* bit i: device i of the worker holds it */
    char reason[REASON_BYTES];
    Control__ModelReport *report;
    profile_t profile;
    int64_t shunned_until_ns; /* a batch failed here, and is to be tried elsewhere; 0: no */
    family_t *family;         /* NULL: none of its dimensions varies but the batch */
} instance_t;

/* The tasks of one model whose rows are alike; see shapes.c. */
struct shape {
    shape_t *next;      /* of the same model, or of those that are free */
    model_t *model;     /* NULL: free */
    subcluster_t *home; /* whose core knows it; NULL: none does */
    uint32_t core_id;
    uint32_t tasks; /* that refer to it */
    uint64_t used;  /* when last; counts, not a time */
    uint32_t axis_count, sizes[SHAPE_AXES_MAX];
};

struct model {
    uint32_t id;
    char *name;
    int64_t version;
    instance_t *instances;
    instance_t *canonical; /* whose description gateways see; NULL when no worker has it */
    bool ready;
    bool rising;           /* some worker is loading it */
    bool staying;          /* some worker is loading another version: UNLOADING ones serve until then */
    subcluster_t *home;    /* where its tasks go; NULL: nowhere */
    subcluster_t *planned; /* where the last plan that moved it wants it */
    uint32_t ready_workers;
    int64_t unready_since_ns;
    uint64_t unready_version; /* of the catalogue that said so */
    char reason[REASON_BYTES];
    profile_t profile; /* at its home: the slowest of those that are ready there */
    int64_t slo_ns;
    shape_t *shapes;
    uint32_t shape_count;
    sched_model_stats_t past; /* of shapes that are no more */
    uint64_t done, dropped;
    struct {
        uint64_t requests, rows; /* that came; that ran */
        int64_t busy_ns;         /* of devices, for those rows */
    } ran, planned_from;         /* since the start; at the last plan that was carried out */
    struct {
        metric_t *granted, *dropped, *cancelled, *retried, *queue, *queue_seconds, *batches, *batch_size;
        metric_t *stretches, *revoked_stopped, *revoked_late, *wasted;
    } metrics;
};

/* ---- The whole ---- */

struct scheduler {
    loop_t *loop;
    scheduler_options_t options;
    uint64_t epoch, scheduler_id;
    int64_t started_ns;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    http_server_t *http;
    metrics_t *metrics;
    rpc_arena_t arena;   /* of the message being read */
    rpc_arena_t scratch; /* of what is sent in this turn */
    uv_check_t *turn;    /* its own allocation, as it outlives the scheduler until closed */
    loop_timer_t wake, ping;
    int64_t wake_ns; /* what the sub-clusters asked for */
    bool dirty;      /* something happened in this turn: there may be something to decide or to send */
    bool stopping, grpc_stopped, http_stopped;
    void (*on_stopped)(void *arg);
    void *on_stopped_arg;

    gateway_t *gateways[PEERS_MAX];
    worker_t *workers[PEERS_MAX];
    uint32_t streams;  /* open, joined or not */
    peer_t *strangers; /* open and not joined */
    int64_t ticked_ns; /* when registry_tick ran last; 0: never */

    subcluster_t *subclusters[SUBCLUSTERS_MAX]; /* the first subcluster_count of them */
    uint32_t subcluster_count, device_count;
    char policy[SUBCLUSTER_NAME_BYTES],
        policy_params[POLICY_PARAMS_BYTES]; /* of those that are still to come */
    pool_t tasks, batches;
    idmap_t batches_by_id;
    uint64_t batches_made;
    shape_t *shapes; /* [SHAPES_MAX] */
    shape_t *free_shapes;
    uint64_t shapes_used;
    model_t **models; /* [models_max] */
    uint32_t model_count;
    uint64_t catalogue_version;
    bool catalogue_changed;
    struct model_request *requests;
    uint32_t request_count;
    uint64_t command_id; /* the last one given */
    planner_t *planner;
    delay_window_t lateness; /* how late the wake timer fired */
    struct {
        metric_t *decision, *gateways, *workers;
    } metric;
};

/* registry.c */
/* A new peer for a stream that has just opened: zeroed memory of so many bytes that begins with a peer_t,
 * and the stream's argument. NULL: the stream is being closed, with the reason. */
void *peer_open(scheduler_t *s, rpc_stream_t *stream, size_t size_bytes, const char *kind);
void peer_closed(peer_t *peer); /* the last thing before its memory goes */
void peer_complain(peer_t *peer, nonsense_t kind, const char *detail);
/* Clamps a duration that came over the wire to [0, DURATION_MOST_NS]; complains when it was outside. */
int64_t peer_duration(peer_t *peer, int64_t value_ns);
/* Checks Hello, chooses the version and an index in table; false: the stream is being closed. */
bool peer_join(peer_t *peer, const Control__Hello *hello, void **table, const char *kind);
/* Reads a message into the scratch arena, which the caller resets; NULL: it made no sense, and the stream
 * is being closed. */
void *peer_read(peer_t *peer, const ProtobufCMessageDescriptor *type, rpc_bytes_t *bytes);
/* What every frame begins with. False: the rest of it is not to be looked at. */
typedef struct {
    uint64_t epoch;
    const Control__Hello *hello;
    const Control__Ping *ping;
    const Control__Pong *pong;
} frame_head_t;
bool peer_begin(peer_t *peer, const frame_head_t *head, void (*join)(peer_t *, const Control__Hello *));
Control__Welcome peer_welcome(const peer_t *peer);
void peer_close(peer_t *peer, rpc_code_t code, const char *text);
/* Sends a frame; a peer that does not take its messages any more is given up. */
void peer_send(peer_t *peer, const ProtobufCMessage *frame);
void registry_tick(scheduler_t *s); /* pings, time-outs, delay bounds */

/* gateways.c */
extern const rpc_stream_ops_t gateway_stream_ops;
void gateway_drop(gateway_t *gateway, uint64_t id, status_t status, Control__Stage stage,
                  uint32_t retry_after_ms);
void gateways_flush(scheduler_t *s);

/* workers.c */
extern const rpc_stream_ops_t worker_stream_ops;
void worker_drain(worker_t *worker, bool drain, bool leave);
void workers_flush(scheduler_t *s);

/* devices.c */
status_t devices_add(worker_t *worker, const Control__Hello *hello, err_t *err);
void devices_remove(worker_t *worker);
void device_state(worker_t *worker, const Control__DeviceState *state);
bool device_serves(const device_t *device); /* takes grants */
void device_settle(device_t *device);       /* after a batch ended: finish a drain or its end */
void device_sync(device_t *device);         /* brings the sub-cluster in line with the device's flags */

/* catalogue.c */
void catalogue_report(worker_t *worker, const Control__ModelReport *report);
void catalogue_worker_gone(worker_t *worker);
void catalogue_tick(scheduler_t *s); /* gives up models that no worker came back for */
model_t *catalogue_model(const scheduler_t *s, uint32_t id);
Control__Catalogue *catalogue_message(scheduler_t *s, rpc_arena_t *arena); /* NULL without memory */
void catalogue_dispose(scheduler_t *s);

/* subclusters.c */
status_t subclusters_init(scheduler_t *s, err_t *err); /* those that are declared */
void subclusters_dispose(scheduler_t *s);
subcluster_t *subclusters_find(const scheduler_t *s, const char *name);
/* Where so many devices of a class join: the least full of its share, or one that is made for them. NULL
 * and *err: none. */
subcluster_t *subclusters_for(scheduler_t *s, const char *device_class, uint32_t devices, err_t *err);
const char *subclusters_policy(const scheduler_t *s); /* "various" where they differ */
/* subcluster "": of all, and of those to come. NOT_FOUND: no such; INVALID_ARGUMENT: nothing has changed. */
status_t subclusters_set_policy(scheduler_t *s, const char *subcluster, const char *policy,
                                const char *params, err_t *err);

/* placement.c */
bool placement_ready(const instance_t *instance);
bool placement_draining(
    const instance_t *instance); /* about to be unloaded, and still able to run what waits */
bool placement_any(const model_t *model, bool (*is)(const instance_t *instance));
/* Counts as ready: gateways send it requests. */
/* The plan's wish. False: it cannot be served there. */
bool placement_move(scheduler_t *s, model_t *model, subcluster_t *to);
bool placement_is_configured(const scheduler_t *s, const model_t *model); /* its place is not the planner's */
bool placement_usable(const model_t *model, const instance_t *instance);
bool placement_runs_on(const model_t *model, const device_t *device);
void placement_settle(scheduler_t *s, model_t *model); /* after its instances have changed */
void placement_devices_changed(worker_t *worker);      /* some began or ceased to take grants */
void placement_leave(scheduler_t *s, model_t *model);  /* nobody has it any more */
/* For a while the model is not run there, if another worker of its sub-cluster has it. */
void placement_shun(scheduler_t *s, model_t *model, const worker_t *worker, int64_t until_ns);
void placement_tick(scheduler_t *s);                                    /* ends what is over */
void placement_stats(const model_t *model, sched_model_stats_t *stats); /* zero when nobody serves it */
/* Tells the model's home whether it runs on this device of it. */
void placement_allow(const model_t *model, const device_t *device);
/* Tells the model's home what batches of it, under this number there, do inside a device; whole, where the
 * mode does not suit. */
void placement_follow_inside(const model_t *model, uint32_t core_id, bool suits_mode);
/* Whether what this instance reports counts for the model in this sub-cluster. */
bool placement_counts(const instance_t *instance, const subcluster_t *sub);

/* shapes.c */
status_t shapes_init(scheduler_t *s, err_t *err);
void shapes_dispose(scheduler_t *s);
uint32_t shapes_core_models(const scheduler_t *s); /* so many models a core must have room for */
/* Elements of one row, as workers count them when they measure; UINT64_MAX when that is no number. */
uint64_t shapes_elements(const Control__ModelReport *report, const uint32_t *sizes);
/* How many sizes a task of the model comes with; 0 = none. */
uint32_t shapes_axis_count(const model_t *model);
/* The shape of these sizes, made if need be, and one more task refers to it. NULL: too many are in use. */
shape_t *shapes_hold(scheduler_t *s, model_t *model, const uint32_t *sizes, uint32_t count);
void shapes_release(shape_t *shape);
/* False: the core of its model's home does not take it. */
bool shapes_enter(shape_t *shape);
/* The model of a core's number: of a shape its model's. */
uint32_t shapes_model(const scheduler_t *s, uint32_t core_id);
/* The model's profiles, its devices or its home have changed. */
void shapes_update_profiles(model_t *model);
void shapes_allow(const model_t *model, uint32_t gpu, bool allowed);
void shapes_follow_inside(const model_t *model);
void shapes_move_out(model_t *model);
void shapes_add_stats(const model_t *model, sched_model_stats_t *stats);

/* draining.c */
void draining_tick(scheduler_t *s); /* releases what is UNLOADING and has no task left */

/* commands.c: telling workers to load and unload */
enum { COMMANDS_PER_WORKER_MAX = 64 };
/* How it went; the reason is "" when it went well. Once, on the loop, never from within the call that gave
 * the command. */
typedef void (*command_done_fn)(void *ctx, worker_t *worker, status_t status, const char *reason);
/*
 * Tells a worker to load a model (version 0: the versions that the policy in the model's config names; others
 * of it are unloaded once those serve) or to unload it (0: all versions). Loading what is loaded, unloading
 * what is not: OK. planned: carried out whatever the worker's model control mode. done NULL: nobody cares.
 * done's status: as the worker says; UNAVAILABLE when it went away; DEADLINE_EXCEEDED when it says nothing
 * for ten minutes. Returns UNAVAILABLE (too many under way there) or NO_MEMORY: done does not come.
 */
status_t worker_load_model(worker_t *worker, const char *name, int64_t version, bool planned,
                           command_done_fn done, void *ctx);
status_t worker_unload_model(worker_t *worker, const char *name, int64_t version, bool planned,
                             command_done_fn done, void *ctx);
/* A version that it reported UNLOADING has no task left here. */
void worker_release_model(worker_t *worker, const model_t *model);
void command_answered(worker_t *worker, const Control__CommandDone *done);
void commands_worker_gone(worker_t *worker);
void commands_tick(worker_t *worker, int64_t now_ns);
/* What has not been sent, into the frame. */
void commands_put(worker_t *worker, Control__SchedulerToWorker *frame);

/* requests.c: gateways that ask for loads and unloads, at all workers */
void request_submit(gateway_t *gateway, const Control__ModelRequest *asked);
void requests_gateway_gone(gateway_t *gateway);
void requests_put(gateway_t *gateway, Control__SchedulerToGateway *frame);
void requests_sent(gateway_t *gateway);
void requests_dispose(scheduler_t *s);

/* driver.c */
status_t driver_init(scheduler_t *s, err_t *err);
void driver_dispose(scheduler_t *s);
void driver_run(scheduler_t *s);
/* Decides what is due, of those sub-clusters that were asked to be looked at again by now. What comes out
 * is sent with driver_run. */
void driver_decide_due(scheduler_t *s, int64_t now_ns);

/* submit.c */
void submit_tasks(gateway_t *gateway, const Control__TaskBatch *tasks);
void submit_cancels(gateway_t *gateway, const Control__CancelBatch *cancels);
void submit_gateway_gone(gateway_t *gateway);
/* To the sub-cluster that serves its model now. */
status_t task_enqueue(scheduler_t *s, task_t *task);

/* batches.c */
batch_t *batch_make(scheduler_t *s, device_t *device, const sched_action_t *action); /* NULL without memory */
void batch_give(scheduler_t *s, batch_t *batch);             /* its tasks must have been taken care of */
batch_t *batch_of(const device_t *device, uint64_t core_id); /* that runs there; NULL: no such */
void batch_done(worker_t *worker, const Control__BatchDone *done);
void batches_device_lost(device_t *device); /* their tasks are tried again elsewhere */

/* revoked.c */
void revoked_note(const batch_t *batch, const scheduler_t *s);       /* while its tasks are still its own */
bool revoked_done(worker_t *worker, const Control__BatchDone *done); /* false: none such */
void revoked_forget(device_t *device);

/* tasks.c */
task_t *task_take(scheduler_t *s, gateway_t *gateway, uint64_t id);
void task_give(scheduler_t *s, task_t *task);
void task_orphan(task_t *task); /* nobody waits for it any more */
uint64_t task_tag(const scheduler_t *s, const task_t *task);
task_t *task_of_tag(const scheduler_t *s, uint64_t tag); /* NULL: given back meanwhile */
/* Tells the gateway, if there still is one, and gives the task back. */
/* Counts the task as dropped and tells its gateway, if it still has one; task_drop gives the task back as well. */
void task_tell(scheduler_t *s, const task_t *task, status_t status, Control__Stage stage,
               uint32_t retry_after_ms);
void task_drop(scheduler_t *s, task_t *task, status_t status, Control__Stage stage, uint32_t retry_after_ms);

/* http.c */
status_t http_start(scheduler_t *s, err_t *err);

/* state.c: for people and dashboards */
void state_json(const scheduler_t *s, strbuf_t *out);
const char *device_status(const device_t *device); /* "ready", "busy", "failed", "draining" */

/* admin.c: unary calls, and what they and HTTP do */
status_t admin_init(scheduler_t *s);

static inline int64_t now_of(void)
{
    return loop_now_ns();
}

static inline void scheduler_touch(scheduler_t *s)
{
    s->dirty = true;
}

#endif
