#include "harness.h"

#include "base/clock.h"
#include "base/log.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t PATIENCE_NS = 20 * NS_PER_S;

void outcome_set(void *ctx, status_t status)
{
    outcome_t *outcome = ctx;

    outcome->calls++;
    outcome->status = status;
}

void count_release(void *ctx)
{
    ++*(int *)ctx;
}

static transfer_dest_t rig_begin(void *ctx, const transfer_incoming_t *result)
{
    rig_t *rig = ctx;

    cr_assert_lt(rig->received_count, MAX_RECEIVED);
    received_t *received = &rig->received[rig->received_count++];
    received->header = *result;
    snprintf(received->text, sizeof(received->text), "%s", result->text);
    received->buffer = rig->discard || result->len_bytes == 0 ? NULL : malloc(result->len_bytes);
    return (transfer_dest_t){.buffer = received->buffer, .token = received};
}

static void rig_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    rig_t *rig = ctx;
    received_t *received = token;

    cr_assert_eq(task_id, received->header.task_id);
    received->done++;
    received->status = status;
    rig->done_count++;
}

static void on_guard(uv_timer_t *timer)
{
    (void)timer;
}

/* One turn that ends at the latest after a little while, so that the deadline is looked at. */
static void rig_turn(rig_t *rig)
{
    uv_timer_t guard;

    uv_timer_init(&rig->loop, &guard);
    uv_update_time(&rig->loop);
    uv_timer_start(&guard, on_guard, 5, 0);
    uv_run(&rig->loop, UV_RUN_ONCE);
    uv_close((uv_handle_t *)&guard, NULL);
    uv_run(&rig->loop, UV_RUN_NOWAIT);
}

transfer_way_t rig_way(void)
{
    const char *name = getenv("FERMATA_TEST_TRANSPORT");

    for (uint32_t way = 0; name && way < TRANSFER_WAYS; way++) {
        if (strcmp(transfer_way_name((transfer_way_t)way), name) == 0)
            return (transfer_way_t)way;
    }
    return TRANSFER_BY_TCP;
}

void rig_link(rig_t *rig)
{
    transfer_stats_t stats;
    int64_t end = clock_now_ns() + PATIENCE_NS;

    transfer_peer_connect(rig->peer);
    do {
        cr_assert(clock_now_ns() < end, "no link in time");
        rig_turn(rig);
        transfer_pool_stats(rig->pool, &stats);
    } while (stats.by[rig_way()].connections == 0);
}

static transfer_choice_t rig_choice(void)
{
    static const transfer_choice_t choices[TRANSFER_WAYS] = {[TRANSFER_BY_TCP] = TRANSFER_CHOOSE_TCP,
                                                             [TRANSFER_BY_SHM] = TRANSFER_CHOOSE_AUTO,
                                                             [TRANSFER_BY_RDMA] = TRANSFER_CHOOSE_RDMA};

    return choices[rig_way()];
}

transfer_trust_t rig_owner_trust, rig_pool_trust;
static pki_t pki;
static bool made_trust;

bool rig_is_trusted(void)
{
    return getenv("FERMATA_TEST_TRUST") != NULL;
}

tls_context_t *rig_tls(const pki_t *of, const char *name, const char *role, bool server)
{
    const tls_pair_t pair = pki_issue(of, name, role);
    const tls_config_t config = {.server = server,
                                 .cert = pair.cert,
                                 .key = pair.key,
                                 .ca = of->ca.cert,
                                 .server_role = server ? NULL : "gateway",
                                 .protocol = TRANSFER_PROTOCOL};
    tls_context_t *context;
    err_t err;

    cr_assert_eq(tls_context_create(&config, &context, &err), STATUS_OK, "%s", err.text);
    return context;
}

transfer_secret_t *rig_secret(const char *text)
{
    char path[] = "/tmp/fermata-secret-XXXXXX";
    transfer_secret_t *secret;
    err_t err;
    int fd = mkstemp(path);

    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    cr_assert_eq(transfer_secret_read(path, &secret, &err), STATUS_OK, "%s", err.text);
    unlink(path);
    return secret;
}

static void rig_make_trust(void)
{
    const char *wanted = getenv("FERMATA_TEST_TRUST");

    if (!wanted || rig_owner_trust.tls || rig_owner_trust.secret)
        return;
    made_trust = true;
    if (strcmp(wanted, "tls") == 0) {
        pki_open(&pki);
        rig_owner_trust.tls = rig_tls(&pki, "owner", "gateway", true);
        rig_pool_trust.tls = rig_tls(&pki, "pool", "worker", false);
        return;
    }
    rig_owner_trust.secret = rig_secret("a secret of the cluster, of 32 bytes or more");
    rig_pool_trust.secret = rig_secret("a secret of the cluster, of 32 bytes or more");
}

static void rig_drop_trust(void)
{
    if (!made_trust)
        return;
    if (rig_owner_trust.tls)
        pki_close(&pki);
    transfer_trust_close(&rig_owner_trust);
    transfer_trust_close(&rig_pool_trust);
    made_trust = false;
}

static void rig_clear(rig_t *rig)
{
    memset(rig, 0, sizeof(*rig));
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    uv_loop_init(&rig->loop);
    rig_make_trust();
}

