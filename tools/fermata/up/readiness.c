#include "fermata/up/readiness.h"

#include "base/clock.h"
#include "loop/timer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Often enough that nobody notices, rarely enough that nobody minds. */
#define ASK_AGAIN_NS (50 * NS_PER_MS)
enum { ASK_TIMEOUT_MS = 2000, GATEWAYS_MAX = 64 };

struct readiness {
    loop_timer_t timer;
    http_client_t *clients[GATEWAYS_MAX], *scheduler;
    char addresses[GATEWAYS_MAX][ASK_NAME_BYTES];
    size_t len;
    size_t at; /* the gateway that is being asked; those before it are ready */
    readiness_fn_t fn;
    void *arg;
    char waiting_for[2 * ASK_REASON_BYTES];
    model_state_t models[ASK_MODELS_MAX];
    size_t models_len;
    size_t ready;  /* of them, when the scheduler was asked last */
    json_t *state; /* its answer; NULL: none yet */
    bool asking_state;
    bool keyed;
};

static void ask_index(readiness_t *r);

static void ask_again_later(readiness_t *r, const char *reason)
{
    snprintf(r->waiting_for, sizeof r->waiting_for, "the gateway at %s: %.300s", r->addresses[r->at], reason);
    loop_timer_start_in(&r->timer, ASK_AGAIN_NS);
}

static void on_timer(loop_timer_t *timer, void *arg)
{
    (void)timer;
    ask_index(arg);
}

static void ask(readiness_t *r, http_method_t method, const char *target, http_client_done_fn done)
{
    err_t err = {0};
    http_client_request_t request = {.method = method, .target = target, .timeout_ms = ASK_TIMEOUT_MS};
    if (http_client_call(r->clients[r->at], &request, done, r, &err) != STATUS_OK)
        ask_again_later(r, err.text);
}

/* Without an answer the report does without the modes. */
static void on_state(const http_client_response_t *response, const err_t *err, void *user)
{
    readiness_t *r = user;
    if (err && err->code == STATUS_CANCELLED)
        return; /* we were destroyed: r is gone */
    json_t *state = ask_json(response);
    ask_modes(state, r->models, r->models_len);
    json_decref(state);
    r->fn(r->arg, r->models, r->models_len, true);
}

static void settle_gateway(readiness_t *r)
{
    http_client_request_t request = {
        .method = HTTP_METHOD_GET, .target = "/state", .timeout_ms = ASK_TIMEOUT_MS};
    err_t err = {0};
    if (++r->at < r->len)
        ask_index(r);
    else if (http_client_call(r->scheduler, &request, on_state, r, &err) != STATUS_OK)
        on_state(NULL, &err, r);
}

static void on_health(const http_client_response_t *response, const err_t *err, void *user)
{
    readiness_t *r = user;
    char reason[ASK_REASON_BYTES];
    if (err && err->code == STATUS_CANCELLED)
        return; /* we were destroyed: r is gone */
    if (response && http_client_response_status(response) == 200)
        settle_gateway(r);
    else
        ask_again_later(r, ask_reason(response, err, reason, sizeof reason));
}

static size_t count(const readiness_t *r, model_readiness_t readiness, const model_state_t **first)
{
    size_t n = 0;
    for (size_t i = r->models_len; i-- > 0;) {
        if (r->models[i].readiness != readiness)
            continue;
        n++;
        *first = &r->models[i];
    }
    return n;
}

/* What was measured of those that are ready is told while others load. */
static void on_state_so_far(const http_client_response_t *response, const err_t *err, void *user)
{
    readiness_t *r = user;
    if (err && err->code == STATUS_CANCELLED)
        return; /* we were destroyed: r is gone */
    r->asking_state = false;
    json_decref(r->state);
    r->state = ask_json(response);
}

static void ask_state_so_far(readiness_t *r)
{
    const model_state_t *first;
    size_t ready = count(r, MODEL_IS_READY, &first);
    http_client_request_t request = {
        .method = HTTP_METHOD_GET, .target = "/state", .timeout_ms = ASK_TIMEOUT_MS};
    ask_modes(r->state, r->models, r->models_len);
    if (ready == r->ready || r->asking_state)
        return;
    r->asking_state = http_client_call(r->scheduler, &request, on_state_so_far, r, NULL) == STATUS_OK;
    r->ready = ready;
}

