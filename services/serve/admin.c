#include "serve/admin.h"

#include "config/exposure.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

/* ---- on the scheduler's loop ---- */

typedef struct {
    serve_admin_t *admin;
    rpc_call_t *call;
    const char *path;
} asked_t;

static rpc_unary_fn handler_of(const char *path)
{
    const rpc_unary_method_t *method = scheduler_admin_calls;

    while (strcmp(method->path, path) != 0)
        method++;
    return method->handler;
}

static void on_asked(void *arg)
{
    asked_t asked = *(asked_t *)arg;

    free(arg);
    handler_of(asked.path)(asked.call, asked.admin->scheduler);
}

/* ---- on the loop of whichever gateway was asked ---- */

/* True: it has been answered. */
static bool refuse(const serve_admin_t *admin, rpc_call_t *call)
{
    char text[TEXT_BYTES];

    if (!exposure_is_address_of_this_host(rpc_call_peer(call))) {
        rpc_call_finish(call, RPC_PERMISSION_DENIED, "admin calls are taken from this host only", NULL);
        return true;
    }
    if (admin->scheduler)
        return false;
    snprintf(text, sizeof(text), "this process is part of a cluster: ask its scheduler, %s",
             admin->elsewhere);
    rpc_call_finish(call, RPC_FAILED_PRECONDITION, text, NULL);
    return true;
}

static void pass_on(serve_admin_t *admin, rpc_call_t *call, const char *path)
{
    if (refuse(admin, call))
        return;
    asked_t *asked = malloc(sizeof(*asked));
    if (asked)
        *asked = (asked_t){.admin = admin, .call = call, .path = path};
    if (asked && loop_post(admin->loop, on_asked, asked) == STATUS_OK)
        return;
    free(asked);
    rpc_call_finish(call, RPC_RESOURCE_EXHAUSTED, "out of memory", NULL);
}

#define ADMIN "/fermata.admin.v1.Admin/"

static void on_get_state(rpc_call_t *call, void *arg)
{
    pass_on(arg, call, ADMIN "GetState");
}

static void on_set_policy(rpc_call_t *call, void *arg)
{
    pass_on(arg, call, ADMIN "SetPolicy");
}

static void on_drain(rpc_call_t *call, void *arg)
{
    pass_on(arg, call, ADMIN "DrainWorker");
}

static void on_plan(rpc_call_t *call, void *arg)
{
    if (!refuse(arg, call))
        rpc_call_finish(
            call, RPC_FAILED_PRECONDITION,
            "a plan spreads models over the sub-clusters of many workers: this process has one worker", NULL);
}

gateway_calls_t serve_admin_calls(serve_admin_t *admin)
{
    static const rpc_unary_method_t methods[] = {{ADMIN "GetState", on_get_state},
                                                 {ADMIN "SetPolicy", on_set_policy},
                                                 {ADMIN "DrainWorker", on_drain},
                                                 {ADMIN "Plan", on_plan},
                                                 {NULL, NULL}};

    return (gateway_calls_t){.methods = methods, .arg = admin};
}
