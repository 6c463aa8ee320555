/*
 * Carries out on a device what an exec_t decides: the common part of the executors of preempt, staged and overlap. It is the device of
 * a driver (exec/driver.h) that the worker's loop calls.
 *
 * What the engine and run_execute.c answer may call back into the executor at any time, an exec_t not while it
 * decides; so what a decision brings about is written down in `launch` and `act` and done behind it, in this order:
 * launches, stops, ends of batches.
 */
#ifndef WORKER_CARRIER_H
#define WORKER_CARRIER_H

#include "worker/modes/executor.h"

#include "exec/driver.h"
#include "loop/timer.h"

typedef struct carrier carrier_t;

struct carrier {
    executor_t executor; /* first */
    driver_t driver;
    loop_timer_t wake;
    launch_t *due, **due_tail; /* to be submitted, by node */
    launch_t *stop;            /* to be stopped; one decision stops one at most */
    struct batch_list over;    /* ended, by turn */
    bool doomed;
};

/*
 * What the driver hands on, with the carrier as its device and user: both tables are an executor's, `on` with its launch and
 * carrier_carry_out, `user` with its act.
 */
void carrier_carry_out(void *device);
/* Takes the exec_t over, also when it fails. exec NULL: err says already why there is none. */
status_t carrier_init(carrier_t *carrier, const executor_ops_t *ops, const executor_env_t *env,
                      uint32_t device, exec_t *exec, const driver_device_ops_t *on,
                      const driver_user_ops_t *user, err_t *err);
/* executor_ops_t.destroy of what begins with a carrier: frees it, behind the decision under way if there is one. */
void carrier_destroy(executor_t *executor);

/* For these a batch is told of, and what follows is decided. There is room for it. */
void carrier_submit(carrier_t *carrier, batch_t *batch, const exec_query_t *queries, uint32_t count);
/* A launch of the exec_t has ended; carrier_decide is to follow. */
void carrier_end(carrier_t *carrier, uint64_t launch, driver_end_kind_t kind);
/* After something was told to the exec_t or is to be launched again. */
void carrier_decide(carrier_t *carrier);

/* In launch and act, or before carrier_decide. */
void carrier_launch(carrier_t *carrier, launch_t *launch);
void carrier_stop(carrier_t *carrier, launch_t *launch);
void carrier_over(carrier_t *carrier, batch_t *batch, status_t status);

/* The name of a batch in an exec_t. */
static inline uint64_t carrier_id(const batch_t *batch)
{
    return (uintptr_t)batch;
}

static inline batch_t *carrier_batch(uint64_t id)
{
    return (batch_t *)(uintptr_t)id;
}

/* executor_ops_t.revoke where exec_preempt says whether it can be. */
bool carrier_revoke(executor_t *executor, batch_t *batch);

#endif
