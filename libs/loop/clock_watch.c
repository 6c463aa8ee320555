#include "loop/clock_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "loop/timer.h"

#include <stdlib.h>

/* Soon enough to find the line beside what the jump did to other stamps. */
static const int64_t LOOK_PAUSE_NS = 10 * NS_PER_S;
static const int64_t JUMP_NS = NS_PER_S;

struct clock_watch {
    loop_timer_t timer;
    clock_gap_t gap;
};

int64_t clock_gap_look(clock_gap_t *gap, int64_t wall_ns, int64_t monotonic_ns)
{
    int64_t apart_ns = wall_ns - monotonic_ns, by_ns = gap->known ? apart_ns - gap->apart_ns : 0;

    gap->known = true;
    gap->apart_ns = apart_ns;
    return by_ns >= JUMP_NS || by_ns <= -JUMP_NS ? by_ns : 0;
}

static void on_timer(loop_timer_t *timer, void *arg)
{
    clock_watch_t *watch = arg;
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    int64_t by_ns =
        clock_gap_look(&watch->gap, (int64_t)wall.tv_sec * NS_PER_S + wall.tv_nsec, clock_now_ns());
    if (by_ns != 0)
        log_warn("clock_jumped", LOG_F64("by_s", (double)by_ns / (double)NS_PER_S));
    loop_timer_start_in(timer, LOOK_PAUSE_NS);
}

status_t clock_watch_create(clock_watch_t **out, loop_t *loop, err_t *err)
{
    clock_watch_t *watch = calloc(1, sizeof(*watch));

    if (!watch)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    if (loop_timer_init(&watch->timer, loop, on_timer, watch, err) != STATUS_OK) {
        free(watch);
        return STATUS_NO_MEMORY;
    }
    loop_timer_start_in(&watch->timer, 0);
    *out = watch;
    return STATUS_OK;
}

void clock_watch_destroy(clock_watch_t *watch)
{
    if (!watch)
        return;
    loop_timer_dispose(&watch->timer);
    free(watch);
}
