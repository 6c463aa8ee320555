#include "worker/state/peers.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct peers {
    transfer_pool_t *pool;
    peers_here_t here;
    mailbox_t back;  /* of what gateways on other loops have taken */
    uint32_t handed; /* to them, and not yet back */
    peer_t *all;     /* every one that is held by somebody */
    peer_t *table[PEERS_MAX];
    peer_t *former
        [PEERS_MAX]; /* of the last scheduler: keeps connections until the new one has named its gateways */
};

status_t peers_create(transfer_pool_t *pool, const peers_here_t *here, peers_t **out, err_t *err)
{
    peers_t *peers = calloc(1, sizeof(*peers));

    if (!peers)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    peers->pool = pool;
    if (here)
        peers->here = *here;
    status_t status =
        here ? mailbox_init(&peers->back, here->loop, transfer_handed_over, NULL, err) : STATUS_OK;
    if (status != STATUS_OK) {
        free(peers);
        return status;
    }
    *out = peers;
    return STATUS_OK;
}

/* NULL: it is elsewhere. */
static transfer_owner_t *owner_of(const peers_t *peers, uint64_t instance_id)
{
    for (uint32_t i = 0; i < peers->here.count; i++) {
        if (transfer_owner_instance(peers->here.owners[i]) == instance_id)
            return peers->here.owners[i];
    }
    return NULL;
}

void peer_release(peers_t *peers, peer_t *peer)
{
    if (--peer->refs > 0)
        return;
    for (peer_t **at = &peers->all; *at; at = &(*at)->next) {
        if (*at == peer) {
            *at = peer->next;
            break;
        }
    }
    transfer_peer_close(peer->transfer);
    free(peer);
}

static peer_t *peers_find(const peers_t *peers, uint64_t instance_id, const char *address)
{
    for (peer_t *peer = peers->all; peer; peer = peer->next) {
        if ((peer->transfer || peer->here) && peer->instance_id == instance_id &&
            strcmp(peer->address, address) == 0)
            return peer;
    }
    return NULL;
}

static status_t peers_open(peers_t *peers, uint64_t instance_id, const char *address, peer_t **out,
                           err_t *err)
{
    peer_t *peer = calloc(1, sizeof(*peer));

    if (!peer)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    peer->here = owner_of(peers, instance_id);
    status_t status =
        peer->here ? STATUS_OK : transfer_peer_open(peers->pool, address, instance_id, &peer->transfer, err);
    if (status != STATUS_OK) {
        free(peer);
        return status;
    }
    peer->instance_id = instance_id;
    snprintf(peer->address, sizeof(peer->address), "%s", address);
    peer->next = peers->all;
    peers->all = peer;
    if (peer->transfer)
        transfer_peer_connect(peer->transfer); /* the first batch shall not wait for it */
    *out = peer;
    return STATUS_OK;
}

status_t peers_set(peers_t *peers, uint32_t index, uint64_t instance_id, const char *address, err_t *err)
{
    if (index >= PEERS_MAX)
        return err_set(err, STATUS_TOO_LARGE, "gateway index %u is beyond %d", index, PEERS_MAX);
    peer_t *peer = peers_find(peers, instance_id, address);
    if (!peer) {
        status_t status = peers_open(peers, instance_id, address, &peer, err);
        if (status != STATUS_OK)
            return status;
    }
    peer->refs++;
    peers_remove(peers, index);
    peers->table[index] = peer;
    return STATUS_OK;
}

void peers_remove(peers_t *peers, uint32_t index)
{
    if (index >= PEERS_MAX || !peers->table[index])
        return;
    peer_t *peer = peers->table[index];
    peers->table[index] = NULL;
    peer_release(peers, peer);
}

void peers_clear(peers_t *peers)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        peer_t *old = peers->former[i];
        peers->former[i] = peers->table[i];
        peers->table[i] = NULL;
        if (old)
            peer_release(peers, old);
    }
}

bool peers_hand(peers_t *peers, transfer_handover_t *handover)
{
    peers->handed++;
    if (!transfer_hand(handover, &peers->back))
        return false;
    peers->handed--;
    return true;
}

void peers_handed(peers_t *peers)
{
    peers->handed--;
}

void peers_settle(peers_t *peers)
{
    while (peers->handed > 0)
        loop_run_once(peers->here.loop, NS_PER_MS);
}

bool peers_only_it_is_silent(const peers_t *peers, const peer_t *peer)
{
    if (peer->breaker.silences == 0)
        return false;
    for (const peer_t *other = peers->all; other; other = other->next) {
        if (other != peer && other->answered_ns > peer->breaker.silent_since_ns)
            return true;
    }
    return false;
}

void peers_disconnect(peers_t *peers)
{
    /* Callbacks may release any peer: begin again after each. */
    for (peer_t *peer = peers->all; peer;) {
        transfer_peer_t *transfer = peer->transfer;
        if (!transfer) {
            peer = peer->next;
            continue;
        }
        peer->transfer = NULL;
        transfer_peer_close(transfer);
        peer = peers->all;
    }
}

peer_t *peers_hold(peers_t *peers, uint32_t index)
{
    peer_t *peer = index < PEERS_MAX ? peers->table[index] : NULL;

    if (peer)
        peer->refs++;
    return peer;
}

void peers_stats(const peers_t *peers, transfer_stats_t *stats)
{
    transfer_pool_stats(peers->pool, stats);
}

void peers_destroy(peers_t *peers)
{
    if (!peers)
        return;
    peers_clear(peers);
    peers_clear(peers);
    if (peers->here.loop)
        mailbox_dispose(&peers->back);
    free(peers);
}
