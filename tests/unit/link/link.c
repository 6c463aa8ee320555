/* A link behaves the same over gRPC and within a process. */
#include "link/link.h"

#include "base/log.h"
#include "control.pb-c.h"
#include "until.h"

#include <stdio.h>
#include <string.h>

#define METHOD "/fermata.control.v1.Control/Gateway"

enum { HEARD_MAX = 256 };

typedef enum { OVER_RPC, WITHIN, BODIES } body_t;

/* One end's kind, and what it has seen; a message is known by its number. */
typedef struct {
    link_kind_t kind;
    pb_arena_t arena;
    link_t *link; /* NULL: none is open */
    int opens, closes, downs;
    uint64_t heard[HEARD_MAX];
    int heard_count;
    uint64_t counts_to; /* answers a number with the next, up to this */
    bool hearing, heard_while_hearing;
    rpc_code_t code, answer_close; /* answer_close: what it closes with, when it hears something */
    char text[64];
} end_t;

typedef struct {
    loop_t *loop;
    body_t body;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    link_hub_t *hub;
    link_dial_t *dial;
    end_t accepts, dials;
    bool dial_closed, server_stopped;
} rig_t;

static status_t say(link_t *link, uint64_t number)
{
    Control__GatewayToScheduler up = CONTROL__GATEWAY_TO_SCHEDULER__INIT;

    up.epoch = number;
    return link_send(link, &up.base);
}

static void on_opened(link_t *link, void *ctx)
{
    end_t *end = ctx;

    end->link = link;
    end->opens++;
}

static void on_said(link_t *link, void *ctx, const ProtobufCMessage *message)
{
    end_t *end = ctx;
    uint64_t number = ((const Control__GatewayToScheduler *)message)->epoch;

    cr_assert_not_null(message);
    end->heard_while_hearing |= end->hearing;
    end->hearing = true;
    end->heard[end->heard_count++] = number;
    if (number < end->counts_to)
        cr_assert_eq(say(link, number + 1), STATUS_OK);
    if (end->answer_close)
        link_close(link, end->answer_close, "as the test wants");
    end->hearing = false;
}

static void on_closed(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    end_t *end = ctx;

    cr_assert_eq(end->link, link);
    end->link = NULL;
    end->closes++;
    end->code = code;
    snprintf(end->text, sizeof(end->text), "%s", text ? text : "");
}

static void on_down(void *ctx, rpc_code_t code, const char *text)
{
    (void)code, (void)text;
    ((end_t *)ctx)->downs++;
}

static void end_init(end_t *end)
{
    pb_arena_init(&end->arena, 1 << 20);
    end->kind =
        (link_kind_t){.method = METHOD,
                      .hears = &control__gateway_to_scheduler__descriptor,
                      .arena = &end->arena,
                      .ops = {.opened = on_opened, .said = on_said, .closed = on_closed, .down = on_down},
                      .ctx = end};
}

static void rig_accept(rig_t *rig)
{
    const rpc_server_options_t server = {.address = "127.0.0.1:0"};

    if (rig->body == WITHIN) {
        cr_assert_eq(link_accept_within(rig->hub, &rig->accepts.kind), STATUS_OK);
        return;
    }
    cr_assert_eq(rpc_server_create(rig->runtime, &server, &rig->server, NULL), STATUS_OK);
    cr_assert_eq(link_accept(rig->server, &rig->accepts.kind), STATUS_OK);
    cr_assert_eq(rpc_server_start(rig->server, NULL), STATUS_OK);
}

static void rig_dial(rig_t *rig)
{
    const link_via_t via = {.hub = rig->body == WITHIN ? rig->hub : NULL,
                            .rpc = rig->runtime,
                            .address = rig->body == WITHIN ? NULL : rpc_server_address(rig->server)};

    cr_assert_eq(link_dial(&via, &rig->dials.kind, &rig->dial, NULL), STATUS_OK);
}

static void rig_start(rig_t *rig, body_t body)
{
    *rig = (rig_t){.body = body};
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(loop_create(&rig->loop, NULL), STATUS_OK);
    const rpc_runtime_options_t how = {.loop = rig->loop};
    cr_assert_eq(rpc_runtime_create(&how, &rig->runtime, NULL), STATUS_OK);
    cr_assert_eq(link_hub_create(rig->loop, &rig->hub, NULL), STATUS_OK);
    end_init(&rig->accepts);
    end_init(&rig->dials);
}

static void rig_open(rig_t *rig, body_t body)
{
    rig_start(rig, body);
    rig_accept(rig);
    rig_dial(rig);
    loop_until(rig->loop, rig->accepts.link && rig->dials.link);
}

static void raise_flag(void *flag)
{
    *(bool *)flag = true;
}

static void rig_end(rig_t *rig)
{
    if (!rig->dial_closed)
        link_dial_close(rig->dial, raise_flag, &rig->dial_closed);
    loop_until(rig->loop, rig->dial_closed);
    link_dial_destroy(rig->dial);
    if (rig->server) {
        rpc_server_stop(rig->server, 0, raise_flag, &rig->server_stopped);
        loop_until(rig->loop, rig->server_stopped);
        rpc_server_destroy(rig->server);
    }
    cr_assert_eq(rig->accepts.opens, rig->accepts.closes);
    cr_assert_eq(rig->dials.opens, rig->dials.closes);
    rpc_runtime_destroy(rig->runtime);
    link_hub_destroy(rig->hub);
    loop_destroy(rig->loop);
    pb_arena_dispose(&rig->accepts.arena);
    pb_arena_dispose(&rig->dials.arena);
}

