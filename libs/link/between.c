/*
 * A link between two loops of a process: two ends in one pair, each touched by the thread of its loop only, but for the atomics. What one
 * has for the other goes as an event through the mailbox of the other's loop, which keeps the order.
 *
 *   dials                     accepts
 *     │ ──────── OPEN ────────▶ │ opened
 *     │ opened ◀── OPENED ───── │
 *     │ ◀──────── SAID ───────▶ │      ROOM: the other has heard so much that more may be sent
 *     │ ────────  END ────────▶ │ closed
 *     │ closed ◀── END ──────── │      each sends one, by itself or in answer; the pair is freed behind the later closed
 */
#include "link/hub.h"
#include "link/redial.h"
#include "rpc/pb.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ACCEPTS = 0, DIALS = 1, TEXT_BYTES = 256 };
static const size_t SEND_QUEUE_BYTES = 8 << 20; /* where the dialling end names none */

typedef struct pair pair_t;
typedef struct between_dial between_dial_t;

typedef enum { EVENT_OPEN, EVENT_OPENED, EVENT_SAID, EVENT_ROOM, EVENT_END } event_kind_t;

typedef struct {
    mailbox_node_t node;
    event_kind_t kind;
    pair_t *pair;
    int to;
    rpc_bytes_t *bytes; /* EVENT_SAID, which is freed when it was heard; the others lie in the pair */
} event_t;

typedef struct {
    link_t link;
    pair_t *pair;
    mailbox_t *mailbox; /* of its loop */
    size_t bytes_max;
    bool opened, deaf; /* deaf: it has cancelled */
    bool end_said;     /* its END is on its way; what follows is not changed any more: */
    bool cancelled;
    rpc_code_t code;
    char text[TEXT_BYTES];
    atomic_size_t waiting_bytes; /* said by it, and not heard yet */
    atomic_bool wants_room, room_on_its_way;
    event_t room, end; /* to it: ROOM; from it: END */
} between_end_t;

struct pair {
    between_end_t end[2];
    between_dial_t *dial; /* of the dialling end's loop */
    event_t open, opened;
    atomic_int refs; /* ends that have not closed, and ROOM events under way */
};

struct between_dial {
    link_dial_t dial;
    link_hub_t *hub;
    size_t bytes_max;
    pair_t *pair; /* NULL: between two */
    mailbox_t mailbox;
    redial_t redial;
};

static int which(const between_end_t *end)
{
    return end == &end->pair->end[DIALS] ? DIALS : ACCEPTS;
}

static between_end_t *other(const between_end_t *end)
{
    return &end->pair->end[which(end) == DIALS ? ACCEPTS : DIALS];
}

static void post(event_t *event, event_kind_t kind, between_end_t *to)
{
    event->kind = kind;
    event->pair = to->pair;
    event->to = which(to);
    mailbox_post(to->mailbox, &event->node);
}

/* ---- either end ---- */

static link_frame_t pack(const link_t *link, const ProtobufCMessage *message)
{
    (void)link;
    rpc_bytes_t *bytes = rpc_pack(message);
    return (link_frame_t){.bytes = bytes, .len_bytes = bytes ? rpc_bytes_len(bytes) : 0};
}

/* Who makes room and who wants it may meet: whoever takes the wish away tells of it. The event holds the pair, as what an end posts to
 * itself may come behind the other's END. */
static void tell_room(between_end_t *end)
{
    if (atomic_load(&end->waiting_bytes) > end->bytes_max / 2 || !atomic_exchange(&end->wants_room, false) ||
        atomic_exchange(&end->room_on_its_way, true))
        return;
    atomic_fetch_add_explicit(&end->pair->refs, 1, memory_order_relaxed);
    post(&end->room, EVENT_ROOM, end);
}

static void want_room(between_end_t *end)
{
    atomic_store(&end->wants_room, true);
    tell_room(end);
}

