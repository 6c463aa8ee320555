#include "transfer/ucx/jobs.h"

#include "transfer/ucx/get.h"
#include "transfer/ucx/operation.h"

#include <string.h>

typedef enum { GET_LOOK, GET_BYTES, GET_LOOK_AGAIN, PUT_BYTES } phase_t;

static void job_end(carrier_job_t *job, status_t status)
{
    carrier_client_t *client = job->link->client;
    scratch_t *scratch = job->inside_ptr;

    TAILQ_REMOVE(&job->link->jobs, job, entry);
    scratch_put(client, scratch);
    job->done(job, status);
}

/* The next phase of a job of which nothing is under way. False: it has ended. */
static bool job_next(carrier_job_t *job)
{
    switch ((phase_t)job->inside[JOB_PHASE]) {
    case GET_LOOK:
        job->inside[JOB_PHASE] = GET_BYTES;
        get_bytes(job);
        return true;
    case GET_BYTES:
        job->inside[JOB_PHASE] = GET_LOOK_AGAIN;
        get_look_again(job);
        return true;
    case GET_LOOK_AGAIN:
        get_judge(job);
        break;
    case PUT_BYTES:
        break;
    }
    job_end(job, STATUS_OK);
    return false;
}

/* True: something was done. Callbacks may do anything to the link, so the caller begins anew after it. */
bool jobs_advance(carrier_link_t *link)
{
    carrier_job_t *job;

    TAILQ_FOREACH(job, &link->jobs, entry)
    {
        if (job->inside[JOB_PENDING] > 0)
            continue;
        if (link->broken)
            job_end(job, STATUS_UNAVAILABLE);
        else
            job_next(job);
        return true;
    }
    return false;
}

static void job_start(carrier_link_t *link, carrier_job_t *job, phase_t phase)
{
    job->link = link;
    memset(job->inside, 0, sizeof(job->inside));
    job->inside[JOB_PHASE] = phase;
    job->inside_ptr = NULL;
    TAILQ_INSERT_TAIL(&link->jobs, job, entry);
    ucx_begin(&link->ucx);
}

void rdma_get(carrier_link_t *link, carrier_job_t *job)
{
    job_start(link, job, GET_LOOK);
    job->inside_ptr = scratch_take(link->client, job->count);
    if (job->inside_ptr)
        get_begin(job);
    else
        link_break(link, UCS_ERR_NO_MEMORY);
}

void rdma_put(carrier_link_t *link, carrier_job_t *job)
{
    uint64_t at = job->window_offset;

    job_start(link, job, PUT_BYTES);
    for (uint32_t i = 0; i < job->count; i++) {
        operation_put(job, at, job->iov[i].iov_base, job->iov[i].iov_len);
        at += job->iov[i].iov_len;
    }
    operation_flush(job);
}

bool rdma_cancel(carrier_link_t *link, carrier_job_t *job)
{
    carrier_client_t *client = link->client;
    scratch_t *scratch = job->inside_ptr;

    if (job->inside[JOB_PENDING] > 0)
        return false;
    TAILQ_REMOVE(&link->jobs, job, entry);
    scratch_put(client, scratch);
    return true;
}

void jobs_end_all(carrier_link_t *link)
{
    while (!TAILQ_EMPTY(&link->jobs))
        job_end(TAILQ_FIRST(&link->jobs), STATUS_UNAVAILABLE);
}
