#include "loop/signals.h"

#include "base/log.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct {
    loop_t *loop;
    int signum;
} stop_t;

static void on_stop(void *arg, int signum)
{
    stop_t *stop = arg;
    stop->signum = signum;
    loop_stop(stop->loop);
}

static void expect_stop_by(int signum)
{
    stop_t stop = {0};
    loop_signals_t *signals;
    cr_assert_eq(loop_create(&stop.loop, NULL), STATUS_OK);
    cr_assert_eq(loop_signals_create(&signals, stop.loop, on_stop, &stop, NULL), STATUS_OK);
    raise(SIGPIPE); /* ignored: or this is the end */
    raise(signum);
    loop_run(stop.loop);
    cr_expect_eq(stop.signum, signum);
    loop_signals_destroy(signals);
    loop_destroy(stop.loop);
}

Test(signals, int_and_term_call_the_stop_function, .timeout = 120)
{
    expect_stop_by(SIGINT);
    expect_stop_by(SIGTERM);
    loop_signals_destroy(NULL);
}

static void ignore_it(void *arg, int signum)
{
    (void)signum;
    char byte = 'x'; /* the parent knows that the first one was seen */
    ssize_t n = write(*(int *)arg, &byte, 1);
    (void)n;
}

static void stubborn_child(int out)
{
    loop_t *loop;
    loop_signals_t *signals;
    log_set_level(LOG_OFF);
    if (loop_create(&loop, NULL) != STATUS_OK ||
        loop_signals_create(&signals, loop, ignore_it, &out, NULL) != STATUS_OK)
        _exit(1);
    raise(SIGTERM);
    loop_run(loop);
    _exit(2);
}

Test(signals, a_second_signal_ends_the_process, .timeout = 120)
{
    int ends[2], status;
    char byte;
    cr_assert_eq(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0)
        stubborn_child(ends[1]);
    cr_assert_eq(read(ends[0], &byte, 1), 1);
    kill(child, SIGTERM);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status));
    cr_expect_eq(WEXITSTATUS(status), 128 + SIGTERM);
    close(ends[0]);
    close(ends[1]);
}
