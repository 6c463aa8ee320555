/*
 * The emulated accelerator as the device of a driver (exec/driver.h), under a virtual clock: waiting is a jump to what comes next.
 */
#ifndef ACCEL_DEVICE_H
#define ACCEL_DEVICE_H

#include "accel/accel.h"
#include "exec/driver.h"

typedef struct accel_device accel_device_t;

typedef struct {
    /* As in accel_create; ops_max also bounds one part. */
    uint32_t streams, ops_max;
    /* The operators of one part of a launch, into ops; returns how many. */
    uint32_t (*operators)(void *ctx, const exec_part_t *part, accel_op_t *ops);
    /* One part of a launch has ended, before the driver hears of the launch. NULL: nobody asks. */
    void (*part_ended)(void *ctx, uint64_t launch, uint32_t part, bool stopped);
    void *ctx;
    /* So many operators read the inputs, which is said where others follow; 0: it is not said. */
    uint32_t readers;
} accel_device_config_t;

extern const driver_device_ops_t accel_device_ops;

/* NULL: no memory, or a limit of 0. */
accel_device_t *accel_device_create(const accel_device_config_t *config, err_t *err);
void accel_device_destroy(accel_device_t *device); /* NULL is fine */

/* When something ends next; ACCEL_NEVER: nothing runs. */
int64_t accel_device_next_ns(const accel_device_t *device);
double accel_device_busy_ns(const accel_device_t *device); /* accel_busy_ns */

#endif
