/*
 * One service process that `fermata up` started and watches: it says `ready {…}` on its stdout when it
 * listens, logs to its stderr, and ends some day. It dies with us even if we are killed (child_exec.c), and
 * terminal signals do not reach it.
 *
 * Loop thread only. Callbacks come from the loop, never from within a call.
 */
#ifndef FERMATA_UP_CHILD_H
#define FERMATA_UP_CHILD_H

#include "base/status.h"
#include "fermata/up/words.h"
#include "loop/loop.h"

#include <stdbool.h>

typedef enum {
    CHILD_STARTING, /* runs, has not said that it is ready */
    CHILD_READY,
    CHILD_ENDED, /* gone, and all its output has been read */
} child_state_t;

typedef struct child child_t;

typedef struct {
    void (*on_ready)(child_t *child, void *arg);
    void (*on_ended)(child_t *child, void *arg); /* the last callback */
} child_ops_t;

typedef struct {
    const char *name;     /* "gateway-0": before each line of its log, and in messages; copied */
    const char *self;     /* path of our own program, which becomes the child */
    const words_t *words; /* its command line, words[0] a path; copied by the kernel */
    const char *
        log_path; /* its stderr is appended to this file; NULL: to our stderr with its name before each line */
    const child_ops_t *ops;
    void *arg;
} child_options_t;

status_t child_start(child_t **out, loop_t *loop, const child_options_t *options, err_t *err);

/* Only when it has ended. NULL is allowed. */
void child_destroy(child_t *child);

void child_signal(child_t *child, int signum); /* no effect when it has ended */

child_state_t child_state(const child_t *child);
int child_pid(const child_t *child);

/* An address from its ready line ("http"), or NULL. Lives as long as the child. */
const char *child_address(const child_t *child, const char *what);

/* Whether it ended with status 0, or by the signal that was sent to it. */
bool child_ended_well(const child_t *child);

/* "exited with status 3", "was killed by signal 9 (Killed)". Returns text. */
const char *child_ending(const child_t *child, char *text, size_t text_bytes);

#endif
