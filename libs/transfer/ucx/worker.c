#include "transfer/ucx/worker.h"

#include "base/clock.h"

static const int64_t CLOSE_PATIENCE_NS = 100 * NS_PER_MS;

enum {
    ROUNDS = 16,
    STEPS = 32
}; /* of one turn, and of each round, so that the rest of the loop has its own */

static bool ucx_round(ucx_t *ucx)
{
    bool moved = false;

    /* With an answer for a reader that died over shared memory it says so for ever. */
    for (int i = 0; i < STEPS && ucp_worker_progress(ucx->worker); i++)
        moved = true;
    return ucx->advance(ucx->ctx) || moved;
}

static void on_idle(uv_idle_t *idle);

static void ucx_turn(ucx_t *ucx)
{
    for (int i = 0; i < ROUNDS; i++) {
        bool moved = ucx_round(ucx);
        if (!ucx->worker)
            return;
        if (moved)
            continue;
        if (ucx->spin || ucp_worker_arm(ucx->worker) == UCS_ERR_BUSY)
            continue;
        ucx->due = false;
        uv_idle_stop(&ucx->idle);
        return;
    }
    uv_idle_start(&ucx->idle, on_idle); /* the loop goes on without sleeping */
}

static void on_idle(uv_idle_t *idle)
{
    ucx_turn(idle->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    ucx_t *ucx = prepare->data;

    if (ucx->due && !uv_is_active((uv_handle_t *)&ucx->idle))
        ucx_turn(ucx);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    ucx_turn(poll->data);
}

void ucx_begin(ucx_t *ucx)
{
    ucx->due = true;
}

status_t ucx_open(ucx_t *ucx, const ucx_context_t *context, struct uv_loop_s *loop, bool spin, err_t *err)
{
    const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                        .thread_mode = UCS_THREAD_MODE_SINGLE};
    int fd;

    ucs_status_t failed = ucp_worker_create(context->handle, &params, &ucx->worker);
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNSUPPORTED, "UCX has no worker: %s", ucs_status_string(failed));
    failed = ucp_worker_get_efd(ucx->worker, &fd);
    if (failed != UCS_OK || uv_poll_init(loop, &ucx->poll, fd) != 0) {
        ucp_worker_destroy(ucx->worker);
        return err_set(err, STATUS_UNSUPPORTED, "UCX cannot be waited for: %s", ucs_status_string(failed));
    }
    uv_prepare_init(loop, &ucx->prepare);
    uv_idle_init(loop, &ucx->idle);
    ucx->poll.data = ucx->prepare.data = ucx->idle.data = ucx;
    ucx->handles = 3;
    ucx->spin = spin;
    ucx->due = true;
    uv_poll_start(&ucx->poll, UV_READABLE, on_event);
    uv_prepare_start(&ucx->prepare, on_prepare);
    return STATUS_OK;
}

static void on_closed(uv_handle_t *handle)
{
    ucx_t *ucx = handle->data;

    if (--ucx->handles == 0)
        ucx->freed(ucx->ctx);
}

void ucx_close_endpoint(ucx_t *ucx, ucp_ep_h ep)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
    int64_t end = clock_now_ns() + CLOSE_PATIENCE_NS;

    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS && clock_now_ns() < end)
        ucp_worker_progress(ucx->worker);
    ucp_request_free(request);
}

void ucx_close(ucx_t *ucx)
{
    ucp_worker_h worker = ucx->worker;

    uv_close((uv_handle_t *)&ucx->poll, on_closed);
    uv_close((uv_handle_t *)&ucx->prepare, on_closed);
    uv_close((uv_handle_t *)&ucx->idle, on_closed);
    ucx->worker = NULL;
    ucp_worker_destroy(worker);
}
