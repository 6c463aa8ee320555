/* Bidirectional streams: order, ends, flow control. */
#include "support.h"

#include <stdlib.h>

#define CHAT "/test.Chat/Chat"

/* One end of the stream. */
typedef struct {
    rpc_stream_t *stream;
    int opens, messages, half_closes, closes, writables;
    int in_order;
    bool echo, close_on_half;
    int pause_at; /* messages; 0 = never */
    rpc_code_t code;
    char text[128];
    char peer[64];
} end_t;

static void end_open(rpc_stream_t *stream, void *arg)
{
    end_t *end = arg;
    end->stream = stream;
    end->opens++;
    strncpy(end->peer, rpc_stream_peer(stream), sizeof end->peer - 1);
}

static void end_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    end_t *end = arg;
    int number = 0;
    if (rpc_bytes_len(bytes) >= sizeof number)
        memcpy(&number, rpc_bytes_flat(bytes), sizeof number);
    end->in_order += number == end->messages;
    end->messages++;
    if (end->messages == end->pause_at)
        rpc_stream_pause(stream, true);
    if (end->echo) {
        *keep = true;
        cr_expect_eq(rpc_stream_send(stream, bytes), STATUS_OK);
    }
}

static void end_writable(rpc_stream_t *stream, void *arg)
{
    (void)stream;
    ((end_t *)arg)->writables++;
}

static void end_half_close(rpc_stream_t *stream, void *arg)
{
    end_t *end = arg;
    end->half_closes++;
    if (end->close_on_half)
        rpc_stream_close(stream, RPC_NOT_FOUND, "half past");
}

static void end_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    end_t *end = arg;
    (void)stream;
    end->closes++;
    end->code = code;
    end->stream = NULL;
    strncpy(end->text, text, sizeof end->text - 1);
}

static const rpc_stream_ops_t end_ops = {.on_open = end_open,
                                         .on_message = end_message,
                                         .on_writable = end_writable,
                                         .on_half_close = end_half_close,
                                         .on_close = end_close};

typedef struct {
    rig_t rig;
    rpc_link_t *link;
    end_t server, client;
    bool link_closed;
} pair_t;

/* With a server that does not serve yet. */
static void pair_open(pair_t *pair, const rpc_limits_t *limits)
{
    err_t err = {0};
    cr_assert_eq(rpc_server_add_stream(pair->rig.server, CHAT, &end_ops, &pair->server), STATUS_OK);
    rig_serve(&pair->rig);
    rig_client(&pair->rig, limits);
    rpc_link_options_t options = {.method = CHAT, .ops = end_ops, .arg = &pair->client};
    cr_assert_eq(rpc_link_create(pair->rig.client, &options, &pair->link, &err), STATUS_OK, "%s", err.text);
    rig_until(&pair->rig, pair->server.opens == 1 && pair->client.opens == 1);
}

static void pair_init(pair_t *pair, const rpc_limits_t *limits)
{
    rig_init(&pair->rig);
    rig_server(&pair->rig, NULL, limits);
    pair_open(pair, limits);
}

static void pair_dispose(pair_t *pair)
{
    rpc_link_close(pair->link, rig_flag, &pair->link_closed);
    rig_until(&pair->rig, pair->link_closed);
    rig_dispose(&pair->rig);
    cr_expect_eq(pair->server.closes, pair->server.opens, "every open has its close");
    cr_expect_eq(pair->client.closes, pair->client.opens, "every open has its close");
}

static rpc_bytes_t *numbered(int number, size_t len_bytes)
{
    uint8_t *data;
    rpc_bytes_t *bytes = rpc_bytes_reserve(len_bytes, &data);
    memset(data, 0, len_bytes);
    memcpy(data, &number, sizeof number);
    return bytes;
}

Test(stream, echoes_in_order)
{
    enum { MANY = 5000 };
    pair_t pair = {.server.echo = true};
    pair_init(&pair, NULL);
    cr_expect_eq(strncmp(pair.server.peer, "127.0.0.1:", 10), 0, "%s", pair.server.peer);
    cr_expect_str_eq(pair.client.peer, rpc_server_address(pair.rig.server));
    for (int i = 0; i < MANY; i++) {
        cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(i, 16)), STATUS_OK);
        if (i % 100 == 0)
            rig_until(&pair.rig, pair.client.messages >= i - 500);
    }
    rig_until(&pair.rig, pair.client.messages == MANY);
    cr_expect_eq(pair.server.in_order, MANY);
    cr_expect_eq(pair.client.in_order, MANY);
    cr_expect_eq(rpc_stream_pending_bytes(pair.client.stream), 0);
    pair_dispose(&pair);
}

