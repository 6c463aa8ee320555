/*
 * Gateways and workers that a test plays for a scheduler, on one loop: they speak the control protocol to it over loopback, keep
 * what it says, and send what the test wants.
 */
#ifndef TEST_FAKES_H
#define TEST_FAKES_H

#include "control.pb-c.h"
#include "grant_rows.h"
#include "loop/loop.h"
#include "rpc/client.h"
#include "rpc/pb.h"

enum { FAKES_MAX = 8, FAKE_DROPS = 4096, FAKE_GRANTS = 512, FAKE_ROWS = 64 };

typedef struct fake fake_t;

/* All that speak to one scheduler. */
typedef struct {
    loop_t *loop;
    rpc_runtime_t *runtime;
    char address[64];       /* of the scheduler */
    fake_t *all[FAKES_MAX]; /* that connected; NULL: a free place */
    uint64_t pinged;        /* rounds */
} fakes_t;

typedef struct {
    uint64_t id;
    uint32_t status, stage;
} drop_t;

typedef struct {
    uint64_t batch_id;
    uint32_t model, device, rows;
    uint32_t size_count, size; /* the first */
    uint64_t stretches;
    grant_row_t row[FAKE_ROWS];
} grant_t;

/* What gateway and worker have in common. */
struct fake {
    fakes_t *fakes;
    const struct fake_ops *ops; /* its kind */
    rpc_client_t *client;
    rpc_link_t *link;
    rpc_stream_t *stream;
    Control__Hello hello;
    uint64_t hello_epoch;
    bool silent; /* answers no ping */
    uint64_t epoch, scheduler_id;
    uint32_t index;
    int welcomes, closes, pings;
    rpc_code_t code;
    char text[256];
    uint64_t heard; /* the last ping of its own that was answered */
    pb_arena_t arena;
    bool closed;
};

/* What a worker was told of a model. */
typedef struct {
    uint64_t id;
    uint32_t action;
    char name[64];
    int64_t version;
    bool planned;
} told_t;

typedef struct {
    fake_t fake;           /* first */
    const uint32_t *sizes; /* of the one axis of each task sent; NULL: they come without */
    bool blind;            /* does not say which catalogue it has seen */
    uint32_t answer_count;
    uint64_t answer_id; /* of the last answer to a model request */
    uint32_t answer_status;
    char answer_reason[512];
    int catalogues;
    uint32_t models, models_ready, model_id;
    char last_reason[256]; /* of the last model */
    bool ready;
    uint32_t ready_workers;
    char reason[256];
    int64_t slo_ns;
    uint64_t drop_total; /* also those beyond FAKE_DROPS */
    uint32_t drop_count;
    drop_t drops[FAKE_DROPS];
} fake_gateway_t;

typedef struct {
    fake_t fake; /* first */
    Control__Device device[4];
    Control__Device *device_list[4];
    uint32_t exit_points;   /* of the models that it reports */
    uint64_t mode_elements; /* of its axis: rows of more run whole; 0: of more than 100 */
    bool staged;            /* they have two stages that take half the time each; set before it connects */
    int64_t slo_ns;         /* of each of them; 100 ms */
    uint64_t model_bytes;   /* of each of them */
    size_t label_bytes;     /* each has one label, so long; 0: none */
    bool axis;              /* they have one: 10 elements take alpha and beta, 100 ten times as long */
    bool auto_done;         /* every grant is reported done at once, and to have taken a millisecond a row */
    uint32_t grant_count, rows_total;
    grant_t grants[FAKE_GRANTS];
    int peers_frames, model_ids, revokes;
    uint32_t peer_count, gone_count;
    uint32_t model_id;
    uint32_t told_count;
    told_t told[16];
    bool drained;
    char peer_address[128];
} fake_worker_t;

/* Each pings the scheduler, and all have its answers: it has handled what they had sent. */
void fakes_ping(fakes_t *fakes);

/* It says at once that the results of whatever is doubted are there. */
void gateway_init(fake_gateway_t *g, fakes_t *fakes, uint64_t instance_id);
void gateway_connect(fake_gateway_t *g);
/* Sends count tasks with ids from first_id on. */
void gateway_send(fake_gateway_t *g, uint32_t model, uint64_t first_id, uint32_t count, int64_t budget_ns);
void gateway_cancel(fake_gateway_t *g, uint64_t id);
void gateway_ask(fake_gateway_t *g, uint64_t id, Control__ModelAction action, const char *name);
const drop_t *gateway_dropped(const fake_gateway_t *g, uint64_t id);

void worker_init(fake_worker_t *w, fakes_t *fakes, uint64_t instance_id, uint32_t devices);
void worker_connect(fake_worker_t *w);
/* Model "net" version 1: latency alpha * b + beta, batches up to 8. */
void worker_report(fake_worker_t *w, const char *name, Control__ModelState state, int64_t alpha_ns,
                   int64_t beta_ns);
void worker_report_version(fake_worker_t *w, const char *name, int64_t version, Control__ModelState state);
void worker_answer(fake_worker_t *w, uint64_t command, status_t status, const char *reason);
void worker_done(fake_worker_t *w, uint64_t batch_id, uint32_t device, status_t status);
/* All of it as the test says. */
void worker_tell_done(fake_worker_t *w, const Control__BatchDone *done);
void worker_tell_device(fake_worker_t *w, uint32_t device, Control__DeviceStatus status, const char *reason);
/* On its first device, well, and so long; the caller has let the time pass. */
void worker_ran(fake_worker_t *w, uint64_t batch_id, int64_t took_ns);
void worker_send(fake_worker_t *w, Control__WorkerToScheduler *frame); /* fills the epoch in when it is 0 */
bool worker_has_task(const fake_worker_t *w, uint64_t id);

/* As if the process were killed: the connection ends without a word. */
void fake_kill(fake_t *fake);

#endif
