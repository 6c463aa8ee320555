/*
 * Shared memory between a gateway and the workers on its host. The arena and the directory are files without names whose
 * descriptors are handed over a UNIX socket; a worker maps them for reading and copies a grant's inputs from where they lie. Its
 * outputs go into a window of its own, which the gateway maps, too.
 *
 * Same host means: the gateway's socket, whose name only the peers of its connections are told, can be reached. It is an
 * abstract name, so that network namespaces keep apart what they are to keep apart, and containers of one pod find each other.
 * Both ask the kernel who the other is: descriptors are given to, and taken from, processes of the same user or of root only, and given once
 * for each token. A token is told over one connection, whose peer has proved by then who it is (trust.h).
 */
#include "base/log.h"
#include "base/shared_memory.h"
#include "transfer/carrier.h"
#include "transfer/wire.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

enum {
    SHM_MAGIC = 0x4D485346, /* "FSHM" */
    SHM_VERSION = 1,
    TOKEN_BYTES = 16,
    NAME_BYTES = 48,
    /* magic, version, token, arena, directory, name */
    ANSWER_BYTES = 4 + 4 + TOKEN_BYTES + 8 + 8 + NAME_BYTES,
    ASKED_AT_ONCE = 64,      /* requests for descriptors that are answered at one event */
    HAND_OVER_MS = 2000,     /* a gateway that lives answers in microseconds */
    TURN_BYTES = 1 << 20,    /* copied in one turn of the loop, so that sockets and timers have theirs */
    SLICE_BYTES = 256 << 10, /* of one job, so that a large one does not hold up small ones */
};

static _Atomic uint32_t mapped; /* windows and links of this process */

static uint32_t shm_registered(void)
{
    return atomic_load(&mapped);
}

static void unmap(void *base, size_t len_bytes)
{
    if (base)
        munmap(base, len_bytes);
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* ---- the owner's side ---- */

enum { HANDED_ARENA, HANDED_DIRECTORY, HANDED_WINDOW, HANDED };

struct carrier_seat {
    TAILQ_ENTRY(carrier_seat) link;
    carrier_door_t *door;
    uint8_t token[TOKEN_BYTES];
    void *window;
    int fd; /* the window's; -1: it was handed over */
};

struct carrier_door {
    uv_poll_t poll;
    int socket, arena_fd, directory_fd; /* the latter two for reading */
    uint64_t arena_bytes, directory_bytes;
    char name[NAME_BYTES]; /* behind the 0 that makes it abstract */
    TAILQ_HEAD(, carrier_seat) seats;
};

static socklen_t abstract_address(struct sockaddr_un *address, const char *name)
{
    size_t len = strlen(name);

    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path + 1, name, len);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static carrier_seat_t *seat_of_token(carrier_door_t *door, const uint8_t token[TOKEN_BYTES])
{
    carrier_seat_t *seat;

    TAILQ_FOREACH(seat, &door->seats, link)
    {
        if (seat->fd >= 0 && memcmp(seat->token, token, TOKEN_BYTES) == 0)
            return seat;
    }
    return NULL;
}

/* The kernel says so of the sender. */
static bool of_this_user(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct ucred who;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
            continue;
        memcpy(&who, CMSG_DATA(c), sizeof(who));
        return who.uid == geteuid() || who.uid == 0;
    }
    return false;
}

static void hand_over(carrier_door_t *door, carrier_seat_t *seat, const struct msghdr *asked)
{
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(HANDED * sizeof(int))];
    } control = {0};
    const int fds[HANDED] = {
        [HANDED_ARENA] = door->arena_fd, [HANDED_DIRECTORY] = door->directory_fd, [HANDED_WINDOW] = seat->fd};
    struct iovec iov = {.iov_base = seat->token, .iov_len = TOKEN_BYTES};
    struct msghdr message = {.msg_name = asked->msg_name,
                             .msg_namelen = asked->msg_namelen,
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);

    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(fds));
    memcpy(CMSG_DATA(c), fds, sizeof(fds));
    /* Who is not there any more, or does not read, has asked in vain. */
    if (sendmsg(door->socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0)
        close_fd(&seat->fd);
}

