/* Who has not proved himself gets nothing, and takes nothing from those who have. */
#include "harness.h"

#include "base/clock.h"
#include "base/prng.h"
#include "support/until.h"
#include "tls/options.h"
#include "transfer/proof.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECRET "a secret of this cluster, of 32 bytes or more"
#define OTHER "a secret of another cluster, which is no better"

static rig_t rig;

/* ---- the file ---- */

static status_t read_file(const char *bytes, size_t len, mode_t mode, err_t *err)
{
    char path[] = "/tmp/fermata-secret-XXXXXX";
    transfer_secret_t *secret = NULL;
    int fd = mkstemp(path);

    cr_assert(fd >= 0 && write(fd, bytes, len) == (ssize_t)len && fchmod(fd, mode) == 0);
    close(fd);
    status_t status = transfer_secret_read(path, &secret, err);
    cr_assert_eq(secret != NULL, status == STATUS_OK);
    cr_assert(status == STATUS_OK || strstr(err->text, path), "%s", err->text);
    transfer_secret_destroy(secret);
    unlink(path);
    return status;
}

Test(trust, a_file_that_others_may_read_or_that_is_too_short_is_no_secret)
{
    static const char bytes[TRANSFER_SECRET_BYTES_MAX + 1]; /* any bytes, zeros too */
    err_t err;

    cr_assert_eq(read_file(bytes, 32, 0600, &err), STATUS_OK, "%s", err.text);
    cr_assert_eq(read_file(bytes, TRANSFER_SECRET_BYTES_MAX, 0400, &err), STATUS_OK);
    cr_assert_eq(read_file(bytes, 31, 0600, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "fewer than 32 bytes"), "%s", err.text);
    cr_assert_eq(read_file(bytes, sizeof(bytes), 0600, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "over 4096 bytes"), "%s", err.text);
    for (mode_t open = 1; open <= 040; open <<= 1) {
        cr_assert_eq(read_file(bytes, 32, 0600 | open, &err), STATUS_INVALID_ARGUMENT);
        cr_assert(strstr(err.text, "chmod 600"), "%s", err.text);
    }
    transfer_secret_t *secret = NULL;
    cr_assert_eq(transfer_secret_read("/nowhere/secret", &secret, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(transfer_secret_read("/tmp", &secret, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "/tmp: a folder, not a regular file"), "%s", err.text);
}

Test(trust, certificates_and_a_secret_are_one_too_many)
{
    const tls_cluster_options_t certificates = {.ca = "ca", .cert = "cert", .key = "key"},
                                half = {.ca = "ca"};
    transfer_trust_t trust;
    err_t err;

    cr_assert_eq(transfer_trust_open(&certificates, "secret", true, &trust, &err), STATUS_INVALID_ARGUMENT);
    cr_assert(strstr(err.text, "leave one out"), "%s", err.text);
    cr_assert_eq(transfer_trust_open(&half, NULL, false, &trust, &err), STATUS_INVALID_ARGUMENT);
    cr_assert_eq(transfer_trust_open(&(tls_cluster_options_t){0}, NULL, true, &trust, &err), STATUS_OK);
    cr_assert(!trust.tls && !trust.secret);
}

/* ---- the proof ---- */

Test(trust, a_proof_is_of_one_secret_one_role_and_every_byte_of_both_challenges)
{
    transfer_secret_t *secret = rig_secret(SECRET), *other = rig_secret(OTHER);
    uint8_t proof[WIRE_PROOF_BYTES], wire[2][WIRE_CHALLENGE_BYTES];
    wire_challenge_t sides[2];

    cr_assert(proof_challenge(3, &sides[0]) && proof_challenge(4, &sides[1]));
    cr_assert(proof_make(secret, PROOF_WORKER, &sides[0], &sides[1], proof));
    cr_assert(proof_holds(secret, PROOF_WORKER, &sides[0], &sides[1], proof));
    cr_assert(!proof_holds(other, PROOF_WORKER, &sides[0], &sides[1], proof));
    cr_assert(!proof_holds(secret, PROOF_GATEWAY, &sides[0], &sides[1], proof));
    cr_assert(!proof_holds(secret, PROOF_WORKER, &sides[1], &sides[0], proof));
    for (uint32_t i = 0; i < 2 * WIRE_CHALLENGE_BYTES; i++) {
        wire_challenge_t bent[2];
        for (uint32_t k = 0; k < 2; k++)
            wire_put_challenge(wire[k], &sides[k]);
        wire[i / WIRE_CHALLENGE_BYTES][i % WIRE_CHALLENGE_BYTES] ^= 0x10;
        for (uint32_t k = 0; k < 2; k++)
            wire_get_challenge(wire[k], &bent[k]);
        cr_assert(!proof_holds(secret, PROOF_WORKER, &bent[0], &bent[1], proof), "byte %u", i);
    }
    for (uint32_t i = 0; i < WIRE_PROOF_BYTES; i++) {
        proof[i] ^= 1;
        cr_assert(!proof_holds(secret, PROOF_WORKER, &sides[0], &sides[1], proof), "byte %u", i);
        proof[i] ^= 1;
    }
    transfer_secret_destroy(secret);
    transfer_secret_destroy(other);
}

/* ---- who is served ---- */

/* A pool of its own beside the rig's. */
typedef struct {
    transfer_pool_t *pool;
    transfer_peer_t *peer;
} beside_t;

static void open_beside(beside_t *beside, transfer_trust_t trust)
{
    const transfer_pool_options_t options = {
        .loop = &rig.loop, .choice = TRANSFER_CHOOSE_TCP, .trust = trust};
    err_t err;

    cr_assert_eq(transfer_pool_create(&options, &beside->pool, &err), STATUS_OK);
    cr_assert_eq(transfer_peer_open(beside->pool, transfer_owner_address(rig.owner), 77, &beside->peer, &err),
                 STATUS_OK);
}

static status_t fetch_by(transfer_peer_t *peer)
{
    uint8_t out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};
    transfer_handle_t handle = rig_publish(&rig, 3, 10, NULL);
    transfer_item_t item = {.handle = handle, .len_bytes = 10, .iov = &iov, .iov_count = 1};

    cr_assert_eq(transfer_fetch(peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    transfer_unpublish(rig.owner, handle);
    if (outcome.status == STATUS_OK)
        cr_assert_arr_eq(out, rig.arena + 3, 10);
    return outcome.status;
}

static uint64_t refused(transfer_refusal_t refusal)
{
    transfer_stats_t stats;
    uint64_t others = 0;

    transfer_owner_stats(rig.owner, &stats);
    for (uint32_t i = 0; i < TRANSFER_REFUSALS; i++)
        others += i == refusal ? 0 : stats.refused[i];
    cr_assert_eq(others, 0, "for another reason");
    cr_assert_eq(stats.protocol_errors, 0);
    return stats.refused[refusal];
}

static uint32_t connections(void)
{
    transfer_stats_t stats;

    transfer_owner_stats(rig.owner, &stats);
    return stats.connections;
}

static void with_secret(const transfer_limits_t *limits)
{
    rig_owner_trust.secret = rig_secret(SECRET);
    rig_pool_trust.secret = rig_secret(SECRET);
    rig_init(&rig, limits, NULL);
}

static void without(void)
{
    rig_dispose(&rig);
    transfer_trust_close(&rig_owner_trust);
    transfer_trust_close(&rig_pool_trust);
}

/* Refused for that reason, while the rig's own pool is served as before. */
static void expect_refused(transfer_trust_t trust, transfer_refusal_t refusal)
{
    beside_t beside;

    open_beside(&beside, trust);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    cr_assert_eq(fetch_by(beside.peer), STATUS_UNAVAILABLE);
    rig_settle(&rig);
    cr_assert_eq(refused(refusal), 1);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    cr_assert_eq(connections(), 1);
    transfer_pool_destroy(beside.pool);
}

Test(trust, another_secret_is_refused)
{
    transfer_secret_t *other = rig_secret(OTHER);

    with_secret(NULL);
    expect_refused((transfer_trust_t){.secret = other}, TRANSFER_REFUSED_PROOF);
    without();
    transfer_secret_destroy(other);
}

Test(trust, no_secret_is_refused)
{
    with_secret(NULL);
    expect_refused((transfer_trust_t){0}, TRANSFER_REFUSED_NONE);
    without();
}

Test(trust, a_gateway_without_a_secret_says_so)
{
    beside_t beside;
    transfer_secret_t *secret = rig_secret(SECRET);
    uint8_t said[WIRE_HEADER_BYTES + WIRE_BYE_BYTES], frame[WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES];
    wire_challenge_t challenge;

    rig_init(&rig, NULL, NULL);
    open_beside(&beside, (transfer_trust_t){.secret = secret});
    cr_assert_eq(fetch_by(beside.peer), STATUS_UNAVAILABLE);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    int fd = raw_connect(&rig);
    cr_assert(proof_challenge(1, &challenge));
    wire_put_challenge(wire_put_header(frame, &(wire_header_t){.type = WIRE_CHALLENGE, .count = 1}),
                       &challenge);
    raw_send(&rig, fd, frame, sizeof(frame));
    cr_assert_eq(raw_recv(&rig, fd, said, sizeof(said)), sizeof(said));
    cr_assert(strstr((char *)said + WIRE_HEADER_BYTES, "no --cluster-secret here"));
    raw_expect_end(&rig, fd);
    transfer_pool_destroy(beside.pool);
    rig_dispose(&rig);
    transfer_secret_destroy(secret);
}

Test(trust, a_peer_that_is_known_still_cannot_guess_a_handle)
{
    uint8_t out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};

    with_secret(NULL);
    transfer_handle_t handle = rig_publish(&rig, 0, 10, NULL);
    transfer_item_t item = {
        .handle = {handle.hi, handle.lo ^ 1}, .len_bytes = 10, .iov = &iov, .iov_count = 1};
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_OK);
    cr_assert_eq(item.status, STATUS_NOT_FOUND);
    without();
}

/* ---- by hand ---- */

static void send_challenge(int fd, const wire_challenge_t *challenge)
{
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES];

    wire_put_challenge(wire_put_header(frame, &(wire_header_t){.type = WIRE_CHALLENGE, .count = 1}),
                       challenge);
    raw_send(&rig, fd, frame, sizeof(frame));
}

