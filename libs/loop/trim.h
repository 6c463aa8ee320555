/*
 * Gives memory that was freed back to the kernel once a burst is over: the program's heap keeps it for the next message (program.h), and glibc gives back
 * only what lies at the ends of its heaps, so that one hour of big messages would stay for good. A thread of its
 * own, so that a loop waits only where it wants memory of the very heap that is being gone through; of the usual priority, since one that is put aside
 * meanwhile would keep the loop waiting.
 */
#ifndef LOOP_TRIM_H
#define LOOP_TRIM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct trim trim_t;

status_t trim_create(trim_t **trim, err_t *err);
void trim_destroy(trim_t *trim); /* NULL is fine */

/* What it goes by, at each look. Pure. Begins with zeros. */
typedef struct {
    uint64_t least_bytes; /* that were resident at any look; 0: none yet */
    uint32_t waits;       /* looks to let pass: the last trim gave nothing */
} trim_rule_t;

enum { TRIM_LOOK_S = 10 };
/* What may lie there above the least without being looked for: a sixteenth of that, 2 MiB at least and 64 at most. */
uint64_t trim_kept_bytes(uint64_t least_bytes);

bool trim_is_due(trim_rule_t *rule, uint64_t resident_bytes);
void trim_note(trim_rule_t *rule, uint64_t before_bytes, uint64_t after_bytes); /* it was due, and done */

#endif
