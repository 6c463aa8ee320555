/*
 * All of a link happens on the delivery thread. What comes from elsewhere (creation, close, the timer) only makes it
 * tick: the timer fires on the completion-queue thread and schedules the link.
 *
 *   CONNECTING --opened--> UP --ended--> DOWN --tick--> CONNECTING
 *       | ended                           ^
 *       +---------------------------------+
 *
 * While it is CONNECTING it ticks too: every tick makes gRPC try the connection again at once, so that the link's
 * backoff is the only one.
 */
#include "base/clock.h"
#include "base/prng.h"
#include "rpc/client_internal.h"
#include "rpc/stream_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* A stream that stayed up so long was a good one: its end starts the backoff anew. */
#define LINK_STEADY_NS NS_PER_S

struct rpc_link {
    rpc_actor_t actor;
    rpc_client_t *client;
    rpc_queue_t *queue;
    rpc_link_options_t options;
    prng_t prng;
    rpc_timer_t timer;

    pthread_mutex_t lock; /* armed, tick, close_wanted, actor.scheduled */
    unsigned armed;       /* timers that will fire or are firing; the link lives as long as there are any */
    bool tick, close_wanted;
    void (*on_closed)(void *arg);
    void *on_closed_arg;

    /* Delivery thread only. */
    rpc_link_state_t state;
    rpc_stream_t *connecting; /* not open yet */
    rpc_stream_t *stream;     /* open */
    bool told_down, cancelled;
    int64_t backoff_ns, up_since_ns;
};

static void link_set_state(rpc_link_t *link, rpc_link_state_t state, rpc_code_t code, const char *text)
{
    link->state = state;
    if (link->options.on_state)
        link->options.on_state(link, link->options.arg, state, code, text);
}

/* ---- Ticks ---- */

static void link_arm(rpc_link_t *link, int64_t at_ns)
{
    pthread_mutex_lock(&link->lock);
    link->armed += !rpc_timer_stop(link->queue, &link->timer);
    rpc_timer_start(link->queue, &link->timer, at_ns);
    pthread_mutex_unlock(&link->lock);
}

static void link_disarm(rpc_link_t *link)
{
    pthread_mutex_lock(&link->lock);
    link->armed -= rpc_timer_stop(link->queue, &link->timer);
    pthread_mutex_unlock(&link->lock);
}

static void on_timer(rpc_timer_t *timer)
{
    rpc_link_t *link = container_of(timer, rpc_link_t, timer);
    pthread_mutex_lock(&link->lock);
    link->armed--;
    link->tick = true;
    bool post = rpc_actor_mark(&link->actor);
    pthread_mutex_unlock(&link->lock);
    if (post)
        rpc_actor_post(link->client->runtime, &link->actor);
}

static void link_back_off(rpc_link_t *link)
{
    int64_t quarter_ns = link->backoff_ns / 4;
    link_arm(link, clock_now_ns() + link->backoff_ns + prng_range(&link->prng, -quarter_ns, quarter_ns));
    link->backoff_ns *= 2;
    if (link->backoff_ns > RPC_LINK_BACKOFF_MAX_NS)
        link->backoff_ns = RPC_LINK_BACKOFF_MAX_NS;
}

/* ---- The stream of the moment ---- */

static void on_stream_opened(void *owner, rpc_stream_t *stream)
{
    rpc_link_t *link = owner;
    link_disarm(link);
    link->connecting = NULL;
    link->stream = stream;
    link->up_since_ns = clock_now_ns();
    link->told_down = false;
    link_set_state(link, RPC_LINK_UP, RPC_OK, "");
}

static void on_stream_ended(void *owner, rpc_stream_t *stream, rpc_code_t code, const char *text)
{
    (void)stream;
    rpc_link_t *link = owner;
    bool steady = link->stream && clock_now_ns() - link->up_since_ns >= LINK_STEADY_NS;
    link->stream = link->connecting = NULL;
    if (steady)
        link->backoff_ns = RPC_LINK_BACKOFF_MIN_NS;
    link->told_down = true;
    link_set_state(link, RPC_LINK_DOWN, code, text);
    if (link->cancelled)
        link_arm(link, clock_now_ns());
    else
        link_back_off(link);
}