static status_t put(link_t *link, link_frame_t frame)
{
    between_end_t *end = (between_end_t *)link;
    size_t waiting = atomic_load(&end->waiting_bytes);
    bool closed = !end->opened || end->end_said, full = waiting + frame.len_bytes > end->bytes_max;
    event_t *event = frame.bytes && !closed && !full ? calloc(1, sizeof(*event)) : NULL;

    if (!event) {
        rpc_bytes_free(frame.bytes);
        if (!closed)
            want_room(end);
        return closed ? STATUS_UNAVAILABLE : STATUS_NO_MEMORY;
    }
    event->bytes = frame.bytes;
    atomic_fetch_add(&end->waiting_bytes, frame.len_bytes);
    post(event, EVENT_SAID, other(end));
    if (waiting + frame.len_bytes > end->bytes_max / 2)
        want_room(end);
    return STATUS_OK;
}

static size_t pending_bytes(const link_t *link)
{
    return atomic_load(&((const between_end_t *)link)->waiting_bytes);
}

static const char *peer(const link_t *link)
{
    (void)link;
    return "this process";
}

static void say_end(between_end_t *end, rpc_code_t code, const char *text, bool cancelled)
{
    end->deaf |= cancelled;
    if (end->end_said)
        return;
    end->end_said = true;
    end->cancelled = cancelled;
    end->code = code;
    snprintf(end->text, sizeof(end->text), "%s", text ? text : "");
    post(&end->end, EVENT_END, other(end));
}

static void close_end(link_t *link, rpc_code_t code, const char *text)
{
    between_end_t *end = (between_end_t *)link;
    bool accepts = which(end) == ACCEPTS;

    say_end(end, accepts ? code : RPC_OK, accepts ? text : "", false);
}

static void cancel(link_t *link)
{
    say_end((between_end_t *)link, RPC_CANCELLED, "cancelled", true);
}

static const link_body_t body = {.pack = pack,
                                 .put = put,
                                 .pending_bytes = pending_bytes,
                                 .close = close_end,
                                 .cancel = cancel,
                                 .peer = peer};

/* ---- what has come ---- */

static void end_opened(between_end_t *end)
{
    end->opened = true;
    end->link.kind->ops.opened(&end->link, end->link.ctx);
}

/* Nobody may accept: then it is as if the end had been told at once. */
static void on_open(between_end_t *accepts)
{
    if (!accepts->link.kind) {
        say_end(accepts, RPC_UNAVAILABLE, "nobody accepts it", false);
        return;
    }
    post(&accepts->pair->opened, EVENT_OPENED, other(accepts));
    end_opened(accepts);
}

static void on_opened(between_end_t *dials)
{
    if (dials->end_said) /* it was given up meanwhile */
        return;
    redial_opened(&dials->pair->dial->redial);
    end_opened(dials);
}

/* Who said it may only be told of room while it is sure to be there still: until it has our END. */
static void on_said(between_end_t *end, rpc_bytes_t *bytes)
{
    between_end_t *from = other(end);
    size_t len_bytes = rpc_bytes_len(bytes);

    if (end->opened && !end->deaf)
        link_hear(&end->link, bytes);
    atomic_fetch_sub(&from->waiting_bytes, len_bytes);
    if (!end->end_said)
        tell_room(from);
}

static void pair_release(pair_t *pair)
{
    if (atomic_fetch_sub_explicit(&pair->refs, 1, memory_order_acq_rel) == 1)
        free(pair);
}

static void on_room(between_end_t *end)
{
    const link_ops_t *ops = &end->link.kind->ops;

    atomic_store(&end->room_on_its_way, false);
    if (end->opened && !end->end_said && ops->writable)
        ops->writable(&end->link, end->link.ctx);
    pair_release(end->pair);
}

static void tell_closed(between_end_t *end)
{
    const between_end_t *accepts = &end->pair->end[ACCEPTS], *from = other(end);
    bool cancelled = end->deaf || from->cancelled;
    rpc_code_t code = which(end) == DIALS ? accepts->code : RPC_OK;
    const char *text = which(end) == DIALS ? accepts->text : "";

    end->link.kind->ops.closed(&end->link, end->link.ctx, cancelled ? RPC_CANCELLED : code, text);
}

