/*
 * A link on one loop: two ends in one pair, and a hub that hears for them in the next turn what cannot be heard at once.
 *
 *   pair: WAITING ─open─▶ OPEN ─link_close, link_cancel─▶ ENDING ─end─▶ freed
 *
 * What is to come of a pair waits in the hub's queue, in order; its end is the last.
 */
#include "link/hub.h"
#include "link/redial.h"
#include "rpc/pb.h"

#include <stdio.h>
#include <stdlib.h>

enum { ACCEPTS = 0, DIALS = 1, TEXT_BYTES = 256 };

typedef struct pair pair_t;
typedef struct within_dial within_dial_t;

typedef struct {
    link_t link;
    pair_t *pair;
} within_end_t;

typedef enum { WAITING, OPEN, ENDING } pair_state_t;

struct pair {
    link_hub_t *hub;
    within_dial_t *dial;
    within_end_t end[2];
    pair_state_t state;
    bool opened, cancelled;
    rpc_code_t code; /* of the end */
    char text[TEXT_BYTES];
};

typedef enum { EVENT_OPEN, EVENT_SAID, EVENT_END } event_kind_t;

typedef struct event {
    struct event *next;
    event_kind_t kind;
    pair_t *pair;
    int to; /* EVENT_SAID */
    rpc_bytes_t *bytes;
} event_t;

struct within_dial {
    link_dial_t dial;
    link_hub_t *hub;
    pair_t *pair; /* NULL: between two */
    redial_t redial;
};

/* ---- the queue ---- */

static void on_idle(uv_idle_t *idle);

/* The loop does not sleep before its next turn. */
static void hub_stir(link_hub_t *hub)
{
    (void)uv_idle_start(&hub->idle, on_idle);
}

static bool hub_post(link_hub_t *hub, event_t what)
{
    event_t *event = malloc(sizeof(*event));

    if (!event)
        return false;
    *event = what;
    *hub->last = event;
    hub->last = &event->next;
    hub_stir(hub);
    return true;
}

/* ---- either end ---- */

static link_frame_t pack(const link_t *link, const ProtobufCMessage *message)
{
    (void)link;
    return (link_frame_t){.message = message};
}

static status_t put_later(pair_t *pair, int to, const ProtobufCMessage *message)
{
    rpc_bytes_t *bytes = rpc_pack(message);

    if (bytes && hub_post(pair->hub, (event_t){.kind = EVENT_SAID, .pair = pair, .to = to, .bytes = bytes}))
        return STATUS_OK;
    rpc_bytes_free(bytes);
    return STATUS_NO_MEMORY;
}

/* A pair that has something in the queue has an order to keep. */
static bool is_awaited(const link_hub_t *hub, const pair_t *pair)
{
    const event_t *event = hub->first;

    while (event && event->pair != pair)
        event = event->next;
    return event;
}

static status_t put(link_t *link, link_frame_t frame)
{
    within_end_t *end = (within_end_t *)link;
    pair_t *pair = end->pair;
    link_hub_t *hub = pair->hub;
    int to = end == &pair->end[ACCEPTS] ? DIALS : ACCEPTS;
    link_t *other = &pair->end[to].link;

    if (pair->state != OPEN)
        return STATUS_UNAVAILABLE;
    if (hub->hearing > 0 || is_awaited(hub, pair))
        return put_later(pair, to, frame.message);
    hub->hearing++;
    other->kind->ops.said(other, other->ctx, frame.message);
    hub->hearing--;
    hub_stir(hub);
    return STATUS_OK;
}

static size_t pending_bytes(const link_t *link)
{
    (void)link;
    return 0;
}

static const char *peer(const link_t *link)
{
    (void)link;
    return "this process";
}

static void pair_end(pair_t *pair, rpc_code_t code, const char *text, bool cancelled)
{
    pair->cancelled |= cancelled;
    if (pair->state == ENDING)
        return;
    pair->state = ENDING;
    pair->code = code;
    snprintf(pair->text, sizeof(pair->text), "%s", text ? text : "");
    if (!hub_post(pair->hub, (event_t){.kind = EVENT_END, .pair = pair}))
        abort(); /* no memory for 48 bytes */
}

static void close_end(link_t *link, rpc_code_t code, const char *text)
{
    within_end_t *end = (within_end_t *)link;
    bool accepts = end == &end->pair->end[ACCEPTS];

    pair_end(end->pair, accepts ? code : RPC_OK, accepts ? text : "", false);
}

