/*
 * A gateway on a virtual network, as the scheduler sees one: it submits tasks with deadlines, keeps those that it could not send
 * for the next stream, takes drops and results, and answers each task once, at the latest a little after its deadline.
 */
#ifndef VIRTUAL_GATEWAY_H
#define VIRTUAL_GATEWAY_H

#include "control.pb-c.h"
#include "virtual/network.h"
#include "virtual/scheduler.h"

typedef struct virtual_gateway virtual_gateway_t;

/* How a task ended. Answers are what a client got; lost ones went with their gateway. */
typedef enum {
    TASK_OPEN,
    TASK_GOOD,
    TASK_DROPPED,
    TASK_REFUSED, /* by the gateway itself, for what the scheduler has told ahead */
    TASK_FAILED,
    TASK_EXPIRED,
    TASK_CANCELLED,
    TASK_LOST,
    TASK_ENDS
} task_end_t;

typedef struct {
    network_t *network;
    virtual_scheduler_t *scheduler;
    uint32_t open_max;              /* requests that are open at once; more end the process */
    const char *const *model_names; /* models as the cluster numbers them */
    uint32_t model_count;
    bool deaf;     /* no result ever comes, it says */
    bool heedless; /* it sends every task, whatever the scheduler has told ahead */
    void (*ended)(void *ctx, uint64_t task, task_end_t end);
    void *ctx;
} virtual_gateway_options_t;

virtual_gateway_t *virtual_gateway_create(const virtual_gateway_options_t *options); /* connects */
void virtual_gateway_destroy(virtual_gateway_t *gateway);

/* What a client wants: one row, of one task. */
typedef struct {
    uint64_t task; /* unique in the cluster */
    uint32_t model, priority;
    int64_t budget_ns;
} virtual_ask_t;

void virtual_gateway_submit(virtual_gateway_t *gateway, const virtual_ask_t *ask);
/* The client has gone. Nothing happens where the task has ended. */
void virtual_gateway_cancel(virtual_gateway_t *gateway, uint64_t task);
/* A worker's result has come, for the instance that asked. */
void virtual_gateway_result(virtual_gateway_t *gateway, uint64_t instance_id, uint64_t task, bool failed);
/* Asks for a model to be loaded or unloaded; false: there is no stream, or one is under way. */
bool virtual_gateway_ask(virtual_gateway_t *gateway, bool load, uint32_t model);

/* Tasks and bytes that it has sent to the scheduler. */
uint64_t virtual_gateway_tasks_sent(const virtual_gateway_t *gateway);
uint64_t virtual_gateway_bytes_sent(const virtual_gateway_t *gateway);
uint64_t virtual_gateway_instance(const virtual_gateway_t *gateway);
uint64_t virtual_gateway_some_task(const virtual_gateway_t *gateway); /* 0: none is open */
void virtual_gateway_break(virtual_gateway_t *gateway);               /* its stream; it comes again */
void virtual_gateway_crash(virtual_gateway_t *gateway); /* and another instance comes in its place */

#endif
