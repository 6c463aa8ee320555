/*
 * A scheduler on a loop, and gateways and workers that speak the control protocol to it over loopback, all on the same
 * loop, so that a test is one thread and waits for events.
 */
#ifndef TEST_SCHEDULER_SUPPORT_H
#define TEST_SCHEDULER_SUPPORT_H

#include "peers/fakes.h"
#include "scheduler/scheduler.h"
#include "until.h"

typedef struct {
    fakes_t fakes; /* with the loop of all, and the address of the scheduler */
    scheduler_options_t options;
    scheduler_t *scheduler;
    bool stopped;
    uint32_t plan_count; /* see stage_note_plans */
    int64_t plan_ns[FAKE_GRANTS];
} stage_t;

#define stage_until(s, condition) loop_until((s)->fakes.loop, condition)

void stage_init(stage_t *stage);  /* options have their defaults; change them before stage_start */
void stage_start(stage_t *stage); /* on stage->fakes.address when there is one, else on a free port */
void stage_stop(stage_t *stage);
void stage_dispose(stage_t *stage);
void stage_flag(void *flag); /* sets a bool */

/* Returns when all that the fakes have sent by now was handled, and what follows from it has reached them. What a core keeps for
 * later, and what a fake answers meanwhile by itself, is not waited for. Frames of a wrong epoch hide it: the fakes have the right one. */
void stage_barrier(stage_t *stage);
/* The same for what is decided not at once but with the next pings. */
void stage_upkeep(stage_t *stage);
/* Time passes: of a batch that is to run so long. Not for waiting until something has happened, or that nothing does. */
void stage_pass(stage_t *stage, int64_t duration_ns);

/* Notes in stage->plan_ns how long the core expects each grant to take that it gives from now on. Once, when a worker has joined. */
void stage_note_plans(stage_t *stage);

/* One gateway and one worker on a stage: what many plays need. */
typedef struct {
    stage_t stage;
    fake_gateway_t gateway;
    fake_worker_t worker;
} duo_t;

/* devices: of the worker. Options, gateway and worker can be changed before duo_begin. */
duo_t *duo_new(uint32_t devices);
/* All connect, and the worker has the model "net". */
void duo_begin(duo_t *duo, int64_t alpha_ns, int64_t beta_ns);
/* Another worker that has it: 1 ms, and 1 ms a row. The caller kills it. */
void duo_add_worker(duo_t *duo, fake_worker_t *second);
void duo_free(duo_t *duo); /* either of the two may have been killed */

#endif
