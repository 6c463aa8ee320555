/* A get: three bursts, each for all items of the job: the entries of the directory, the bytes, the entries again. */
#ifndef TRANSFER_UCX_GET_H
#define TRANSFER_UCX_GET_H

#include "transfer/ucx/link_state.h"

void get_begin(carrier_job_t *job);
void get_bytes(carrier_job_t *job);
void get_look_again(carrier_job_t *job);
void get_judge(const carrier_job_t *job);

#endif
