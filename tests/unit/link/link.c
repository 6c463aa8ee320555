/* A link behaves the same over gRPC, on one loop, and between two loops of a process. */
#include "link/link.h"

#include "base/log.h"
#include "control.pb-c.h"
#include "until.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define METHOD "/fermata.control.v1.Control/Gateway"

enum { HEARD_MAX = 256 };

typedef enum { OVER_RPC, WITHIN, BETWEEN, BODIES } body_t;

/* One end's kind, and what it has seen; a message is known by its number. */
typedef struct {
    link_kind_t kind;
    pb_arena_t arena;
    link_t *link; /* NULL: none is open */
    int opens, closes, downs, rooms;
    uint64_t heard[HEARD_MAX];
    int heard_count;
    uint64_t counts_to; /* answers a number with the next, up to this */
    bool hearing, heard_while_hearing;
    rpc_code_t code, answer_close; /* answer_close: what it closes with, when it hears something */
    char text[64];
} end_t;

typedef struct {
    loop_t *loop;
    loop_t *other; /* between: of who dials */
    body_t body;
    rpc_runtime_t *runtime;
    rpc_server_t *server;
    link_hub_t *hub;
    link_dial_t *dial;
    end_t accepts, dials;
    bool dial_closed, server_stopped;
    int64_t bytes_max; /* of who dials */
} rig_t;

/* Turns the loops of both ends. */
#define rig_until(rig, condition)                     \
    do {                                              \
        const rig_t *rig_ = (rig);                    \
        loop_until(rig_->loop, ({                     \
                       loop_run_once(rig_->other, 0); \
                       condition;                     \
                   }));                               \
    } while (0)

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

static void on_writable(link_t *link, void *ctx)
{
    end_t *end = ctx;

    cr_assert_eq(end->link, link);
    end->rooms++;
}

static void on_down(void *ctx, rpc_code_t code, const char *text)
{
    (void)code, (void)text;
    ((end_t *)ctx)->downs++;
}

static void end_init(end_t *end)
{
    pb_arena_init(&end->arena, 1 << 20);
    end->kind = (link_kind_t){.method = METHOD,
                              .hears = &control__gateway_to_scheduler__descriptor,
                              .arena = &end->arena,
                              .ops = {.opened = on_opened,
                                      .said = on_said,
                                      .writable = on_writable,
                                      .closed = on_closed,
                                      .down = on_down},
                              .ctx = end};
}

static void rig_accept(rig_t *rig)
{
    const rpc_server_options_t server = {.address = "127.0.0.1:0"};

    if (rig->body != OVER_RPC) {
        cr_assert_eq(link_accept_within(rig->hub, &rig->accepts.kind), STATUS_OK);
        return;
    }
    cr_assert_eq(rpc_server_create(rig->runtime, &server, &rig->server, NULL), STATUS_OK);
    cr_assert_eq(link_accept(rig->server, &rig->accepts.kind), STATUS_OK);
    cr_assert_eq(rpc_server_start(rig->server, NULL), STATUS_OK);
}

static void rig_dial(rig_t *rig)
{
    const link_via_t via = {.hub = rig->body != OVER_RPC ? rig->hub : NULL,
                            .loop = rig->body == BETWEEN ? rig->other : NULL,
                            .rpc = rig->runtime,
                            .address = rig->body == OVER_RPC ? rpc_server_address(rig->server) : NULL,
                            .limits = {.send_queue_bytes = rig->bytes_max}};

    cr_assert_eq(link_dial(&via, &rig->dials.kind, &rig->dial, NULL), STATUS_OK);
}

static void rig_start(rig_t *rig, body_t body)
{
    *rig = (rig_t){.body = body};
    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    cr_assert_eq(loop_create(&rig->loop, NULL), STATUS_OK);
    cr_assert_eq(loop_create(&rig->other, NULL), STATUS_OK);
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
    rig_until(rig, rig->accepts.link && rig->dials.link);
}

static void raise_flag(void *flag)
{
    *(bool *)flag = true;
}

