/* Two ends against each other over a socket that takes little. */
#include "tls/stream.h"
#include "pki.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { LARGE_BYTES = 1 << 20, PIECES = 5 };

typedef struct {
    pki_t pki;
    tls_context_t *server, *client;
    tls_stream_t *s, *c;
    int fds[2];
} ends_t;

static tls_context_t *context_of(const ends_t *e, bool server, const char *role, const char *protocol)
{
    const tls_pair_t pair = pki_issue(&e->pki, server ? "server" : "client", role);
    const tls_config_t config = {.server = server,
                                 .cert = pair.cert,
                                 .key = pair.key,
                                 .ca = e->pki.ca.cert,
                                 .server_role = server ? NULL : "gateway",
                                 .protocol = protocol};
    tls_context_t *context;
    err_t err;
    cr_assert(tls_context_create(&config, &context, &err) == STATUS_OK, "%s", err.text);
    return context;
}

static void open_ends(ends_t *e, const char *server_role, const char *client_protocol)
{
    err_t err;
    int little = 4096;
    pki_open(&e->pki);
    e->server = context_of(e, true, server_role, "data/1");
    e->client = context_of(e, false, "worker", client_protocol);
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, e->fds) == 0);
    for (int i = 0; i < 2; i++)
        setsockopt(e->fds[i], SOL_SOCKET, SO_SNDBUF, &little, sizeof little);
    cr_assert(tls_stream_create(e->server, e->fds[0], &e->s, &err) == STATUS_OK);
    cr_assert(tls_stream_create(e->client, e->fds[1], &e->c, &err) == STATUS_OK);
}

static void close_ends(ends_t *e)
{
    tls_stream_destroy(e->s);
    tls_stream_destroy(e->c);
    close(e->fds[0]);
    close(e->fds[1]);
    tls_context_destroy(e->server);
    tls_context_destroy(e->client);
    pki_close(&e->pki);
}

/* Both until neither waits; what each came to. */
static void shake(ends_t *e, tls_shake_t *server, tls_shake_t *client)
{
    *server = *client = TLS_SHAKE_WAITS;
    for (int i = 0; i < 1000 && (*server == TLS_SHAKE_WAITS || *client == TLS_SHAKE_WAITS); i++) {
        if (*client == TLS_SHAKE_WAITS)
            *client = tls_stream_shake(e->c);
        else if (*client == TLS_SHAKE_DONE)
            cr_assert(tls_stream_flush(e->c));
        if (*server == TLS_SHAKE_WAITS)
            *server = tls_stream_shake(e->s);
    }
}

static void shake_well(ends_t *e)
{
    tls_shake_t server, client;
    shake(e, &server, &client);
    cr_assert(server == TLS_SHAKE_DONE && client == TLS_SHAKE_DONE, "%s; %s", tls_stream_reason(e->s),
              tls_stream_reason(e->c));
}

/* All of the pieces into `to`, as the socket lets them. */
static void pass(tls_stream_t *from, tls_stream_t *into, struct iovec *pieces, int count, uint8_t *to,
                 size_t len)
{
    size_t got = 0;
    while (got < len) {
        if (count > 0) {
            ssize_t sent = tls_stream_writev(from, pieces, count);
            cr_assert(sent > 0 || errno == EAGAIN);
            for (; count > 0 && sent >= 0 && (size_t)sent >= pieces->iov_len; pieces++, count--)
                sent -= (ssize_t)pieces->iov_len;
            if (count > 0 && sent > 0) {
                pieces->iov_base = (uint8_t *)pieces->iov_base + sent;
                pieces->iov_len -= (size_t)sent;
            }
        } else {
            cr_assert(tls_stream_flush(from));
        }
        struct iovec room = {to + got, len - got};
        ssize_t came = tls_stream_readv(into, &room, 1, false);
        cr_assert(came > 0 || errno == EAGAIN, "%s", tls_stream_reason(into));
        got += came > 0 ? (size_t)came : 0;
    }
}

Test(stream, pieces_small_and_large_come_as_they_were_in_both_directions)
{
    static uint8_t from[LARGE_BYTES], to[LARGE_BYTES];
    static const size_t cuts[PIECES + 1] = {0, 16, 17, 9000, 9000 + 16385, LARGE_BYTES};
    ends_t e;
    open_ends(&e, "gateway", "data/1");
    shake_well(&e);
    cr_assert_str_eq(tls_stream_peer_role(e.s), "worker");
    cr_assert_str_eq(tls_stream_peer_role(e.c), "gateway");
    cr_assert(!tls_stream_in_kernel(e.c), "a UNIX socket has no kTLS");
    for (size_t i = 0; i < LARGE_BYTES; i++)
        from[i] = (uint8_t)(i * 31 + (i >> 9));
    for (int round = 0; round < 4; round++) {
        struct iovec pieces[PIECES];
        for (int i = 0; i < PIECES; i++)
            pieces[i] = (struct iovec){from + cuts[i], cuts[i + 1] - cuts[i]};
        memset(to, 0, sizeof to);
        tls_stream_t *writer = round % 2 ? e.s : e.c, *reader = round % 2 ? e.c : e.s;
        if (round >= 2)
            cr_assert(tls_stream_renew_keys(writer));
        pass(writer, reader, pieces, PIECES, to, LARGE_BYTES);
        cr_assert_arr_eq(to, from, LARGE_BYTES);
    }
    close_ends(&e);
}