static void recv_challenge(int fd, wire_challenge_t *challenge)
{
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES];

    cr_assert_eq(raw_recv(&rig, fd, frame, sizeof(frame)), sizeof(frame));
    cr_assert_eq(frame[3], WIRE_CHALLENGE);
    wire_get_challenge(frame + WIRE_HEADER_BYTES, challenge);
}

static void send_proof(int fd, const uint8_t proof[WIRE_PROOF_BYTES])
{
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_PROOF_BYTES];

    wire_put_header(frame, &(wire_header_t){.type = WIRE_PROOF, .count = 1});
    memcpy(frame + WIRE_HEADER_BYTES, proof, WIRE_PROOF_BYTES);
    raw_send(&rig, fd, frame, sizeof(frame));
}

static size_t recv_frame(int fd, uint8_t *frame, size_t len)
{
    size_t got = raw_recv(&rig, fd, frame, len);

    cr_assert_geq(got, WIRE_HEADER_BYTES);
    return got;
}

Test(trust, an_answer_that_was_heard_before_holds_no_more)
{
    uint8_t proof[WIRE_PROOF_BYTES], frame[WIRE_HEADER_BYTES + WIRE_PROOF_BYTES];
    wire_challenge_t worker, first, second;

    with_secret(NULL);
    cr_assert(proof_challenge(1, &worker));
    int fd = raw_connect(&rig);
    send_challenge(fd, &worker);
    recv_challenge(fd, &first);
    cr_assert(proof_make(rig_owner_trust.secret, PROOF_WORKER, &worker, &first, proof));
    send_proof(fd, proof);
    cr_assert_eq(recv_frame(fd, frame, sizeof(frame)), sizeof(frame));
    cr_assert_eq(frame[3], WIRE_PROOF);
    cr_assert(proof_holds(rig_owner_trust.secret, PROOF_GATEWAY, &worker, &first, frame + WIRE_HEADER_BYTES));
    raw_greet(&rig, fd);
    close(fd);

    fd = raw_connect(&rig);
    send_challenge(fd, &worker);
    recv_challenge(fd, &second);
    cr_assert(memcmp(first.nonce, second.nonce, WIRE_NONCE_BYTES) != 0);
    send_proof(fd, proof);
    cr_assert_eq(recv_frame(fd, frame, WIRE_HEADER_BYTES), WIRE_HEADER_BYTES);
    cr_assert_eq(frame[3], WIRE_BYE);
    raw_expect_end(&rig, fd);
    cr_assert_eq(refused(TRANSFER_REFUSED_PROOF), 1);
    without();
}

