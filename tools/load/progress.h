/*
 * The line that tells a person at a terminal how a run goes: on stderr, drawn anew a few times a second, gone before the
 * report. Where stderr is no terminal there is none.
 */
#ifndef LOAD_PROGRESS_H
#define LOAD_PROGRESS_H

#include "load/runner.h"

typedef struct {
    double done;   /* fraction of the run, by time or by requests, whichever is further */
    double left_s; /* of sending; < 0: not known */
    double sent_per_s, good_per_s;
    int64_t p99_ns; /* of all answers so far; 0: none yet */
    bool warming_up, sending;
} progress_view_t;

/* What fits into so many columns, the most telling first: what remains, the rates, p99, and a bar. Pure. */
void progress_text(const progress_view_t *view, unsigned columns, char *text, size_t text_bytes);

typedef struct progress progress_t;

/* *progress becomes NULL where nobody would see it. The runner outlives it; flows are those of the runner. */
status_t progress_create(progress_t **progress, const runner_options_t *options, const runner_t *runner,
                         err_t *err);
void progress_destroy(progress_t *progress); /* takes the line away; NULL is allowed */

#endif