/* What is held is what was taken: the caller may forget it, or send something else next. */
Test(stream, what_was_taken_need_not_be_kept)
{
    static uint8_t first[LARGE_BYTES], got[LARGE_BYTES];
    ends_t e;
    open_ends(&e, "gateway", "data/1");
    shake_well(&e);
    memset(first, 'a', sizeof first);
    ssize_t sent = tls_stream_writev(e.c, &(struct iovec){first, sizeof first}, 1);
    cr_assert(sent > 0 && sent < LARGE_BYTES && tls_stream_holds(e.c));
    cr_assert(tls_stream_writev(e.c, &(struct iovec){first, 1}, 1) == -1 && errno == EAGAIN);
    memset(first, 'b', sizeof first);
    struct iovec rest = {first, 100};
    pass(e.c, e.s, &rest, 1, got, (size_t)sent + 100);
    for (ssize_t i = 0; i < sent + 100; i++)
        cr_assert_eq(got[i], i < sent ? 'a' : 'b');
    close_ends(&e);
}

Test(stream, dry_reads_what_is_there_and_leaves_the_socket_alone)
{
    uint8_t got[64];
    struct iovec one = {got, 1}, all = {got, sizeof got};
    struct pollfd poll_s;
    ends_t e;
    open_ends(&e, "gateway", "data/1");
    shake_well(&e);
    cr_assert_eq(tls_stream_writev(e.c, &(struct iovec){"first", 5}, 1), 5);
    cr_assert_eq(tls_stream_readv(e.s, &one, 1, true), -1);
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(tls_stream_readv(e.s, &one, 1, false), 1);
    cr_assert_eq(tls_stream_writev(e.c, &(struct iovec){"second", 6}, 1), 6);
    cr_assert_eq(tls_stream_readv(e.s, &all, 1, true), 4);
    poll_s = (struct pollfd){.fd = e.fds[0], .events = POLLIN};
    cr_assert_eq(poll(&poll_s, 1, 0), 1);
    cr_assert_eq(tls_stream_readv(e.s, &all, 1, false), 6);
    close_ends(&e);
}

Test(stream, an_end_is_told_after_the_last_byte)
{
    uint8_t got[64];
    struct iovec room = {got, sizeof got};
    ends_t e;
    open_ends(&e, "gateway", "data/1");
    shake_well(&e);
    cr_assert_eq(tls_stream_writev(e.c, &(struct iovec){"bye", 3}, 1), 3);
    tls_stream_destroy(e.c);
    e.c = NULL;
    cr_assert_eq(tls_stream_readv(e.s, &room, 1, false), 3);
    cr_assert(tls_stream_is_over(e.s));
    cr_assert_eq(tls_stream_readv(e.s, &room, 1, false), 0);
    close_ends(&e);
}

Test(stream, what_is_no_tls_breaks_it)
{
    uint8_t got[64];
    struct iovec room = {got, sizeof got};
    ends_t e;
    open_ends(&e, "gateway", "data/1");
    shake_well(&e);
    cr_assert_eq(send(e.fds[1], "this is none of it", 18, 0), 18);
    cr_assert_eq(tls_stream_readv(e.s, &room, 1, false), -1);
    cr_assert_eq(errno, EPROTO);
    cr_assert_eq(tls_stream_readv(e.s, &room, 1, false), -1);
    cr_assert_eq(tls_stream_writev(e.s, &(struct iovec){"x", 1}, 1), -1);
    close_ends(&e);
}

Test(stream, a_server_of_another_role_and_another_protocol_are_refused)
{
    tls_shake_t server, client;
    ends_t e;
    open_ends(&e, "worker", "data/1");
    shake(&e, &server, &client);
    cr_assert_eq(client, TLS_SHAKE_FAILED);
    cr_assert(strstr(tls_stream_reason(e.c), "the certificate is refused"), "%s", tls_stream_reason(e.c));
    close_ends(&e);
    open_ends(&e, "gateway", "data/2");
    shake(&e, &server, &client);
    cr_assert_eq(server, TLS_SHAKE_FAILED);
    cr_assert(strstr(tls_stream_reason(e.s), "no application protocol"), "%s", tls_stream_reason(e.s));
    close_ends(&e);
}
