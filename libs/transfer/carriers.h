/* Which carriers there are. */
#ifndef TRANSFER_CARRIERS_H
#define TRANSFER_CARRIERS_H

#include "transfer/carrier.h"

/* The carriers that a choice allows, in the order in which they are preferred; at most TRANSFER_WAYS; the rest is NULL. */
void carriers_of(transfer_choice_t choice, const carrier_ops_t *carriers[TRANSFER_WAYS]);

#endif
