/* A link keeps a stream up: servers that come late, restart, or refuse. */
#include "support.h"

#include <stdio.h>
#include <time.h>

#define CHAT "/test.Chat/Chat"

enum { PAUSES = 5 };

typedef struct {
    rig_t rig;
    rpc_link_t *link;
    int ups, downs, connectings, closes, opens, server_opens, refusals;
    rpc_code_t code;
    char text[128], address[64];
    int64_t down_ns, up_ns;
    int64_t pause_ns[PAUSES]; /* from each refusal to the begin of the next try; 0: none yet */
} life_t;

static void on_state(rpc_link_t *link, void *arg, rpc_link_state_t state, rpc_code_t code, const char *text)
{
    (void)link;
    life_t *life = arg;
    if (state == RPC_LINK_CONNECTING) {
        if (life->refusals > 0 && life->refusals <= PAUSES && life->code == RPC_UNIMPLEMENTED)
            life->pause_ns[life->refusals - 1] = clock_now_ns() - life->down_ns;
        life->connectings++;
    }
    if (state == RPC_LINK_UP) {
        life->ups++;
        life->up_ns = clock_now_ns();
    }
    if (state == RPC_LINK_DOWN) {
        life->downs++;
        life->refusals += code == RPC_UNIMPLEMENTED;
        life->code = code;
        life->down_ns = clock_now_ns();
        strncpy(life->text, text, sizeof life->text - 1);
    }
}

static void client_open(rpc_stream_t *stream, void *arg)
{
    life_t *life = arg;
    life->opens++;
    cr_expect_eq(rpc_link_stream(life->link), stream);
}

static void client_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    (void)code;
    (void)text;
    ((life_t *)arg)->closes++;
}

static void server_open(rpc_stream_t *stream, void *arg)
{
    (void)stream;
    ((life_t *)arg)->server_opens++;
}

static const rpc_stream_ops_t client_ops = {.on_open = client_open, .on_close = client_close};
static const rpc_stream_ops_t server_ops = {.on_open = server_open};

static void life_serve(life_t *life, const char *address, bool with_method)
{
    rig_server(&life->rig, address, NULL);
    if (with_method)
        cr_assert_eq(rpc_server_add_stream(life->rig.server, CHAT, &server_ops, life), STATUS_OK);
    rig_serve(&life->rig);
    (void)snprintf(life->address, sizeof life->address, "%s", rpc_server_address(life->rig.server));
}

static void life_begin(life_t *life, bool with_method)
{
    rig_init(&life->rig);
    life_serve(life, NULL, with_method); /* whose address is a free one */
    rig_client(&life->rig, NULL);
}

static void life_link(life_t *life)
{
    err_t err = {0};
    rpc_link_options_t options = {.method = CHAT, .ops = client_ops, .on_state = on_state, .arg = life};
    cr_assert_eq(rpc_link_create(life->rig.client, &options, &life->link, &err), STATUS_OK);
}

static void life_end(life_t *life)
{
    bool closed = false;
    rpc_link_close(life->link, rig_flag, &closed);
    rig_until(&life->rig, closed);
    rig_dispose(&life->rig);
    cr_expect_eq(life->closes, life->opens);
}

Test(link, comes_back_after_the_server_restarts)
{
    life_t life = {0};
    int64_t shortest_ns = INT64_MAX; /* a busy host can be late once, not each time */
    life_begin(&life, true);
    life_link(&life);
    rig_until(&life.rig, life.ups == 1 && life.server_opens == 1);
    for (int round = 2; round <= 4; round++) {
        rig_stop_server(&life.rig, 0);
        rig_until(&life.rig, life.downs >= 1 && rpc_link_stream(life.link) == NULL);
        life_serve(&life, life.address, true);
        int64_t served_ns = clock_now_ns();
        rig_until(&life.rig, life.ups == round && life.server_opens == round);
        shortest_ns = life.up_ns - served_ns < shortest_ns ? life.up_ns - served_ns : shortest_ns;
    }
    cr_expect_lt(shortest_ns, 1500 * NS_PER_MS, "took %ld ms", (long)(shortest_ns / NS_PER_MS));
    life_end(&life);
}

Test(link, server_comes_late)
{
    life_t life = {0};
    life_begin(&life, true);
    rig_stop_server(&life.rig, 0);
    life_link(&life);
    rig_until(&life.rig, life.downs >= 1);
    cr_expect_eq(life.code, RPC_UNAVAILABLE);
    cr_expect(strstr(life.text, life.address) != NULL, "%s", life.text);
    cr_expect_eq(life.opens, 0);
    life_serve(&life, life.address, true);
    rig_until(&life.rig, life.ups == 1);
    life_end(&life);
}

Test(link, a_short_outage_is_over_within_50_ms)
{
    life_t life = {0};
    life_begin(&life, true);
    life_link(&life);
    rig_until(&life.rig, life.ups == 1);
    int64_t outage_ns = INT64_MAX;
    for (int ups = 2; ups <= 6 && outage_ns >= 50 * NS_PER_MS;
         ups++) {                              /* a busy host can be late, not each time */
        rig_turn(&life.rig, 1100 * NS_PER_MS); /* long enough up to start the backoff anew */
        rpc_stream_cancel(rpc_link_stream(life.link));
        rig_until(&life.rig, life.ups == ups);
        outage_ns = life.up_ns - life.down_ns;
    }
    cr_expect_lt(outage_ns, 50 * NS_PER_MS, "took %ld us", (long)(outage_ns / NS_PER_US));
    life_end(&life);
}

Test(link, refusals_are_met_with_growing_pauses)
{
    life_t life = {0};
    life_begin(&life, false);
    life_link(&life);
    rig_until(&life.rig, life.pause_ns[PAUSES - 1] != 0);
    for (int i = 0; i < PAUSES; i++) /* 20, 40, 80, 160, 320 ms, and a quarter more or less */
        cr_expect_geq(life.pause_ns[i], 15 * NS_PER_MS << i, "%d: %ld us", i,
                      (long)(life.pause_ns[i] / NS_PER_US));
    life_end(&life);
}

/* The refusal and the tick that would have gone on trying are both there when the thread comes to it. */
Test(link, a_refusal_that_is_heard_late_is_met_with_a_pause_as_well)
{
    life_t life = {0};
    life_begin(&life, false);
    life_link(&life);
    rig_until(&life.rig, life.pause_ns[0] != 0);
    nanosleep(&(struct timespec){.tv_nsec = 300 * NS_PER_MS}, NULL);
    rig_until(&life.rig, life.pause_ns[1] != 0);
    cr_expect_geq(life.pause_ns[1], 30 * NS_PER_MS, "%ld us", (long)(life.pause_ns[1] / NS_PER_US));
    life_end(&life);
}

Test(link, close_while_nobody_answers)
{
    life_t life = {0};
    life_begin(&life, true);
    rig_stop_server(&life.rig, 0);
    life_link(&life);
    rig_until(&life.rig, life.connectings == 1);
    life_end(&life);
}

Test(link, close_at_once)
{
    life_t life = {0};
    life_begin(&life, true);
    life_link(&life);
    life_end(&life);
}