static void cancel(link_t *link)
{
    pair_end(((within_end_t *)link)->pair, RPC_CANCELLED, "cancelled", true);
}

static const link_body_t body = {.pack = pack,
                                 .put = put,
                                 .pending_bytes = pending_bytes,
                                 .close = close_end,
                                 .cancel = cancel,
                                 .peer = peer};

/* ---- what is due ---- */

static void tell_open(pair_t *pair)
{
    if (pair->state != WAITING)
        return;
    pair->state = OPEN;
    pair->opened = true;
    redial_opened(&pair->dial->redial);
    for (int i = ACCEPTS; i <= DIALS; i++)
        pair->end[i].link.kind->ops.opened(&pair->end[i].link, pair->end[i].link.ctx);
}

static void tell_said(const event_t *event)
{
    if (!event->pair->cancelled)
        link_hear(&event->pair->end[event->to].link, event->bytes);
}

static void tell_end(pair_t *pair)
{
    within_dial_t *dial = pair->dial;
    link_t *accepts = &pair->end[ACCEPTS].link, *dials = &pair->end[DIALS].link;

    if (pair->opened) {
        accepts->kind->ops.closed(accepts, accepts->ctx, pair->cancelled ? RPC_CANCELLED : RPC_OK, "");
        dials->kind->ops.closed(dials, dials->ctx, pair->code, pair->text);
    }
    dial->pair = NULL;
    free(pair);
    redial_ended(&dial->redial);
}

static void hear(event_t *event)
{
    switch (event->kind) {
    case EVENT_OPEN:
        tell_open(event->pair);
        break;
    case EVENT_SAID:
        tell_said(event);
        break;
    case EVENT_END:
        tell_end(event->pair);
        break;
    }
}

/* What is posted meanwhile is due in the next turn. */
static void on_idle(uv_idle_t *idle)
{
    link_hub_t *hub = idle->data;
    event_t *event = hub->first, *next;

    (void)uv_idle_stop(idle);
    hub->first = NULL;
    hub->last = &hub->first;
    hub->hearing++;
    for (; event; event = next) {
        next = event->next;
        hear(event);
        rpc_bytes_free(event->bytes);
        free(event);
        hub_stir(hub);
    }
    hub->hearing--;
}

/* ---- who dials ---- */

static void end_init(pair_t *pair, int which, const link_kind_t *kind)
{
    pair->end[which] = (within_end_t){.link = {.body = &body, .kind = kind, .ctx = kind->ctx}, .pair = pair};
}

static bool dial_try(void *arg)
{
    within_dial_t *dial = arg;
    const link_kind_t *accepts = hub_find(dial->hub, dial->dial.kind->method);
    pair_t *pair = accepts ? calloc(1, sizeof(*pair)) : NULL;

    if (!pair)
        return false;
    pair->hub = dial->hub;
    pair->dial = dial;
    end_init(pair, ACCEPTS, accepts);
    end_init(pair, DIALS, dial->dial.kind);
    if (!hub_post(dial->hub, (event_t){.kind = EVENT_OPEN, .pair = pair})) {
        free(pair);
        return false;
    }
    dial->pair = pair;
    return true;
}

static link_t *dial_up(const link_dial_t *dial)
{
    pair_t *pair = ((const within_dial_t *)dial)->pair;

    return pair && pair->opened ? &pair->end[DIALS].link : NULL;
}

static void dial_close(link_dial_t *dial, void (*on_closed)(void *arg), void *arg)
{
    within_dial_t *of = (within_dial_t *)dial;
    pair_t *pair = of->pair;

    redial_close(&of->redial, pair, on_closed, arg);
    if (pair)
        cancel(&pair->end[DIALS].link);
}

static void dial_destroy(link_dial_t *dial)
{
    free(dial);
}

status_t dial_within(link_hub_t *hub, const link_kind_t *kind, link_dial_t **out, err_t *err)
{
    static const dial_body_t dial_body = {.up = dial_up, .close = dial_close, .destroy = dial_destroy};
    within_dial_t *dial = calloc(1, sizeof(*dial));

    if (!dial)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a link");
    *dial = (within_dial_t){.dial = {.body = &dial_body, .kind = kind},
                            .hub = hub,
                            .redial = {.kind = kind, .attempt = dial_try, .dial = dial}};
    status_t status = redial_start(&dial->redial, hub->loop, err);
    if (status != STATUS_OK) {
        free(dial);
        return status;
    }
    *out = &dial->dial;
    return STATUS_OK;
}
