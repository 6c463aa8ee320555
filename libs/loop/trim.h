/*
 * Gives memory that was freed back to the kernel once a burst is over. A message of some hundred KB passes through the heap in pieces of gRPC's; given
 * back each time, as glibc does with what ends a heap from 128 KB on, every page of it would be faulted in for every message. So the ends of heaps are
 * kept (trim_keep), and one hour of big messages would stay for good: a thread of its own looks every TRIM_LOOK_S whether the program is larger than it
 * was at its least. If so, what is free inside is given back at once, and for the time until the next look the ends, too, as they are freed. A thread, so that a
 * loop waits only where it wants memory of the very heap that is being gone through; of the usual priority, since one that is put aside
 * meanwhile would keep the loop waiting.
 */
#ifndef LOOP_TRIM_H
#define LOOP_TRIM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

void trim_keep(void); /* from now on; before there are threads */

typedef struct trim trim_t;

status_t trim_create(trim_t **trim, err_t *err);
void trim_destroy(trim_t *trim); /* NULL is fine */

/* What it goes by, at each look. Pure. Begins with zeros. */
typedef struct {
    uint64_t least_bytes;  /* that were resident at any look; 0: none yet */
    uint64_t before_bytes; /* that were resident when it began to give back; 0: it does not now */
    /* That heaps had free then, or at their least since: what is more was freed meanwhile. */
    uint64_t free_bytes;
    /* Looks that are let pass after one that gave nothing, unless much was freed; twice as many each time. */
    uint32_t pause;
    uint32_t waits; /* that are left of these */
} trim_rule_t;

enum { TRIM_LOOK_S = 10, TRIM_PAUSE_MOST = 32 };
/* What may lie there above the least without being looked for: a sixteenth of that, 2 MiB at least and 64 at most. */
uint64_t trim_kept_bytes(uint64_t least_bytes);

/* Whether to give back until the next look. */
bool trim_is_due(trim_rule_t *rule, uint64_t resident_bytes, uint64_t free_bytes);

#endif
