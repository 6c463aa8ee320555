/*
 * Input: one byte for the side that is spoken to, one that says where the rest is cut in two (its reads), then what a peer says
 * behind its HELLO, as one sees it on the wire. It may lose its connection, and nothing else may happen.
 *
 *   side 0   the owner, which has published a region; sixteen bytes 'H' stand for its handle
 *   side 1   the pool, which has asked for two items of 8 bytes and pushes a result
 *   side 2, 3   likewise, but they want a proof of a secret first, and the peer says no HELLO; 32 bytes 'P' behind the cut stand for one
 *               that holds, as far as a challenge of the peer came before it. Without one nobody is served
 */
#include "base/log.h"
#include "transfer/proof.h"
#include "transfer/secret.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

enum {
    REGION_BYTES = 64,
    ITEM_BYTES = 8,
    ITEMS = 2,
    HANDLE_BYTES = 16,
    TURNS = 3,
    PATIENCE = 500,
    SIDES = 4
};

static const transfer_limits_t limits = {.max_item_bytes = 4096, .max_items = 16, .max_connections = 64};

static const transfer_secret_t secret = {.len = TRANSFER_SECRET_BYTES_MIN};
static const transfer_trust_t trusts[2] = {{0}, {.secret = &secret}};

static struct {
    uv_loop_t loop;
    transfer_owner_t *owner, *guarded;
    transfer_memory_t *memory;
    transfer_handle_t handle;
    uint8_t region[REGION_BYTES];
    transfer_pool_t *pool, *guarded_pool;
    int listener;
    char listens_at[32];
    int done;  /* of the pool's requests */
    int begun; /* results that the owner has not got whole */
} play;

/* ---- Results that the owner receives ---- */

static transfer_dest_t on_begin(void *ctx, const transfer_incoming_t *result)
{
    (void)ctx;
    if (result->len_bytes > limits.max_item_bytes || !memchr(result->text, '\0', TRANSFER_TEXT_BYTES))
        abort();
    play.begun++;
    void *buffer = result->len_bytes > 0 && result->task_id % 2 ? malloc(result->len_bytes) : NULL;
    return (transfer_dest_t){.buffer = buffer, .token = buffer};
}

static void on_done(void *ctx, void *token, uint64_t task_id, status_t status)
{
    (void)ctx;
    (void)task_id;
    (void)status;
    free(token);
    play.begun--;
}

/* ---- Both sides ---- */

static transfer_owner_t *start_owner(transfer_trust_t trust)
{
    transfer_owner_t *owner;
    transfer_owner_options_t options = {.loop = &play.loop,
                                        .address = "127.0.0.1:0",
                                        .choice = TRANSFER_CHOOSE_TCP,
                                        .limits = limits,
                                        .trust = trust,
                                        .receiver = {.begin = on_begin, .done = on_done}};
    if (transfer_owner_create(&options, &owner, NULL) != STATUS_OK)
        abort();
    return owner;
}

static void publish(void)
{
    if (transfer_memory_register(play.owner, play.region, sizeof play.region, NULL, &play.memory, NULL) !=
            STATUS_OK ||
        transfer_publish(play.memory, play.region, sizeof play.region, NULL, NULL, &play.handle) != STATUS_OK)
        abort();
}

static void listen_for_pools(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    play.listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(play.listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(play.listener, 16) != 0 ||
        getsockname(play.listener, (struct sockaddr *)&at, &at_bytes) != 0)
        abort();
    (void)snprintf(play.listens_at, sizeof play.listens_at, "127.0.0.1:%u", ntohs(at.sin_port));
}

static transfer_pool_t *start_pool(transfer_trust_t trust)
{
    transfer_pool_t *pool;
    transfer_pool_options_t options = {
        .loop = &play.loop, .choice = TRANSFER_CHOOSE_TCP, .limits = limits, .trust = trust};
    if (transfer_pool_create(&options, &pool, NULL) != STATUS_OK)
        abort();
    return pool;
}

