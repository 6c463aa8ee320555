#include "control/peers/requests.h"

#include "base/clock.h"
#include "control/models/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Under way at once; each is people's work, not a client's loop. */
enum { REQUESTS_MAX = 64, ANSWER_REASON_BYTES = 1024 };

/* A gateway that stands still does not keep the others' clients waiting for longer. */
static const int64_t KNOWN_MOST_NS = NS_PER_S;

struct model_request {
    model_request_t *next;
    peers_t *peers;
    gateway_t *gateway; /* NULL: it has gone */
    uint64_t id;
    uint32_t waiting, done; /* workers */
    status_t status;
    size_t reason_len;
    char reason[ANSWER_REASON_BYTES];
};

struct model_answer {
    model_answer_t *next;
    uint64_t catalogue; /* the version that shows what was done; 0: nothing was */
    int64_t made_ns;
    bool going; /* with the frame that is being made */
    Control__ModelAnswer message;
    char reason[ANSWER_REASON_BYTES];
};

static void answer(const peers_t *peers, gateway_t *gateway, uint64_t id, status_t status, const char *reason)
{
    model_answer_t *made = calloc(1, sizeof *made);
    if (!made) { /* the gateway would wait for ever */
        peer_close(&gateway->peer, CLOSE_EXHAUSTED, "no memory for an answer");
        return;
    }
    made->catalogue = status == STATUS_OK ? peers->models->version : 0;
    made->made_ns = peers->turn->now_ns;
    (void)snprintf(made->reason, sizeof made->reason, "%s", status == STATUS_OK ? "" : reason);
    control__model_answer__init(&made->message);
    made->message.id = id;
    made->message.status = (uint32_t)status;
    made->message.reason = made->reason;
    made->next = gateway->answers;
    gateway->answers = made;
    turn_touch(gateway->peer.turn);
}

static void request_end(model_request_t *request)
{
    peers_t *peers = request->peers;
    for (model_request_t **link = &peers->requests; *link; link = &(*link)->next)
        if (*link == request) {
            *link = request->next;
            break;
        }
    peers->request_count--;
    if (request->status == STATUS_NOT_FOUND && request->done > 0)
        request->status = STATUS_OK;
    if (request->gateway)
        answer(peers, request->gateway, request->id, request->status, request->reason);
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
static void forget_plan(const models_t *models, const char *name)
{
    for (uint32_t m = 0; m < models->count; m++)
        if (strcmp(models->all[m]->name, name) == 0)
            models->all[m]->planned = NULL;
}

static void give_to_workers(model_request_t *request, const char *name, bool load)
{
    peers_t *peers = request->peers;
    if (!load)
        forget_plan(peers->models, name);
    for (uint32_t i = 0; i < PEERS_MAX; i++) {
        worker_t *worker = peers->roster->workers[i];
        if (!worker || worker->peer.closing)
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

void request_submit(peers_t *peers, gateway_t *gateway, const Control__ModelRequest *asked)
{
    bool load = asked->action == CONTROL__MODEL_ACTION__MODEL_ACTION_LOAD;
    model_request_t *request = NULL;
    if (!load && asked->action != CONTROL__MODEL_ACTION__MODEL_ACTION_UNLOAD) {
        answer(peers, gateway, asked->id, STATUS_UNSUPPORTED, "this scheduler does not know the request");
        return;
    }
    if (peers->request_count < REQUESTS_MAX)
        request = calloc(1, sizeof *request);
    if (!request) {
        answer(peers, gateway, asked->id, STATUS_UNAVAILABLE, "too many loads and unloads are under way");
        return;
    }
    request->peers = peers;
    request->gateway = gateway;
    request->id = asked->id;
    request->next = peers->requests;
    peers->requests = request;
    peers->request_count++;
    note_info(peers->turn, "model_request", LOG_STR("gateway", gateway->peer.name),
              LOG_STR("action", load ? "load" : "unload"), LOG_STR("model", asked->name));
    give_to_workers(request, asked->name, load);
}

/* Whoever asks any gateway after it shall find things as the answer says. */
static bool may_go(const peers_t *peers, const model_answer_t *answer)
{
    return peers->turn->now_ns - answer->made_ns >= KNOWN_MOST_NS ||
           roster_knows(peers->roster, answer->catalogue);
}

void requests_put(const peers_t *peers, const gateway_t *gateway, Control__SchedulerToGateway *frame)
{
    uint32_t count = 0;
    for (model_answer_t *a = gateway->answers; a; a = a->next) {
        a->going = may_go(peers, a);
        count += a->going;
    }
    if (count == 0)
        return;
    frame->model_answers = pb_arena_alloc(&peers->turn->scratch, count * sizeof *frame->model_answers);
    for (model_answer_t *a = gateway->answers; a; a = a->next) {
        if (!frame->model_answers)
            a->going = false;
        if (a->going)
            frame->model_answers[frame->n_model_answers++] = &a->message;
    }
}

void requests_sent(gateway_t *gateway)
{
    for (model_answer_t **link = &gateway->answers; *link;) {
        model_answer_t *answer = *link;
        if (answer->going) {
            *link = answer->next;
            free(answer);
        } else {
            link = &answer->next;
        }
    }
}

void requests_gateway_gone(const peers_t *peers, gateway_t *gateway)
{
    for (model_request_t *request = peers->requests; request; request = request->next)
        if (request->gateway == gateway)
            request->gateway = NULL;
    while (gateway->answers) {
        model_answer_t *unsent = gateway->answers;
        gateway->answers = unsent->next;
        free(unsent);
    }
}

void requests_dispose(peers_t *peers)
{
    while (peers->requests) {
        model_request_t *request = peers->requests;
        peers->requests = request->next;
        free(request);
    }
}
