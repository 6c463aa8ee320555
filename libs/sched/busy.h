/*
 * Which part of the GPUs' time is taken, from grants alone: a granted batch is work for as long as it runs. To count
 * it when it is granted would do where batches are short; those of seconds begin and end together, and GPUs that never
 * rest would be found idle now and overfull then.
 *
 * A ring of slots of time holds the work that is to run in each. Pure; embedded in its owner.
 */
#ifndef SCHED_BUSY_H
#define SCHED_BUSY_H

#include <stdint.h>

/* 25 s, at 4 KB: work of longer batches counts as if they were so long. */
enum { BUSY_SLOTS = 512 };
#define BUSY_SLOT_NS INT64_C(50000000)

typedef struct {
    double work_ns[BUSY_SLOTS]; /* by the slot's number, modulo their count */
    int64_t taken_ns;           /* until then all has been taken */
    double at_once_ns;          /* work of no length since then */
} busy_t;

void busy_init(busy_t *busy, int64_t now_ns);

/* Work that runs from then on, evenly over length_ns; nothing begins before the last busy_take. Of no length it is all taken by the
 * next. Less than 0: of a batch that was stopped. O(length). */
void busy_add(busy_t *busy, int64_t from_ns, int64_t length_ns, double work_ns);

/* What has run since the last call. */
double busy_take(busy_t *busy, int64_t now_ns);

#endif
