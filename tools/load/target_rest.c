/* REST through libs/http. Hot path: a pool slot per call, the body sent from where it lies. */
#include "base/clock.h"
#include "base/pool.h"
#include "http/client.h"
#include "load/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Calls that have no answer yet; at the 65,536th the server is long past saving. */
enum { CALLS_MAX = 65536, ERROR_TEXT_BYTES = 512 };

struct target {
    http_client_t *client;
    pool_t calls;
    uint32_t timeout_ms;
};

typedef struct {
    target_t *target;
    target_done_fn done;
    void *arg;
    struct iovec body;
} call_t;

static status_t rest_create(target_t **out, loop_t *loop, const target_options_t *options, err_t *err)
{
    target_t *target = calloc(1, sizeof *target);
    if (!target)
        return err_set(err, STATUS_NO_MEMORY, "no memory for a target");
    const int64_t timeout_ms = options->timeout_ns / NS_PER_MS;
    target->timeout_ms = timeout_ms > 0 ? (uint32_t)timeout_ms : 1;
    http_client_config_t config = {.server = options->address,
                                   .connections_max = options->connections,
                                   .waiting_max = CALLS_MAX,
                                   .tls = options->tls,
                                   .bearer = options->api_key};
    status_t st = pool_init(&target->calls, sizeof(call_t), CALLS_MAX, err);
    if (st == STATUS_OK)
        st = http_client_create(loop_uv(loop), &config, &target->client, err);
    if (st != STATUS_OK) {
        pool_dispose(&target->calls);
        free(target);
        return st;
    }
    *out = target;
    return STATUS_OK;
}

static void rest_destroy(target_t *target)
{
    http_client_destroy(target->client);
    pool_dispose(&target->calls);
    free(target);
}

/* {"error":"text"} as the server wrote it, without the frame. */
static void error_text(const uint8_t *body, size_t len, char text[ERROR_TEXT_BYTES])
{
    static const char frame[] = "{\"error\":\"";
    size_t start = len > sizeof frame && !memcmp(body, frame, sizeof frame - 1) ? sizeof frame - 1 : 0;
    size_t end = start && len > start + 2 ? len - 2 : len;
    snprintf(text, ERROR_TEXT_BYTES, "%.*s", (int)(end - start), (const char *)body + start);
}

static void rest_done(const http_client_response_t *response, const err_t *err, void *user)
{
    call_t call = *(call_t *)user;
    char text[ERROR_TEXT_BYTES];
    answer_t answer = {0};

    pool_put(&call.target->calls, user);
    if (!response) {
        answer.outcome = err->code == STATUS_DEADLINE_EXCEEDED ? OUTCOME_NO_ANSWER : OUTCOME_CONNECTION;
        answer.text = err->text;
    } else {
        answer.outcome = outcome_of_http(http_client_response_status(response));
        answer.body = http_client_response_body(response, &answer.len_bytes);
        if (answer.outcome != OUTCOME_OK) {
            error_text(answer.body, answer.len_bytes, text);
            answer.text = text;
        }
    }
    call.done(call.arg, &answer);
}

static status_t rest_call(target_t *target, http_client_request_t *request, const payload_t *payload,
                          target_done_fn done, void *arg)
{
    call_t *call = pool_get(&target->calls);
    if (!call)
        return STATUS_UNAVAILABLE;
    *call = (call_t){.target = target, .done = done, .arg = arg};
    if (payload) {
        call->body = (struct iovec){payload->bytes, payload->len_bytes};
        request->body = &call->body;
        request->body_count = 1;
    }
    request->timeout_ms = target->timeout_ms;
    status_t st = http_client_call(target->client, request, rest_done, call, NULL);
    if (st != STATUS_OK)
        pool_put(&target->calls, call);
    return st;
}

static status_t rest_infer(target_t *target, const model_t *model, const payload_t *payload,
                           target_done_fn done, void *arg)
{
    char path[MODEL_NAME_BYTES + 32];
    snprintf(path, sizeof path, "/v2/models/%s/infer", model->name);
    http_client_request_t request = {.method = HTTP_METHOD_POST,
                                     .target = path,
                                     .content_type = "application/octet-stream",
                                     .extra_headers = payload->headers};
    return rest_call(target, &request, payload, done, arg);
}

static status_t rest_describe(target_t *target, const char *model, target_done_fn done, void *arg)
{
    char path[MODEL_NAME_BYTES + 32];
    snprintf(path, sizeof path, "/v2/models/%s", model);
    http_client_request_t request = {.method = HTTP_METHOD_GET, .target = path};
    return rest_call(target, &request, NULL, done, arg);
}

const target_ops_t target_rest_ops = {.create = rest_create,
                                      .destroy = rest_destroy,
                                      .infer = rest_infer,
                                      .describe = rest_describe,
                                      .parse = model_parse_json};
