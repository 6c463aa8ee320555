/* The jobs of a link: phase after phase, each begun when nothing of the one before is under way. */
#ifndef TRANSFER_UCX_JOBS_H
#define TRANSFER_UCX_JOBS_H

#include "transfer/ucx/link_state.h"

void rdma_get(carrier_link_t *link, carrier_job_t *job);
void rdma_put(carrier_link_t *link, carrier_job_t *job);
bool rdma_cancel(carrier_link_t *link, carrier_job_t *job);

/* True: something was done. Callbacks may do anything to the link, so the caller begins anew after it. */
bool jobs_advance(carrier_link_t *link);
void jobs_end_all(carrier_link_t *link); /* UNAVAILABLE */

#endif
