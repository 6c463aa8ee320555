/*
 * The stream of a gateway: tasks and cancellations in, catalogue and drops out. Its tasks are cancelled when it
 * goes.
 */
#ifndef CONTROL_PEERS_GATEWAYS_H
#define CONTROL_PEERS_GATEWAYS_H

#include "control/peers/registry.h"

/* NULL: the link is being closed, and nothing more is to be said of it. */
gateway_t *gateway_open(peers_t *peers, void *link, const char *address);
void gateway_said(peers_t *peers, gateway_t *gateway, const Control__GatewayToScheduler *frame);
/* Its memory goes. */
void gateway_closed(peers_t *peers, gateway_t *gateway, const char *code, const char *text);

/* What this turn has for each of them. */
void gateways_flush(peers_t *peers);

#endif
