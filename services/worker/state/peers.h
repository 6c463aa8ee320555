/*
 * The gateways, as the scheduler numbers them, and the data-plane connection to each. A gateway is one instance of one
 * process: it keeps its connection when a new scheduler numbers it otherwise. Loop thread.
 */
#ifndef WORKER_PEERS_H
#define WORKER_PEERS_H

#include "loop/loop.h"
#include "transfer/transfer.h"
#include "worker/state/breaker.h"

typedef struct peers peers_t;

/* One gateway. Batches that talk to it hold it. */
typedef struct peer {
    struct peer *next;
    uint64_t instance_id;
    char address[TRANSFER_ADDRESS_BYTES];
    transfer_owner_t *here;    /* it is in this process; else NULL */
    transfer_peer_t *transfer; /* NULL: it is here, or after peers_disconnect */
    breaker_t breaker;         /* of fetches */
    int64_t answered_ns;       /* when it last answered one; 0 = never */
    uint32_t refs;             /* table entries and batches */
} peer_t;

enum { PEERS_MAX = 4096 }; /* indices a scheduler may use; it reuses those of gateways that left */

/* The data planes of the gateways of this process, each on a loop of its own or on ours. */
typedef struct {
    loop_t *loop; /* ours */
    transfer_owner_t *const *owners;
    uint32_t count;
} peers_here_t;

/* here: NULL: no gateway is in this process. */
status_t peers_create(transfer_pool_t *pool, const peers_here_t *here, peers_t **peers, err_t *err);
/* All batches must have let go. */
void peers_destroy(peers_t *peers);

/* The scheduler says: index is this gateway now. */
status_t peers_set(peers_t *peers, uint32_t index, uint64_t instance_id, const char *address, err_t *err);
void peers_remove(peers_t *peers, uint32_t index);
/* Another scheduler: its numbers mean something else. The connections stay until the next time. */
void peers_clear(peers_t *peers);

/* Hands results to a gateway of this process. True: it is over. False: done is to come. */
bool peers_hand(peers_t *peers, transfer_handover_t *handover);
/* What was handed over came to its end. */
void peers_handed(peers_t *peers);
/* Turns the loop until no gateway of this process has results in hand. */
void peers_settle(peers_t *peers);

/* Others have answered since it fell silent: it is not this worker that cannot reach anybody. */
bool peers_only_it_is_silent(const peers_t *peers, const peer_t *peer);

/* Closes all connections: whatever is under way fails now. Nothing can be asked of a peer after this. */
void peers_disconnect(peers_t *peers);

/* Of the pool that they belong to. */
void peers_stats(const peers_t *peers, transfer_stats_t *stats);

/* Holds it until peer_release; NULL: no such index. */
peer_t *peers_hold(peers_t *peers, uint32_t index);
void peer_release(peers_t *peers, peer_t *peer);

#endif
