/* Operations of jobs: reads and writes of the owner's memory, one-sided or by messages, as the link goes. What fails breaks the link. */
#ifndef TRANSFER_UCX_OPERATION_H
#define TRANSFER_UCX_OPERATION_H

#include "transfer/ucx/link_state.h"

void link_break(carrier_link_t *link, ucs_status_t why);

/* Each is counted in the job's JOB_PENDING until it has ended; none begins once one has failed. */
void operation_get(carrier_job_t *job, const remote_t *from, uint64_t at, void *to, size_t len);
void operation_put(carrier_job_t *job, uint64_t at, void *bytes, size_t len);
/* The owner sees all that was put before. */
void operation_flush(carrier_job_t *job);

#endif
