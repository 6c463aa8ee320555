/* What is told and counted of peers that were refused before they had proved themselves (trust.h), or for whom there is no place. */
#ifndef TRANSFER_REFUSALS_H
#define TRANSFER_REFUSALS_H

#include "transfer/transfer.h"

/* from: the other end's, of a sockaddr_storage; why: for people. */
void refusals_note(transfer_stats_t *stats, transfer_refusal_t refusal, const struct sockaddr *from,
                   const char *why);

/* One of so many connections was told to leave because another needs its place. */
void refusals_crowded(const struct sockaddr *of, uint32_t connections);

#endif
