/* Where the inputs of batches land: what RDMA can write to, and what the engine reads. Pure. */
#ifndef WORKER_LANDING_H
#define WORKER_LANDING_H

#include "inputs_land.h"
#include "transfer/transfer.h"

/* has_device: the engine has memory of its device for inputs (engine.h: input_alloc). why: a text that lives for ever. */
landing_t landing_choose(const transfer_reach_t *reach, bool has_device, const char **why);

#endif
