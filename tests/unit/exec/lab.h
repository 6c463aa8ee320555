/*
 * A bench on which a mode and the emulated device are played against each other, for tests: a model of a few operators,
 * queries by hand, and what comes out as text.
 */
#ifndef TESTS_EXEC_LAB_H
#define TESTS_EXEC_LAB_H

#include "accel/device.h"
#include "exec/staged.h"
#include "exec/whole.h"

#define LAB_T INT64_C(1000000) /* the paper's unit of time */

/* An operator takes `ns` up to `prefer` rows, and n / prefer times as long for n rows beyond; its occupancy is its rows
 * over prefer, at most 1. `deep`: a length of L percent takes L / 100 of the time. */
typedef struct {
    double ns;
    double prefer;
} lab_op_t;

enum { LAB_OPS_MAX = 16, LAB_LOG_BYTES = 4096, LAB_QUERIES_MAX = 64 };

typedef struct {
    driver_t driver;
    accel_device_t *device;
    lab_op_t ops[LAB_OPS_MAX];
    uint32_t op_count, stages; /* the operators are cut into stages evenly */
    char log[LAB_LOG_BYTES];   /* one word per action */
    bool quiet;
    exec_query_t coming[LAB_QUERIES_MAX]; /* by arrival */
    uint32_t coming_count, arrived, completed;
    double latency_sum; /* in LAB_T */
} lab_t;

staged_cost_t lab_cost(void *lab, uint32_t stage, uint32_t rows, uint32_t length);
void lab_open(lab_t *lab, exec_t *exec); /* takes both */
void lab_close(lab_t *lab);
void lab_query(lab_t *lab, double at, uint32_t length); /* in units of LAB_T, in order */
void lab_run_until(lab_t *lab, double at);              /* what is due at that moment, with it */
void lab_run(lab_t *lab);                               /* until nothing is left */

#endif
