/*
 * What gateways and workers have in common. What a peer says is never trusted: nonsense is answered where it can be, and noted
 * once per peer and kind.
 */
#ifndef CONTROL_CLUSTER_PEER_H
#define CONTROL_CLUSTER_PEER_H

#include "control/cluster/delay.h"
#include "control/cluster/turn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PEERS_MAX = 256,          /* of each kind; a cluster of thousands of devices needs no more processes */
    PEERS_PER_HOST_MAX = 192, /* of each kind: one host cannot fill the table */
    PEER_NAME_BYTES = 64,
};

/* No duration on the wire is believed beyond this: it bounds every sum of times. */
#define DURATION_MOST_NS (INT64_C(3600) * 1000000000)

/* Each kind of nonsense is noted once per peer. */
typedef enum {
    NONSENSE_GARBAGE,
    NONSENSE_EPOCH,
    NONSENSE_ARRAYS,
    NONSENSE_TIME,
    NONSENSE_DUPLICATE,
    NONSENSE_BATCH,
    NONSENSE_DEVICE,
    NONSENSE_MODEL,
    NONSENSE_HELLO,
    NONSENSE_FLOOD,
    NONSENSE_KINDS,
} nonsense_t;

typedef struct peer {
    turn_t *turn;
    void *link;               /* the world's */
    const char *address;      /* as long as the link */
    struct peer *prev, *next; /* among those that have not said hello */
    bool joined;              /* Hello and Welcome were exchanged */
    bool closing;             /* its link is on its way out: nothing more is taken from it */
    uint32_t index;
    uint32_t version;
    uint64_t instance_id, instance_key;
    char name[PEER_NAME_BYTES];
    int64_t heard_ns;
    delay_window_t rtt;
    delay_bounds_t delay;    /* one way, bounds */
    uint32_t complained;     /* bits of nonsense_t */
    bool has_ping, has_pong; /* to be sent with the next frame */
    uint64_t pong_sent_ns;
    int64_t pong_heard_ns;
} peer_t;

void peer_complain(peer_t *peer, nonsense_t kind, const char *detail);
/* Clamps a duration that came over the wire to [0, DURATION_MOST_NS]; complains when it was outside. */
int64_t peer_duration(peer_t *peer, int64_t value_ns);
/* With a reason, after what was sent; or at once, as nothing that it would take reaches it. */
void peer_close(peer_t *peer, close_reason_t why, const char *text);
void peer_cancel(peer_t *peer);
/* Sends a frame; a peer that does not take its messages any more is given up. */
void peer_send(peer_t *peer, const ProtobufCMessage *frame);

#endif