static void judge_models(readiness_t *r)
{
    const model_state_t *model;
    char reason[ASK_REASON_BYTES];
    if (r->models_len == 0) {
        ask_again_later(r, "it knows no model yet");
    } else if (count(r, MODEL_IS_LOADING, &model) > 0) {
        snprintf(reason, sizeof reason, "model %.100s is loading", model->name);
        ask_again_later(r, reason);
    } else if (count(r, MODEL_IS_READY, &model) == 0 && count(r, MODEL_IS_UNLOADED, &model) > 0) {
        settle_gateway(r); /* somebody is going to load them */
    } else if (count(r, MODEL_IS_READY, &model) == 0) {
        r->fn(r->arg, r->models, r->models_len, false);
    } else {
        ask(r, HTTP_METHOD_GET, "/v2/health/ready", on_health);
    }
}

static void on_index(const http_client_response_t *response, const err_t *err, void *user)
{
    readiness_t *r = user;
    char reason[ASK_REASON_BYTES];
    if (err && err->code == STATUS_CANCELLED)
        return;
    json_t *index = response && http_client_response_status(response) == 200 ? ask_json(response) : NULL;
    if (json_is_array(index)) {
        r->models_len = ask_models(index, r->models, ASK_MODELS_MAX);
        ask_state_so_far(r);
        judge_models(r);
    } else {
        ask_again_later(r, ask_reason(response, err, reason, sizeof reason));
    }
    json_decref(index);
}

static void on_listed(const http_client_response_t *response, const err_t *err, void *user)
{
    readiness_t *r = user;
    char reason[ASK_REASON_BYTES];
    if (err && err->code == STATUS_CANCELLED)
        return;
    json_t *state = response && http_client_response_status(response) == 200 ? ask_json(response) : NULL;
    if (state) {
        r->models_len = ask_listed(state, r->models, ASK_MODELS_MAX);
        ask_modes(state, r->models, r->models_len);
        judge_models(r);
    } else {
        ask_again_later(r, ask_reason(response, err, reason, sizeof reason));
    }
    json_decref(state);
}

static void ask_index(readiness_t *r)
{
    http_client_request_t request = {
        .method = HTTP_METHOD_GET, .target = "/state", .timeout_ms = ASK_TIMEOUT_MS};
    err_t err = {0};
    if (!r->keyed)
        ask(r, HTTP_METHOD_POST, "/v2/repository/index", on_index);
    else if (http_client_call(r->scheduler, &request, on_listed, r, &err) != STATUS_OK)
        ask_again_later(r, err.text);
}

status_t readiness_create(readiness_t **out, loop_t *loop, const char *const *addresses, size_t addresses_len,
                          const char *scheduler, tls_context_t *tls, bool keyed, readiness_fn_t fn, void *arg,
                          err_t *err)
{
    readiness_t *r = addresses_len <= GATEWAYS_MAX ? calloc(1, sizeof *r) : NULL;
    status_t st = r ? loop_timer_init(&r->timer, loop, on_timer, r, err)
                    : err_set(err, STATUS_NO_MEMORY, "no memory to ask %zu gateways", addresses_len);
    for (size_t i = 0; st == STATUS_OK && i < addresses_len; i++, r->len++) {
        http_client_config_t config = {.server = addresses[i], .connections_max = 1, .tls = tls};
        snprintf(r->addresses[i], sizeof r->addresses[i], "%s", addresses[i]);
        st = http_client_create(loop_uv(loop), &config, &r->clients[i], err);
    }
    http_client_config_t config = {.server = scheduler, .connections_max = 1, .tls = tls};
    if (st == STATUS_OK)
        st = http_client_create(loop_uv(loop), &config, &r->scheduler, err);
    if (st != STATUS_OK) {
        readiness_destroy(r);
        return st;
    }
    r->keyed = keyed;
    r->fn = fn;
    r->arg = arg;
    *out = r;
    loop_timer_start_in(&r->timer, 0);
    return STATUS_OK;
}

void readiness_destroy(readiness_t *r)
{
    if (!r)
        return;
    loop_timer_dispose(&r->timer);
    for (size_t i = 0; i < r->len; i++)
        http_client_destroy(r->clients[i]);
    http_client_destroy(r->scheduler);
    json_decref(r->state);
    free(r);
}

const model_state_t *readiness_models(const readiness_t *r, size_t *len)
{
    *len = r->models_len;
    return r->models;
}

const char *readiness_waiting_for(const readiness_t *r)
{
    return r->waiting_for;
}
