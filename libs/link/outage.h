/*
 * Why a dialled link is not up, for people. It is tried again for ever, and each new reason is told once until the other end has been found
 * good: that it cannot be reached, whatever gRPC says of that, and what an end that can be has said last. Thread of the dialling end's loop.
 */
#ifndef LINK_OUTAGE_H
#define LINK_OUTAGE_H

#include "link/link.h"

enum { OUTAGE_TEXT_BYTES = 200 };

typedef struct {
    bool told_unreachable;
    rpc_code_t told_code;
    char told_text[OUTAGE_TEXT_BYTES];
    rpc_code_t refused; /* what this end has against the other, for which it has cancelled; RPC_OK: nothing */
    char refusal[OUTAGE_TEXT_BYTES];
} outage_t;

/* Cancels the link; what is told of its end is this and not that it was cancelled. */
void outage_refuse(outage_t *outage, link_t *link, rpc_code_t code, const char *text);
/* In closed and in down: puts the reason in their place. True: it is news. */
bool outage_explain(outage_t *outage, rpc_code_t *code, const char **text);
/* In opened: what was refused was another link. */
void outage_try(outage_t *outage);
/* The other end is as it should be. */
void outage_over(outage_t *outage);

#endif
