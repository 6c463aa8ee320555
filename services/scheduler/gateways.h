/*
 * The stream of a gateway: tasks and cancellations in, catalogue and drops out. Its tasks are cancelled when it
 * goes.
 */
#ifndef SCHEDULER_GATEWAYS_H
#define SCHEDULER_GATEWAYS_H

#include "base/map.h"
#include "base/status.h"
#include "control.pb-c.h"
#include "rpc/stream.h"
#include "scheduler/registry.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct scheduler scheduler_t;
typedef struct task task_t;
typedef struct model_answer model_answer_t;

enum { PEER_ADDRESS_BYTES = 128 };

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
    bool catalogue_due;
    uint64_t catalogue_seen; /* the version that its newest tasks were made with */
    model_answer_t *answers; /* to be sent with the next frame */
    uint64_t tasks_total;
} gateway_t;

extern const rpc_stream_ops_t gateway_stream_ops; /* argument: the scheduler */

/* Tells the gateway with its next frame that one of its tasks has come to nothing. */
void gateway_drop(gateway_t *gateway, uint64_t id, status_t status, Control__Stage stage,
                  uint32_t retry_after_ms);
/* What this turn has for each of them. */
void gateways_flush(scheduler_t *s);

#endif
