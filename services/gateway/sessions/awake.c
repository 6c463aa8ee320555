#include "gateway/sessions/awake.h"

#include "loop/timer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct awake {
    int fd;
    bool held, touched;
    loop_timer_t timer;
};

/* The kernel's interface: microseconds of wake-up latency that are tolerated, as a native int32. */
static const int32_t NO_LATENCY = 0, ANY_LATENCY = INT32_MAX;

static void ask(awake_t *awake, int32_t latency_us)
{
    /* Only a hint: a kernel that refuses it leaves everything as correct as it was. */
    ssize_t n = pwrite(awake->fd, &latency_us, sizeof latency_us, 0);
    awake->held = n == (ssize_t)sizeof latency_us && latency_us == NO_LATENCY;
}

static void on_timer(loop_timer_t *timer, void *arg)
{
    awake_t *awake = arg;
    if (!awake->touched) {
        ask(awake, ANY_LATENCY);
        return;
    }
    awake->touched = false;
    loop_timer_start_in(timer, AWAKE_HOLD_NS);
}

status_t awake_create(loop_t *loop, const char *path, awake_t **out, err_t *err)
{
    awake_t *awake = calloc(1, sizeof *awake);
    if (!awake)
        return err_set(err, STATUS_NO_MEMORY, "no memory to keep the CPUs awake");
    awake->fd = open(path, O_WRONLY | O_CLOEXEC);
    if (awake->fd < 0) {
        free(awake);
        return err_set(err, STATUS_UNAVAILABLE, "%s: %s", path, strerror(errno));
    }
    ask(awake, ANY_LATENCY); /* opening alone may already count as a request for none */
    status_t status = loop_timer_init(&awake->timer, loop, on_timer, awake, err);
    if (status != STATUS_OK) {
        close(awake->fd);
        free(awake);
        return status;
    }
    *out = awake;
    return STATUS_OK;
}

void awake_destroy(awake_t *awake)
{
    if (!awake)
        return;
    loop_timer_dispose(&awake->timer);
    close(awake->fd); /* the kernel forgets what was asked through it */
    free(awake);
}

void awake_touch(awake_t *awake)
{
    if (!awake)
        return;
    awake->touched = true;
    if (awake->held)
        return;
    ask(awake, NO_LATENCY);
    if (awake->held)
        loop_timer_start_in(&awake->timer, AWAKE_HOLD_NS);
}
