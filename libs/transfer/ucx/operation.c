#include "transfer/ucx/operation.h"

void link_break(carrier_link_t *link, ucs_status_t why)
{
    if (!link->broken)
        link->why = why;
    link->broken = true;
    ucx_begin(&link->ucx);
}

static void operation_ended(carrier_job_t *job, ucs_status_t status)
{
    job->inside[JOB_PENDING]--;
    job->inside[JOB_FAILED] |= status != UCS_OK;
    if (status != UCS_OK)
        link_break(job->link, status);
}

static void on_asked(void *user, ucs_status_t status)
{
    operation_ended(user, status);
}

static void on_operation(void *request, ucs_status_t status, void *user)
{
    ucp_request_free(request);
    operation_ended(user, status);
}

static ucp_request_param_t operation_param(carrier_job_t *job)
{
    return (ucp_request_param_t){.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                 .cb.send = on_operation,
                                 .user_data = job};
}

/* Of an operation on these bytes of ours, which need not be registered if they are already. */
static ucp_request_param_t bytes_param(carrier_job_t *job, const void *bytes, size_t len)
{
    ucp_request_param_t param = operation_param(job);

    param.memh = buffers_find(&job->link->client->buffers, job->link->context_at, bytes, len);
    if (param.memh)
        param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
    return param;
}

static void operation_begun(carrier_job_t *job, ucs_status_ptr_t request)
{
    if (UCS_PTR_IS_ERR(request)) {
        job->inside[JOB_FAILED] = 1;
        link_break(job->link, UCS_PTR_STATUS(request));
    } else if (request) {
        job->inside[JOB_PENDING]++;
    }
}

static void operation_ask(carrier_job_t *job, ask_what_t what, uint64_t at, void *bytes, size_t len)
{
    ucs_status_t status = ask_by_message(&job->link->asker, what, at, bytes, len, on_asked, job);

    if (status == UCS_OK)
        job->inside[JOB_PENDING]++;
    else
        operation_begun(job, UCS_STATUS_PTR(status));
}

void operation_get(carrier_job_t *job, const remote_t *from, uint64_t at, void *to, size_t len)
{
    const ucp_request_param_t param = bytes_param(job, to, len);

    if (len == 0 || job->inside[JOB_FAILED])
        return;
    if (job->link->asks)
        operation_ask(job, from->what, at, to, len);
    else
        operation_begun(job, ucp_get_nbx(job->link->ep, to, len, from->base + at, from->rkey, &param));
}

void operation_put(carrier_job_t *job, uint64_t at, void *bytes, size_t len)
{
    const remote_t *window = &job->link->window;
    const ucp_request_param_t param = bytes_param(job, bytes, len);

    if (at > CARRIER_WINDOW_BYTES || len > CARRIER_WINDOW_BYTES - at)
        operation_begun(job, UCS_STATUS_PTR(UCS_ERR_INVALID_PARAM));
    else if (len == 0 || job->inside[JOB_FAILED])
        return;
    else if (job->link->asks)
        operation_ask(job, ASK_WINDOW, at, bytes, len);
    else
        operation_begun(job, ucp_put_nbx(job->link->ep, bytes, len, window->base + at, window->rkey, &param));
}

void operation_flush(carrier_job_t *job)
{
    ucp_request_param_t param = operation_param(job);

    if (!job->link->asks && !job->inside[JOB_FAILED]) /* a message is answered when it has landed */
        operation_begun(job, ucp_ep_flush_nbx(job->link->ep, &param));
}
