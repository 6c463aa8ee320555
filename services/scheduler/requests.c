#include "scheduler/requests.h"

#include "base/log.h"
#include "scheduler/catalogue.h"
#include "scheduler/commands.h"
#include "scheduler/gateways.h"
#include "scheduler/registry.h"
#include "scheduler/service.h"
#include "scheduler/workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under way at once; each is people's work, not a client's loop. */
enum { REQUESTS_MAX = 64, ANSWER_REASON_BYTES = 1024 };

struct model_request {
    model_request_t *next;
    scheduler_t *scheduler;
    gateway_t *gateway; /* NULL: it has gone */
    uint64_t id;
    uint32_t waiting, done; /* workers */
    status_t status;
    size_t reason_len;
    char reason[ANSWER_REASON_BYTES];
};

struct model_answer {
    model_answer_t *next;
    Control__ModelAnswer message;
    char reason[ANSWER_REASON_BYTES];
};

static void answer(gateway_t *gateway, uint64_t id, status_t status, const char *reason)
{
    model_answer_t *made = calloc(1, sizeof *made);
    if (made == NULL) { /* the gateway would wait for ever */
        peer_close(&gateway->peer, RPC_RESOURCE_EXHAUSTED, "no memory for an answer");
        return;
    }
    (void)snprintf(made->reason, sizeof made->reason, "%s", status == STATUS_OK ? "" : reason);
    control__model_answer__init(&made->message);
    made->message.id = id;
    made->message.status = (uint32_t)status;
    made->message.reason = made->reason;
    made->next = gateway->answers;
    gateway->answers = made;
    scheduler_touch(gateway->peer.scheduler);
}

static void request_end(model_request_t *request)
{
    scheduler_t *s = request->scheduler;
    for (model_request_t **link = &s->requests; *link != NULL; link = &(*link)->next)
        if (*link == request) {
            *link = request->next;
            break;
        }
    s->request_count--;
    if (request->status == STATUS_NOT_FOUND && request->done > 0)
        request->status = STATUS_OK;
    if (request->gateway != NULL)
        answer(request->gateway, request->id, request->status, request->reason);
    free(request);
}

/* What several workers say alike, as that a model is not there, is said once. */
static void add_reason(model_request_t *request, const worker_t *worker, status_t status, const char *reason)
{
    bool lacks = status == STATUS_NOT_FOUND;
    if (request->status == STATUS_NOT_FOUND && !lacks) {
        request->reason_len = 0;
        request->status = STATUS_OK;
    }
    if (lacks && request->status != STATUS_OK)
        return;
    if (request->status == STATUS_OK)
        request->status = status;
    size_t room = sizeof request->reason - request->reason_len;
    int n = lacks ? snprintf(request->reason, room, "%s", reason)
                  : snprintf(request->reason + request->reason_len, room, "%s%s: %s",
                             request->reason_len > 0 ? "; " : "", worker->peer.name, reason);
    request->reason_len += (size_t)n < room ? (size_t)n : room - 1;
}

static void on_worker_done(void *ctx, worker_t *worker, status_t status, const char *reason)
{
    model_request_t *request = ctx;
    if (status == STATUS_OK)
        request->done++;
    else
        add_reason(request, worker, status, reason);
    if (--request->waiting == 0)
        request_end(request);
}

/* What people unload is not loaded again for the sake of a plan. */
static void forget_plan(const scheduler_t *s, const char *name)
{
    for (uint32_t m = 0; m < s->model_count; m++)
        if (strcmp(s->models[m]->name, name) == 0)
            s->models[m]->planned = NULL;
}

static void give_to_workers(model_request_t *request, const char *name, bool load)
{
    scheduler_t *s = request->scheduler;
    if (!load)
        forget_plan(s, name);
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        worker_t *worker = s->workers[i];
        if (worker == NULL || worker->peer.closing)
            continue;
        status_t status = load ? worker_load_model(worker, name, 0, false, on_worker_done, request)
                               : worker_unload_model(worker, name, 0, false, on_worker_done, request);
        if (status == STATUS_OK)
            request->waiting++;
        else
            add_reason(request, worker, status, "too many loads and unloads are under way there");
    }
    if (request->waiting > 0)
        return;
    if (request->status == STATUS_OK) {
        request->status = STATUS_UNAVAILABLE;
        (void)snprintf(request->reason, sizeof request->reason, "no worker is connected");
    }
    request_end(request);
}

void request_submit(gateway_t *gateway, const Control__ModelRequest *asked)
{
    scheduler_t *s = gateway->peer.scheduler;
    bool load = asked->action == CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD;
    model_request_t *request = NULL;
    if (!load && asked->action != CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD) {
        answer(gateway, asked->id, STATUS_UNSUPPORTED, "this scheduler does not know the request");
        return;
    }
    if (s->request_count < REQUESTS_MAX)
        request = calloc(1, sizeof *request);
    if (request == NULL) {
        answer(gateway, asked->id, STATUS_UNAVAILABLE, "too many loads and unloads are under way");
        return;
    }
    request->scheduler = s;
    request->gateway = gateway;
    request->id = asked->id;
    request->next = s->requests;
    s->requests = request;
    s->request_count++;
    log_info("model_request", LOG_STR("gateway", gateway->peer.name),
             LOG_STR("action", load ? "load" : "unload"), LOG_STR("model", asked->name));
    give_to_workers(request, asked->name, load);
}

void requests_put(gateway_t *gateway, Control__SchedulerToGateway *frame)
{
    uint32_t count = 0;
    for (const model_answer_t *a = gateway->answers; a != NULL; a = a->next)
        count++;
    if (count == 0)
        return;
    frame->model_answers =
        rpc_arena_alloc(&gateway->peer.scheduler->scratch, count * sizeof *frame->model_answers);
    for (model_answer_t *a = gateway->answers; a != NULL && frame->model_answers != NULL; a = a->next)
        frame->model_answers[frame->n_model_answers++] = &a->message;
}

void requests_sent(gateway_t *gateway)
{
    while (gateway->answers != NULL) {
        model_answer_t *sent = gateway->answers;
        gateway->answers = sent->next;
        free(sent);
    }
}

void requests_gateway_gone(gateway_t *gateway)
{
    for (model_request_t *request = gateway->peer.scheduler->requests; request != NULL;
         request = request->next)
        if (request->gateway == gateway)
            request->gateway = NULL;
    requests_sent(gateway);
}

void requests_dispose(scheduler_t *s)
{
    while (s->requests != NULL) {
        model_request_t *request = s->requests;
        s->requests = request->next;
        free(request);
    }
}
