#include "transfer/ucx/worker.h"

#include "base/clock.h"

static const int64_t CLOSE_PATIENCE_NS = 100 * NS_PER_MS;
static const int64_t STUCK_NS =
    2 * NS_PER_S; /* a sender may have lost its CPU within a message, but not for so long */

enum {
    ROUNDS = 16, /* of one turn, */
    STEPS = 32,  /* and of each round, so that the rest of the loop has its own */
    VAIN_MAX = 64,
    AGAIN_MS = 1,
};

static bool ucx_round(ucx_t *ucx)
{
    bool moved = false;

    /* With an answer for a reader that died over shared memory it says so for ever. */
    for (int i = 0; i < STEPS && ucp_worker_progress(ucx->worker); i++)
        moved = true;
    return ucx->advance(ucx->ctx) || moved;
}

static void on_idle(uv_idle_t *idle);
static void on_again(uv_timer_t *timer);
static void on_event(uv_poll_t *poll, int status, int events);

/* It does not sleep, although there was nothing to do. False: it is to be looked at later, and has no event until then. */
static bool ucx_in_vain(ucx_t *ucx)
{
    if (ucx->vain == 0)
        ucx->vain_since_ns = clock_now_ns();
    if (ucx->vain < VAIN_MAX && ++ucx->vain < VAIN_MAX)
        return true;
    uv_poll_stop(&ucx->poll);
    uv_idle_stop(&ucx->idle);
    uv_timer_start(&ucx->again, on_again, AGAIN_MS, 0);
    if (!ucx->gave_up && clock_now_ns() - ucx->vain_since_ns >= STUCK_NS) {
        ucx->gave_up = true;
        ucx->stuck(ucx->ctx);
    }
    return false;
}

static void ucx_not_in_vain(ucx_t *ucx)
{
    if (ucx->vain == VAIN_MAX)
        uv_poll_start(&ucx->poll, UV_READABLE, on_event);
    ucx->vain = 0;
}

static void ucx_turn(ucx_t *ucx)
{
    for (int i = 0; i < ROUNDS; i++) {
        bool moved = ucx_round(ucx);
        if (!ucx->worker)
            return;
        bool busy = moved || ucx->spin || ucp_worker_arm(ucx->worker) == UCS_ERR_BUSY;
        if (busy && !moved && !ucx->spin) {
            if (!ucx_in_vain(ucx))
                return;
            continue;
        }
        ucx_not_in_vain(ucx);
        if (busy)
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

static void on_again(uv_timer_t *timer)
{
    ucx_turn(timer->data);
}

static void on_prepare(uv_prepare_t *prepare)
{
    ucx_t *ucx = prepare->data;

    if (ucx->due && ucx->vain < VAIN_MAX && !uv_is_active((uv_handle_t *)&ucx->idle))
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
    uv_timer_init(loop, &ucx->again);
    ucx->poll.data = ucx->prepare.data = ucx->idle.data = ucx->again.data = ucx;
    ucx->handles = 4;
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
    uv_close((uv_handle_t *)&ucx->again, on_closed);
    ucx->worker = NULL;
    ucp_worker_destroy(worker);
}
