#include "transfer/ucx_worker.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <ucs/config/global_opts.h>

static const int64_t CLOSE_PATIENCE_NS = 100 * NS_PER_MS;

enum {
    ROUNDS = 16,
    STEPS = 32
}; /* of one turn, and of each round, so that the rest of the loop has its own */

static _Atomic uint32_t registered;

uint32_t ucx_registered(void)
{
    return atomic_load(&registered);
}

uint32_t ucx_version(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return major << 16 | minor;
}

/* What fails is told by status and logged here; what the user has set stays. */
static void quieten(void)
{
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

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

static status_t context_init(ucp_context_h *context, err_t *err)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_config_t *config;

    quieten();
    ucs_status_t failed = ucp_config_read(NULL, NULL, &config);
    if (failed == UCS_OK) {
        failed = ucp_init(&params, config, context);
        ucp_config_release(config);
    }
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNSUPPORTED, "UCX does not start: %s", ucs_status_string(failed));
    return STATUS_OK;
}

status_t ucx_context_open(ucx_context_t **out, err_t *err)
{
    ucx_context_t *context = calloc(1, sizeof(*context));

    if (!context)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    status_t status = context_init(&context->handle, err);
    if (status == STATUS_OK)
        *out = ucx_context_hold(context);
    else
        free(context);
    return status;
}

ucx_context_t *ucx_context_hold(ucx_context_t *context)
{
    context->holders++;
    return context;
}

void ucx_context_let_go(ucx_context_t *context)
{
    if (--context->holders > 0)
        return;
    ucp_cleanup(context->handle);
    free(context);
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

static status_t memory_map(const ucx_context_t *context, const ucp_mem_map_params_t *params,
                           ucx_memory_t *memory, err_t *err)
{
    ucs_status_t failed = ucp_mem_map(context->handle, params, &memory->handle);

    if (failed != UCS_OK)
        return err_set(err, STATUS_NO_MEMORY, "%zu MiB cannot be registered (ulimit -l?): %s",
                       params->length >> 20, ucs_status_string(failed));
    failed = ucp_rkey_pack(context->handle, memory->handle, &memory->rkey, &memory->rkey_bytes);
    if (failed != UCS_OK) {
        ucp_mem_unmap(context->handle, memory->handle);
        return err_set(err, STATUS_INTERNAL, "UCX gives no key: %s", ucs_status_string(failed));
    }
    atomic_fetch_add(&registered, 1);
    return STATUS_OK;
}

status_t ucx_register(const ucx_context_t *context, void *base, size_t len_bytes, ucx_memory_t *memory,
                      err_t *err)
{
    const ucp_mem_map_params_t params = {.field_mask =
                                             UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                         .address = base,
                                         .length = len_bytes};

    return memory_map(context, &params, memory, err);
}

status_t ucx_allocate(const ucx_context_t *context, size_t len_bytes, ucx_memory_t *memory, void **base,
                      err_t *err)
{
    const ucp_mem_map_params_t params = {.field_mask =
                                             UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS,
                                         .length = len_bytes,
                                         .flags = UCP_MEM_MAP_ALLOCATE};
    ucp_mem_attr_t attributes = {.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS};
    status_t status = memory_map(context, &params, memory, err);

    if (status != STATUS_OK)
        return status;
    ucs_status_t failed = ucp_mem_query(memory->handle, &attributes);
    if (failed != UCS_OK) {
        ucx_deregister(context, memory);
        return err_set(err, STATUS_INTERNAL, "UCX hides its memory: %s", ucs_status_string(failed));
    }
    *base = attributes.address;
    return STATUS_OK;
}

void ucx_deregister(const ucx_context_t *context, ucx_memory_t *memory)
{
    if (!memory->rkey)
        return;
    ucp_rkey_buffer_release(memory->rkey);
    ucp_mem_unmap(context->handle, memory->handle);
    *memory = (ucx_memory_t){0};
    atomic_fetch_sub(&registered, 1);
}
