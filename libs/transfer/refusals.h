/* What is told and counted of peers that were refused before they had proved themselves (trust.h). */
#ifndef TRANSFER_REFUSALS_H
#define TRANSFER_REFUSALS_H

#include "transfer/transfer.h"

/* One line a second at most, with how many were left out. All zero is a fresh one. */
typedef struct {
    uint64_t logged_ns, left_out;
} refusals_t;

/* from: the other end's, of a sockaddr_storage; why: for people. */
void refusals_note(refusals_t *refusals, transfer_stats_t *stats, transfer_refusal_t refusal,
                   const struct sockaddr *from, const char *why);

#endif
