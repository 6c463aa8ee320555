#include "virtual/network.h"

#include "base/hash.h"
#include "sim/events.h"

#include <stdlib.h>
#include <string.h>

typedef enum {
    EV_TIMER,
    EV_OPEN,
    EV_TO_SERVER,
    EV_TO_CLIENT,
    EV_CLOSE_SERVER,
    EV_CLOSE_CLIENT,
    EV_END
} kind_t;

struct network {
    network_options_t options;
    events_t events;
    prng_t prng;
    int64_t now_ns;
    uint64_t digest;
    link_t *links; /* all that are not free */
};

/* Told in refs: each end that has not heard of its end, and each event under way. */
struct link {
    network_t *network;
    link_t *prev, *next;
    const link_ops_t *client, *server; /* NULL: that end hears nothing any more */
    void *client_arg, *server_arg, *peer;
    bool opened, broken, ending;
    uint32_t refs;
    int64_t to_server_ns, to_client_ns; /* when the last one sent that way arrives */
};

typedef struct {
    link_t *link;
    size_t len_bytes;
    uint8_t bytes[];
} message_t;

static void *need(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

/* ---- Time ---- */

status_t network_create(const network_options_t *options, network_t **out, err_t *err)
{
    network_t *network = calloc(1, sizeof(*network));

    if (!network)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a network");
    network->options = *options;
    prng_init(&network->prng, options->seed);
    status_t status = events_init(&network->events, err);
    if (status != STATUS_OK) {
        free(network);
        return status;
    }
    *out = network;
    return STATUS_OK;
}

int64_t network_now_ns(const network_t *network)
{
    return network->now_ns;
}

prng_t *network_prng(network_t *network)
{
    return &network->prng;
}

uint64_t network_digest(const network_t *network)
{
    return network->digest;
}

static void add(network_t *network, int64_t at_ns, kind_t kind, void *what)
{
    events_add(&network->events, at_ns > network->now_ns ? at_ns : network->now_ns, kind, 0, (intptr_t)what);
    if (network->events.exhausted)
        abort();
}

void network_timer_start(network_t *network, network_timer_t *timer, int64_t at_ns)
{
    if (timer->due_ns == at_ns)
        return;
    timer->due_ns = at_ns > network->now_ns ? at_ns : network->now_ns;
    if (at_ns != NETWORK_NEVER)
        add(network, timer->due_ns, EV_TIMER, timer);
}

static int64_t delay_ns(network_t *network)
{
    const network_options_t *options = &network->options;

    return options->delay_ns + (options->jitter_ns ? prng_range(&network->prng, 0, options->jitter_ns) : 0);
}

static void digest(network_t *network, uint64_t value)
{
    network->digest = hash_word(network->digest, value);
}

static void digest_message(network_t *network, kind_t kind, const message_t *message)
{
    uint64_t word;
    size_t at = 0;

    digest(network, (uint64_t)network->now_ns);
    digest(network, (uint64_t)kind << 32 | message->len_bytes);
    for (; at + sizeof(word) <= message->len_bytes; at += sizeof(word)) {
        memcpy(&word, message->bytes + at, sizeof(word));
        digest(network, word);
    }
    for (; at < message->len_bytes; at++)
        digest(network, message->bytes[at]);
}

/* ---- Links ---- */

link_t *network_connect(network_t *network, const link_ops_t *client, void *client_arg,
                        const link_ops_t *server, void *server_arg)
{
    link_t *link = need(calloc(1, sizeof(*link)));

    *link = (link_t){.network = network,
                     .next = network->links,
                     .client = client,
                     .client_arg = client_arg,
                     .server = server,
                     .server_arg = server_arg,
                     .refs = 3};
    if (network->links)
        network->links->prev = link;
    network->links = link;
    link->to_server_ns = network->now_ns + delay_ns(network);
    add(network, link->to_server_ns, EV_OPEN, link);
    return link;
}

/* Not inlined: the compiler cannot know that who unrefs twice held two. */
__attribute__((noinline)) static void unref(link_t *link)
{
    if (--link->refs > 0)
        return;
    if (link->prev)
        link->prev->next = link->next;
    else
        link->network->links = link->next;
    if (link->next)
        link->next->prev = link->prev;
    free(link);
}

static void link_event(link_t *link, int64_t at_ns, kind_t kind)
{
    link->refs++;
    add(link->network, at_ns, kind, link);
}

/* Behind what was sent that way before. */
static int64_t arrival_ns(network_t *network, int64_t *last_ns)
{
    int64_t at_ns = network->now_ns + delay_ns(network);

    *last_ns = at_ns > *last_ns ? at_ns : *last_ns;
    return *last_ns;
}

static size_t send(link_t *link, kind_t kind, int64_t *last_ns, const ProtobufCMessage *content)
{
    if (link->broken || link->ending)
        return 0;
    size_t len_bytes = protobuf_c_message_get_packed_size(content);
    message_t *message = need(malloc(sizeof(*message) + len_bytes));
    message->link = link;
    message->len_bytes = protobuf_c_message_pack(content, message->bytes);
    link->refs++;
    add(link->network, arrival_ns(link->network, last_ns), kind, message);
    return len_bytes;
}

size_t link_to_server(link_t *link, const ProtobufCMessage *message)
{
    return send(link, EV_TO_SERVER, &link->to_server_ns, message);
}

size_t link_to_client(link_t *link, const ProtobufCMessage *message)
{
    return send(link, EV_TO_CLIENT, &link->to_client_ns, message);
}

void link_end(link_t *link)
{
    if (link->broken || link->ending)
        return;
    link->ending = true;
    link_event(link, arrival_ns(link->network, &link->to_client_ns), EV_END);
}

void link_break(link_t *link)
{
    if (link->broken)
        return;
    link->broken = true;
    link_event(link, link->network->now_ns + delay_ns(link->network), EV_CLOSE_CLIENT);
    link_event(link, link->network->now_ns + delay_ns(link->network), EV_CLOSE_SERVER);
}

static void forget(link_t *link, const link_ops_t **end)
{
    if (!*end)
        return;
    *end = NULL;
    unref(link);
}

void link_abandon(link_t *link)
{
    link_break(link);
    forget(link, &link->client);
}

void link_orphan(link_t *link)
{
    link_break(link);
    forget(link, &link->server);
}

void link_set_peer(link_t *link, void *peer)
{
    link->peer = peer;
}

void *link_peer(const link_t *link)
{
    return link->peer;
}

/* ---- What happens ---- */

static void close_end(link_t *link, const link_ops_t **end, void *arg)
{
    const link_ops_t *ops = *end;

    if (!ops)
        return;
    *end = NULL;
    ops->closed(arg, link);
    unref(link);
}

static void deliver(network_t *network, kind_t kind, message_t *message)
{
    link_t *link = message->link;
    const link_ops_t *ops = kind == EV_TO_SERVER ? link->server : link->client;

    if (!link->broken && ops) {
        digest_message(network, kind, message);
        ops->message(kind == EV_TO_SERVER ? link->server_arg : link->client_arg, link, message->bytes,
                     message->len_bytes);
    }
    free(message);
    unref(link);
}

static void on_link(link_t *link, kind_t kind)
{
    if (kind == EV_OPEN && link->server && !link->broken) {
        link->opened = true;
        link->server->opened(link->server_arg, link);
    }
    if (kind == EV_CLOSE_SERVER && !link->opened)
        forget(link, &link->server); /* it never heard of it */
    else if (kind == EV_CLOSE_SERVER || (kind == EV_END && !link->broken))
        close_end(link, &link->server, link->server_arg);
    if (kind == EV_CLOSE_CLIENT || (kind == EV_END && !link->broken))
        close_end(link, &link->client, link->client_arg);
    link->broken |= kind == EV_END;
    unref(link);
}

static void on_timer(network_t *network, network_timer_t *timer)
{
    if (timer->due_ns != network->now_ns)
        return; /* it was started anew */
    timer->due_ns = NETWORK_NEVER;
    timer->fire(timer->arg);
}

void network_run(network_t *network, int64_t until_ns)
{
    while (events_next_ns(&network->events) <= until_ns) {
        event_t event = events_pop(&network->events);
        void *what = (void *)(intptr_t)event.payload;
        network->now_ns = event.at_ns;
        if (event.kind == EV_TIMER)
            on_timer(network, what);
        else if (event.kind == EV_TO_SERVER || event.kind == EV_TO_CLIENT)
            deliver(network, event.kind, what);
        else
            on_link(what, event.kind);
    }
    network->now_ns = until_ns;
}

void network_destroy(network_t *network)
{
    if (!network)
        return;
    while (network->events.len > 0) {
        event_t event = events_pop(&network->events);
        if (event.kind == EV_TO_SERVER || event.kind == EV_TO_CLIENT)
            free((void *)(intptr_t)event.payload);
    }
    while (network->links) {
        link_t *next = network->links->next;
        free(network->links);
        network->links = next;
    }
    events_dispose(&network->events);
    free(network);
}
