#include "loop/signals.h"

#include "base/log.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { SIGNALS = 3 };

struct loop_signals {
    uv_signal_t handles[SIGNALS];
    int open_handles;
    bool seen;
    loop_signal_fn_t on_stop, on_hangup;
    void *arg;
};

static void on_signal(uv_signal_t *handle, int signum)
{
    loop_signals_t *signals = handle->data;
    if (signum == SIGHUP && (signals->on_hangup || signals->seen)) {
        if (signals->on_hangup)
            signals->on_hangup(signals->arg, signum);
        return;
    }
    if (signals->seen) {
        log_warn("second_signal", LOG_I64("signal", signum));
        _exit(128 + signum);
    }
    signals->seen = true;
    signals->on_stop(signals->arg, signum);
}

static void on_closed(uv_handle_t *handle)
{
    loop_signals_t *signals = handle->data;
    if (--signals->open_handles == 0)
        free(signals);
}

status_t loop_signals_create(loop_signals_t **out, loop_t *loop, loop_signal_fn_t on_stop, void *arg,
                             err_t *err)
{
    static const int signums[SIGNALS] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction hangup;
    loop_signals_t *signals = calloc(1, sizeof *signals);
    if (!signals)
        return err_set(err, STATUS_NO_MEMORY, "no memory for signal handlers");
    signals->on_stop = on_stop;
    signals->arg = arg;
    signal(SIGPIPE, SIG_IGN);
    bool nohup = sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
    for (int i = 0; i < SIGNALS - nohup; i++) {
        uv_signal_init(loop_uv(loop), &signals->handles[i]); /* cannot fail on Unix once the loop exists */
        signals->handles[i].data = signals;
        signals->open_handles++;
        int rc = uv_signal_start(&signals->handles[i], on_signal, signums[i]);
        if (rc != 0) {
            loop_signals_destroy(signals);
            return err_set(err, STATUS_IO, "cannot handle signal %d: %s", signums[i], uv_strerror(rc));
        }
    }
    *out = signals;
    return STATUS_OK;
}

void loop_signals_on_hangup(loop_signals_t *signals, loop_signal_fn_t on_hangup)
{
    signals->on_hangup = on_hangup;
}

void loop_signals_destroy(loop_signals_t *signals)
{
    if (!signals)
        return;
    for (int i = 0, n = signals->open_handles; i < n; i++)
        uv_close((uv_handle_t *)&signals->handles[i], on_closed);
}