static void link_connect(rpc_link_t *link)
{
    link_set_state(link, RPC_LINK_CONNECTING, RPC_OK, "");
    rpc_client_renew(link->client);
    grpc_call *call = grpc_channel_create_call(
        link->client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, link->queue->cq,
        grpc_slice_from_static_string(link->options.method), NULL, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    rpc_stream_init_t init = {
        .queue = link->queue,
        .ops = &link->options.ops,
        .arg = link->options.arg,
        .send_limit_bytes = rpc_send_queue_bytes(&link->client->limits),
        .owner = {.opened = on_stream_opened, .ended = on_stream_ended, .owner = link},
    };
    grpc_channel_reset_connect_backoff(link->client->channel);
    link->connecting = rpc_stream_connect(&init, call);
    link_back_off(link);
}

static void link_keep_trying(rpc_link_t *link)
{
    if (rpc_client_is_stale(
            link->client)) /* what it waits for may be refused for what it showed: it ends, and the next shows what is there */
        rpc_stream_cancel(link->connecting);
    grpc_channel_reset_connect_backoff(link->client->channel);
    if (!link->told_down) {
        link->told_down = true;
        char text[RPC_TEXT_BYTES];
        (void)snprintf(text, sizeof text, "no gRPC server answers at %.200s", link->client->address);
        link_set_state(link, RPC_LINK_DOWN, RPC_UNAVAILABLE, text);
    }
    link_back_off(link);
}

/* ---- The link ---- */

static void link_free(rpc_link_t *link)
{
    rpc_client_t *client = link->client;
    void (*on_closed)(void *arg) = link->on_closed;
    void *arg = link->on_closed_arg;
    link_set_state(link, RPC_LINK_CLOSED, RPC_OK, "");
    pthread_mutex_destroy(&link->lock);
    free(link);
    pthread_mutex_lock(&client->lock);
    client->alive--;
    pthread_mutex_unlock(&client->lock);
    if (on_closed)
        on_closed(arg);
}

/* On every tick after rpc_link_close: first the stream must end, then the last timer. */
static void link_wind_up(rpc_link_t *link)
{
    rpc_stream_t *stream = link->stream ? link->stream : link->connecting;
    if (stream) {
        if (!link->cancelled)
            rpc_stream_cancel(stream);
        link->cancelled = true;
        return;
    }
    link_disarm(link);
    pthread_mutex_lock(&link->lock);
    bool last = link->armed == 0 && !link->actor.scheduled;
    pthread_mutex_unlock(&link->lock);
    if (last)
        link_free(link);
}

static void link_deliver(rpc_actor_t *actor)
{
    rpc_link_t *link = container_of(actor, rpc_link_t, actor);
    pthread_mutex_lock(&link->lock);
    actor->scheduled = false;
    bool tick = link->tick && link->armed == 0; /* else it is from before the timer was set anew */
    bool closing = link->close_wanted;
    link->tick = false;
    pthread_mutex_unlock(&link->lock);
    if (closing)
        link_wind_up(link);
    else if (tick && link->connecting)
        link_keep_trying(link);
    else if (tick && !link->stream)
        link_connect(link);
}

status_t rpc_link_create(rpc_client_t *client, const rpc_link_options_t *options, rpc_link_t **out,
                         err_t *err)
{
    rpc_link_t *link = calloc(1, sizeof *link);
    if (!link)
        return err_set(err, STATUS_NO_MEMORY, "rpc: no memory");
    link->actor.deliver = link_deliver;
    link->client = client;
    link->queue = rpc_runtime_pick(client->runtime);
    link->options = *options;
    link->timer.fire = on_timer;
    link->backoff_ns = RPC_LINK_BACKOFF_MIN_NS;
    link->state = RPC_LINK_DOWN;
    /* Only to spread reconnections; nothing needs to be repeatable here. */
    prng_init(&link->prng, (uint64_t)clock_now_ns() ^ (uint64_t)(uintptr_t)link);
    pthread_mutex_init(&link->lock, NULL);
    pthread_mutex_lock(&client->lock);
    client->alive++;
    pthread_mutex_unlock(&client->lock);
    *out = link;
    link_arm(link, clock_now_ns());
    return STATUS_OK;
}

rpc_stream_t *rpc_link_stream(rpc_link_t *link)
{
    return link->stream;
}

void rpc_link_close(rpc_link_t *link, void (*on_closed)(void *arg), void *arg)
{
    pthread_mutex_lock(&link->lock);
    link->close_wanted = true;
    link->on_closed = on_closed;
    link->on_closed_arg = arg;
    pthread_mutex_unlock(&link->lock);
    link_arm(link, clock_now_ns());
}
