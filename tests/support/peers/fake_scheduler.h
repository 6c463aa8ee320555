/*
 * The scheduler's end of the control protocol, played by a test for one gateway or one worker at a time: it listens, reads what
 * is said, keeps what every first message tells, and sends what the test wants. What else there is in a message the test looks at
 * itself. On the loop of the test.
 */
#ifndef TEST_FAKE_SCHEDULER_H
#define TEST_FAKE_SCHEDULER_H

#include "control.pb-c.h"
#include "loop/loop.h"
#include "rpc/pb.h"
#include "rpc/server.h"

typedef struct fake_scheduler {
    loop_t *loop;
    rpc_runtime_t *runtime;
    /* Exactly one: whom it serves. The frame lives during the call. */
    void (*on_gateway)(void *ctx, const Control__GatewayToScheduler *frame);
    void (*on_worker)(void *ctx, const Control__WorkerToScheduler *frame);
    void *ctx;
    uint64_t welcomes; /* the epoch with which a hello is answered at once; 0: the test does it */
    bool refuses;      /* ends every stream as it opens */

    char address[64]; /* where it listens, and will again */
    rpc_server_t *server;
    rpc_stream_t *stream; /* the newest; NULL: none, or it ended */
    bool stopped;
    pb_arena_t arena;
    int hellos, pongs;
    uint64_t hello_epoch, hello_instance, pong_ns; /* of the last */
    uint32_t hello_devices;
} fake_scheduler_t;

/* From the first three parts on; the rest is zero. */
void fake_scheduler_listen(fake_scheduler_t *scheduler);
/* As if it were gone, with all streams. */
void fake_scheduler_unlisten(fake_scheduler_t *scheduler);

void fake_scheduler_welcome(fake_scheduler_t *scheduler, uint64_t epoch);
void fake_scheduler_ping(fake_scheduler_t *scheduler, uint64_t epoch, uint64_t sent_ns);
/* The frame, with that epoch. */
void fake_scheduler_tell_gateway(fake_scheduler_t *scheduler, Control__SchedulerToGateway *frame,
                                 uint64_t epoch);
void fake_scheduler_tell_worker(fake_scheduler_t *scheduler, Control__SchedulerToWorker *frame,
                                uint64_t epoch);

#endif