static void start(void)
{
    log_init("fuzz", LOG_OFF, LOG_FORMAT_TEXT);
    uv_loop_init(&play.loop);
    play.owner = start_owner(trusts[0]);
    play.guarded = start_owner(trusts[1]);
    publish();
    listen_for_pools();
    play.pool = start_pool(trusts[0]);
    play.guarded_pool = start_pool(trusts[1]);
}

static void turn(int turns)
{
    while (turns-- > 0)
        uv_run(&play.loop, UV_RUN_NOWAIT);
}

/* A while at most, until something happens. */
static void wait_turn(void)
{
    struct pollfd ready = {.fd = uv_backend_fd(&play.loop), .events = POLLIN};
    (void)poll(&ready, 1, 10);
    turn(1);
}

/* HELLO, and the rest in two parts. */
static void speak(int fd, const uint8_t *bytes, size_t len, size_t cut)
{
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES];
    uint8_t *to = wire_put_header(hello, &(wire_header_t){.type = WIRE_HELLO, .count = 1});
    wire_put_hello(
        to, &(wire_hello_t){.min_version = 1, .max_version = 1, .max_items = 16, .max_item_bytes = 4096});
    cut = cut < len ? cut : len;
    (void)send(fd, hello, sizeof hello, MSG_NOSIGNAL);
    turn(TURNS);
    (void)send(fd, bytes, cut, MSG_NOSIGNAL);
    turn(TURNS);
    (void)send(fd, bytes + cut, len - cut, MSG_NOSIGNAL);
    turn(TURNS);
}

/* ---- Proofs ---- */

/* The first challenge in what was said; false: there is none at the beginning. */
static bool challenge_in(const uint8_t *bytes, size_t len, wire_challenge_t *challenge)
{
    wire_header_t header;
    if (len < WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES || !wire_get_header(bytes, &header) ||
        header.type != WIRE_CHALLENGE)
        return false;
    wire_get_challenge(bytes + WIRE_HEADER_BYTES, challenge);
    return true;
}

static bool put_proof(uint8_t *bytes, size_t len, const uint8_t proof[WIRE_PROOF_BYTES])
{
    static const uint8_t stands_for_it[WIRE_PROOF_BYTES] = "PPPPPPPPPPPPPPPPPPPPPPPPPPPPPPPP";
    for (size_t at = 0; at + WIRE_PROOF_BYTES <= len; at++)
        if (memcmp(bytes + at, stands_for_it, WIRE_PROOF_BYTES) == 0) {
            memcpy(bytes + at, proof, WIRE_PROOF_BYTES);
            return true;
        }
    return false;
}

/* Without HELLO; what the other has answered to the first part makes the proof in the second. True: there is one. */
static bool speak_guarded(int fd, uint8_t *bytes, size_t len, size_t cut, proof_role_t as)
{
    uint8_t heard[WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES], proof[WIRE_PROOF_BYTES];
    wire_challenge_t own, theirs;
    bool proved = false;
    cut = cut < len ? cut : len;
    (void)send(fd, bytes, cut, MSG_NOSIGNAL);
    turn(TURNS);
    ssize_t got = recv(fd, heard, sizeof heard, MSG_DONTWAIT);
    if (got > 0 && challenge_in(bytes, cut, &own) && challenge_in(heard, (size_t)got, &theirs) &&
        proof_make(&secret, as, as == PROOF_WORKER ? &own : &theirs, as == PROOF_WORKER ? &theirs : &own,
                   proof))
        proved = put_proof(bytes + cut, len - cut, proof);
    (void)send(fd, bytes + cut, len - cut, MSG_NOSIGNAL);
    turn(TURNS);
    return proved;
}

/* At once, else the ports run out. */
static void hang_up(int fd)
{
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
}

/* ---- The owner hears ---- */

