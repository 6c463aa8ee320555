/*
 * What whoever gives requests of a model to a scheduler was told ahead: which part of each priority would be refused as it comes (shed.h), and the
 * least time in which any request is answered. By that a request is judged where it came in, before anything was done for it.
 *
 * Nothing is refused twice: what this ADMITS the scheduler admits, and what this refuses is reported to it (estimate_take_refused), so that it sees all that was
 * asked for. Where this is SILENT the scheduler judges, as it does for those who were told nothing: before anything was told, when what was told is older
 * than ESTIMATE_VALID_NS, and for one request in ESTIMATE_TRY_NS that looks infeasible, as what is believed of a model's time may be wrong and is
 * only made anew by what runs.
 *
 * Pure; embedded in its owner, zeroed at first; nothing to dispose.
 */
#ifndef SCHED_ESTIMATE_H
#define SCHED_ESTIMATE_H

#include "sched/shed.h"

/* Five times as long as a scheduler takes between two. */
#define ESTIMATE_VALID_NS INT64_C(500000000)
#define ESTIMATE_TRY_NS INT64_C(1000000000)

typedef struct {
    int64_t until_ns; /* it holds */
    int64_t least_ns; /* 0: not told */
    int64_t tried_ns; /* the next that looks infeasible may pass */
    bool closing;     /* some part of some priority is refused */
    double refuse[SHED_LEVELS], debt[SHED_LEVELS];
    uint32_t refused[SHED_LEVELS], infeasible; /* tasks, since they were taken last */
} estimate_t;

typedef enum { ESTIMATE_SILENT, ESTIMATE_ADMITS, ESTIMATE_OVERLOAD, ESTIMATE_INFEASIBLE } estimate_verdict_t;

/* In place of what was told before. refuse: the part of each level, NULL: none is; parts that are none count as 0. */
void estimate_tell(estimate_t *estimate, int64_t now_ns, int64_t least_ns, const double *refuse);
/* What was told does not hold any more. */
void estimate_lapse(estimate_t *estimate);
/* Nor is what it refused anybody's concern: who told it is no more. */
void estimate_forget(estimate_t *estimate);

/* A request of so many tasks (rows), whose answer is due in budget_ns. Refused requests are as even a part of small ones as of large ones. O(1). */
estimate_verdict_t estimate_judge(estimate_t *estimate, int64_t now_ns, uint32_t priority, int64_t budget_ns,
                                  uint32_t tasks);

/* The tasks of that level that were refused since the last call, for others and as infeasible (of any level, told with the first).
 * False: none. */
bool estimate_take_refused(estimate_t *estimate, uint32_t level, uint32_t *overload, uint32_t *infeasible);

#endif
