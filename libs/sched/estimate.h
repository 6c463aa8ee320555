/*
 * What whoever gives requests of a model to a scheduler was told ahead: which part of each priority would be refused as it comes (shed.h), the
 * least time in which any request is answered, and what waits before it at least (sched_backlog). By that a request is judged where it came in, before anything was
 * done for it.
 *
 * What waits was told as the time when it is done at the earliest, so that each moment that passes is one less to wait. What was sent since
 * (estimate_sent) goes on top, as far as it is known here: others may send, too, and nobody is refused for what they may have sent.
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
#define ESTIMATE_BACKLOG_MOST_NS \
    INT64_C(3600000000000) /* no time that is told of it is longer than an hour */

typedef struct {
    int64_t until_ns; /* it holds */
    int64_t least_ns; /* 0: not told */
    int64_t tried_ns; /* the next that looks infeasible may pass */
    bool closing;     /* some part of some priority is refused */
    double refuse[SHED_LEVELS], debt[SHED_LEVELS];
    /* Tasks, since they were taken last. */
    uint32_t refused[SHED_LEVELS], backlog[SHED_LEVELS], infeasible;
    /* What waits is done at ends_ns at the earliest, and row_ns later with a task more (0: not told). Who may wait until behind_ns is behind
     * all of it; others the scheduler judges, as it does those of a higher level: what waits may have to let them by. */
    int64_t ends_ns, row_ns, behind_ns;
    uint32_t level;
} estimate_t;

typedef enum {
    ESTIMATE_SILENT,
    ESTIMATE_ADMITS,
    ESTIMATE_OVERLOAD,
    ESTIMATE_BACKLOG, /* what waits before it takes longer than it may */
    ESTIMATE_INFEASIBLE
} estimate_verdict_t;

typedef struct {
    uint32_t overload, backlog, infeasible;
} estimate_refused_t;

/* As it is told: from then on. */
typedef struct {
    int64_t ends_in_ns, row_ns, behind_ns;
    uint32_t level;
} estimate_backlog_t;

/* In place of what was told before. refuse: the part of each level, NULL: none is; parts that are none count as 0. */
void estimate_tell(estimate_t *estimate, int64_t now_ns, int64_t least_ns, const double *refuse);
/* And, after that, what waits. What makes no sense is not taken. */
void estimate_tell_backlog(estimate_t *estimate, int64_t now_ns, const estimate_backlog_t *backlog);
/* What was told does not hold any more. */
void estimate_lapse(estimate_t *estimate);
/* Nor is what it refused anybody's concern: who told it is no more. */
void estimate_forget(estimate_t *estimate);

/* A request of so many tasks (rows), whose answer is due in budget_ns. Refused requests are as even a part of small ones as of large ones. O(1). */
estimate_verdict_t estimate_judge(estimate_t *estimate, int64_t now_ns, uint32_t priority, int64_t budget_ns,
                                  uint32_t tasks);

/* The tasks of a request have gone to the scheduler, who does not hold them for longer than held_ns. O(1). */
void estimate_sent(estimate_t *estimate, int64_t now_ns, int64_t held_ns, uint32_t tasks);

/* The tasks of that level that were refused since the last call, by verdict; as infeasible of any level, told with the first.
 * False: none. */
bool estimate_take_refused(estimate_t *estimate, uint32_t level, estimate_refused_t *refused);

#endif
