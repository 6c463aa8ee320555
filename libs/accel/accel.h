/*
 * An emulated accelerator on which operators overlap: pure, driven by the caller's time.
 *
 * Streams run side by side; what is launched into one stream runs in order. Every operator has a duration
 * (alone on the device) and an occupancy (the share of the device that it keeps busy). While the occupancies
 * of the operators that run add up to S > 1, each of them is slowed down S times. So two operators of 0.5
 * overlap for nothing, two that fill the device take as long together as one after the other, and the work
 * done per second never exceeds one device.
 */
#ifndef ACCEL_ACCEL_H
#define ACCEL_ACCEL_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

#define ACCEL_NEVER INT64_MAX

typedef struct {
    int64_t ns;       /* >= 0 */
    double occupancy; /* 0..1 */
    bool exit;        /* the launch can be stopped behind it */
} accel_op_t;

typedef struct accel accel_t;

/* Each stream holds at most ops_max operators that have not ended. NULL: no memory, or a limit of 0. */
accel_t *accel_create(uint32_t streams, uint32_t ops_max, err_t *err);
void accel_destroy(accel_t *device);

/* Runs the device up to now_ns, which never runs backwards. All calls below mean this moment. */
void accel_advance(accel_t *device, int64_t now_ns);

/* The operators are copied. UNAVAILABLE: the stream is full. INVALID_ARGUMENT: no such stream. */
status_t accel_launch(accel_t *device, uint32_t stream, uint64_t tag, const accel_op_t *ops, uint32_t count,
                      err_t *err);
/* Drops what has not begun of this launch behind its next exit; *ops: how many of its operators then will
 * have run. False: nothing was left to drop, it ends in full. */
bool accel_stop(accel_t *device, uint32_t stream, uint64_t tag, uint32_t *ops);

/* The moment that accel_advance was last told. */
int64_t accel_now_ns(const accel_t *device);

/* When the next operator ends if nothing else comes; a launch that has ended and was not taken: now. */
int64_t accel_next_ns(const accel_t *device);
/* Takes one launch that has ended by now; false: none. Those of one moment come in the order of the streams. */
bool accel_take_ended(accel_t *device, uint64_t *tag);

/* Sum over operators of duration x occupancy done so far: the use of the device. */
double accel_busy_ns(const accel_t *device);

#endif