static void put_handle(uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + HANDLE_BYTES <= len; at++)
        if (memcmp(bytes + at, "HHHHHHHHHHHHHHHH", HANDLE_BYTES) == 0) {
            wire_put64(bytes + at, play.handle.hi);
            wire_put64(bytes + at + 8, play.handle.lo);
        }
}

static uint32_t connections_of(const transfer_owner_t *owner)
{
    transfer_stats_t stats;
    transfer_owner_stats(owner, &stats);
    return stats.connections;
}

static uint64_t connects_of(const transfer_owner_t *owner)
{
    transfer_stats_t stats;
    transfer_owner_stats(owner, &stats);
    return stats.connects;
}

static void to_owner(transfer_owner_t *owner, uint8_t *bytes, size_t len, size_t cut)
{
    const char *address = transfer_owner_address(owner);
    uint64_t before = connects_of(owner);
    bool proved = owner != play.guarded;
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    put_handle(bytes, len);
    bool meets = connect(fd, (struct sockaddr *)&to, sizeof to) == 0; /* else the machine is short of ports */
    if (meets && proved)
        speak(fd, bytes, len, cut);
    else if (meets)
        proved = speak_guarded(fd, bytes, len, cut, PROOF_WORKER);
    hang_up(fd);
    for (int i = 0; i < PATIENCE && connections_of(owner) > 0; i++)
        wait_turn();
    if (connections_of(owner) > 0 || play.begun != 0 || (!proved && connects_of(owner) != before))
        abort();
}

/* ---- The pool hears ---- */

static void on_request(void *ctx, status_t status)
{
    (void)ctx;
    (void)status;
    play.done++;
}

static int accept_peer(void)
{
    int fd = -1;
    for (int i = 0; i < PATIENCE && fd < 0; i++) {
        struct pollfd ready = {.fd = play.listener, .events = POLLIN};
        turn(1);
        (void)poll(&ready, 1, 10);
        fd = accept(play.listener, NULL, NULL);
    }
    return fd;
}

static void to_pool(transfer_pool_t *pool, uint8_t *bytes, size_t len, size_t cut)
{
    uint8_t *rows = malloc(ITEMS * ITEM_BYTES);
    struct iovec iov[ITEMS] = {{rows, ITEM_BYTES}, {rows + ITEM_BYTES, ITEM_BYTES}};
    transfer_item_t items[ITEMS] = {{.len_bytes = ITEM_BYTES, .iov = &iov[0], .iov_count = 1},
                                    {.len_bytes = ITEM_BYTES, .iov = &iov[1], .iov_count = 1}};
    transfer_result_t result = {.task_id = 1, .status = STATUS_IO, .text = "no"};
    transfer_peer_t *peer;
    int asked = 0;
    play.done = 0;
    if (transfer_peer_open(pool, play.listens_at, 0, &peer, NULL) != STATUS_OK)
        abort();
    asked += transfer_fetch(peer, items, ITEMS, 0, on_request, NULL, NULL) == STATUS_OK;
    asked += transfer_push(peer, &result, 1, 0, on_request, NULL, NULL) == STATUS_OK;
    int fd = accept_peer();
    if (fd >= 0) {
        if (pool == play.pool)
            speak(fd, bytes, len, cut);
        else
            (void)speak_guarded(fd, bytes, len, cut, PROOF_GATEWAY);
        hang_up(fd);
    }
    turn(TURNS);
    transfer_peer_close(peer);
    turn(TURNS);
    if (play.done != asked)
        abort();
    free(rows);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len < 2)
        return 0;
    if (!play.owner)
        start();
    uint8_t *said = malloc(len); /* its own block, and never of no bytes */
    memcpy(said, bytes + 2, len - 2);
    bool guarded = bytes[0] % SIDES >= 2;
    if (bytes[0] % 2)
        to_pool(guarded ? play.guarded_pool : play.pool, said, len - 2, bytes[1]);
    else
        to_owner(guarded ? play.guarded : play.owner, said, len - 2, bytes[1]);
    free(said);
    return 0;
}