#define on_each_body(rig, body) for (body_t body = 0; body < BODIES; body++, rig_end(&(rig)))

Test(link, messages_come_in_order_both_ways)
{
    enum { COUNT = 200 };
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        cr_assert_eq(link_dial_up(rig.dial), rig.dials.link);
        for (uint64_t i = 0; i < COUNT; i++) {
            cr_assert_eq(say(rig.dials.link, i), STATUS_OK);
            cr_assert_eq(say(rig.accepts.link, 1000 + i), STATUS_OK);
        }
        loop_until(rig.loop, rig.accepts.heard_count == COUNT && rig.dials.heard_count == COUNT);
        for (uint64_t i = 0; i < COUNT; i++) {
            cr_assert_eq(rig.accepts.heard[i], i);
            cr_assert_eq(rig.dials.heard[i], 1000 + i);
        }
    }
}

Test(link, whoever_answers_is_not_called_again_before_he_returns)
{
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        rig.accepts.counts_to = rig.dials.counts_to = 10;
        cr_assert_eq(say(rig.dials.link, 0), STATUS_OK);
        loop_until(rig.loop, rig.accepts.heard_count + rig.dials.heard_count == 11);
        cr_assert_not(rig.accepts.heard_while_hearing || rig.dials.heard_while_hearing);
        cr_assert_eq(rig.accepts.heard[5], 10);
        cr_assert_eq(rig.dials.heard[4], 9);
    }
}

Test(link, within_a_process_a_message_is_heard_at_once)
{
    rig_t rig;

    rig_open(&rig, WITHIN);
    cr_assert_eq(say(rig.dials.link, 7), STATUS_OK);
    cr_assert_eq(rig.accepts.heard_count, 1);
    cr_assert_eq(link_pending_bytes(rig.dials.link), 0);
    rig_end(&rig);
}

Test(link, what_was_said_before_an_end_is_heard_and_its_reason_too)
{
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        cr_assert_eq(say(rig.accepts.link, 1), STATUS_OK);
        link_close(rig.accepts.link, RPC_FAILED_PRECONDITION, "go away");
        loop_until(rig.loop, rig.dials.closes == 1 && rig.accepts.closes == 1);
        cr_assert_eq(rig.dials.heard_count, 1);
        cr_assert_eq(rig.dials.code, RPC_FAILED_PRECONDITION);
        cr_assert_str_eq(rig.dials.text, "go away");
        loop_until(rig.loop, rig.dials.opens == 2 && rig.accepts.opens == 2);
        cr_assert_eq(rig.dials.downs, 1);
    }
}

Test(link, an_end_that_closes_while_it_hears)
{
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        rig.accepts.answer_close = RPC_INVALID_ARGUMENT;
        cr_assert_eq(say(rig.dials.link, 1), STATUS_OK);
        loop_until(rig.loop, rig.dials.closes == 1);
        cr_assert_eq(rig.dials.code, RPC_INVALID_ARGUMENT);
        rig.accepts.answer_close = RPC_OK;
        loop_until(rig.loop, rig.dials.opens == 2);
    }
}

Test(link, a_cancelled_link_comes_back)
{
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        link_cancel(rig.dials.link);
        loop_until(rig.loop, rig.dials.closes == 1 && rig.accepts.closes == 1);
        cr_assert_eq(rig.dials.code, RPC_CANCELLED);
        cr_assert_eq(rig.accepts.code, RPC_CANCELLED);
        loop_until(rig.loop, rig.dials.opens == 2);
    }
}

Test(link, a_closing_link_takes_no_message)
{
    rig_t rig;

    rig_open(&rig, WITHIN);
    link_close(rig.accepts.link, RPC_UNAVAILABLE, "");
    cr_assert_eq(say(rig.accepts.link, 1), STATUS_UNAVAILABLE);
    cr_assert_eq(say(rig.dials.link, 1), STATUS_UNAVAILABLE);
    loop_until(rig.loop, rig.dials.closes == 1);
    cr_assert_eq(rig.accepts.heard_count + rig.dials.heard_count, 0);
    rig_end(&rig);
}

Test(link, who_dials_before_anybody_accepts_dials_again)
{
    rig_t rig;

    rig_start(&rig, WITHIN);
    rig_dial(&rig);
    loop_until(rig.loop, rig.dials.downs >= 2);
    cr_assert_null(link_dial_up(rig.dial));
    rig_accept(&rig);
    loop_until(rig.loop, rig.dials.link);
    rig_end(&rig);
}

Test(link, a_dial_is_closed_before_during_and_between_its_links)
{
    rig_t rig;

    rig_start(&rig, WITHIN); /* nothing was tried */
    rig_dial(&rig);
    link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
    rig_end(&rig);

    rig_start(&rig, WITHIN); /* the pause after a try */
    rig_dial(&rig);
    loop_until(rig.loop, rig.dials.downs >= 1);
    link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
    rig_end(&rig);
    cr_assert_eq(rig.dials.opens, 0);

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        cr_assert_eq(say(rig.accepts.link, 1), STATUS_OK);
        link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
        loop_until(rig.loop, rig.dial_closed);
        cr_assert_eq(rig.dials.closes, 1);
    }
}
