/*
 * What clients ask gateways for: a model loaded or unloaded wherever there is a repository that has it. Each
 * request goes to all workers and is answered when all of them have answered. Cold.
 *
 *   OK          at least one worker did it, the others do not have the model
 *   NOT_FOUND   no worker's repository has it
 *   else        the first failure, with the reason of each worker that failed; others may have done it
 */
#ifndef SCHEDULER_REQUESTS_H
#define SCHEDULER_REQUESTS_H

#include "control.pb-c.h"

typedef struct scheduler scheduler_t;
typedef struct gateway gateway_t;

void request_submit(gateway_t *gateway, const Control__ModelRequest *asked);
void requests_gateway_gone(gateway_t *gateway);
/* The answers that it has not got, into the frame; and once that is sent. */
void requests_put(gateway_t *gateway, Control__SchedulerToGateway *frame);
void requests_sent(gateway_t *gateway);
void requests_dispose(scheduler_t *s);

#endif
