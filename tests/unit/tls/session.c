/* Two ends against each other in memory. */
#include "tls/session.h"
#include "pki.h"

enum { STEP_BYTES = 700 }; /* not a whole record at once */

typedef struct {
    pki_t pki;
    tls_context_t *server, *client;
    tls_session_t *s, *c;
} ends_t;

static tls_context_t *context_of(tls_config_t config)
{
    tls_context_t *context;
    err_t err;
    cr_assert(tls_context_create(&config, &context, &err) == STATUS_OK, "%s", err.text);
    return context;
}

static void open_sessions(ends_t *e, const char *host)
{
    err_t err;
    cr_assert(tls_session_create(e->server, NULL, &e->s, &err) == STATUS_OK);
    cr_assert(tls_session_create(e->client, host, &e->c, &err) == STATUS_OK);
}

static void close_sessions(ends_t *e)
{
    tls_session_destroy(e->s);
    tls_session_destroy(e->c);
}

/* The server of `name`; a client that shows `shown`, or nothing. */
static void open_ends(ends_t *e, const char *shown, bool mutual, const char *server_role)
{
    pki_open(&e->pki);
    tls_pair_t server = pki_issue(&e->pki, "server", "scheduler"), client;
    if (shown)
        client = pki_issue(&e->pki, "client", shown);
    e->server = context_of((tls_config_t){
        .server = true, .cert = server.cert, .key = server.key, .ca = mutual ? e->pki.ca.cert : NULL});
    e->client = context_of((tls_config_t){.ca = e->pki.ca.cert,
                                          .cert = shown ? client.cert : NULL,
                                          .key = shown ? client.key : NULL,
                                          .server_role = server_role});
}

static void close_ends(ends_t *e)
{
    close_sessions(e);
    tls_context_destroy(e->server);
    tls_context_destroy(e->client);
    pki_close(&e->pki);
}

/* What one has to send, read by the other into `to`; false: there was nothing. */
static bool carry(tls_session_t *from, tls_session_t *to, uint8_t *got, size_t cap, size_t *got_len,
                  tls_read_t *result)
{
    size_t len, more;
    const uint8_t *out = tls_session_output(from, &len);
    if (len == 0)
        return false;
    if (len > STEP_BYTES)
        len = STEP_BYTES;
    uint8_t step[STEP_BYTES];
    memcpy(step, out, len);
    tls_session_output_sent(from, len);
    tls_session_feed(to, step, len);
    do {
        *result = tls_session_read(to, got + *got_len, cap - *got_len, &more);
        *got_len += more;
    } while (*result == TLS_READ_BYTES);
    return true;
}

static void shake(ends_t *e, tls_read_t *server, tls_read_t *client)
{
    uint8_t none[1];
    size_t len = 0;
    *server = *client = tls_session_read(e->c, none, 1, &len);
    bool moved = true;
    while (moved) {
        moved = carry(e->c, e->s, none, 1, &len, server);
        moved |= carry(e->s, e->c, none, 1, &len, client);
    }
    cr_assert(len == 0);
}

static void expect_open(ends_t *e)
{
    tls_read_t server, client;
    shake(e, &server, &client);
    cr_assert(tls_session_is_ready(e->s), "%s", tls_session_reason(e->s));
    cr_assert(tls_session_is_ready(e->c), "%s", tls_session_reason(e->c));
}

Test(tls_session, carries_bytes_both_ways_and_an_end)
{
    enum { BYTES = 300000 };
    ends_t e;
    open_ends(&e, NULL, false, NULL);
    open_sessions(&e, "localhost");
    expect_open(&e);
    uint8_t *sent = malloc(BYTES), *got = malloc(BYTES + 1);
    for (size_t i = 0; i < BYTES; i++)
        sent[i] = (uint8_t)(i * 7 + i / 251);
    const struct iovec pieces[] = {{sent, 100}, {sent + 100, 50}, {sent + 150, BYTES - 150}};
    cr_assert(tls_session_write(e.c, pieces, 3, SIZE_MAX) == BYTES);
    size_t len = 0;
    tls_read_t result = TLS_READ_WANT;
    while (carry(e.c, e.s, got, BYTES + 1, &len, &result))
        cr_assert(result == TLS_READ_WANT);
    cr_assert(len == BYTES && memcmp(sent, got, BYTES) == 0);
    cr_assert(tls_session_write(e.s, pieces, 3, 120) == 120, "no more than is asked for");
    for (len = 0; carry(e.s, e.c, got, BYTES, &len, &result);)
        ;
    cr_assert(len == 120 && memcmp(sent, got, 120) == 0);
    tls_session_end(e.s);
    while (carry(e.s, e.c, got, BYTES, &len, &result))
        ;
    cr_assert(result == TLS_READ_END);
    free(sent);
    free(got);
    close_ends(&e);
}

