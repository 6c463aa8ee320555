#include "base/acceptor.h"

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

static _Atomic uint64_t turned_away;

static void fill_reserve(acceptor_t *acceptor)
{
    if (acceptor->reserve < 0)
        acceptor->reserve = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

void acceptor_init(acceptor_t *acceptor, const char *door)
{
    *acceptor = (acceptor_t){.reserve = -1, .door = door};
    fill_reserve(acceptor);
}

void acceptor_dispose(acceptor_t *acceptor)
{
    if (acceptor->reserve >= 0)
        close(acceptor->reserve);
    acceptor->reserve = -1;
}

static int take(int listener, struct sockaddr_storage *from)
{
    socklen_t len = sizeof *from;

    return accept4(listener, (struct sockaddr *)from, &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static void tell(const acceptor_t *acceptor, int error)
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (error == ENFILE)
        log_error_limited("out_of_descriptors", LOG_STR("listen", acceptor->door),
                          LOG_STR("limit", "of the host"), LOG_STR("advice", "sysctl fs.file-max"));
    else
        log_error_limited(
            "out_of_descriptors", LOG_STR("listen", acceptor->door), LOG_U64("limit", limit.rlim_cur),
            LOG_STR("advice", "raise the hard limit: ulimit -Hn, LimitNOFILE= of a systemd unit, "
                              "--ulimit nofile= of a container"));
}

/*
 * Linux takes the descriptor before it looks whether anybody waits. Whoever else in the process wants one may be faster than we
 * are: then there is none in reserve until one is free.
 */
static int turn_away(acceptor_t *acceptor, int listener, int error)
{
    struct sockaddr_storage ignored;
    int fd = -1;

    fill_reserve(acceptor);
    if (acceptor->reserve >= 0) {
        acceptor_dispose(acceptor);
        fd = take(listener, &ignored);
        if (fd < 0 && errno == EAGAIN)
            error = 0;
        if (fd >= 0)
            close(fd);
        fill_reserve(acceptor);
    }
    if (error == 0)
        return ACCEPTOR_EMPTY;
    tell(acceptor, error);
    if (fd >= 0)
        atomic_fetch_add_explicit(&turned_away, 1, memory_order_relaxed);
    return fd >= 0 ? ACCEPTOR_LOST : ACCEPTOR_STUCK;
}

int acceptor_take(acceptor_t *acceptor, int listener, struct sockaddr_storage *from)
{
    int fd = take(listener, from);

    if (fd >= 0)
        return fd;
    switch (errno) {
    case EAGAIN:
        return ACCEPTOR_EMPTY;
    case EMFILE:
    case ENFILE:
        return turn_away(acceptor, listener, errno);
    case ENOMEM:
    case ENOBUFS:
        return ACCEPTOR_STUCK;
    default: /* of the connection, as accept(2) says */
        return ACCEPTOR_LOST;
    }
}

uint64_t acceptors_turned_away(void)
{
    return atomic_load_explicit(&turned_away, memory_order_relaxed);
}
