/*
 * What the tests of the worker's stream share: a scheduler that is played by the test, and a worker's run and control
 * that speak to it.
 */
#ifndef TEST_WORKER_CONTROL_PLAY_H
#define TEST_WORKER_CONTROL_PLAY_H

#include "peers/fake_scheduler.h"
#include "support.h"
#include "worker/control/control.h"

enum { SEEN_MAX = 64 };

/* What the played scheduler has heard, over all streams. */
typedef struct {
    fake_scheduler_t fake;
    rpc_runtime_t *client_runtime;
    int models, ready_models, done;
    int draining, ready, failed; /* devices that were said to be so */
    int done_before_failed;      /* batches that it had heard of by then */
    struct {
        uint64_t id;
        uint32_t status;
        size_t failed;
        char reason[128];
    } batches[SEEN_MAX];
    worker_control_t *control;
    served_t served;
} scheduler_t;

extern rig_t rig;
extern scheduler_t scheduler;

void play_init(void);
void play_start(void); /* the worker connects */
void play_dispose(void);

/* Names model 42, the gateways, and grants one row of gateway 10. */
void say_grant(uint64_t epoch, uint64_t batch_id, uint32_t model);

#endif