static void rig_open_owner(rig_t *rig, const transfer_limits_t *limits)
{
    transfer_owner_options_t owner = {.loop = &rig->loop,
                                      .address = "127.0.0.1:0",
                                      .instance_id = 77,
                                      .choice = rig_choice(),
                                      .trust = rig_owner_trust,
                                      .receiver = {.begin = rig_begin, .done = rig_done},
                                      .ctx = rig};
    err_t err;

    if (limits)
        owner.limits = *limits;
    cr_assert_eq(transfer_owner_create(&owner, &rig->owner, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(transfer_block_create(owner.choice, owner.address, ARENA_BYTES, &rig->block, &err),
                 STATUS_OK);
    rig->arena = transfer_block_base(rig->block);
    for (size_t i = 0; i < ARENA_BYTES; i++)
        rig->arena[i] = (uint8_t)(i * 31 + (i >> 8));
    cr_assert_eq(
        transfer_memory_register(rig->owner, rig->arena, ARENA_BYTES, rig->block, &rig->memory, &err),
        STATUS_OK);
}

static void rig_open_pool(rig_t *rig, const char *address, const transfer_limits_t *limits)
{
    transfer_pool_options_t pool = {.loop = &rig->loop, .choice = rig_choice(), .trust = rig_pool_trust};
    err_t err;

    if (limits)
        pool.limits = *limits;
    cr_assert_eq(transfer_pool_create(&pool, &rig->pool, &err), STATUS_OK);
    cr_assert_eq(transfer_peer_open(rig->pool, address, 77, &rig->peer, &err), STATUS_OK);
}

void rig_init_owner(rig_t *rig)
{
    rig_clear(rig);
    rig_open_owner(rig, NULL);
}

void rig_init_pool(rig_t *rig, const char *address, const transfer_limits_t *limits)
{
    rig_clear(rig);
    rig_open_pool(rig, address, limits);
}

void rig_init_apart(rig_t *rig, const transfer_limits_t *owner_limits, const transfer_limits_t *pool_limits)
{
    rig_clear(rig);
    rig_open_owner(rig, owner_limits);
    rig_open_pool(rig, transfer_owner_address(rig->owner), pool_limits);
}

void rig_init(rig_t *rig, const transfer_limits_t *owner_limits, const transfer_limits_t *pool_limits)
{
    rig_init_apart(rig, owner_limits, pool_limits);
    if (rig_way() != TRANSFER_BY_TCP)
        rig_link(rig);
}

void rig_stop_owner(rig_t *rig)
{
    transfer_owner_destroy(rig->owner);
    rig->owner = NULL;
}

void rig_dispose(rig_t *rig)
{
    transfer_pool_destroy(rig->pool);
    transfer_owner_destroy(rig->owner);
    transfer_memory_unregister(rig->memory);
    uv_run(&rig->loop, UV_RUN_DEFAULT);
    cr_assert_eq(uv_loop_close(&rig->loop), 0);
    for (int i = 0; i < rig->received_count; i++)
        free(rig->received[i].buffer);
    transfer_block_destroy(rig->block);
    rig_drop_trust();
}

void rig_until(rig_t *rig, const int *value, int want)
{
    int64_t end = clock_now_ns() + PATIENCE_NS;

    while (*value < want) {
        cr_assert(clock_now_ns() < end, "nothing happened in time");
        rig_turn(rig);
    }
}

void rig_settle(rig_t *rig)
{
    for (int i = 0; i < 20; i++)
        uv_run(&rig->loop, UV_RUN_NOWAIT);
}

transfer_handle_t rig_publish(rig_t *rig, size_t at, size_t len, int *released)
{
    transfer_handle_t handle;

    cr_assert_eq(transfer_publish(rig->memory, rig->arena + at, len, released ? count_release : NULL,
                                  released, &handle),
                 STATUS_OK);
    return handle;
}

int raw_connect(rig_t *rig)
{
    const char *colon = strrchr(transfer_owner_address(rig->owner), ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(colon + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

void raw_send(rig_t *rig, int fd, const void *data, size_t len)
{
    const uint8_t *from = data;
    int64_t end = clock_now_ns() + PATIENCE_NS;

    while (len > 0) {
        ssize_t sent = send(fd, from, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            return; /* closed by the owner: the caller looks for that */
        if (sent > 0) {
            from += sent;
            len -= (size_t)sent;
        } else {
            cr_assert(clock_now_ns() < end);
            rig_turn(rig);
        }
    }
    rig_settle(rig);
}

size_t raw_recv(rig_t *rig, int fd, void *data, size_t len)
{
    size_t have = 0;
    int64_t end = clock_now_ns() + PATIENCE_NS;

    while (have < len) {
        ssize_t got = recv(fd, (uint8_t *)data + have, len - have, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            break;
        if (got > 0) {
            have += (size_t)got;
        } else {
            cr_assert(clock_now_ns() < end, "nothing came");
            rig_turn(rig);
        }
    }
    return have;
}

void raw_expect_end(rig_t *rig, int fd)
{
    uint8_t junk[4096];

    while (raw_recv(rig, fd, junk, sizeof(junk)) == sizeof(junk))
        ;
    close(fd);
}

void raw_greet(rig_t *rig, int fd)
{
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];

    wire_put_header(hello, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
    wire_put_hello(hello + WIRE_HEADER_BYTES, &(wire_hello_t){.min_version = 1,
                                                              .max_version = 1,
                                                              .max_items = 4096,
                                                              .max_item_bytes = UINT64_C(1) << 40,
                                                              .instance_id = 77});
    raw_send(rig, fd, hello, sizeof(hello));
    cr_assert_eq(raw_recv(rig, fd, hello, sizeof(hello)), sizeof(hello));
}
