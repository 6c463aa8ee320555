/*
 * fermata-sim policies: what each policy does and what its parameters are.
 */
#ifndef SIM_POLICIES_H
#define SIM_POLICIES_H

#include "base/status.h"

/* To stdout. IO when that takes no more. */
status_t policies_print(err_t *err);

#endif
