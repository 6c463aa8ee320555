/* Who has joined, by index. NULL: nobody. */
#ifndef CONTROL_CLUSTER_ROSTER_H
#define CONTROL_CLUSTER_ROSTER_H

#include "control/cluster/gateway.h"
#include "control/cluster/worker.h"

typedef struct {
    gateway_t *gateways[PEERS_MAX];
    worker_t *workers[PEERS_MAX];
} roster_t;

static inline uint32_t roster_gateways(const roster_t *roster)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        count += roster->gateways[i] ? 1 : 0;
    return count;
}

/* Every gateway has said that it has this version of the catalogue; one whose link is being closed sends nothing more. */
static inline bool roster_knows(const roster_t *roster, uint64_t catalogue)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        const gateway_t *gateway = roster->gateways[i];
        if (gateway && !gateway->peer.closing && gateway->catalogue_seen < catalogue)
            return false;
    }
    return true;
}

/* NULL: that process has left. */
static inline worker_t *roster_worker(const roster_t *roster, uint64_t instance_id)
{
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        if (roster->workers[i] && roster->workers[i]->peer.instance_id == instance_id)
            return roster->workers[i];
    return NULL;
}

static inline uint32_t roster_workers(const roster_t *roster)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < PEERS_MAX; i++)
        count += roster->workers[i] ? 1 : 0;
    return count;
}

#endif
