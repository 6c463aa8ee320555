/* The door of the owner: takes those who come, and looks over those who are there. */
#include "base/clock.h"
#include "transfer/internal.h"
#include "transfer/owner/private.h"

#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_EVENT = 64, /* more wait for the next turn of the loop */
    LISTEN_BACKLOG = 512,
};

static void owner_on_listener(uv_poll_t *poll, int status, int events)
{
    transfer_owner_t *owner = poll->data;

    (void)status;
    (void)events;
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        struct sockaddr_storage from;
        int fd = acceptor_take(&owner->acceptor, owner->fd, &from);
        if (fd >= 0) {
            owner_take(owner, fd, &from);
        } else if (fd == ACCEPTOR_STUCK) {
            /* The listener would report readable without end; the sweep tries again. */
            uv_poll_stop(&owner->listener);
            owner->listening = false;
            return;
        } else if (fd == ACCEPTOR_EMPTY) {
            return;
        }
    }
}

static void owner_on_sweep(uv_timer_t *timer)
{
    transfer_owner_t *owner = timer->data;
    uint64_t now = (uint64_t)clock_now_ns();

    owner_turn_away_late(owner, now);
    owner_clear_out(owner, now);
    if (!owner->listening) {
        owner->listening = true;
        uv_poll_start(&owner->listener, UV_READABLE, owner_on_listener);
    }
}

static int listen_on(const struct addrinfo *info)
{
    int on = 1;
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, info->ai_addr, info->ai_addrlen) == 0 && listen(fd, LISTEN_BACKLOG) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static status_t open_listener(transfer_owner_t *owner, const char *address, err_t *err)
{
    char host[ADDRESS_HOST_BYTES], port[ADDRESS_PORT_BYTES];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *infos = NULL;

    status_t status = address_split(address, host, port, err);
    if (status != STATUS_OK)
        return status;
    int failed = getaddrinfo(host, port, &hints, &infos);
    if (failed)
        return err_set(err, STATUS_INVALID_ARGUMENT, "%s: %s", address, gai_strerror(failed));
    owner->fd = -1;
    for (struct addrinfo *info = infos; info && owner->fd < 0; info = info->ai_next)
        owner->fd = listen_on(info);
    freeaddrinfo(infos);
    if (owner->fd < 0)
        return err_set(err, STATUS_IO, "cannot listen on %s: %s", address, strerror(errno));
    address_of_socket(owner->fd, owner->address);
    return STATUS_OK;
}

static void owner_start(transfer_owner_t *owner)
{
    uint64_t sweep_ms = limits_sweep_ms(&owner->limits);

    acceptor_init(&owner->acceptor, owner->address);
    owner->listener.data = owner;
    owner->sweep.data = owner;
    owner->handles = 2;
    owner->listening = true;
    uv_timer_init(owner->loop, &owner->sweep);
    uv_timer_start(&owner->sweep, owner_on_sweep, sweep_ms, sweep_ms);
    uv_poll_start(&owner->listener, UV_READABLE, owner_on_listener);
}

status_t owner_listen(transfer_owner_t *owner, const char *address, err_t *err)
{
    status_t status = open_listener(owner, address, err);

    if (status != STATUS_OK)
        return status;
    if (uv_poll_init(owner->loop, &owner->listener, owner->fd) != 0) {
        close(owner->fd);
        return err_set(err, STATUS_IO, "cannot poll the data plane's listener");
    }
    owner_start(owner);
    return STATUS_OK;
}

static void owner_on_handle_closed(uv_handle_t *handle)
{
    transfer_owner_t *owner = handle->data;

    if (--owner->handles == 0)
        free(owner);
}

void owner_stop_listening(transfer_owner_t *owner)
{
    uv_close((uv_handle_t *)&owner->listener, owner_on_handle_closed);
    uv_close((uv_handle_t *)&owner->sweep, owner_on_handle_closed);
    close(owner->fd);
    acceptor_dispose(&owner->acceptor);
}
