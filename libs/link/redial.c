#include "link/redial.h"

#include "base/clock.h"

#define PAUSE_MIN_NS (20 * NS_PER_MS)
#define PAUSE_MAX_NS NS_PER_S
/* A link that was up for so long was a good one: its end begins the pauses anew. */
#define STEADY_NS NS_PER_S

static void redial_pause(redial_t *redial)
{
    const link_kind_t *kind = redial->kind;

    if (kind->ops.down)
        kind->ops.down(kind->ctx, RPC_UNAVAILABLE, "");
    loop_timer_start_in(&redial->again, redial->pause_ns);
    redial->pause_ns = redial->pause_ns * 2 < PAUSE_MAX_NS ? redial->pause_ns * 2 : PAUSE_MAX_NS;
}

static void on_again(loop_timer_t *timer, void *arg)
{
    redial_t *redial = arg;

    (void)timer;
    if (!redial->attempt(redial->dial))
        redial_pause(redial);
}

static void redial_tell_closed(redial_t *redial)
{
    loop_timer_dispose(&redial->again);
    redial->on_closed(redial->on_closed_arg);
}

status_t redial_start(redial_t *redial, loop_t *loop, err_t *err)
{
    redial->pause_ns = PAUSE_MIN_NS;
    status_t status = loop_timer_init(&redial->again, loop, on_again, redial, err);
    if (status == STATUS_OK)
        loop_timer_start_in(&redial->again, 0);
    return status;
}

void redial_opened(redial_t *redial)
{
    redial->opened_ns = clock_now_ns();
}

void redial_ended(redial_t *redial)
{
    if (redial->opened_ns && clock_now_ns() - redial->opened_ns >= STEADY_NS)
        redial->pause_ns = PAUSE_MIN_NS;
    redial->opened_ns = 0;
    if (redial->on_closed)
        redial_tell_closed(redial);
    else
        redial_pause(redial);
}

void redial_close(redial_t *redial, bool under_way, void (*on_closed)(void *arg), void *arg)
{
    redial->on_closed = on_closed;
    redial->on_closed_arg = arg;
    if (!under_way)
        redial_tell_closed(redial);
}