static bool door_answer_one(carrier_door_t *door)
{
    struct sockaddr_un from;
    uint8_t token[TOKEN_BYTES + 1];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {.iov_base = token, .iov_len = sizeof(token)};
    struct msghdr message = {.msg_name = &from,
                             .msg_namelen = sizeof(from),
                             .msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    ssize_t got = recvmsg(door->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got < 0)
        return errno == EINTR;
    if (got != TOKEN_BYTES || message.msg_namelen == 0 || !of_this_user(&message))
        return true;
    carrier_seat_t *seat = seat_of_token(door, token);
    if (seat)
        hand_over(door, seat, &message);
    return true;
}

static void door_on_asked(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    for (int i = 0; i < ASKED_AT_ONCE && door_answer_one(poll->data); i++)
        ;
}

static bool random_bytes(void *to, size_t len)
{
    return getrandom(to, len, 0) == (ssize_t)len; /* never cut short at so few bytes */
}

static bool door_bind(carrier_door_t *door)
{
    struct sockaddr_un address;
    uint64_t random[2];
    int on = 1;

    door->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (door->socket < 0 || !random_bytes(random, sizeof(random)))
        return false;
    snprintf(door->name, sizeof(door->name), "fermata-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1] >> 4);
    socklen_t len = abstract_address(&address, door->name);
    return setsockopt(door->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
           bind(door->socket, (struct sockaddr *)&address, len) == 0;
}

static void door_free(uv_handle_t *handle)
{
    free(handle->data);
}

static void door_close_fds(carrier_door_t *door)
{
    close_fd(&door->socket);
    close_fd(&door->arena_fd);
    close_fd(&door->directory_fd);
}

static status_t shm_memory_make(const char *address, const carrier_memory_t *beside, size_t len_bytes,
                                carrier_memory_t *memory, err_t *err)
{
    carrier_memory_t made = {.len_bytes = len_bytes, .made_by = &carrier_shm};
    status_t status = shared_memory_create("fermata-data", len_bytes, &made.base, &made.fd, err);

    (void)address;
    (void)beside;
    if (status == STATUS_OK)
        *memory = made;
    return status;
}

static void shm_memory_free(carrier_memory_t *memory)
{
    munmap(memory->base, memory->len_bytes);
    close_fd(&memory->fd);
}

static status_t shm_door_open(const carrier_door_options_t *options, carrier_door_t **out, err_t *err)
{
    if (options->arena.fd < 0 || options->directory.fd < 0)
        return err_set(err, STATUS_UNSUPPORTED, "the memory is not shared");
    carrier_door_t *door = calloc(1, sizeof(*door));
    if (!door)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    TAILQ_INIT(&door->seats);
    door->arena_bytes = options->arena.len_bytes;
    door->directory_bytes = options->directory.len_bytes;
    door->socket = -1;
    door->arena_fd = shared_memory_reader(options->arena.fd);
    door->directory_fd = shared_memory_reader(options->directory.fd);
    if (door->arena_fd < 0 || door->directory_fd < 0 || !door_bind(door) ||
        uv_poll_init(options->loop, &door->poll, door->socket) != 0) {
        err_set(err, STATUS_UNSUPPORTED, "no socket to hand memory over: %s", strerror(errno));
        door_close_fds(door);
        free(door);
        return STATUS_UNSUPPORTED;
    }
    door->poll.data = door;
    uv_poll_start(&door->poll, UV_READABLE, door_on_asked);
    *out = door;
    return STATUS_OK;
}

static void shm_door_close(carrier_door_t *door)
{
    uv_close((uv_handle_t *)&door->poll, door_free);
    door_close_fds(door);
}

static status_t shm_seat_take(carrier_door_t *door, const carrier_blob_t *hello, carrier_blob_t *answer,
                              carrier_seat_t **out, err_t *err)
{
    if (hello->len != 4 || wire_get32(hello->bytes) != SHM_VERSION)
        return err_set(err, STATUS_UNSUPPORTED, "another version of shared memory");
    carrier_seat_t *seat = calloc(1, sizeof(*seat));
    if (!seat || !random_bytes(seat->token, TOKEN_BYTES)) {
        free(seat);
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    }
    status_t status =
        shared_memory_create("fermata-window", CARRIER_WINDOW_BYTES, &seat->window, &seat->fd, err);
    if (status != STATUS_OK) {
        free(seat);
        return status;
    }
    atomic_fetch_add(&mapped, 1);
    seat->door = door;
    TAILQ_INSERT_HEAD(&door->seats, seat, link);
    uint8_t *to = answer->bytes;
    to = wire_put32(to, SHM_MAGIC);
    to = wire_put32(to, SHM_VERSION);
    to = (uint8_t *)memcpy(to, seat->token, TOKEN_BYTES) + TOKEN_BYTES;
    to = wire_put64(to, door->arena_bytes);
    to = wire_put64(to, door->directory_bytes);
    memcpy(to, door->name, NAME_BYTES);
    answer->len = ANSWER_BYTES;
    *out = seat;
    return STATUS_OK;
}

static void shm_seat_give_up(carrier_seat_t *seat)
{
    TAILQ_REMOVE(&seat->door->seats, seat, link);
    unmap(seat->window, CARRIER_WINDOW_BYTES);
    close_fd(&seat->fd);
    free(seat);
    atomic_fetch_sub(&mapped, 1);
}

static const uint8_t *shm_seat_window(const carrier_seat_t *seat)
{
    return seat->window;
}

/* ---- the pool's side ---- */

TAILQ_HEAD(job_list, carrier_job);

/* Where a job is, in carrier_job_t.inside: */
enum { JOB_ITEM, JOB_IOV, JOB_OFFSET, JOB_AT };

struct carrier_client {
    uv_idle_t idle; /* turns while there are jobs */
    uv_loop_t *loop;
    struct job_list jobs;
};

struct carrier_link {
    uv_poll_t poll;
    uv_timer_t patience; /* until the descriptors have come */
    int handles;
    carrier_client_t *client;
    carrier_watch_t watch;
    int socket;
    bool closed;
    uint8_t token[TOKEN_BYTES];
    uint64_t arena_bytes, directory_bytes;
    void *arena, *directory, *window;
};

static void client_turn(uv_idle_t *idle);

static status_t shm_client_open(struct uv_loop_s *loop, bool spin, carrier_client_t **out, err_t *err)
{
    carrier_client_t *client = calloc(1, sizeof(*client));

    (void)spin; /* nothing is waited for */
    if (!client)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    client->loop = loop;
    TAILQ_INIT(&client->jobs);
    uv_idle_init(loop, &client->idle);
    client->idle.data = client;
    *out = client;
    return STATUS_OK;
}

static void client_free(uv_handle_t *handle)
{
    free(handle->data);
}

static void shm_client_close(carrier_client_t *client)
{
    uv_close((uv_handle_t *)&client->idle, client_free);
}

static void shm_client_hello(carrier_client_t *client, carrier_blob_t *hello)
{
    (void)client;
    wire_put32(hello->bytes, SHM_VERSION);
    hello->len = 4;
}

/* -- a link -- */

static void link_on_closed(uv_handle_t *handle)
{
    carrier_link_t *link = handle->data;

    if (--link->handles == 0 && link->closed)
        free(link);
}

/* The descriptors have come, or will not. */
static void link_stop_waiting(carrier_link_t *link)
{
    if (link->socket < 0)
        return;
    uv_close((uv_handle_t *)&link->poll, link_on_closed);
    uv_close((uv_handle_t *)&link->patience, link_on_closed);
    close_fd(&link->socket);
}

static void link_end_waiting(carrier_link_t *link, status_t status, const char *why)
{
    link_stop_waiting(link);
    link->watch.changed(link->watch.ctx, status, why);
}

static void link_on_patience(uv_timer_t *timer)
{
    link_end_waiting(timer->data, STATUS_UNAVAILABLE, "its memory was not handed over in time");
}

static status_t link_map(carrier_link_t *link, const int fds[HANDED], err_t *err)
{
    status_t status = shared_memory_map(fds[HANDED_ARENA], link->arena_bytes, false, &link->arena, err);

    if (status == STATUS_OK)
        status =
            shared_memory_map(fds[HANDED_DIRECTORY], link->directory_bytes, false, &link->directory, err);
    if (status == STATUS_OK)
        status = shared_memory_map(fds[HANDED_WINDOW], CARRIER_WINDOW_BYTES, true, &link->window, err);
    return status;
}

/* How many descriptors came; more than are wanted are closed. */
static uint32_t take_fds(struct msghdr *message, int fds[HANDED])
{
    uint32_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t came = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < came; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
            if (count < HANDED)
                fds[count++] = fd;
            else
                close(fd);
        }
    }
    return count;
}

static void link_on_handed(uv_poll_t *poll, int status, int events)
{
    carrier_link_t *link = poll->data;
    int fds[HANDED] = {-1, -1, -1};
    uint8_t token[TOKEN_BYTES];
    union {
        struct cmsghdr align;
        uint8_t bytes[CMSG_SPACE(HANDED * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec iov = {.iov_base = token, .iov_len = sizeof(token)};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    err_t err = {0};

    (void)status;
    (void)events;
    ssize_t got = recvmsg(link->socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    status_t made = STATUS_UNAVAILABLE;
    if (got < 0)
        err_set(&err, made, "%s", strerror(errno));
    else if (take_fds(&message, fds) != HANDED || got != TOKEN_BYTES || !of_this_user(&message) ||
             memcmp(token, link->token, TOKEN_BYTES) != 0)
        made = err_set(&err, STATUS_INVALID_ARGUMENT, "what was handed over makes no sense");
    else
        made = link_map(link, fds, &err);
    for (uint32_t i = 0; i < HANDED; i++)
        close_fd(&fds[i]);
    link_end_waiting(link, made, err.text);
}

static bool link_read_answer(carrier_link_t *link, const carrier_blob_t *answer, char name[NAME_BYTES])
{
    const uint8_t *from = answer->bytes;

    if (answer->len != ANSWER_BYTES || wire_get32(from) != SHM_MAGIC || wire_get32(from + 4) != SHM_VERSION)
        return false;
    from += 8;
    memcpy(link->token, from, TOKEN_BYTES);
    link->arena_bytes = wire_get64(from + TOKEN_BYTES);
    link->directory_bytes = wire_get64(from + TOKEN_BYTES + 8);
    memcpy(name, from + TOKEN_BYTES + 16, NAME_BYTES);
    return name[0] && memchr(name, '\0', NAME_BYTES) && link->arena_bytes > 0 &&
           link->arena_bytes < SIZE_MAX / 2 && link->directory_bytes >= sizeof(directory_entry_t) &&
           link->directory_bytes < SIZE_MAX / 2;
}

static status_t link_ask(carrier_link_t *link, const char *name, err_t *err)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, address;
    socklen_t len = abstract_address(&address, name);

    int on = 1;

    link->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (link->socket < 0 || setsockopt(link->socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) != 0 ||
        bind(link->socket, (struct sockaddr *)&own, sizeof(sa_family_t)) != 0)
        return err_set(err, STATUS_UNAVAILABLE, "no UNIX socket: %s", strerror(errno));
    if (connect(link->socket, (struct sockaddr *)&address, len) != 0)
        return err_set(err, STATUS_UNAVAILABLE, "the gateway is not on this host");
    if (send(link->socket, link->token, TOKEN_BYTES, MSG_NOSIGNAL) != TOKEN_BYTES)
        return err_set(err, STATUS_UNAVAILABLE, "its memory cannot be asked for: %s", strerror(errno));
    return STATUS_OK;
}

static status_t shm_link_open(carrier_client_t *client, const carrier_blob_t *answer,
                              const carrier_watch_t *watch, carrier_link_t **out, err_t *err)
{
    char name[NAME_BYTES];
    status_t status = STATUS_OK;
    carrier_link_t *link = calloc(1, sizeof(*link));

    if (!link)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    link->client = client;
    link->watch = *watch;
    link->socket = -1;
    if (!link_read_answer(link, answer, name))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "its answer makes no sense");
    if (status == STATUS_OK)
        status = link_ask(link, name, err);
    if (status == STATUS_OK && uv_poll_init(client->loop, &link->poll, link->socket) != 0)
        status = err_set(err, STATUS_IO, "its socket cannot be polled");
    if (status != STATUS_OK) {
        close_fd(&link->socket);
        free(link);
        return status;
    }
    atomic_fetch_add(&mapped, 1);
    uv_timer_init(client->loop, &link->patience);
    link->handles = 2;
    link->poll.data = link->patience.data = link;
    uv_poll_start(&link->poll, UV_READABLE, link_on_handed);
    uv_update_time(client->loop);
    uv_timer_start(&link->patience, link_on_patience, HAND_OVER_MS, 0);
    *out = link;
    return STATUS_OK;
}

/* -- jobs -- */

static void job_end(carrier_client_t *client, carrier_job_t *job, status_t status)
{
    TAILQ_REMOVE(&client->jobs, job, entry);
    job->done(job, status);
}

static carrier_job_t *job_of_link(const carrier_link_t *link)
{
    carrier_job_t *job;

    TAILQ_FOREACH(job, &link->client->jobs, entry)
    {
        if (job->link == link)
            return job;
    }
    return NULL;
}

static void shm_link_close(carrier_link_t *link)
{
    carrier_job_t *job;

    while ((job = job_of_link(link)))
        job_end(link->client, job, STATUS_UNAVAILABLE);
    unmap(link->arena, link->arena_bytes);
    unmap(link->directory, link->directory_bytes);
    unmap(link->window, CARRIER_WINDOW_BYTES);
    atomic_fetch_sub(&mapped, 1);
    link->closed = true;
    if (link->socket >= 0)
        link_stop_waiting(link);
    else if (link->handles == 0)
        free(link);
}

static void job_start(carrier_link_t *link, carrier_job_t *job)
{
    carrier_client_t *client = link->client;

    job->link = link;
    memset(job->inside, 0, sizeof(job->inside));
    TAILQ_INSERT_TAIL(&client->jobs, job, entry);
    uv_idle_start(&client->idle, client_turn);
}

static bool shm_cancel(carrier_link_t *link, carrier_job_t *job)
{
    TAILQ_REMOVE(&link->client->jobs, job, entry);
    return true;
}

/* Copies up to `most` bytes between the iovs at the job's place and shared memory; returns how many. */
static uint64_t copy_some(carrier_job_t *job, const struct iovec *iov, uint32_t count, uint8_t *shared,
                          bool out, uint64_t most)
{
    uint64_t copied = 0;

    while (job->inside[JOB_IOV] < count && copied < most) {
        const struct iovec *piece = &iov[job->inside[JOB_IOV]];
        uint64_t left = piece->iov_len - job->inside[JOB_OFFSET];
        uint64_t n = left < most - copied ? left : most - copied;
        uint8_t *at = (uint8_t *)piece->iov_base + job->inside[JOB_OFFSET];
        if (n > 0)
            memcpy(out ? shared + copied : at, out ? at : shared + copied, n);
        copied += n;
        job->inside[JOB_OFFSET] += n;
        if (n == left) {
            job->inside[JOB_IOV]++;
            job->inside[JOB_OFFSET] = 0;
        }
    }
    return copied;
}

static status_t item_find(const carrier_link_t *link, const carrier_job_t *job, const transfer_item_t *item,
                          uint64_t *at)
{
    uint64_t slots = link->directory_bytes / sizeof(directory_entry_t);
    uint32_t slot = directory_slot(item->handle);

    if (item->len_bytes > job->max_item_bytes)
        return STATUS_TOO_LARGE;
    if (slot >= slots)
        return STATUS_NOT_FOUND;
    return directory_find((const directory_entry_t *)link->directory + slot, item->handle, item->offset,
                          item->len_bytes, link->arena_bytes, at);
}

static bool item_holds(const carrier_link_t *link, const transfer_item_t *item)
{
    return directory_holds((const directory_entry_t *)link->directory + directory_slot(item->handle),
                           item->handle);
}

/* One item, or a slice of it. True: it is through. */
static bool get_item(carrier_job_t *job, transfer_item_t *item, uint64_t *budget)
{
    carrier_link_t *link = job->link;

    if (job->inside[JOB_IOV] == 0 && job->inside[JOB_OFFSET] == 0) {
        item->status = item_find(link, job, item, &job->inside[JOB_AT]);
        if (item->status != STATUS_OK)
            return true;
    }
    uint64_t copied = copy_some(job, item->iov, item->iov_count, (uint8_t *)link->arena + job->inside[JOB_AT],
                                false, *budget);
    job->inside[JOB_AT] += copied;
    *budget -= copied;
    if (job->inside[JOB_IOV] < item->iov_count)
        return false;
    item->status = item_holds(link, item) ? STATUS_OK : STATUS_NOT_FOUND;
    return true;
}

/* Both: up to a slice; true: all of it is through. */
static bool get_some(carrier_job_t *job, uint64_t *budget)
{
    while (job->inside[JOB_ITEM]<job->count && * budget> 0) {
        if (!get_item(job, &job->items[job->inside[JOB_ITEM]], budget))
            return false;
        job->inside[JOB_ITEM]++;
        job->inside[JOB_IOV] = job->inside[JOB_OFFSET] = 0;
    }
    return job->inside[JOB_ITEM] == job->count;
}

static bool put_some(carrier_job_t *job, uint64_t *budget)
{
    uint8_t *to = (uint8_t *)job->link->window + job->window_offset + job->inside[JOB_AT];
    uint64_t copied = copy_some(job, job->iov, job->count, to, true, *budget);

    job->inside[JOB_AT] += copied;
    *budget -= copied;
    return job->inside[JOB_IOV] == job->count;
}

static void client_turn(uv_idle_t *idle)
{
    carrier_client_t *client = idle->data;
    carrier_job_t *job;
    uint64_t turn = TURN_BYTES;

    while (turn > 0 && (job = TAILQ_FIRST(&client->jobs))) {
        uint64_t slice = turn < SLICE_BYTES ? turn : SLICE_BYTES, budget = slice;
        bool through = job->items ? get_some(job, &budget) : put_some(job, &budget);
        turn -= slice - budget;
        if (through) {
            job_end(client, job, STATUS_OK);
        } else {
            TAILQ_REMOVE(&client->jobs, job, entry);
            TAILQ_INSERT_TAIL(&client->jobs, job, entry);
        }
    }
    if (TAILQ_EMPTY(&client->jobs))
        uv_idle_stop(&client->idle);
}

const carrier_ops_t carrier_shm = {
    .way = TRANSFER_BY_SHM,
    .bit = 1,
    .name = "shm",
    .memory_make = shm_memory_make,
    .memory_free = shm_memory_free,
    .door_open = shm_door_open,
    .door_close = shm_door_close,
    .seat_take = shm_seat_take,
    .seat_give_up = shm_seat_give_up,
    .seat_window = shm_seat_window,
    .client_open = shm_client_open,
    .client_close = shm_client_close,
    .client_hello = shm_client_hello,
    .link_open = shm_link_open,
    .link_close = shm_link_close,
    .get = job_start,
    .put = job_start,
    .cancel = shm_cancel,
    .registered = shm_registered,
};
