#include "transfer/ucx/context.h"

#include <signal.h>
#include <stdlib.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>

uint32_t ucx_version(void)
{
    unsigned major, minor, release;

    ucp_get_version(&major, &minor, &release);
    return major << 16 | minor;
}

/* UCX takes the signals of a crash when it is loaded, and writes out stdout once more in the middle of whatever crashed: half a
 * line, or one that was written already. A crash is the program's own, unless the user has asked UCX for its. */
__attribute__((constructor)) static void give_back_signals(void)
{
    static const int taken[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE};

    if (getenv("UCX_ERROR_SIGNALS") || getenv("UCX_HANDLE_ERRORS"))
        return;
    for (size_t i = 0; i < sizeof(taken) / sizeof(*taken); i++)
        ucs_debug_disable_signal(taken[i]);
}

/* What fails is told by status and logged here; what the user has set stays. */
static void quieten(void)
{
    if (!getenv("UCX_LOG_LEVEL"))
        ucs_global_opts_set_value("LOG_LEVEL", "fatal");
}

static status_t context_init(ucx_context_t *context, err_t *err)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_RMA | UCP_FEATURE_AM | UCP_FEATURE_WAKEUP};
    ucp_config_t *config;

    quieten();
    ucs_status_t failed = ucp_config_read(NULL, NULL, &config);
    if (failed == UCS_OK) {
        if (context->device[0])
            failed = ucp_config_modify(config, "NET_DEVICES", context->device);
        if (failed == UCS_OK)
            failed = ucp_init(&params, config, &context->handle);
        ucp_config_release(config);
    }
    if (failed != UCS_OK)
        return err_set(err, STATUS_UNSUPPORTED, "UCX does not start: %s", ucs_status_string(failed));
    return STATUS_OK;
}

status_t ucx_context_open(const char *address, ucx_context_t **out, err_t *err)
{
    ucx_context_t *context = calloc(1, sizeof(*context));

    if (!context)
        return err_set(err, STATUS_NO_MEMORY, "out of memory");
    ucx_device_of(address, context->device);
    status_t status = context_init(context, err);
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

bool ucx_context_takes_cuda(const ucx_context_t *context)
{
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};

    return ucp_context_query(context->handle, &attributes) == UCS_OK &&
           attributes.memory_types >> UCS_MEMORY_TYPE_CUDA & 1;
}