/* Nor is anything told of the ways past the socket before the proof: neither at the beginning nor behind a challenge. */
Test(trust, no_other_frame_is_answered_before_the_proof)
{
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_RESULT_BYTES] = {0}, said[WIRE_HEADER_BYTES];
    wire_challenge_t challenge, answer;
    uint64_t count = 0;

    setenv("FERMATA_TEST_TRANSPORT", "shm", 1); /* there is such a way */
    with_secret(NULL);
    for (uint8_t type = 0; type <= WIRE_PROOF + 1; type++) {
        for (int behind = 0; behind < 2; behind++) {
            if ((behind && type == WIRE_PROOF) || (!behind && (type == WIRE_CHALLENGE || type == WIRE_HELLO)))
                continue;
            int fd = raw_connect(&rig);
            if (behind && proof_challenge(1, &challenge)) {
                send_challenge(fd, &challenge);
                recv_challenge(fd, &answer);
            }
            bool attach = type == WIRE_ATTACH;
            uint8_t *body = wire_put_header(
                frame, &(wire_header_t){.type = type, .count = 1, .extra_bytes = attach ? 4 : 0});
            wire_put32(body, attach); /* the version of shared memory */
            raw_send(&rig, fd, frame, attach ? WIRE_HEADER_BYTES + 4 : sizeof(frame));
            cr_assert_eq(raw_recv(&rig, fd, said, sizeof(said)), 0, "type %u", type);
            close(fd);
            cr_assert_eq(refused(TRANSFER_REFUSED_NONE), ++count, "type %u", type);
        }
    }
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    without();
}

