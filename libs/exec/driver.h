/*
 * Drives a mode on one device: what comes and what has ended goes into the exec object, what that decides goes onto the device. Pure:
 * time is the device's, or the caller's.
 *
 *   driver_step:  wait                     until something is due or has ended
 *                 come -> exec_submit      those of one moment before the ends (exec.h)
 *                 ends -> driver_end       for each
 *                 driver_run
 *
 *   driver_end:   exec_finished, exec_stopped, whole_inputs_read
 *   driver_run:   exec_run                 launches and stops go to the device, and then all there is to act()
 *                 carry_out                of what was put aside meanwhile; and again, if that told the exec object more
 *
 * Who has nothing else to wait for takes steps: the simulator's single devices and the tests on the emulated device (accel/device.h),
 * the trials of `fermata profile` on an engine (tools/fermata/profile/trial.c). Who hears of things from a loop of its own tells the
 * exec object what comes, driver_end what has ended, and then driver_run: the worker's executors (services/worker/modes/carrier.h), and
 * the simulator's clusters, many devices behind a scheduler (tools/sim/mode_cluster.c).
 */
#ifndef EXEC_DRIVER_H
#define EXEC_DRIVER_H

#include "exec/exec.h"

typedef enum {
    DRIVER_FINISHED,
    DRIVER_STOPPED,     /* at an exit point, after stop() */
    DRIVER_INPUTS_READ, /* it still runs: of a device that says so, for exec/whole.h */
} driver_end_kind_t;

typedef struct {
    uint64_t launch;
    driver_end_kind_t kind;
} driver_end_t;

/* The first two are driver_step's: who takes no steps has none. */
typedef struct {
    /* Time passes until until_ns, or until there is an end to take; *now_ns: what time it is then. Not OK: the device has failed, or
     * until_ns is EXEC_NEVER and nothing runs. */
    status_t (*wait)(void *device, int64_t until_ns, int64_t *now_ns, err_t *err);
    bool (*take_end)(void *device, driver_end_t *end); /* false: there is none (any more) at this time */
    status_t (*launch)(void *device, const exec_action_t *action, err_t *err);
    /* May be NULL where the mode stops nothing, or act does it. */
    void (*stop)(void *device, uint64_t launch);
    /* May be NULL. Behind all actions of a decision, what launch and act have put aside: here the exec object may be told more, and
     * driver_run be called. */
    void (*carry_out)(void *device);
} driver_device_ops_t;

/* Whose queries they are. The first two are driver_step's. */
typedef struct {
    /* When the next query comes; EXEC_NEVER: none does, or not before something is answered. */
    int64_t (*next_ns)(const void *ctx);
    /* It is due: exec_submit. */
    status_t (*come)(void *ctx, int64_t now_ns, err_t *err);
    /* Every action, a launch when it is on the device. */
    void (*act)(void *ctx, const exec_action_t *action);
} driver_user_ops_t;

typedef struct {
    /* These six are set at first. */
    exec_t *exec;
    const driver_device_ops_t *on;
    void *device;
    const driver_user_ops_t *user;
    void *ctx;
    int64_t now_ns;  /* the device's time, or the caller's before driver_run */
    int64_t wake_ns; /* what exec asked for; EXEC_NEVER at first */
    bool deciding;   /* in driver_run */
    bool again;      /* it was called from within */
    status_t status; /* the first that was not OK: nothing more happens */
    err_t *err;      /* may be NULL */
} driver_t;

/* When the next step is due if nothing ends before. */
int64_t driver_due_ns(const driver_t *driver);
/* The next step, at due_ns at the latest. Returns the status. */
status_t driver_step(driver_t *driver, int64_t due_ns);
/* What has ended, at now_ns: driver_run decides on it. Stopped, but exec_stopped does not know of it: it has finished. */
void driver_end(driver_t *driver, const driver_end_t *end);
/* Decides and acts, with no time passing: behind what the user told the exec object himself. Within carry_out it returns at once, and
 * what is due is decided when that has returned. */
status_t driver_run(driver_t *driver);

#endif