static void rig_end(rig_t *rig)
{
    if (!rig->dial_closed)
        link_dial_close(rig->dial, raise_flag, &rig->dial_closed);
    rig_until(rig, rig->dial_closed);
    link_dial_destroy(rig->dial);
    if (rig->server) {
        rpc_server_stop(rig->server, 0, raise_flag, &rig->server_stopped);
        rig_until(rig, rig->server_stopped);
        rpc_server_destroy(rig->server);
    }
    cr_assert_eq(rig->accepts.opens, rig->accepts.closes);
    cr_assert_eq(rig->dials.opens, rig->dials.closes);
    rpc_runtime_destroy(rig->runtime);
    link_hub_destroy(rig->hub);
    loop_destroy(rig->loop);
    loop_destroy(rig->other);
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
        rig_until(&rig, rig.accepts.heard_count == COUNT && rig.dials.heard_count == COUNT);
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
        rig_until(&rig, rig.accepts.heard_count + rig.dials.heard_count == 11);
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
        rig_until(&rig, rig.dials.closes == 1 && rig.accepts.closes == 1);
        cr_assert_eq(rig.dials.heard_count, 1);
        cr_assert_eq(rig.dials.code, RPC_FAILED_PRECONDITION);
        cr_assert_str_eq(rig.dials.text, "go away");
        rig_until(&rig, rig.dials.opens == 2 && rig.accepts.opens == 2);
        if (body == OVER_RPC) /* one for each try, which a busy machine may need more than one of */
            cr_assert_geq(rig.dials.downs, 1);
        else
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
        rig_until(&rig, rig.dials.closes == 1);
        cr_assert_eq(rig.dials.code, RPC_INVALID_ARGUMENT);
        rig.accepts.answer_close = RPC_OK;
        rig_until(&rig, rig.dials.opens == 2);
    }
}

Test(link, a_cancelled_link_comes_back)
{
    rig_t rig;

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        link_cancel(rig.dials.link);
        rig_until(&rig, rig.dials.closes == 1 && rig.accepts.closes == 1);
        cr_assert_eq(rig.dials.code, RPC_CANCELLED);
        cr_assert_eq(rig.accepts.code, RPC_CANCELLED);
        rig_until(&rig, rig.dials.opens == 2);
    }
}

Test(link, a_closing_link_takes_no_message)
{
    rig_t rig;

    rig_open(&rig, BETWEEN);
    link_cancel(rig.dials.link);
    cr_assert_eq(say(rig.dials.link, 1), STATUS_UNAVAILABLE);
    rig_until(&rig, rig.dials.closes == 1);
    rig_end(&rig);

    rig_open(&rig, WITHIN);
    link_close(rig.accepts.link, RPC_UNAVAILABLE, "");
    cr_assert_eq(say(rig.accepts.link, 1), STATUS_UNAVAILABLE);
    cr_assert_eq(say(rig.dials.link, 1), STATUS_UNAVAILABLE);
    rig_until(&rig, rig.dials.closes == 1);
    cr_assert_eq(rig.accepts.heard_count + rig.dials.heard_count, 0);
    rig_end(&rig);
}

Test(link, who_dials_before_anybody_accepts_dials_again)
{
    rig_t rig;

    for (body_t body = WITHIN; body <= BETWEEN; body++) {
        rig_start(&rig, body);
        rig_dial(&rig);
        rig_until(&rig, rig.dials.downs >= 2);
        cr_assert_null(link_dial_up(rig.dial));
        rig_accept(&rig);
        rig_until(&rig, rig.dials.link);
        rig_end(&rig);
    }
}

Test(link, a_dial_is_closed_before_during_and_between_its_links)
{
    rig_t rig;

    for (body_t body = WITHIN; body <= BETWEEN; body++) {
        rig_start(&rig, body); /* nothing was tried */
        rig_dial(&rig);
        link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
        rig_end(&rig);

        rig_start(&rig, body); /* the pause after a try */
        rig_dial(&rig);
        rig_until(&rig, rig.dials.downs >= 1);
        link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
        rig_end(&rig);
        cr_assert_eq(rig.dials.opens, 0);
    }

    on_each_body(rig, body)
    {
        rig_open(&rig, body);
        cr_assert_eq(say(rig.accepts.link, 1), STATUS_OK);
        link_dial_close(rig.dial, raise_flag, &rig.dial_closed);
        rig_until(&rig, rig.dial_closed);
        cr_assert_eq(rig.dials.closes, 1);
    }
}

Test(link, between_loops_what_waits_is_bounded_and_room_is_told)
{
    enum { BYTES_MAX = 100 };
    rig_t rig;
    int sent = 0;

    rig_start(&rig, BETWEEN);
    rig.bytes_max = BYTES_MAX;
    rig_accept(&rig);
    rig_dial(&rig);
    rig_until(&rig, rig.accepts.link && rig.dials.link);
    while (say(rig.dials.link, 1) == STATUS_OK)
        sent++;
    cr_assert_gt(sent, 1);
    cr_assert_gt(link_pending_bytes(rig.dials.link), BYTES_MAX / 2);
    cr_assert_leq(link_pending_bytes(rig.dials.link), BYTES_MAX);
    cr_assert_eq(rig.accepts.heard_count, 0, "its loop has not turned");
    rig_until(&rig, rig.dials.rooms > 0);
    cr_assert_eq(say(rig.dials.link, 2), STATUS_OK);
    rig_until(&rig, rig.accepts.heard_count == sent + 1);
    cr_assert_eq(link_pending_bytes(rig.dials.link), 0);
    rig_end(&rig);
}

