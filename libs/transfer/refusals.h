/* What is told and counted of peers that were refused before they had proved themselves (trust.h). */
#ifndef TRANSFER_REFUSALS_H
#define TRANSFER_REFUSALS_H

#include "transfer/transfer.h"

/* from: the other end's, of a sockaddr_storage; why: for people. */
void refusals_note(transfer_stats_t *stats, transfer_refusal_t refusal, const struct sockaddr *from,
                   const char *why);

#endif
