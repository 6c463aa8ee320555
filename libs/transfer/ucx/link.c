#include "transfer/ucx/link.h"

#include "transfer/ucx/hardware.h"
#include "transfer/ucx/hello.h"
#include "transfer/ucx/jobs.h"
#include "transfer/ucx/operation.h"

#include <stdlib.h>

enum { FIRST_ANSWER_MS = 1000 };

static void on_ep_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    (void)ep;
    link_break(arg, status);
}

/* Its operations may still end, past the queue that is stuck; those that do not are a stall of the pool's. */
static void link_stuck(void *ctx)
{
    link_break(ctx, UCS_ERR_ENDPOINT_TIMEOUT);
}

static ucs_status_t link_connect(carrier_link_t *link, const void *address, bool by_peer)
{
    const ucp_ep_params_t params = {
        .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      (by_peer ? UCP_EP_PARAM_FIELD_ERR_HANDLER : 0),
        .address = address,
        .err_mode = by_peer ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE,
        .err_handler = {.cb = on_ep_error, .arg = link}};

    link->by_peer = by_peer;
    return ucp_ep_create(link->ucx.worker, &params, &link->ep);
}

static void link_drop_keys(carrier_link_t *link)
{
    remote_t *const all[] = {&link->arena, &link->directory, &link->window};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        if (all[i]->rkey)
            ucp_rkey_destroy(all[i]->rkey);
        all[i]->rkey = NULL;
    }
}

static void proof_ended(void *user, ucs_status_t status)
{
    carrier_link_t *link = user;

    link->proving--;
    if (status != UCS_OK)
        link_break(link, status);
}

static void on_proved(void *request, ucs_status_t status, void *user)
{
    ucp_request_free(request);
    proof_ended(user, status);
}

static void link_prove(carrier_link_t *link)
{
    const ucp_request_param_t param = {.op_attr_mask =
                                           UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA,
                                       .cb.send = on_proved,
                                       .user_data = link};
    ucs_status_ptr_t request;

    if (link->asks)
        request = UCS_STATUS_PTR(ask_by_message(&link->asker, ASK_DIRECTORY, 0, &link->proof,
                                                sizeof(link->proof), proof_ended, link));
    else
        request = ucp_get_nbx(link->ep, &link->proof, sizeof(link->proof), link->directory.base,
                              link->directory.rkey, &param);
    if (UCS_PTR_IS_ERR(request))
        link_break(link, UCS_PTR_STATUS(request));
    else if (request || link->asks)
        link->proving++;
}

static void link_freed(void *ctx)
{
    carrier_link_t *link = ctx;

    asker_close(&link->asker);
    ucx_context_let_go(link->context);
    free(link);
}

static ucs_status_t remote_unpack(carrier_link_t *link, remote_t *remote, const ucx_open_memory_t *memory,
                                  ask_what_t what)
{
    *remote = (remote_t){.base = memory->base, .len_bytes = memory->len_bytes, .what = what};
    return ucp_ep_rkey_unpack(link->ep, memory->key.bytes, &remote->rkey);
}

static status_t link_unpack(carrier_link_t *link, const ucx_answer_t *answer, err_t *err)
{
    ucs_status_t failed = link_connect(link, answer->address.bytes, true);

    if (failed != UCS_OK)
        failed = link_connect(link, answer->address.bytes, false);
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNAVAILABLE, "UCX does not reach it: %s", ucs_status_string(failed));
    link->asks = link->by_peer && !ucx_has_hardware();
    if (!asker_open(&link->asker, link->ucx.worker, link->ep, answer->token))
        return err_set(err, STATUS_UNAVAILABLE, "UCX takes no messages");
    failed = remote_unpack(link, &link->arena, &answer->arena, ASK_ARENA);
    if (failed == UCS_OK)
        failed = remote_unpack(link, &link->directory, &answer->directory, ASK_DIRECTORY);
    if (failed == UCS_OK)
        failed = remote_unpack(link, &link->window, &answer->window, ASK_WINDOW);
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNAVAILABLE, "UCX cannot use its keys: %s", ucs_status_string(failed));
    return STATUS_OK;
}

