#include "loop/program.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/notify.h"

#include <malloc.h>

static void tell(const char *state)
{
    err_t err = {0};

    if (notify_send(state, &err) != STATUS_OK)
        log_warn("manager_not_told", LOG_STR("state", state), LOG_ERR(&err));
}

static void on_stop(void *arg, int signum)
{
    const loop_program_t *program = arg;

    tell("STOPPING=1");
    program->on_stop(program->arg, signum);
}

static void on_hangup(void *arg, int signum)
{
    const loop_program_t *program = arg;
    err_t err = {0};

    if (notify_reloading(&err) != STATUS_OK)
        log_warn("manager_not_told", LOG_STR("state", "RELOADING=1"), LOG_ERR(&err));
    program->on_hangup(program->arg, signum);
    tell("READY=1");
}

/* A loop that hangs is what the manager wants to know of. */
static void on_watchdog(loop_timer_t *timer, void *arg)
{
    const loop_program_t *program = arg;

    tell("WATCHDOG=1");
    loop_timer_start_in(timer, program->watchdog_ns);
}

/* Soon after the lines that there are, and while nothing more is said. */
static void on_log_lines(loop_timer_t *timer, void *arg)
{
    (void)arg;
    log_tell_left_out(clock_now_ns());
    loop_timer_start_in(timer, NS_PER_S);
}

/* Larger pieces are rare: a model's. */
enum { KEPT_MOST_BYTES = 4 << 20 };

static void keep_freed_memory(void)
{
    trim_keep();
    mallopt(M_MMAP_THRESHOLD, KEPT_MOST_BYTES);
}

status_t loop_program_open(loop_program_t *program, loop_signal_fn_t stop, void *arg, err_t *err)
{
    *program = (loop_program_t){.on_stop = stop, .arg = arg};
    loop_raise_descriptor_limit();
    keep_freed_memory();
    status_t status = loop_create(&program->loop, err);
    if (status == STATUS_OK)
        status = trim_create(&program->trim, err);
    if (status == STATUS_OK)
        status = clock_watch_create(&program->clock_watch, program->loop, err);
    if (status == STATUS_OK)
        status = loop_signals_create(&program->signals, program->loop, on_stop, program, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&program->watchdog, program->loop, on_watchdog, program, err);
    if (status == STATUS_OK)
        status = loop_timer_init(&program->log_lines, program->loop, on_log_lines, program, err);
    if (status == STATUS_OK)
        loop_timer_start_in(&program->log_lines, NS_PER_S);
    return status;
}

void loop_program_on_hangup(loop_program_t *program, loop_signal_fn_t hangup)
{
    program->on_hangup = hangup;
    loop_signals_on_hangup(program->signals, on_hangup);
}

void loop_program_ready(loop_program_t *program)
{
    tell("READY=1");
    program->watchdog_ns = notify_watchdog_ns() / 2; /* as sd_watchdog_enabled(3) advises */
    if (program->watchdog_ns > 0)
        loop_timer_start_in(&program->watchdog, program->watchdog_ns);
}

void loop_program_close(loop_program_t *program)
{
    if (program->signals)
        loop_signals_destroy(program->signals);
    if (program->watchdog.loop)
        loop_timer_dispose(&program->watchdog);
    if (program->log_lines.loop)
        loop_timer_dispose(&program->log_lines);
    clock_watch_destroy(program->clock_watch);
    trim_destroy(program->trim);
    log_tell_left_out(INT64_MAX);
    if (program->loop)
        loop_destroy(program->loop);
}
