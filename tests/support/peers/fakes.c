#include "peers/fake_private.h"

#include "until.h"

#include <stdio.h>

void fake_init(fake_t *fake, const struct fake_ops *ops, fakes_t *fakes, uint64_t instance_id)
{
    fake->fakes = fakes;
    fake->ops = ops;
    control__hello__init(&fake->hello);
    fake->hello.min_version = fake->hello.max_version = 1;
    fake->hello.instance_id = instance_id;
    pb_arena_init(&fake->arena, 64 << 20);
}

/* The first place that holds `old` holds `new` from now on. */
static void replace(fakes_t *fakes, const fake_t *old, fake_t *new)
{
    uint32_t i = 0;
    while (i < FAKES_MAX && fakes->all[i] != old)
        i++;
    cr_assert_lt(i, FAKES_MAX);
    fakes->all[i] = new;
}

void fake_connect(fake_t *fake)
{
    err_t err = {0};
    rpc_client_options_t options = {.address = fake->fakes->address,
                                    .limits = {.send_queue_bytes = 64 << 20}};
    cr_assert_eq(rpc_client_create(fake->fakes->runtime, &options, &fake->client, &err), STATUS_OK, "%s",
                 err.text);
    rpc_link_options_t link = {.method = fake->ops->method, .ops = fake->ops->stream, .arg = fake};
    cr_assert_eq(rpc_link_create(fake->client, &link, &fake->link, &err), STATUS_OK, "%s", err.text);
    replace(fake->fakes, NULL, fake);
    fake->closed = false;
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

void fake_kill(fake_t *fake)
{
    rpc_link_close(fake->link, set_flag, &fake->closed);
    loop_until(fake->fakes->loop, fake->closed);
    rpc_client_destroy(fake->client);
    replace(fake->fakes, fake, NULL);
    pb_arena_dispose(&fake->arena);
    fake->link = NULL;
    fake->client = NULL;
}

void fake_opened(fake_t *fake, rpc_stream_t *stream)
{
    fake->stream = stream;
    fake->heard = fake->fakes->pinged; /* what was sent before is lost, and nobody waits for it */
}

void fake_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    (void)stream;
    fake_t *fake = arg;
    fake->closes++;
    fake->code = code;
    fake->stream = NULL;
    (void)snprintf(fake->text, sizeof fake->text, "%s", text);
}

static void fake_pinged(fake_t *fake, const Control__Ping *ping)
{
    Control__Pong pong = CONTROL__PONG__INIT;
    fake->pings++;
    pong.sent_ns = ping->sent_ns;
    if (!fake->silent)
        fake->ops->send(fake, NULL, &pong);
}

void fake_heard(fake_t *fake, uint64_t epoch, const Control__Welcome *welcome, const Control__Ping *ping,
                const Control__Pong *pong)
{
    fake->epoch = epoch;
    if (ping)
        fake_pinged(fake, ping);
    if (pong)
        fake->heard = pong->sent_ns;
    if (!welcome)
        return;
    fake->welcomes++;
    fake->index = welcome->peer_index;
    fake->scheduler_id = welcome->scheduler_id;
    cr_expect_eq(welcome->version, 1);
    cr_expect_gt(welcome->ping_interval_ns, 0);
}

/* ---- The barrier ---- */

static bool all_heard(const fakes_t *fakes, uint64_t serial)
{
    for (uint32_t i = 0; i < FAKES_MAX; i++)
        if (fakes->all[i] && fakes->all[i]->stream && fakes->all[i]->heard != serial)
            return false;
    return true;
}

void fakes_ping(fakes_t *fakes)
{
    Control__Ping ping = CONTROL__PING__INIT;
    ping.sent_ns = ++fakes->pinged;
    for (uint32_t i = 0; i < FAKES_MAX; i++)
        if (fakes->all[i] && fakes->all[i]->stream)
            fakes->all[i]->ops->send(fakes->all[i], &ping, NULL);
    loop_until(fakes->loop, all_heard(fakes, ping.sent_ns));
}