/* After this nothing of a job is touched. Frees the link when the loop has run. */
static void link_end(carrier_link_t *link)
{
    if (link->ep && link->by_peer)
        ucx_close_endpoint(&link->ucx, link->ep);
    link_drop_keys(link);
    ucx_close(&link->ucx);
}

static void on_patience_closed(uv_handle_t *handle)
{
    link_end(handle->data);
}

static void linger_end(carrier_link_t *link)
{
    link->lingers = false;
    uv_close((uv_handle_t *)&link->patience, on_patience_closed);
}

/* One thing at a time: callbacks may close the link. */
static bool link_advance(void *ctx)
{
    carrier_link_t *link = ctx;

    if (link->broken)
        asker_give_up(&link->asker);
    if (link->closed) {
        if (link->lingers && (link->proving == 0 || link->broken))
            linger_end(link);
        return false;
    }
    if (jobs_advance(link))
        return true;
    if (link->told || link->proving > 0 || !TAILQ_EMPTY(&link->jobs))
        return false;
    if (link->broken) {
        link->told = true;
        link->watch.changed(link->watch.ctx, STATUS_UNAVAILABLE, ucs_status_string(link->why));
        return true;
    }
    if (link->ready)
        return false;
    link->ready = true;
    link->watch.changed(link->watch.ctx, STATUS_OK, "");
    return true;
}

status_t rdma_link_open(carrier_client_t *client, const carrier_blob_t *blob, const carrier_watch_t *watch,
                        carrier_link_t **out, err_t *err)
{
    carrier_link_t *link = calloc(1, sizeof(*link));
    ucx_answer_t answer;

    if (!link)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    link->client = client;
    link->watch = *watch;
    link->ucx.advance = link_advance;
    link->ucx.stuck = link_stuck;
    link->ucx.freed = link_freed;
    link->ucx.ctx = link;
    TAILQ_INIT(&link->jobs);
    status_t status = STATUS_OK;
    if (!ucx_answer_read(blob, &answer))
        status = err_set(err, STATUS_INVALID_ARGUMENT, "its answer makes no sense");
    if (status == STATUS_OK)
        status = client_context(client, watch->local, &link->context_at, err);
    if (status == STATUS_OK)
        status = ucx_open(&link->ucx, client->contexts[link->context_at], client->loop, client->spin, err);
    if (status != STATUS_OK) {
        free(link);
        return status;
    }
    link->context = ucx_context_hold(client->contexts[link->context_at]);
    status = link_unpack(link, &answer, err);
    if (status != STATUS_OK) {
        link_end(link);
        return status;
    }
    link_prove(link);
    *out = link;
    return STATUS_OK;
}

static void on_patience(uv_timer_t *timer)
{
    linger_end(timer->data);
}

/* An owner that answers the first message of somebody who is gone by then is aborted by UCX 1.13, so who closes so soon waits for the
 * answer. There are no jobs yet. */
static void link_linger(carrier_link_t *link)
{
    link->lingers = true;
    uv_timer_init(link->client->loop, &link->patience);
    link->patience.data = link;
    uv_update_time(link->client->loop);
    uv_timer_start(&link->patience, on_patience, FIRST_ANSWER_MS, 0);
    ucx_begin(&link->ucx);
}

void rdma_link_close(carrier_link_t *link)
{
    link->closed = true;
    if (link->proving > 0 && !link->broken)
        link_linger(link);
    else
        link_end(link);
    jobs_end_all(link);
}

/* Messages are copied out of by this process. */
bool rdma_link_reaches(const carrier_link_t *link, const void *bytes, size_t len_bytes)
{
    return !link->asks && !link->broken &&
           buffers_find(&link->client->buffers, link->context_at, bytes, len_bytes);
}
