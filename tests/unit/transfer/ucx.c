/*
 * The carrier of libs/transfer/ucx by itself, over the transports of UCX that need no hardware: a door and a client on one loop, or the door in a
 * process of its own that is stopped or killed. The pool and the owner above it are tested in rdma.c.
 */
#include "base/clock.h"
#include "base/log.h"
#include "transfer/carrier.h"
#include "transfer/ucx/device.h"

#include <criterion/criterion.h>
#include <ifaddrs.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#define TCP "tcp,self"
#define SHM "posix,sysv,cma,self"

enum { ARENA_BYTES = 4 << 20, SLOTS = 128, LARGE = 150 * 1024 };

static const int64_t PATIENCE_NS = 20 * NS_PER_S;
static const carrier_ops_t *const ops = &carrier_rdma;

/* ---- the owner's side ---- */

typedef struct {
    uint8_t *arena;
    directory_entry_t *directory;
    carrier_door_t *door;
    carrier_seat_t *seat;
} owner_t;

static void *memory(size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert(base != MAP_FAILED);
    return base;
}

static void owner_open(owner_t *owner, uv_loop_t *loop, bool spin)
{
    err_t err;

    owner->arena = memory(ARENA_BYTES);
    owner->directory = memory(SLOTS * sizeof(directory_entry_t));
    for (size_t i = 0; i < ARENA_BYTES; i++)
        owner->arena[i] = (uint8_t)(i * 31 + (i >> 8) + 1);
    const carrier_door_options_t options = {
        .loop = loop,
        .arena = {owner->arena, ARENA_BYTES, -1},
        .directory = {owner->directory, SLOTS * sizeof(directory_entry_t), -1},
        .spin = spin};
    cr_assert_eq(ops->door_open(&options, &owner->door, &err), STATUS_OK, "%s", err.text);
}

static void owner_close(owner_t *owner)
{
    ops->seat_give_up(owner->seat);
    ops->door_close(owner->door);
    munmap(owner->arena, ARENA_BYTES);
    munmap(owner->directory, SLOTS * sizeof(directory_entry_t));
}

static transfer_handle_t handle_of(uint32_t slot)
{
    return (transfer_handle_t){.hi = UINT64_C(7) << 32 | slot, .lo = 99};
}

static transfer_handle_t publish(const owner_t *owner, uint32_t slot, uint64_t offset, uint64_t len_bytes)
{
    directory_enter(&owner->directory[slot], handle_of(slot), offset, len_bytes);
    return handle_of(slot);
}

/* ---- both ---- */

typedef struct {
    uv_loop_t loop;
    owner_t owner; /* of this process, or unused */
    pid_t child;   /* the owner's process, or 0 */
    carrier_client_t *client;
    carrier_link_t *link;
    int ready, broken;
} rig_t;

static rig_t rig;

static void use(const char *transports)
{
    setenv("UCX_TLS", transports, 1);
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    uv_loop_init(&rig.loop);
}

static void on_changed(void *ctx, status_t status, const char *why)
{
    (void)ctx;
    cr_assert_not_null(why);
    if (status == STATUS_OK)
        rig.ready++;
    else
        rig.broken++;
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
}