/* A room that was wanted and an end that cross. */
Test(link, between_loops_a_full_link_ends)
{
    rig_t rig;

    rig_start(&rig, BETWEEN);
    rig.bytes_max = 100;
    rig_accept(&rig);
    rig_dial(&rig);
    rig_until(&rig, rig.accepts.link && rig.dials.link);
    link_close(rig.accepts.link, RPC_UNAVAILABLE, "full");
    while (say(rig.dials.link, 1) == STATUS_OK)
        continue;
    rig_until(&rig, rig.dials.closes == 1 && rig.accepts.closes == 1);
    cr_assert_eq(rig.dials.code, RPC_UNAVAILABLE);
    cr_assert_eq(rig.dials.rooms, 0);
    rig_end(&rig);
}

/* ---- with a thread for each loop ---- */

enum { TALK = 2000, TALK_BYTES_MAX = 2000 };

/* Who dials says all numbers, as there is room, and hears them back. */
typedef struct {
    loop_t *loop;
    link_hub_t *hub;
    link_kind_t kind;
    pb_arena_t arena;
    link_t *link;
    link_dial_t *dial;
    uint64_t said, heard;
} talker_t;

static void talk(talker_t *talker)
{
    while (talker->link && talker->said < TALK && say(talker->link, talker->said) == STATUS_OK)
        talker->said++;
}

static void talker_opened(link_t *link, void *ctx)
{
    talker_t *talker = ctx;

    talker->link = link;
    talker->said = talker->heard = 0;
    talk(talker);
}

static void talker_writable(link_t *link, void *ctx)
{
    (void)link;
    talk(ctx);
}

static void talker_ended(void *ctx)
{
    loop_stop(((talker_t *)ctx)->loop);
}

static void talker_said(link_t *link, void *ctx, const ProtobufCMessage *message)
{
    talker_t *talker = ctx;

    (void)link;
    cr_assert_eq(((const Control__GatewayToScheduler *)message)->epoch, talker->heard);
    if (++talker->heard == TALK)
        link_dial_close(talker->dial, talker_ended, talker);
}

static void talker_closed(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    (void)link, (void)code, (void)text;
    ((talker_t *)ctx)->link = NULL;
}

static void *talker_run(void *arg)
{
    talker_t *talker = arg;
    const link_via_t via = {
        .hub = talker->hub, .loop = talker->loop, .limits = {.send_queue_bytes = TALK_BYTES_MAX}};

    cr_assert_eq(link_dial(&via, &talker->kind, &talker->dial, NULL), STATUS_OK);
    loop_run(talker->loop);
    link_dial_destroy(talker->dial);
    loop_destroy(talker->loop);
    return NULL;
}

static void echo(link_t *link, void *ctx, const ProtobufCMessage *message)
{
    (void)ctx;
    cr_assert_eq(link_send(link, message), STATUS_OK);
}

static void echo_opened(link_t *link, void *ctx)
{
    (void)link, (void)ctx;
}

static void echo_closed(link_t *link, void *ctx, rpc_code_t code, const char *text)
{
    (void)link, (void)code, (void)text;
    ++*(int *)ctx;
}

Test(link, two_threads_talk_to_a_third)
{
    enum { TALKERS = 2 };
    talker_t talkers[TALKERS] = {0};
    pthread_t threads[TALKERS];
    pb_arena_t arena;
    loop_t *loop;
    link_hub_t *hub;
    int closed = 0;

    log_init("test", LOG_OFF, LOG_FORMAT_TEXT);
    pb_arena_init(&arena, 1 << 20);
    cr_assert_eq(loop_create(&loop, NULL), STATUS_OK);
    cr_assert_eq(link_hub_create(loop, &hub, NULL), STATUS_OK);
    const link_kind_t kind = {.method = METHOD,
                              .hears = &control__gateway_to_scheduler__descriptor,
                              .arena = &arena,
                              .ops = {.opened = echo_opened, .said = echo, .closed = echo_closed},
                              .ctx = &closed};
    cr_assert_eq(link_accept_within(hub, &kind), STATUS_OK);
    for (int i = 0; i < TALKERS; i++) {
        talker_t *talker = &talkers[i];
        pb_arena_init(&talker->arena, 1 << 20);
        cr_assert_eq(loop_create(&talker->loop, NULL), STATUS_OK);
        talker->hub = hub;
        talker->kind = (link_kind_t){.method = METHOD,
                                     .hears = &control__gateway_to_scheduler__descriptor,
                                     .arena = &talker->arena,
                                     .ops = {.opened = talker_opened,
                                             .said = talker_said,
                                             .writable = talker_writable,
                                             .closed = talker_closed},
                                     .ctx = talker};
        pthread_create(&threads[i], NULL, talker_run, talker);
    }
    loop_until(loop, closed == TALKERS);
    for (int i = 0; i < TALKERS; i++) {
        pthread_join(threads[i], NULL);
        cr_assert_eq(talkers[i].heard, TALK);
        pb_arena_dispose(&talkers[i].arena);
    }
    link_hub_destroy(hub);
    loop_destroy(loop);
    pb_arena_dispose(&arena);
}
