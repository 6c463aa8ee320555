/*
 * A whole gateway on one loop with a scheduler and a worker of the test's own: the scheduler is a real gRPC
 * stream, the worker real connections of the data plane, the client real HTTP. Nothing happens by itself: the
 * test grants, drops and pushes.
 */
#ifndef TESTS_GATEWAY_RIG_H
#define TESTS_GATEWAY_RIG_H

#include "gateway/front/rest.h"
#include "gateway/links/control.h"
#include "gateway/links/dataplane.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/preprocess.h"
#include "gateway/sessions/session.h"
#include "http/client.h"
#include "peers/fake_scheduler.h"
#include "until.h"

enum { RIG_TASKS = 64, RIG_BODY = 8192, RIG_ANSWERS = 16 };

typedef struct {
    uint64_t id;
    uint32_t model, len_bytes;
    int64_t budget_ns;
    transfer_handle_t handle;
    uint64_t offset;
    bool admitted;
} rig_task_t;

typedef struct {
    int status;
    char body[RIG_BODY];
    size_t body_len;
    char retry_after[16], json_length[16];
    int64_t took_ns, sent_ns;
} rig_answer_t;

typedef struct {
    gateway_t gateway;
    rest_t *rest;
    rpc_runtime_t *rpc;
    http_client_t *client;
    bool rest_stopped, control_closed;
    int answered, sent; /* calls */
    rig_answer_t answers[RIG_ANSWERS];

    fake_scheduler_t scheduler;
    uint32_t max_batch; /* of the models; 4 until the test says otherwise and sends a catalogue */
    int64_t slo_ns;     /* of the models; 300 ms */
    rig_task_t tasks[RIG_TASKS];
    int task_count;
    bool counts; /* tasks and cancellations are only counted */
    uint64_t counted, last_id;
    int refused_count; /* messages; of the newest its first entry, and how many it has */
    size_t refused_models;
    uint32_t refused_model, refused_priority, refused_overload, refused_backlog, refused_infeasible;
    uint64_t cancelled[RIG_TASKS];
    int cancel_count, missed_count;
    uint64_t arrived; /* the last task that it was told of */
    int arrived_count;
    bool tried; /* its catalogue has a version 2 of "one", on trial */

    transfer_pool_t *pool;
    transfer_peer_t *peer;
} rig_t;

#define rig_until(rig, condition) loop_until((rig)->gateway.loop, condition)

/* arena_bytes 0 = 1 MiB. With a scheduler of epoch 5, up and with its catalogue. */
void rig_start(rig_t *rig, size_t arena_bytes, uint32_t requests_max);
/* Also checks that every call was answered once and that all memory came back. */
void rig_stop(rig_t *rig);

/* Where the last one was. epoch 0: hellos get no answer. */
void rig_scheduler_start(rig_t *rig, uint64_t epoch);
/* Models "one" and "two" under ids that begin at first_id, version 2 of "one" behind them where it is tried; none when empty. */
void rig_send_catalogue(rig_t *rig, uint64_t epoch, uint32_t first_id, bool empty);
void rig_send_doubt(rig_t *rig, uint64_t epoch, uint64_t id);
/* Of model "one": the least time (0: none), and the part refused of priority 0. */
void rig_send_estimate(rig_t *rig, uint64_t epoch, int64_t least_ns, double refuse);
/* Of the same model: what waits is done in so long, a task more takes so long, and who may wait for that is behind it. */
void rig_send_backlog(rig_t *rig, uint64_t epoch, int64_t backlog_ns, int64_t row_ns, int64_t behind_ns);
void rig_send_drop(rig_t *rig, uint64_t epoch, uint64_t id, uint32_t status, uint32_t stage,
                   uint32_t retry_after_ms);

/* POST /v2/models/MODEL/infer; extra_headers may be NULL. The answer lies in answers[the number returned]. */
int rig_infer(rig_t *rig, const char *model, const char *extra_headers, const void *body, size_t len);
int rig_infer_json(rig_t *rig, const char *model, const char *json);

/* Fetches a task's input as a worker does. */
status_t rig_fetch(rig_t *rig, const rig_task_t *task, void *data);
/* Pushes a result; true when the gateway has acknowledged it. */
bool rig_push(rig_t *rig, const rig_task_t *task, status_t status, const char *text, const void *data,
              size_t len);

#endif
