#include "base/companion.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long a stop may go unnoticed. */
#define LOOK_MS 100

/* ---- Bytes over pipes ---- */

static status_t move_bytes(int fd, void *bytes, size_t len, const companion_patience_t *patience, bool writes)
{
    for (uint8_t *at = bytes; len > 0;) {
        struct pollfd ready = {.fd = fd, .events = writes ? POLLOUT : POLLIN};
        if (clock_now_ns() >= patience->until_ns)
            return STATUS_DEADLINE_EXCEEDED;
        if (patience->stopped && patience->stopped(patience->arg))
            return STATUS_CANCELLED;
        if (poll(&ready, 1, LOOK_MS) <= 0) /* a signal, or another look at the clock */
            continue;
        ssize_t n = writes ? write(fd, at, len) : read(fd, at, len);
        if (n < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (n <= 0)
            return STATUS_IO;
        at += n;
        len -= (size_t)n;
    }
    return STATUS_OK;
}

status_t companion_put(int fd, const void *bytes, size_t len, const companion_patience_t *patience)
{
    sigset_t pipe, before;
    struct timespec none = {0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    status_t status = move_bytes(fd, (void *)(uintptr_t)bytes, len, patience, true);
    (void)sigtimedwait(&pipe, NULL, &none);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return status;
}

status_t companion_get(int fd, void *bytes, size_t len, const companion_patience_t *patience)
{
    return move_bytes(fd, bytes, len, patience, false);
}

/* ---- Its life ---- */

static status_t open_pipes(int to[2], int from[2], err_t *err)
{
    if (pipe2(to, O_CLOEXEC) != 0)
        return err_set(err, STATUS_IO, "no pipe: %s", strerror(errno));
    if (pipe2(from, O_CLOEXEC) == 0)
        return STATUS_OK;
    err_set(err, STATUS_IO, "no pipe: %s", strerror(errno));
    close(to[0]);
    close(to[1]);
    return STATUS_IO;
}

static int spawn(const char *program, int in, int out, pid_t *pid)
{
    char *const argv[] = {(char *)(uintptr_t)program, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
    int failed = posix_spawn(pid, program, &actions, &attr, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return failed;
}

status_t companion_start(const char *program, companion_t *companion, err_t *err)
{
    int to[2], from[2];
    status_t status = open_pipes(to, from, err);
    if (status != STATUS_OK)
        return status;
    int failed = spawn(program, to[0], from[1], &companion->pid);
    close(to[0]);
    close(from[1]);
    if (failed) {
        close(to[1]);
        close(from[0]);
        return err_set(err, failed == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "%s: %s", program,
                       strerror(failed));
    }
    companion->in = to[1];
    companion->out = from[0];
    (void)fcntl(companion->in, F_SETFL,
                O_NONBLOCK); /* a pipe that nobody empties is waited for in poll, which ends in time */
    return STATUS_OK;
}

/* Where the kernel cannot tell of a death by poll (before 5.3), it is waited for without an end. */
static bool wait_for_death(pid_t pid, int64_t until_ns)
{
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd dead = {.fd = fd, .events = POLLIN};
    bool is_dead = fd < 0;
    while (!is_dead) {
        int64_t left_ns = until_ns - clock_now_ns();
        is_dead = poll(&dead, 1,
                       left_ns >= LOOK_MS * NS_PER_MS ? LOOK_MS
                       : left_ns > 0                  ? (int)(left_ns / NS_PER_MS) + 1
                                                      : 0) > 0;
        if (left_ns <= 0)
            break;
    }
    if (fd >= 0)
        close(fd);
    return is_dead;
}

bool companion_end(const companion_t *companion, int64_t until_ns, int *how)
{
    pid_t got;
    close(companion->in);
    close(companion->out);
    (void)kill(companion->pid, SIGKILL); /* what is dying already goes on to die of its own cause */
    if (!wait_for_death(companion->pid, until_ns))
        return false;
    while ((got = waitpid(companion->pid, how, 0)) < 0 && errno == EINTR)
        ;
    if (got < 0)
        *how = 0;
    return true;
}

bool companion_reap(pid_t pid)
{
    int how;
    return waitpid(pid, &how, WNOHANG) != 0;
}
