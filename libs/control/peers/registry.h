/*
 * Who is connected: what gateways and workers have in common as peers. Joining, versions, epochs, pings, time-outs.
 *
 * A peer belongs to its link and is freed when that has closed; until it has said hello it is one of the strangers.
 */
#ifndef CONTROL_PEERS_REGISTRY_H
#define CONTROL_PEERS_REGISTRY_H

#include "control/tasks/task.h"

typedef struct model_request model_request_t;

typedef struct {
    turn_t *turn;
    roster_t *roster;
    models_t *models;
    tasks_t *tasks;
    uint32_t streams;  /* open, joined or not */
    peer_t *strangers; /* open and not joined */
    int64_t ticked_ns; /* when registry_tick ran last; 0: never */
    int64_t began_ns;  /* when our first epoch was now */
    int64_t raised_ns; /* when the first of `raises` raised the epoch */
    uint32_t raises;
    model_request_t *requests; /* requests.h */
    uint32_t request_count;
} peers_t;

/* A new peer for a link that has just opened: zeroed memory of so many bytes that begins with a peer_t. NULL: the link is being
 * closed, with the reason. */
void *peer_open(peers_t *peers, void *link, const char *address, size_t size_bytes, const char *kind);
void peer_closed(peers_t *peers, peer_t *peer); /* the last thing before its memory goes */
/* What it sent is no message. */
void peer_unreadable(peer_t *peer);
/* Checks Hello, chooses the version and an index in table; false: the link is being closed. */
bool peer_join(peers_t *peers, peer_t *peer, const Control__Hello *hello, void **table, const char *kind);

/* Once it has joined for good and before its Welcome: the Hello came with the newest epoch that the peer has ever seen. Ours must be
 * newer, or a clock that was set back would make all peers deaf to us. Who had joined before is sent away, and joins again.
 * False: that cannot be so (more than a day ahead of the clock), or not again so soon; the link is being closed. */
bool peer_outgrow_epoch(peers_t *peers, peer_t *peer, uint64_t seen);

/* What every frame begins with. */
typedef struct {
    uint64_t epoch;
    const Control__Hello *hello;
    const Control__Ping *ping;
    const Control__Pong *pong;
} frame_head_t;
typedef void (*peer_join_fn)(peers_t *peers, peer_t *peer, const frame_head_t *head); /* with a hello */
/* False: the rest of the frame is not to be looked at. */
bool peer_begin(peers_t *peers, peer_t *peer, const frame_head_t *head, peer_join_fn join);
Control__Welcome peer_welcome(const peer_t *peer);

/* Every ping interval: pings, time-outs, delay bounds. */
void registry_tick(peers_t *peers);
/* All are told that the scheduler stops. */
void registry_stop(peers_t *peers);

#endif