/* A false gateway that waits for the rig's pool. */
static int false_gateway(char address[TRANSFER_ADDRESS_BYTES])
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    cr_assert(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0 && listen(fd, 1) == 0);
    getsockname(fd, (struct sockaddr *)&at, &len);
    snprintf(address, TRANSFER_ADDRESS_BYTES, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

static int meet(int listener)
{
    int fd = -1;

    for (int64_t end = clock_now_ns() + HANG_NS; fd < 0; rig_settle(&rig)) {
        cr_assert(clock_now_ns() < end, "nobody came");
        fd = accept(listener, NULL, NULL);
    }
    return fd;
}

Test(trust, a_gateway_that_answers_with_what_it_was_told_is_none)
{
    char address[TRANSFER_ADDRESS_BYTES];
    uint8_t frame[WIRE_HEADER_BYTES + WIRE_PROOF_BYTES], out[10];
    struct iovec iov = {out, 10};
    outcome_t outcome = {0};
    transfer_item_t item = {.len_bytes = 10, .iov = &iov, .iov_count = 1};
    wire_challenge_t challenge;
    transfer_stats_t stats;
    int listener = false_gateway(address);

    rig_pool_trust.secret = rig_secret(SECRET);
    rig_init_pool(&rig, address, NULL);
    cr_assert_eq(transfer_fetch(rig.peer, &item, 1, 0, outcome_set, &outcome, NULL), STATUS_OK);
    int fd = meet(listener);
    recv_challenge(fd, &challenge);
    send_challenge(fd, &challenge); /* its own nonce back to it: both sides' challenges are the same */
    cr_assert_eq(recv_frame(fd, frame, sizeof(frame)), sizeof(frame));
    cr_assert_eq(frame[3], WIRE_PROOF);
    send_proof(fd, frame + WIRE_HEADER_BYTES);
    rig_until(&rig, &outcome.calls, 1);
    cr_assert_eq(outcome.status, STATUS_UNAVAILABLE);
    transfer_pool_stats(rig.pool, &stats);
    cr_assert_eq(stats.refused[TRANSFER_REFUSED_PROOF], 1);
    raw_expect_end(&rig, fd); /* and no HELLO */
    close(listener);
    rig_dispose(&rig);
    transfer_trust_close(&rig_pool_trust);
}

Test(trust, an_older_gateway_that_hangs_up_is_told_apart)
{
    char address[TRANSFER_ADDRESS_BYTES];
    wire_challenge_t challenge;
    transfer_stats_t stats;
    int listener = false_gateway(address), refusals = 0;

    rig_pool_trust.secret = rig_secret(SECRET);
    rig_init_pool(&rig, address, NULL);
    transfer_peer_connect(rig.peer);
    int fd = meet(listener);
    recv_challenge(fd, &challenge);
    close(fd);
    for (int64_t end = clock_now_ns() + HANG_NS; refusals == 0; rig_settle(&rig)) {
        cr_assert(clock_now_ns() < end, "it is not told");
        transfer_pool_stats(rig.pool, &stats);
        refusals = (int)stats.refused[TRANSFER_REFUSED_NONE];
    }
    close(listener);
    rig_dispose(&rig);
    transfer_trust_close(&rig_pool_trust);
}

/* Whatever is bent, nobody gets further than to a proof that does not hold. */
Test(trust, bent_frames_prove_nothing)
{
    const size_t first = WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES,
                 second = WIRE_HEADER_BYTES + WIRE_PROOF_BYTES;
    uint8_t frames[WIRE_HEADER_BYTES + WIRE_CHALLENGE_BYTES + WIRE_HEADER_BYTES + WIRE_PROOF_BYTES];
    wire_challenge_t worker, gateway;

    with_secret(NULL);
    cr_assert(proof_challenge(1, &worker));
    for (size_t i = 0; i < sizeof(frames); i++) {
        bool unread = i % first >= 4 && i % first < 8; /* seq, which says nothing here */
        if (unread)
            continue;
        int fd = raw_connect(&rig);
        wire_put_challenge(wire_put_header(frames, &(wire_header_t){.type = WIRE_CHALLENGE, .count = 1}),
                           &worker);
        frames[i < first ? i : 0] ^= i < first ? 1 : 0;
        raw_send(&rig, fd, frames, first);
        if (raw_recv(&rig, fd, frames, first) == first && frames[3] == WIRE_CHALLENGE) {
            uint8_t *proof =
                wire_put_header(frames + first, &(wire_header_t){.type = WIRE_PROOF, .count = 1});
            wire_get_challenge(frames + WIRE_HEADER_BYTES, &gateway);
            cr_assert(proof_make(rig_owner_trust.secret, PROOF_WORKER, &worker, &gateway, proof));
            frames[i] ^= i >= first ? 1 : 0;
            raw_send(&rig, fd, frames + first, second);
        }
        raw_expect_end(&rig, fd);
        cr_assert_eq(connections(), 0, "byte %zu", i);
    }
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    without();
}

static void say_nonsense(uint64_t seed)
{
    prng_t prng;
    uint8_t nonsense[300];
    int fd = raw_connect(&rig);

    prng_init(&prng, seed);
    for (size_t i = 0; i < sizeof(nonsense); i++)
        nonsense[i] = (uint8_t)prng_u64(&prng);
    nonsense[0] = (uint8_t)seed; /* never the first of a frame, nor of TLS */
    raw_send(&rig, fd, nonsense, sizeof(nonsense));
    raw_expect_end(&rig, fd);
}

Test(trust, nonsense_and_half_a_handshake_take_no_place_from_those_who_have_proved_themselves)
{
    enum { STRANGERS = 4, CROWD = 20 };
    const transfer_limits_t limits = {
        .max_strangers = STRANGERS, .max_connections = 2, .prove_ns = 300 * NS_PER_MS};
    wire_challenge_t challenge;
    transfer_stats_t stats;
    int fds[CROWD];

    with_secret(&limits);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    for (int i = 0; i < CROWD; i++) {
        fds[i] = raw_connect(&rig);
        if (i % 2 && proof_challenge(1, &challenge))
            send_challenge(fds[i], &challenge);
        rig_settle(&rig);
    }
    transfer_owner_stats(rig.owner, &stats);
    cr_assert_eq(stats.refused[TRANSFER_REFUSED_CROWD], CROWD - STRANGERS);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    beside_t beside;
    open_beside(&beside, rig_pool_trust);
    cr_assert_eq(fetch_by(beside.peer), STATUS_OK, "a new one that can prove itself finds its place");
    cr_assert_eq(connections(), 2);
    for (int64_t end = clock_now_ns() + HANG_NS; stats.refused[TRANSFER_REFUSED_TIME] < STRANGERS - 1;) {
        cr_assert(clock_now_ns() < end, "they stay");
        rig_settle(&rig);
        transfer_owner_stats(rig.owner, &stats);
    }
    for (int i = 0; i < CROWD; i++)
        raw_expect_end(&rig, fds[i]);
    transfer_pool_destroy(beside.pool);
    rig_settle(&rig);
    for (uint64_t seed = 1; seed < 20; seed++)
        say_nonsense(seed);
    transfer_owner_stats(rig.owner, &stats);
    cr_assert_eq(stats.refused[TRANSFER_REFUSED_NONE], 19);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    without();
}

/* ---- certificates ---- */

static pki_t pki, strangers;

static void with_tls_and(const transfer_limits_t *limits)
{
    pki_open(&pki);
    rig_owner_trust.tls = rig_tls(&pki, "owner", "gateway", true);
    rig_pool_trust.tls = rig_tls(&pki, "pool", "worker", false);
    rig_init(&rig, limits, NULL);
}

static void with_tls(void)
{
    with_tls_and(NULL);
}

static void without_tls(void)
{
    without();
    pki_close(&pki);
}

static void expect_tls_refused(tls_context_t *shown, transfer_refusal_t refusal)
{
    expect_refused((transfer_trust_t){.tls = shown}, refusal);
    tls_context_destroy(shown);
}

Test(trust, a_certificate_of_another_role_is_refused)
{
    static const char *const roles[] = {"gateway", "scheduler", "client", "admin"};

    for (size_t i = 0; i < sizeof(roles) / sizeof(*roles); i++) {
        with_tls();
        expect_tls_refused(rig_tls(&pki, "false", roles[i], false), TRANSFER_REFUSED_ROLE);
        without_tls();
    }
}

Test(trust, a_certificate_of_another_authority_and_none_are_refused)
{
    tls_context_t *shown;
    err_t err;

    with_tls();
    cr_assert_eq(
        tls_context_create(
            &(tls_config_t){.ca = pki.ca.cert, .server_role = "gateway", .protocol = TRANSFER_PROTOCOL},
            &shown, &err),
        STATUS_OK);
    expect_tls_refused(shown, TRANSFER_REFUSED_TLS);
    without_tls();

    with_tls();
    pki_open(&strangers);
    const tls_pair_t pair = pki_issue(&strangers, "stranger", "worker");
    const tls_config_t config = {.ca = pki.ca.cert,
                                 .cert = pair.cert,
                                 .key = pair.key,
                                 .server_role = "gateway",
                                 .protocol = TRANSFER_PROTOCOL};
    cr_assert_eq(tls_context_create(&config, &shown, &err), STATUS_OK);
    expect_tls_refused(shown, TRANSFER_REFUSED_TLS);
    pki_close(&strangers);
    without_tls();
}

Test(trust, who_speaks_in_clear_where_tls_is_wanted_is_told_so)
{
    uint8_t hello[WIRE_HEADER_BYTES + WIRE_HELLO_BYTES], said[WIRE_HEADER_BYTES + WIRE_BYE_BYTES];

    with_tls();
    expect_refused((transfer_trust_t){0}, TRANSFER_REFUSED_TLS);
    int fd = raw_connect(&rig);
    wire_put_hello(wire_put_header(hello, &(wire_header_t){.type = WIRE_HELLO, .count = 1}),
                   &(wire_hello_t){.min_version = 1, .max_version = 1, .max_items = 1, .max_item_bytes = 1});
    raw_send(&rig, fd, hello, sizeof(hello));
    cr_assert_eq(raw_recv(&rig, fd, said, sizeof(said)), sizeof(said));
    cr_assert_eq(said[3], WIRE_BYE);
    cr_assert(strstr((char *)said + WIRE_HEADER_BYTES, "this gateway wants TLS"));
    close(fd);
    without_tls();
}

Test(trust, a_gateway_of_another_role_gets_no_frames)
{
    beside_t beside;
    transfer_stats_t stats;

    pki_open(&pki);
    rig_owner_trust.tls = rig_tls(&pki, "owner", "worker", true);
    rig_init_owner(&rig);
    tls_context_t *shown = rig_tls(&pki, "pool", "worker", false);
    open_beside(&beside, (transfer_trust_t){.tls = shown});
    cr_assert_eq(fetch_by(beside.peer), STATUS_UNAVAILABLE);
    transfer_pool_stats(beside.pool, &stats);
    cr_assert_eq(stats.refused[TRANSFER_REFUSED_TLS], 1);
    cr_assert_eq(connections(), 0);
    transfer_pool_destroy(beside.pool);
    without_tls();
    tls_context_destroy(shown);
}

Test(trust, certificates_that_change_count_for_the_next_connection)
{
    beside_t beside;

    with_tls();
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    pki_open(&strangers);
    const tls_pair_t theirs = pki_issue(&strangers, "owner", "gateway");
    static char command[5 * TLS_PATH_BYTES];
    /* The authority of others, with a certificate by it: ours is not believed any more, and believes nobody. */
    snprintf(command, sizeof(command), "cp '%s' '%s/owner.crt' && cp '%s' '%s/owner.key' && cp '%s' '%s'",
             theirs.cert, pki.dir, theirs.key, pki.dir, strangers.ca.cert, pki.ca.cert);
    cr_assert_eq(system(command), 0);
    for (int64_t end = clock_now_ns() + HANG_NS; tls_context_generation(rig_owner_trust.tls) < 2;
         rig_settle(&rig))
        cr_assert(clock_now_ns() < end, "the files are not read");
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK, "the connection that is there goes on");
    tls_context_t *shown = rig_tls(&strangers, "pool", "worker", false);
    open_beside(&beside, (transfer_trust_t){.tls = shown});
    cr_assert_eq(fetch_by(beside.peer), STATUS_OK);
    transfer_pool_destroy(beside.pool);
    tls_context_destroy(shown);
    pki_close(&strangers);
    without_tls();
}

