#include "base/notify.h"

#include "base/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* False: the path is none that a socket can have. */
static bool set_address(struct sockaddr_un *address, socklen_t *len, const char *path)
{
    size_t n = strlen(path);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof address->sun_path)
        return false;
    memcpy(address->sun_path, path, n);
    if (path[0] == '@') /* without a file */
        address->sun_path[0] = '\0';
    *len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return true;
}

status_t notify_send(const char *state, err_t *err)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address;
    socklen_t len;

    if (!path || !*path)
        return STATUS_OK;
    if (!set_address(&address, &len, path))
        return err_set(err, STATUS_IO, "NOTIFY_SOCKET is no path of a socket");
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return err_set(err, STATUS_IO, "no socket for NOTIFY_SOCKET: %s", strerror(errno));
    ssize_t sent = sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, len);
    status_t status =
        sent >= 0 ? STATUS_OK : err_set(err, STATUS_IO, "cannot send to NOTIFY_SOCKET: %s", strerror(errno));
    close(fd);
    return status;
}

status_t notify_reloading(err_t *err)
{
    struct timespec now;
    char state[64];

    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(state, sizeof state, "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    return notify_send(state, err);
}

int64_t notify_watchdog_ns(void)
{
    const char *limit = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;

    if (!limit || (pid && strtol(pid, NULL, 10) != getpid()))
        return 0;
    long long us = strtoll(limit, &end, 10);
    return end != limit && !*end && us > 0 && us < INT64_MAX / 1000 ? us * NS_PER_US : 0;
}