/* Turns the loop until *value >= want. */
static void until(const int *value, int want)
{
    int64_t end = clock_now_ns() + PATIENCE_NS;
    uv_timer_t guard;

    uv_timer_init(&rig.loop, &guard);
    uv_timer_start(&guard, on_guard, 5, 5);
    while (*value < want) {
        cr_assert(clock_now_ns() < end, "%d of %d in time", *value, want);
        uv_run(&rig.loop, UV_RUN_ONCE);
    }
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static void settle(void)
{
    for (int i = 0; i < 200; i++)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
}

static void link_up(const carrier_blob_t *answer)
{
    const carrier_watch_t watch = {.changed = on_changed};
    err_t err;

    cr_assert_eq(ops->link_open(rig.client, answer, &watch, &rig.link, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(rig.ready, 0, "never from within the call");
    until(&rig.ready, 1);
}

static void open_both(const char *transports, bool spin)
{
    carrier_blob_t hello, answer;
    err_t err;

    use(transports);
    owner_open(&rig.owner, &rig.loop, spin);
    cr_assert_eq(ops->client_open(&rig.loop, spin, &rig.client, &err), STATUS_OK, "%s", err.text);
    ops->client_hello(rig.client, &hello);
    cr_assert_eq(ops->seat_take(rig.owner.door, &hello, &answer, &rig.owner.seat, &err), STATUS_OK, "%s",
                 err.text);
    link_up(&answer);
}

typedef struct {
    uv_poll_t poll;
    int from, to;
} greeter_t;

/* Each greeting has a seat of its own. */
static void on_greeting(uv_poll_t *poll, int status, int events)
{
    const greeter_t *greeter = (const greeter_t *)poll;
    carrier_blob_t hello, answer;
    err_t err;

    (void)status;
    (void)events;
    if (read(greeter->from, &hello, sizeof(hello)) != sizeof(hello) ||
        ops->seat_take(rig.owner.door, &hello, &answer, &rig.owner.seat, &err) != STATUS_OK ||
        write(greeter->to, &answer, sizeof(answer)) != sizeof(answer))
        _exit(1);
}

static void child_main(int from, int to)
{
    greeter_t greeter = {.from = from, .to = to};

    uv_loop_init(&rig.loop); /* that of before the fork shares its events with the other process */
    owner_open(&rig.owner, &rig.loop, false);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        publish(&rig.owner, slot, 0, ARENA_BYTES);
    uv_poll_init(&rig.loop, &greeter.poll, from);
    uv_poll_start(&greeter.poll, UV_READABLE, on_greeting);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    _exit(0);
}

static int there[2], back[2];

static void start_owner(void)
{
    cr_assert(pipe(there) == 0 && pipe(back) == 0);
    rig.child = fork();
    if (rig.child == 0)
        child_main(there[0], back[1]);
    close(there[0]);
    close(back[1]); /* an owner that ends leaves nobody waiting for its answer */
}

static carrier_blob_t greet_child(void)
{
    carrier_blob_t hello, answer;
    err_t err;

    cr_assert_eq(ops->client_open(&rig.loop, false, &rig.client, &err), STATUS_OK, "%s", err.text);
    ops->client_hello(rig.client, &hello);
    cr_assert_eq(write(there[1], &hello, sizeof(hello)), sizeof(hello));
    cr_assert_eq(read(back[0], &answer, sizeof(answer)), sizeof(answer));
    return answer;
}

static void link_to_child(void)
{
    const carrier_blob_t answer = greet_child();

    link_up(&answer);
}

/* Where the owner's queue may be stuck: a link that does not come about is given up, as a pool does, and the owner, which has given
 * its queue up by then, is greeted again. False: it does not come about. */
static bool link_to_child_at_last(void)
{
    enum { TRIES = 4 };
    const carrier_watch_t watch = {.changed = on_changed};
    err_t err;

    for (int i = 0; i < TRIES; i++) {
        const carrier_blob_t answer = greet_child();
        int64_t end = clock_now_ns() + PATIENCE_NS / TRIES;
        if (ops->link_open(rig.client, &answer, &watch, &rig.link, &err) != STATUS_OK)
            return false;
        while (!rig.ready && clock_now_ns() < end)
            uv_run(&rig.loop, UV_RUN_NOWAIT);
        if (rig.ready)
            return true;
        ops->link_close(rig.link);
        ops->client_close(rig.client);
    }
    return false;
}

/* All slots of the child's directory are published and stand for its whole arena. */
static void open_apart(const char *transports)
{
    use(transports);
    start_owner();
    link_to_child();
}

static void end_child(void)
{
    kill(rig.child, SIGKILL);
    waitpid(rig.child, NULL, 0);
}

/* The link is closed already, or here. */
static void close_all(void)
{
    if (rig.link)
        ops->link_close(rig.link);
    ops->client_close(rig.client);
    if (rig.owner.door)
        owner_close(&rig.owner);
    uv_run(&rig.loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig.loop), 0, "nothing is left on the loop");
    cr_assert_eq(ops->registered(), 0, "nothing stays registered");
}

typedef struct {
    carrier_job_t job;
    transfer_item_t item;
    struct iovec iov;
    int calls;
    status_t status;
} one_t;

static int all_done;

static void on_done(carrier_job_t *job, status_t status)
{
    one_t *one = (one_t *)job;

    one->calls++;
    one->status = status;
    all_done++;
}

/* One item, into `to`. */
static void get_one(one_t *one, transfer_handle_t handle, void *to, size_t len)
{
    *one = (one_t){.iov = {to, len}};
    one->item = (transfer_item_t){
        .handle = handle, .len_bytes = len, .iov = &one->iov, .iov_count = 1, .status = STATUS_INTERNAL};
    one->job =
        (carrier_job_t){.done = on_done, .items = &one->item, .count = 1, .max_item_bytes = ARENA_BYTES};
    ops->get(rig.link, &one->job);
}

static void put_one(one_t *one, const struct iovec *iov, uint32_t count, uint64_t offset)
{
    *one = (one_t){.job = {.done = on_done, .iov = iov, .count = count, .window_offset = offset}};
    ops->put(rig.link, &one->job);
}

/* ---- a get of many items ---- */

static void get_of_each_kind(const char *transports, bool spin)
{
    enum { PIECES, EMPTY, UNPUBLISHED, TOO_FAR, NO_SLOT, TOO_LARGE, ELSEWHERE, LIES, ANOTHER, LAST, ITEMS };
    static const status_t want[ITEMS] = {
        [UNPUBLISHED] = STATUS_NOT_FOUND, [TOO_FAR] = STATUS_INVALID_ARGUMENT, [NO_SLOT] = STATUS_NOT_FOUND,
        [TOO_LARGE] = STATUS_TOO_LARGE,   [ELSEWHERE] = STATUS_UNSUPPORTED,    [LIES] = STATUS_NOT_FOUND,
        [ANOTHER] = STATUS_NOT_FOUND};
    static uint8_t out[ITEMS][LARGE];
    struct iovec iov[ITEMS], pieces[3] = {{out[0], 1000}, {out[0] + 1000, 0}, {out[0] + 1000, LARGE - 1000}};
    transfer_item_t items[ITEMS];

    open_both(transports, spin);
    const transfer_handle_t good = publish(&rig.owner, 3, 4096, LARGE + 10);
    publish(&rig.owner, 4, DIRECTORY_ELSEWHERE, LARGE);
    publish(&rig.owner, 5, ARENA_BYTES - 10, LARGE);
    for (int i = 0; i < ITEMS; i++) {
        iov[i] = (struct iovec){out[i], LARGE};
        items[i] = (transfer_item_t){.handle = good, .len_bytes = LARGE, .iov = &iov[i], .iov_count = 1};
    }
    items[PIECES].iov = pieces;
    items[PIECES].iov_count = 3;
    items[PIECES].offset = 10;
    items[EMPTY].len_bytes = iov[EMPTY].iov_len = 0;
    items[UNPUBLISHED].handle = handle_of(9);
    items[TOO_FAR].offset = 11;
    items[NO_SLOT].handle = handle_of(SLOTS);
    items[TOO_LARGE].len_bytes = LARGE + 1;
    items[ELSEWHERE].handle = handle_of(4);
    items[LIES].handle = handle_of(5);
    items[ANOTHER].handle.hi += UINT64_C(1) << 32;
    one_t one = {.job = {.done = on_done, .items = items, .count = ITEMS, .max_item_bytes = LARGE}};
    ops->get(rig.link, &one.job);
    cr_assert_eq(one.calls, 0, "never from within the call");
    until(&one.calls, 1);
    settle();
    cr_assert_eq(one.calls, 1);
    cr_assert_eq(one.status, STATUS_OK);
    for (int i = 0; i < ITEMS; i++) {
        cr_assert_eq(items[i].status, want[i], "item %d: %d", i, items[i].status);
        if (want[i] != STATUS_OK)
            cr_assert_eq(out[i][0], 0, "item %d", i);
    }
    cr_assert_arr_eq(out[PIECES], rig.owner.arena + 4096 + 10, LARGE);
    cr_assert_arr_eq(out[LAST], rig.owner.arena + 4096, LARGE);
    close_all();
}

Test(ucx, each_item_has_its_own_status_over_tcp)
{
    get_of_each_kind(TCP, false);
}

Test(ucx, each_item_has_its_own_status_over_shm)
{
    get_of_each_kind(SHM, false);
}

Test(ucx, each_item_has_its_own_status_over_tcp_without_sleeping)
{
    get_of_each_kind(TCP, true);
}

Test(ucx, each_item_has_its_own_status_over_shm_without_sleeping)
{
    get_of_each_kind(SHM, true);
}

/* True: the region was withdrawn when its bytes had come and the get was not through. */
static bool withdrawn_in_between(int before)
{
    enum { MOST = 64 };
    static one_t others[MOST], last;
    static uint8_t small[MOST][8], out[LARGE];
    const transfer_handle_t small_handle = publish(&rig.owner, 1, 0, 8),
                            handle = publish(&rig.owner, 2, 0, LARGE);
    bool hit;

    memset(out, 0, sizeof(out));
    all_done = 0;
    for (int i = 0; i < before; i++)
        get_one(&others[i], small_handle, small[i], 8);
    get_one(&last, handle, out, LARGE);
    while (last.calls == 0 && out[LARGE - 1] == 0)
        uv_run(&rig.loop, UV_RUN_NOWAIT);
    hit = last.calls == 0;
    directory_withdraw(&rig.owner.directory[2]);
    until(&all_done, before + 1);
    cr_assert_eq(last.status, STATUS_OK);
    cr_assert_eq(last.item.status, hit ? STATUS_NOT_FOUND : STATUS_OK);
    return hit;
}

/* Where its turn ends among the others' is not known: each place is tried. */
static void withdraw_between_the_looks(const char *transports)
{
    int hits = 0;

    open_both(transports, false);
    for (int before = 0; before < 32; before++)
        hits += withdrawn_in_between(before);
    cr_assert_gt(hits, 0);
    close_all();
}

Test(ucx, what_was_withdrawn_between_the_looks_is_not_found_over_tcp)
{
    withdraw_between_the_looks(TCP);
}

Test(ucx, what_was_withdrawn_between_the_looks_is_not_found_over_shm)
{
    withdraw_between_the_looks(SHM);
}

/* ---- a put ---- */

static void put_into_the_window(const char *transports)
{
    enum { AT = 12345 };
    static uint8_t a[100], b[200000];
    const struct iovec iov[3] = {{a, sizeof(a)}, {a, 0}, {b, sizeof(b)}};
    one_t one;

    open_both(transports, false);
    const uint8_t *window = ops->seat_window(rig.owner.seat);
    memset(a, 'a', sizeof(a));
    memset(b, 'b', sizeof(b));
    put_one(&one, iov, 3, AT);
    cr_assert_eq(one.calls, 0, "never from within the call");
    until(&one.calls, 1);
    cr_assert_eq(one.status, STATUS_OK);
    cr_assert_eq(window[AT - 1], 0);
    cr_assert_arr_eq(window + AT, a, sizeof(a));
    cr_assert_arr_eq(window + AT + sizeof(a), b, sizeof(b));
    cr_assert_eq(window[AT + sizeof(a) + sizeof(b)], 0);
    put_one(&one, &iov[2], 1, CARRIER_WINDOW_BYTES - sizeof(b));
    until(&one.calls, 1);
    cr_assert_eq(one.status, STATUS_OK, "up to the end");
    cr_assert_eq(window[CARRIER_WINDOW_BYTES - 1], 'b');
    put_one(&one, &iov[2], 1, CARRIER_WINDOW_BYTES - sizeof(b) + 1);
    until(&one.calls, 1);
    cr_assert_eq(one.status, STATUS_UNAVAILABLE, "not beyond");
    until(&rig.broken, 1);
    close_all();
}

Test(ucx, a_put_lands_where_it_should_over_tcp)
{
    put_into_the_window(TCP);
}

Test(ucx, a_put_lands_where_it_should_over_shm)
{
    put_into_the_window(SHM);
}

/* ---- ends ---- */

enum { MANY = 1000, EACH = 40000 };
static one_t many[MANY];
static uint8_t outs[MANY][EACH];

static void get_many(void)
{
    all_done = 0;
    for (int i = 0; i < MANY; i++)
        get_one(&many[i], handle_of((uint32_t)i % SLOTS), outs[i], EACH);
}

static void close_link(void)
{
    carrier_link_t *link = rig.link;

    rig.link = NULL;
    ops->link_close(link);
}

static void each_ended_once(void)
{
    until(&all_done, MANY);
    settle();
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(many[i].calls, 1, "job %d", i);
        cr_assert(many[i].status == STATUS_OK || many[i].status == STATUS_UNAVAILABLE);
    }
    cr_assert_eq(many[MANY - 1].status, STATUS_UNAVAILABLE, "they were under way");
}

/* When all have been told. */
static void nothing_is_written_while(void (*more)(void))
{
    memset(outs, 0, sizeof(outs));
    more();
    for (int i = 0; i < MANY; i++) {
        for (int k = 0; k < EACH; k++)
            cr_assert_eq(outs[i][k], 0, "written to after the end");
    }
}

static void close_in_the_middle(const char *transports)
{
    open_both(transports, false);
    for (uint32_t slot = 0; slot < SLOTS; slot++)
        publish(&rig.owner, slot, 0, EACH);
    get_many();
    until(&all_done, 1);
    close_link();
    each_ended_once();
    nothing_is_written_while(settle);
    close_all();
}

Test(ucx, closing_in_the_middle_of_a_thousand_gets_ends_each_once_over_tcp)
{
    close_in_the_middle(TCP);
}

Test(ucx, closing_in_the_middle_of_a_thousand_gets_ends_each_once_over_shm)
{
    close_in_the_middle(SHM);
}

static void go_on(void)
{
    int64_t end = clock_now_ns() + 200 * NS_PER_MS;

    kill(rig.child, SIGCONT);
    while (clock_now_ns() < end) /* nothing tells when it has sent the rest */
        uv_run(&rig.loop, UV_RUN_NOWAIT);
}

/* The owner does not answer, then does, after the end. */
static void close_when_stopped(const char *transports, bool before)
{
    int status;

    open_apart(transports);
    if (before) {
        get_many();
        until(&all_done, 1);
    }
    kill(rig.child, SIGSTOP);
    cr_assert_eq(waitpid(rig.child, &status, WUNTRACED), rig.child);
    if (!before)
        get_many();
    settle();
    close_link();
    for (int i = 0; i < MANY; i++)
        cr_assert_leq(many[i].calls, 1);
    until(&all_done, MANY);
    nothing_is_written_while(go_on);
    cr_assert_eq(waitpid(rig.child, NULL, WNOHANG), 0, "it lives");
    end_child();
    close_all();
}

Test(ucx, an_owner_that_hangs_writes_nothing_after_the_end_over_tcp)
{
    close_when_stopped(TCP, true);
}

Test(ucx, an_owner_that_hangs_from_the_beginning_writes_nothing_after_the_end_over_tcp)
{
    close_when_stopped(TCP, false);
}

Test(ucx, an_owner_that_hangs_writes_nothing_after_the_end_over_shm)
{
    close_when_stopped(SHM, true);
}

Test(ucx, an_owner_that_is_killed_costs_one_error_over_tcp)
{
    open_apart(TCP);
    get_many();
    until(&all_done, 1);
    end_child();
    until(&rig.broken, 1); /* UCX tells */
    each_ended_once();
    cr_assert_eq(rig.broken, 1);
    close_link();
    nothing_is_written_while(settle);
    close_all();
}

/* Nothing tells of the end but the socket beside it: who has it closes the link. */
static void kill_untold(const char *transports)
{
    open_apart(transports);
    get_many();
    until(&all_done, 1);
    end_child();
    uv_run(&rig.loop, UV_RUN_NOWAIT);
    close_link();
    until(&all_done, MANY);
    for (int i = 0; i < MANY; i++)
        cr_assert_eq(many[i].calls, 1, "job %d", i);
    nothing_is_written_while(settle);
    close_all();
}

Test(ucx, an_owner_that_is_killed_costs_one_error_over_shm)
{
    kill_untold(SHM);
}

Test(ucx, an_owner_that_is_killed_costs_one_error_over_posix_alone)
{
    kill_untold("posix,self");
}

/* ---- clients that die ---- */

static int told_by_client; /* the end of a pipe to write to */

/* Goes on for ever. */
static void on_done_again(carrier_job_t *job, status_t status)
{
    if (status != STATUS_OK || job->items->status != STATUS_OK)
        _exit(1);
    if (all_done++ == 0 && write(told_by_client, "", 1) != 1)
        _exit(1);
    ops->get(rig.link, job);
}

static void client_main(int count, size_t len)
{
    uv_loop_init(&rig.loop);
    if (!link_to_child_at_last())
        return;
    for (int i = 0; i < count; i++) {
        many[i] = (one_t){.iov = {outs[i], len}};
        many[i].item =
            (transfer_item_t){.handle = handle_of(1), .len_bytes = len, .iov = &many[i].iov, .iov_count = 1};
        many[i].job = (carrier_job_t){
            .done = on_done_again, .items = &many[i].item, .count = 1, .max_item_bytes = ARENA_BYTES};
        ops->get(rig.link, &many[i].job);
    }
    uv_run(&rig.loop, UV_RUN_DEFAULT);
}

/* Each is killed at another moment of its reads. */
static void kill_clients(const char *transports, int count, size_t len)
{
    enum { CLIENTS = 10 };
    int pipes[2], status;
    char byte;

    use(transports);
    start_owner();
    for (int i = 0; i < CLIENTS; i++) {
        cr_assert_eq(pipe(pipes), 0);
        told_by_client = pipes[1];
        pid_t client = fork();
        if (client == 0) {
            client_main(count, len);
            _exit(1);
        }
        close(pipes[1]);
        cr_assert_eq(read(pipes[0], &byte, 1), 1, "client %d came to no read", i);
        usleep((useconds_t)i * 300);
        kill(client, SIGKILL);
        cr_assert_eq(waitpid(client, &status, 0), client);
        cr_assert(WIFSIGNALED(status), "it read until it was killed");
        close(pipes[0]);
    }
    cr_assert(link_to_child_at_last()); /* which answers after all that, so it has seen them go */
    get_many();
    until(&all_done, MANY);
    cr_assert_eq(many[MANY - 1].item.status, STATUS_OK);
    cr_assert_eq(waitpid(rig.child, NULL, WNOHANG), 0, "the owner lives");
    end_child();
    close_all();
}

Test(ucx, clients_that_are_killed_leave_the_owner_alone_over_tcp)
{
    kill_clients(TCP, 2, 4000);
}

Test(ucx, clients_that_are_killed_with_much_under_way_leave_the_owner_alone_over_tcp)
{
    kill_clients(TCP, 20, EACH);
}

Test(ucx, clients_that_are_killed_leave_the_owner_alone_over_shm)
{
    kill_clients(SHM, 20, EACH);
}

/* ---- devices ---- */

/* "lo", as a rule. */
static const char *loopback(void)
{
    static char name[UCX_DEVICE_BYTES];
    struct ifaddrs *devices;

    cr_assert_eq(getifaddrs(&devices), 0);
    for (const struct ifaddrs *device = devices; device; device = device->ifa_next) {
        if (device->ifa_flags & IFF_LOOPBACK)
            snprintf(name, sizeof(name), "%s", device->ifa_name);
    }
    freeifaddrs(devices);
    return name;
}

Test(ucx, its_device_is_that_of_the_address)
{
    const struct {
        const char *address, *device;
    } cases[] = {{"127.0.0.1:8003", loopback()},
                 {"127.8.7.6:1", loopback()},
                 {"[::1]:0", loopback()},
                 {"localhost:0", loopback()},
                 {"0.0.0.0:8003", ""},
                 {"[::]:8003", ""},
                 {"192.0.2.77:1", ""},
                 {"?:?", ""},
                 {"nonsense", ""},
                 {NULL, ""}};
    char device[UCX_DEVICE_BYTES];

    unsetenv("UCX_NET_DEVICES");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ucx_device_of(cases[i].address, device);
        cr_assert_str_eq(device, cases[i].device, "%s", cases[i].address ? cases[i].address : "none");
    }
    setenv("UCX_NET_DEVICES", "all", 1);
    ucx_device_of("127.0.0.1:8003", device);
    cr_assert_str_eq(device, "", "what the user has set stays");
}

Test(ucx, a_get_under_way_cannot_be_cancelled)
{
    static uint8_t out[EACH];
    one_t one;

    open_apart(TCP);
    kill(rig.child, SIGSTOP);
    get_one(&one, handle_of(1), out, EACH);
    cr_assert_not(ops->cancel(rig.link, &one.job));
    kill(rig.child, SIGCONT);
    until(&one.calls, 1);
    cr_assert_eq(one.item.status, STATUS_OK);
    end_child();
    close_all();
}

Test(ucx, leaves_the_signals_of_a_crash_alone)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};
    struct sigaction action;

    for (size_t i = 0; i < sizeof(signals) / sizeof(*signals); i++) {
        cr_assert_eq(sigaction(signals[i], NULL, &action), 0);
        cr_assert_eq(action.sa_handler, SIG_DFL, "signal %d", signals[i]);
    }
}