Test(trust, a_secret_where_tls_is_wanted_and_tls_where_a_secret_is_are_refused)
{
    transfer_secret_t *secret = rig_secret(SECRET);

    with_tls();
    expect_refused((transfer_trust_t){.secret = secret}, TRANSFER_REFUSED_TLS);
    without_tls();
    transfer_secret_destroy(secret);

    pki_open(&pki);
    with_secret(NULL);
    expect_tls_refused(rig_tls(&pki, "pool", "worker", false), TRANSFER_REFUSED_NONE);
    without();
    pki_close(&pki);
}

/* The first bytes of a ClientHello, and no more; and what is neither TLS nor a frame. */
Test(trust, half_a_handshake_of_tls_ends_in_time_and_nonsense_at_once)
{
    static const uint8_t half[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01, 0x00, 0x01, 0xfc, 0x03, 0x03};
    const transfer_limits_t limits = {.prove_ns = 200 * NS_PER_MS, .max_strangers = 8};

    with_tls_and(&limits);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    int fd = raw_connect(&rig);
    raw_send(&rig, fd, half, sizeof(half));
    cr_assert_eq(connections(), 1);
    raw_expect_end(&rig, fd);
    cr_assert_eq(refused(TRANSFER_REFUSED_TIME), 1);
    without_tls();

    with_tls_and(&limits);
    for (uint64_t seed = 1; seed < 20; seed++)
        say_nonsense(seed);
    cr_assert_eq(refused(TRANSFER_REFUSED_TLS), 19);
    cr_assert_eq(fetch_by(rig.peer), STATUS_OK);
    without_tls();
}