Test(tls_session, what_is_not_used_up_can_be_kept)
{
    ends_t e;
    open_ends(&e, NULL, false, NULL);
    open_sessions(&e, "127.0.0.1");
    expect_open(&e);
    const struct iovec piece = {"0123456789", 10};
    tls_session_write(e.c, &piece, 1, SIZE_MAX);
    tls_session_write(e.c, &piece, 1, SIZE_MAX);
    size_t len;
    const uint8_t *out = tls_session_output(e.c, &len);
    uint8_t *fed = malloc(len), got[11] = {0};
    memcpy(fed, out, len);
    tls_session_feed(e.s, fed, len);
    cr_assert(tls_session_read(e.s, got, 5, &len) == TLS_READ_BYTES && len == 5);
    cr_assert(tls_session_keep(e.s) == STATUS_OK);
    free(fed);
    cr_assert(tls_session_read(e.s, got, 10, &len) == TLS_READ_BYTES && len == 10);
    cr_assert_str_eq((char *)got, "5678901234");
    close_ends(&e);
}

Test(tls_session, knows_the_role_of_who_shows_one)
{
    ends_t e;
    open_ends(&e, "worker", true, "scheduler");
    open_sessions(&e, "10.9.8.7");
    expect_open(&e);
    cr_assert_str_eq(tls_session_peer_role(e.s), "worker");
    cr_assert_str_eq(tls_session_peer_role(e.c), "scheduler");
    close_ends(&e);
}

static void expect_refused(ends_t *e, const char *by_server, const char *by_client)
{
    tls_read_t server, client;
    shake(e, &server, &client);
    if (by_server)
        cr_assert(server == TLS_READ_FAILED && strstr(tls_session_reason(e->s), by_server), "%s",
                  tls_session_reason(e->s));
    if (by_client)
        cr_assert(client == TLS_READ_FAILED && strstr(tls_session_reason(e->c), by_client), "%s",
                  tls_session_reason(e->c));
}

Test(tls_session, refuses_who_shows_nothing)
{
    ends_t e;
    open_ends(&e, NULL, true, NULL);
    open_sessions(&e, "localhost");
    expect_refused(&e, "peer did not return a certificate", NULL);
    close_ends(&e);
}

Test(tls_session, refuses_who_is_of_another_authority)
{
    ends_t e;
    pki_t other;
    open_ends(&e, "worker", true, NULL);
    pki_open(&other);
    tls_pair_t stranger = pki_issue(&other, "stranger", "worker");
    tls_context_destroy(e.client);
    e.client = context_of((tls_config_t){.ca = e.pki.ca.cert, .cert = stranger.cert, .key = stranger.key});
    open_sessions(&e, "localhost");
    expect_refused(&e, "the certificate is refused: unable to get local issuer", NULL);
    pki_close(&other);
    close_ends(&e);
}

Test(tls_session, refuses_a_server_of_another_host)
{
    ends_t e;
    open_ends(&e, NULL, false, NULL);
    open_sessions(&e, "example.org");
    expect_refused(&e, NULL, "the certificate is refused: hostname mismatch");
    close_ends(&e);
}

Test(tls_session, refuses_a_server_of_another_role)
{
    ends_t e;
    open_ends(&e, NULL, false, "gateway");
    open_sessions(&e, "localhost");
    expect_refused(&e, NULL, "the certificate is refused: hostname mismatch");
    close_ends(&e);
}

Test(tls_session, resumes_with_a_ticket)
{
    ends_t e;
    open_ends(&e, "gateway", true, NULL);
    for (int i = 0; i < 2; i++) {
        open_sessions(&e, "localhost");
        expect_open(&e);
        cr_assert(tls_session_resumed(e.s) == (i == 1));
        cr_assert_str_eq(tls_session_peer_role(e.s), "gateway", "a ticket brings the certificate along");
        if (i == 0)
            close_sessions(&e);
    }
    close_ends(&e);
}

Test(tls_session, what_is_no_tls_fails_and_stays_failed)
{
    ends_t e;
    open_ends(&e, NULL, false, NULL);
    open_sessions(&e, "localhost");
    uint8_t got[8];
    size_t len;
    tls_session_feed(e.s, "GET / HTTP/1.1\r\n\r\n", 18);
    cr_assert(tls_session_read(e.s, got, 8, &len) == TLS_READ_FAILED);
    cr_assert(strstr(tls_session_reason(e.s), "http request"), "%s", tls_session_reason(e.s));
    const struct iovec piece = {"x", 1};
    cr_assert(tls_session_write(e.s, &piece, 1, SIZE_MAX) == 0);
    cr_assert(tls_session_read(e.s, got, 8, &len) == TLS_READ_FAILED);
    close_ends(&e);
}