Test(stream, server_closes_with_a_reason_after_what_is_queued)
{
    pair_t pair = {0};
    pair_init(&pair, NULL);
    for (int i = 0; i < 10; i++)
        cr_assert_eq(rpc_stream_send(pair.server.stream, numbered(i, 100)), STATUS_OK);
    rpc_stream_close(pair.server.stream, RPC_FAILED_PRECONDITION, "versions 3 to 4 against 1 to 2");
    cr_expect_eq(rpc_stream_send(pair.server.stream, numbered(10, 100)), STATUS_UNAVAILABLE);
    rig_until(&pair.rig, pair.client.closes == 1);
    cr_expect_eq(pair.client.messages, 10);
    cr_expect_eq(pair.client.code, RPC_FAILED_PRECONDITION);
    cr_expect_str_eq(pair.client.text, "versions 3 to 4 against 1 to 2");
    rig_until(&pair.rig, pair.server.closes >= 1);
    pair_dispose(&pair);
}

Test(stream, half_close_is_told_and_answered)
{
    pair_t pair = {.server.close_on_half = true};
    pair_init(&pair, NULL);
    cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(0, 10)), STATUS_OK);
    rpc_stream_close(pair.client.stream, RPC_OK, NULL);
    rig_until(&pair.rig, pair.client.closes == 1 && pair.server.closes >= 1);
    cr_expect_eq(pair.server.messages, 1);
    cr_expect_eq(pair.server.half_closes, 1);
    cr_expect_eq(pair.client.code, RPC_NOT_FOUND);
    cr_expect_str_eq(pair.client.text, "half past");
    pair_dispose(&pair);
}

Test(stream, cancel_reaches_the_other_end)
{
    pair_t pair = {0};
    pair_init(&pair, NULL);
    rpc_stream_cancel(pair.client.stream);
    rig_until(&pair.rig, pair.client.closes == 1 && pair.server.closes == 1);
    cr_expect_eq(pair.client.code, RPC_CANCELLED);
    cr_expect_eq(pair.server.code, RPC_CANCELLED);
    rig_until(&pair.rig, pair.client.opens == 2 && pair.server.opens == 2); /* the link comes back */
    rpc_stream_cancel(pair.server.stream);
    rig_until(&pair.rig, pair.client.closes == 2 && pair.server.closes == 2);
    cr_expect_neq(pair.client.code, RPC_OK);
    pair_dispose(&pair);
}

Test(stream, server_drain_cancels_what_stays)
{
    pair_t pair = {0};
    pair_init(&pair, NULL);
    rpc_server_stop(pair.rig.server, 20 * NS_PER_MS, rig_flag, &pair.rig.stopped);
    rig_until(&pair.rig, pair.rig.stopped && pair.client.closes == 1);
    rpc_server_destroy(pair.rig.server);
    pair.rig.server = NULL;
    cr_expect_neq(pair.client.code, RPC_OK);
    pair_dispose(&pair);
}

Test(stream, message_over_the_limit_ends_the_stream_only)
{
    rpc_limits_t limits = {.max_receive_bytes = 10000};
    pair_t pair = {.server.echo = true};
    pair_init(&pair, &limits);
    cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(0, 10001)), STATUS_OK);
    rig_until(&pair.rig, pair.client.closes == 1 && pair.server.closes == 1);
    cr_expect_eq(pair.client.code, RPC_RESOURCE_EXHAUSTED, "%s %s", rpc_code_name(pair.client.code),
                 pair.client.text);
    rig_until(&pair.rig, pair.client.opens == 2);
    cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(0, 10000)), STATUS_OK);
    rig_until(&pair.rig, pair.client.messages == 1);
    pair_dispose(&pair);
}

/* The receiver stands still (its loop is not turned): the sender's queue fills up to its bound and not further, and
 * all that was accepted arrives once the receiver goes on. */
Test(stream, flow_control_is_bounded)
{
    enum { MESSAGE = 64 * 1024, LIMIT = 4 * MESSAGE };
    err_t err = {0};
    rig_t far_end;
    end_t server = {0}, client = {0};
    rig_init(&far_end);
    rig_server(&far_end, NULL, NULL);
    cr_assert_eq(rpc_server_add_stream(far_end.server, CHAT, &end_ops, &server), STATUS_OK);
    rig_serve(&far_end);

    rig_t near;
    rig_init(&near);
    rpc_client_options_t client_options = {.address = rpc_server_address(far_end.server),
                                           .limits.send_queue_bytes = LIMIT};
    cr_assert_eq(rpc_client_create(near.runtime, &client_options, &near.client, &err), STATUS_OK);
    rpc_link_options_t options = {.method = CHAT, .ops = end_ops, .arg = &client};
    rpc_link_t *link;
    cr_assert_eq(rpc_link_create(near.client, &options, &link, &err), STATUS_OK);
    rig_until(&near, client.opens == 1);

    int accepted = 0, refused = 0;
    size_t most_pending = 0;
    /* Four thousand messages are 256 MiB: far more than windows, socket buffers and the receiver's inbox hold. */
    for (; accepted < 4000 && refused < 20; loop_run_once(near.loop, refused > 0 ? NS_PER_MS * 20 : 0)) {
        bool room = rpc_stream_has_room(client.stream, MESSAGE);
        status_t status = rpc_stream_send(client.stream, numbered(accepted, MESSAGE));
        cr_assert(status == STATUS_OK || (status == STATUS_NO_MEMORY && !room));
        accepted += status == STATUS_OK;
        refused += status != STATUS_OK;
        size_t pending = rpc_stream_pending_bytes(client.stream);
        most_pending = pending > most_pending ? pending : most_pending;
    }
    cr_expect(refused > 0, "nothing was ever refused");
    cr_expect_leq(most_pending, LIMIT);
    cr_expect_eq(server.messages, 0);

    int writables = client.writables;
    rig_until(&far_end, server.messages == accepted);
    cr_expect_eq(server.in_order, accepted);
    rig_until(&near, client.writables > writables);
    cr_expect_eq(rpc_stream_send(client.stream, numbered(accepted, MESSAGE)), STATUS_OK);
    rig_until(&far_end, server.messages == accepted + 1);

    bool closed = false;
    rpc_link_close(link, rig_flag, &closed);
    rig_until(&near, closed);
    rig_dispose(&near);
    rig_dispose(&far_end);
}

