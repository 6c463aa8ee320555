/*
 * What clients ask gateways for: a model loaded or unloaded wherever there is a repository that has it. Each
 * request goes to all workers and is answered when all of them have answered. Cold.
 *
 *   OK          at least one worker did it, the others do not have the model
 *   NOT_FOUND   no worker's repository has it
 *   else        the first failure, with the reason of each worker that failed; others may have done it
 *
 * OK goes once every gateway has said that it has the catalogue which shows what was done, or a second later.
 */
#ifndef CONTROL_PEERS_REQUESTS_H
#define CONTROL_PEERS_REQUESTS_H

#include "control/peers/registry.h"

void request_submit(peers_t *peers, gateway_t *gateway, const Control__ModelRequest *asked);
void requests_gateway_gone(const peers_t *peers, gateway_t *gateway);
/* The answers that are to go to it, into the frame; and once that is sent. */
void requests_put(const peers_t *peers, const gateway_t *gateway, Control__SchedulerToGateway *frame);
void requests_sent(gateway_t *gateway);
void requests_dispose(peers_t *peers);

#endif
