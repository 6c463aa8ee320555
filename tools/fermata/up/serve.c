/*
 * fermata serve: becomes fermata-serve, which lies beside it. With --supervise it stays, starts it again whenever it has ended by
 * anything but its own will, and passes signals on.
 */
#include "fermata/command.h"

#include "base/beside.h"
#include "config/config.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* One that dies at each start must not keep the machine busy. */
enum { RESTART_DELAY_S = 1 };

/* Takes the flag out of argv. */
static bool take_supervise(int *argc, char **argv)
{
    bool found = false;
    int kept = 0;

    for (int i = 0; i < *argc; i++) {
        if (i > 0 && strcmp(argv[i], "--supervise") == 0)
            found = true;
        else
            argv[kept++] = argv[i];
    }
    argv[ *argc = kept] = NULL;
    return found;
}

static int become(const char *path, char **argv)
{
    execv(path, argv);
    fprintf(stderr, "fermata: cannot run %s: %s\n", path, strerror(errno));
    return EXIT_CODE_FAILED;
}

/* Does not outlive us, whatever happens to us; has its signals as we had them. */
static pid_t start(const char *path, char **argv, const sigset_t *before)
{
    pid_t us = getpid(), child = fork();

    if (child != 0)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != us) /* died before the promise was made */
        _exit(EXIT_CODE_FAILED);
    setpgid(0, 0); /* Ctrl-C reaches it through us, once */
    sigprocmask(SIG_SETMASK, before, NULL);
    _exit(become(path, argv));
}

static void tell_end(pid_t child, int status)
{
    if (WIFSIGNALED(status))
        fprintf(stderr,
                "fermata serve: fermata-serve (pid %d) was killed by signal %d (%s); starting it again\n",
                child, WTERMSIG(status), strsignal(WTERMSIG(status)));
    else
        fprintf(stderr, "fermata serve: fermata-serve (pid %d) exited with status %d; starting it again\n",
                child, WEXITSTATUS(status));
}

/* True: it is to be started again. Else *status is how it ended: well, as it was told to, or since its flags are wrong. */
static bool wait_for(pid_t child, const sigset_t *signals, int *status)
{
    bool stopping = false;

    for (;;) {
        int signum = sigwaitinfo(signals, NULL);
        if (signum > 0 && signum != SIGCHLD) {
            stopping |= signum != SIGHUP; /* which has it read its models again */
            kill(child, signum);
        } else if (waitpid(child, status, WNOHANG) == child) {
            break;
        }
    }
    bool well = WIFEXITED(*status) && WEXITSTATUS(*status) == EXIT_CODE_OK;
    if (stopping || well || (WIFEXITED(*status) && WEXITSTATUS(*status) == EXIT_CODE_USAGE))
        return false;
    tell_end(child, *status);
    return true;
}

static int supervise(const char *path, char **argv)
{
    static const struct timespec delay = {.tv_sec = RESTART_DELAY_S};
    sigset_t signals, before, stops;
    int status = 0;

    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigaddset(&stops, SIGINT);
    signals = stops;
    sigaddset(&signals, SIGCHLD);
    sigaddset(&signals, SIGHUP);
    sigprocmask(SIG_BLOCK, &signals, &before);
    for (;;) {
        pid_t child = start(path, argv, &before);
        if (child < 0) {
            fprintf(stderr, "fermata: cannot start a process: %s\n", strerror(errno));
            return EXIT_CODE_FAILED;
        }
        if (!wait_for(child, &signals, &status))
            break;
        if (sigtimedwait(&stops, NULL, &delay) > 0)
            break;
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_CODE_FAILED;
}

static int run(int argc, char **argv)
{
    char path[4096];

    if (!beside_program("fermata-serve", path, sizeof path)) {
        fprintf(stderr, "fermata: cannot find out where the program is\n");
        return EXIT_CODE_FAILED;
    }
    argv[0] = path;
    return take_supervise(&argc, argv) ? supervise(path, argv) : become(path, argv);
}

const command_t command_serve = {"serve", "serve the models of a folder with one process", run};