Test(stream, a_paused_end_gets_no_messages_until_it_goes_on)
{
    enum { ALL = 200, SOME = 10 };
    pair_t pair = {.server = {.pause_at = SOME, .close_on_half = true}};
    pair_init(&pair, NULL);
    for (int i = 0; i < ALL; i++)
        cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(i, 16)), STATUS_OK);
    rpc_stream_close(pair.client.stream, RPC_OK, NULL);
    rig_until(&pair.rig, pair.server.messages == SOME && rpc_stream_pending_bytes(pair.client.stream) == 0);
    /* What it says itself goes out all the while. */
    cr_assert_eq(rpc_stream_send(pair.server.stream, numbered(0, 16)), STATUS_OK);
    rig_until(&pair.rig, pair.client.messages == 1);
    cr_expect_eq(pair.server.messages, SOME);
    cr_expect_eq(pair.server.half_closes, 0, "messages come before it");
    rpc_stream_pause(pair.server.stream, false);
    rig_until(&pair.rig, pair.client.closes == 1 && pair.server.closes >= 1);
    cr_expect_eq(pair.server.in_order, ALL);
    cr_expect_eq(pair.server.half_closes, 1);
    pair_dispose(&pair);
}

Test(stream, an_end_that_is_paused_hears_that_the_other_has_gone)
{
    pair_t pair = {.server.pause_at = 1};
    pair_init(&pair, NULL);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(i, 16)), STATUS_OK);
    rig_until(&pair.rig, pair.server.messages == 1 && rpc_stream_pending_bytes(pair.client.stream) == 0);
    rpc_stream_cancel(pair.client.stream);
    rig_until(&pair.rig, pair.server.closes == 1);
    cr_expect_eq(pair.server.messages, 1);
    pair_dispose(&pair);
}

/* Much goes over a stream, both ways, beside one of the same connection that waits all the time: nothing of it counts as a message that is
 * not whole. */
Test(stream, one_that_goes_on_is_not_taken_for_half_a_message)
{
    enum { MESSAGES = 3000, BYTES = 64 << 10, AHEAD = 16 };
    const rpc_server_options_t options = {.address = "127.0.0.1:0",
                                          .unfinished = {.bytes_max = 32 << 20, .step_ns = NS_PER_S}};
    pair_t pair = {.server.echo = true};
    rpc_unfinished_stats_t stats;
    err_t err = {0};
    rig_init(&pair.rig);
    cr_assert_eq(rpc_server_create(pair.rig.runtime, &options, &pair.rig.server, &err), STATUS_OK);
    pair_open(&pair, NULL);
    end_t idle = {0};
    rpc_link_t *waits;
    bool closed = false;
    const rpc_link_options_t beside = {.method = CHAT, .ops = end_ops, .arg = &idle};
    cr_assert_eq(rpc_link_create(pair.rig.client, &beside, &waits, &err), STATUS_OK);
    rig_until(&pair.rig, idle.opens == 1);
    for (int i = 0; i < MESSAGES; i++) {
        rig_until(&pair.rig, pair.client.closes > 0 || pair.client.messages >= i - AHEAD);
        if (pair.client.closes > 0)
            break;
        cr_assert_eq(rpc_stream_send(pair.client.stream, numbered(i, BYTES)), STATUS_OK);
    }
    rig_turn(&pair.rig, NS_PER_S); /* it is looked at five times a second */
    rpc_server_unfinished(pair.rig.server, &stats);
    cr_expect_eq(stats.cut_full, 0);
    cr_expect_leq(stats.bytes, 1 << 20);
    cr_expect_eq(pair.client.closes, 0, "%s", pair.client.text);
    cr_expect_eq(pair.client.messages, MESSAGES);
    cr_expect_eq(idle.closes, 0);
    rpc_link_close(waits, rig_flag, &closed);
    rig_until(&pair.rig, closed);
    pair_dispose(&pair);
}
