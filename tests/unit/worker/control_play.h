/*
 * What the tests of the worker's stream share: a scheduler that is played by the test, and a worker's run and control
 * that speak to it.
 */
#ifndef TEST_WORKER_CONTROL_PLAY_H
#define TEST_WORKER_CONTROL_PLAY_H

#include "rpc/pb.h"
#include "rpc/server.h"
#include "support.h"
#include "worker/control/control.h"

enum { SEEN_MAX = 64 };

/* What the played scheduler has heard, over all streams. */
typedef struct {
    rpc_runtime_t *server_runtime, *client_runtime;
    rpc_server_t *server;
    rpc_stream_t *stream;
    pb_arena_t arena;
    int hellos, models, ready_models, pongs, done;
    uint64_t hello_epoch, last_pong_ns;
    uint32_t hello_devices;
    int draining, ready, failed; /* devices that were said to be so */
    int done_before_failed;      /* batches that it had heard of by then */
    struct {
        uint64_t id;
        uint32_t status;
        size_t failed;
        char reason[128];
    } batches[SEEN_MAX];
    bool stopped;
    control_t *control;
    served_t served;
    char address[64];
    bool refuse;
} scheduler_t;

extern rig_t rig;
extern scheduler_t scheduler;

void play_init(void);
void play_start(void); /* the worker connects */
void play_dispose(void);

/* The scheduler goes, and comes back at the same address. */
void scheduler_listen(const char *address);
void scheduler_unlisten(void);

void say(Control__SchedulerToWorker *message, uint64_t epoch);
void say_welcome(uint64_t epoch);
/* Names model 42, the gateways, and grants one row of gateway 10. */
void say_grant(uint64_t epoch, uint64_t batch_id, uint32_t model);

#endif
