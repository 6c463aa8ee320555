/* A gateway as the rooms below its stream see it: whose tasks there are, and what it is to be told at the end of the turn. */
#ifndef CONTROL_CLUSTER_GATEWAY_H
#define CONTROL_CLUSTER_GATEWAY_H

#include "base/map.h"
#include "base/status.h"
#include "control.pb-c.h"
#include "control/cluster/peer.h"
#include "control/cluster/standing.h"

typedef struct task task_t;
typedef struct model_answer model_answer_t;

enum { PEER_ADDRESS_BYTES = 128 };

/* Why one is, for people. */
#define GATEWAY_DISBELIEVED "it misses results of all workers, and other gateways do not"

typedef struct {
    uint64_t *id;
    uint32_t *status, *stage, *retry_after_ms;
    uint32_t count, capacity;
} drops_t;

typedef struct gateway {
    peer_t peer; /* first */
    char data_address[PEER_ADDRESS_BYTES];
    task_t *tasks;
    idmap_t by_id;
    drops_t drops;
    uint64_t *doubts; /* tasks that it is to be asked for */
    uint32_t doubt_count, doubt_capacity;
    bool catalogue_due;
    uint64_t catalogue_seen; /* the version that its newest tasks were made with */
    model_answer_t *answers; /* to be sent with the next frame */
    uint64_t tasks_total;
    uint32_t estimates;  /* sent, and not yet answered by what it refused (Control__Refused) */
    standing_t standing; /* ill: what it misses, or does not have yet, of what workers report done for it */
    bool disbelieved;    /* it misses much, and other gateways do not */
} gateway_t;

/* Tells the gateway with its next frame that one of its tasks has come to nothing. */
void gateway_drop(gateway_t *gateway, uint64_t id, status_t status, Control__Stage stage,
                  uint32_t retry_after_ms);
/* Asks it with its next frame whether it has the result of one of its tasks. */
void gateway_doubt(gateway_t *gateway, uint64_t id);
void gateway_dispose_words(gateway_t *gateway); /* all that it was to be told */

#endif
