/*
 * A program that does one piece of work for this one, at a distance: what it is asked comes on its stdin, what it says on its stdout.
 * It may crash, hang or talk nonsense. Both sides use the calls that move bytes.
 *
 * Any thread; one at a time for each companion. A companion that does not die when it is killed (its sleep is the kernel's) is
 * left to companion_reap.
 */
#ifndef BASE_COMPANION_H
#define BASE_COMPANION_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct {
    pid_t pid;
    int in, out; /* ours: to it, from it */
} companion_t;

/* Until when bytes are waited for. */
typedef struct {
    int64_t until_ns;           /* clock_now_ns; INT64_MAX: for ever */
    bool (*stopped)(void *arg); /* asked ten times a second; NULL: nobody stops it */
    void *arg;
} companion_patience_t;

/* Nothing of ours is open in it but its stdin, stdout and stderr; it has no signal blocked or ignored, and the priority of the calling
 * thread. NOT_FOUND: there is no such program. */
status_t companion_start(const char *program, companion_t *companion, err_t *err);

/* All of it. DEADLINE_EXCEEDED, CANCELLED (stopped), or IO: the other side has closed. A pipe without a reader raises no signal. */
status_t companion_put(int fd, const void *bytes, size_t len, const companion_patience_t *patience);
status_t companion_get(int fd, void *bytes, size_t len, const companion_patience_t *patience);

/* Kills it, if it has not ended, and closes both pipes. How it ended is in `how`, as waitpid says. False: it has not by then (INT64_MAX: it is waited for without an end), and
 * has to be reaped later. */
bool companion_end(const companion_t *companion, int64_t until_ns, int *how);
/* Whether one that was left has died since. */
bool companion_reap(pid_t pid);

#endif