static void on_end(between_end_t *end)
{
    pair_t *pair = end->pair;
    between_dial_t *dial = which(end) == DIALS ? pair->dial : NULL;

    say_end(end, RPC_OK, "", false);
    if (end->opened)
        tell_closed(end);
    pair_release(pair);
    if (dial) {
        dial->pair = NULL;
        redial_ended(&dial->redial);
    }
}

static void hear(event_t *event)
{
    between_end_t *end = &event->pair->end[event->to];

    switch (event->kind) {
    case EVENT_OPEN:
        on_open(end);
        break;
    case EVENT_OPENED:
        on_opened(end);
        break;
    case EVENT_SAID:
        on_said(end, event->bytes);
        rpc_bytes_free(event->bytes);
        free(event);
        break;
    case EVENT_ROOM:
        on_room(end);
        break;
    case EVENT_END:
        on_end(end);
        break;
    }
}

void between_deliver(void *arg, mailbox_node_t *first)
{
    mailbox_node_t *next;

    (void)arg;
    for (; first; first = next) {
        next = first->next;
        hear(CONTAINER_OF(first, event_t, node));
    }
}

/* ---- who dials ---- */

static void end_init(pair_t *pair, int at, const link_kind_t *kind, mailbox_t *mailbox, size_t bytes_max)
{
    between_end_t *end = &pair->end[at];

    end->link = (link_t){.body = &body, .kind = kind, .ctx = kind ? kind->ctx : NULL};
    end->pair = pair;
    end->mailbox = mailbox;
    end->bytes_max = bytes_max;
}

static bool dial_try(void *arg)
{
    between_dial_t *dial = arg;
    pair_t *pair = calloc(1, sizeof(*pair));

    if (!pair)
        return false;
    end_init(pair, ACCEPTS, hub_find(dial->hub, dial->dial.kind->method), &dial->hub->mailbox,
             LINK_BETWEEN_BYTES_MAX);
    end_init(pair, DIALS, dial->dial.kind, &dial->mailbox, dial->bytes_max);
    atomic_init(&pair->refs, 2);
    pair->dial = dial;
    dial->pair = pair;
    post(&pair->open, EVENT_OPEN, &pair->end[ACCEPTS]);
    return true;
}

static link_t *dial_up(const link_dial_t *dial)
{
    pair_t *pair = ((const between_dial_t *)dial)->pair;

    return pair && pair->end[DIALS].opened ? &pair->end[DIALS].link : NULL;
}

static void dial_close(link_dial_t *dial, void (*on_closed)(void *arg), void *arg)
{
    between_dial_t *of = (between_dial_t *)dial;
    pair_t *pair = of->pair;

    redial_close(&of->redial, pair, on_closed, arg);
    if (pair)
        cancel(&pair->end[DIALS].link);
}

static void dial_destroy(link_dial_t *dial)
{
    mailbox_dispose(&((between_dial_t *)dial)->mailbox);
    free(dial);
}

status_t dial_between(const link_via_t *via, const link_kind_t *kind, link_dial_t **out, err_t *err)
{
    static const dial_body_t dial_body = {.up = dial_up, .close = dial_close, .destroy = dial_destroy};
    between_dial_t *dial = calloc(1, sizeof(*dial));

    if (!dial)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a link");
    dial->dial = (link_dial_t){.body = &dial_body, .kind = kind};
    dial->hub = via->hub;
    dial->bytes_max =
        via->limits.send_queue_bytes > 0 ? (size_t)via->limits.send_queue_bytes : SEND_QUEUE_BYTES;
    dial->redial = (redial_t){.kind = kind, .attempt = dial_try, .dial = dial};
    status_t status = mailbox_init(&dial->mailbox, via->loop, between_deliver, NULL, err);
    if (status != STATUS_OK) {
        free(dial);
        return status;
    }
    status = redial_start(&dial->redial, via->loop, err);
    if (status != STATUS_OK) {
        dial_destroy(&dial->dial);
        return status;
    }
    *out = &dial->dial;
    return STATUS_OK;
}
