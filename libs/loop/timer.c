/*
 * One timerfd for the earliest timer. Setting it costs a system call, so it is set only to make it earlier:
 * when the earliest timer is stopped or moved later, the old wake-up comes, finds nothing due, and only then
 * is the timerfd set anew. (A server that starts and stops a deadline timer per request so makes about one
 * call per deadline length, not per request.)
 */
#include "loop/timer.h"

#include "base/clock.h"
#include "loop/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

static void arm(timers_t *timers, int64_t at_ns)
{
    if (at_ns >= timers->armed_at_ns)
        return;
    int64_t at = at_ns > 0 ? at_ns : 1; /* 0 would disarm */
    struct itimerspec spec = {.it_value = {.tv_sec = at / NS_PER_S, .tv_nsec = at % NS_PER_S}};
    if (timerfd_settime(timers->fd, TFD_TIMER_ABSTIME, &spec, NULL) == 0)
        timers->armed_at_ns = at_ns;
}

/* Collect what is due first, then call back: callbacks may start, stop and dispose any timer, due ones too.
 */
static loop_timer_t *collect_due(timers_t *timers, int64_t now_ns)
{
    loop_timer_t *first = NULL, **tail = &first;
    while (heap_min_key(&timers->heap) <= now_ns) {
        loop_timer_t *timer = CONTAINER_OF(heap_pop(&timers->heap), loop_timer_t, node);
        timer->due = true;
        timer->due_next = NULL;
        *tail = timer;
        tail = &timer->due_next;
    }
    return first;
}

static void on_timerfd(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    timers_t *timers = poll->data;
    uint64_t expirations;
    ssize_t n = read(timers->fd, &expirations, sizeof expirations);
    (void)n; /* EAGAIN when it was set anew meanwhile: the heap alone says what is due */
    timers->armed_at_ns = INT64_MAX;
    timers->due = collect_due(timers, clock_now_ns());
    while (timers->due) {
        loop_timer_t *timer = timers->due;
        timers->due = timer->due_next;
        timer->due = false;
        timer->fn(timer, timer->arg);
    }
    if (heap_min(&timers->heap))
        arm(timers, heap_min_key(&timers->heap));
}

status_t timers_init(loop_t *loop, err_t *err)
{
    timers_t *timers = &loop->timers;
    status_t st = heap_init(&timers->heap, 0, err);
    if (st != STATUS_OK)
        return st;
    timers->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (timers->fd < 0)
        return err_set(err, STATUS_IO, "cannot create a timerfd: %s", strerror(errno));
    int rc = uv_poll_init(&loop->uv, &timers->poll, timers->fd);
    if (rc == 0)
        rc = uv_poll_start(&timers->poll, UV_READABLE, on_timerfd);
    if (rc != 0) {
        close(timers->fd);
        return err_set(err, STATUS_IO, "cannot watch a timerfd: %s", uv_strerror(rc));
    }
    timers->poll.data = timers;
    timers->armed_at_ns = INT64_MAX;
    return STATUS_OK;
}

void timers_dispose(loop_t *loop)
{
    uv_close((uv_handle_t *)&loop->timers.poll, NULL);
}

void timers_free(loop_t *loop)
{
    close(loop->timers.fd);
    heap_dispose(&loop->timers.heap);
}

status_t loop_timer_init(loop_timer_t *timer, loop_t *loop, loop_timer_fn_t fn, void *arg, err_t *err)
{
    timers_t *timers = &loop->timers;
    if (timers->reserved == timers->heap.capacity) {
        status_t st = heap_reserve(&timers->heap, timers->reserved < 8 ? 16 : 2 * timers->reserved, err);
        if (st != STATUS_OK)
            return st;
    }
    timers->reserved++;
    *timer = (loop_timer_t){.loop = loop, .fn = fn, .arg = arg};
    return STATUS_OK;
}

void loop_timer_dispose(loop_timer_t *timer)
{
    if (!timer->loop)
        return;
    loop_timer_stop(timer);
    timer->loop->timers.reserved--;
    timer->loop = NULL;
}

void loop_timer_start(loop_timer_t *timer, int64_t at_ns)
{
    timers_t *timers = &timer->loop->timers;
    loop_timer_stop(timer);
    heap_insert(&timers->heap, &timer->node, at_ns, timers->starts++); /* room is reserved */
    arm(timers, at_ns);
}

void loop_timer_start_in(loop_timer_t *timer, int64_t delay_ns)
{
    int64_t now = clock_now_ns();
    loop_timer_start(timer, delay_ns < INT64_MAX - now ? now + delay_ns : INT64_MAX - 1);
}

static void remove_from_due(timers_t *timers, loop_timer_t *timer)
{
    loop_timer_t **link = &timers->due;
    while (*link != timer)
        link = &(*link)->due_next;
    *link = timer->due_next;
    timer->due = false;
}

void loop_timer_stop(loop_timer_t *timer)
{
    timers_t *timers = &timer->loop->timers;
    heap_remove(&timers->heap, &timer->node);
    if (timer->due)
        remove_from_due(timers, timer);
}

bool loop_timer_active(const loop_timer_t *timer)
{
    return timer->due || heap_contains(&timer->node);
}
