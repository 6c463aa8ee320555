#include "support.h"

void rig_turn(rig_t *rig, int64_t duration_ns)
{
    int64_t until_ns = clock_now_ns() + duration_ns;
    while (clock_now_ns() < until_ns)
        loop_run_once(rig->loop, NS_PER_MS);
}

void rig_init(rig_t *rig)
{
    err_t err = {0};
    *rig = (rig_t){0};
    cr_assert_eq(loop_create(&rig->loop, &err), STATUS_OK, "%s", err.text);
    rpc_runtime_options_t options = {.loop = rig->loop};
    cr_assert_eq(rpc_runtime_create(&options, &rig->runtime, &err), STATUS_OK, "%s", err.text);
}

void rig_server(rig_t *rig, const char *address, const rpc_limits_t *limits)
{
    err_t err = {0};
    rpc_server_options_t options = {.address = address != NULL ? address : "127.0.0.1:0"};
    if (limits != NULL)
        options.limits = *limits;
    rig->stopped = false;
    cr_assert_eq(rpc_server_create(rig->runtime, &options, &rig->server, &err), STATUS_OK, "%s", err.text);
}

void rig_serve(rig_t *rig)
{
    err_t err = {0};
    cr_assert_eq(rpc_server_start(rig->server, &err), STATUS_OK, "%s", err.text);
}

void rig_client(rig_t *rig, const rpc_limits_t *limits)
{
    err_t err = {0};
    rpc_client_options_t options = {.address = rpc_server_address(rig->server)};
    if (limits != NULL)
        options.limits = *limits;
    cr_assert_eq(rpc_client_create(rig->runtime, &options, &rig->client, &err), STATUS_OK, "%s", err.text);
}

void rig_flag(void *flag)
{
    *(bool *)flag = true;
}

void rig_stop_server(rig_t *rig, int64_t drain_ns)
{
    rpc_server_stop(rig->server, drain_ns, rig_flag, &rig->stopped);
    rig_until(rig, rig->stopped);
    rpc_server_destroy(rig->server);
    rig->server = NULL;
}

void rig_dispose(rig_t *rig)
{
    rpc_client_destroy(rig->client);
    if (rig->server != NULL)
        rig_stop_server(rig, NS_PER_S);
    rpc_runtime_destroy(rig->runtime);
    loop_destroy(rig->loop);
}

void answer_take(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    (void)keep;
    answer_t *answer = arg;
    answer->code = code;
    strncpy(answer->text, text, sizeof answer->text - 1);
    if (response != NULL) {
        answer->len_bytes = rpc_bytes_len(response);
        answer->first = rpc_bytes_flat(response)[0];
    }
    answer->done = true;
}

rpc_unary_t *rig_call(rig_t *rig, const char *method, int64_t timeout_ns, rpc_bytes_t *request,
                      answer_t *answer)
{
    *answer = (answer_t){0};
    rpc_unary_options_t options = {.method = method, .timeout_ns = timeout_ns, .wait_for_ready = true};
    return rpc_client_unary(rig->client, &options, request, answer_take, answer);
}

void echo_handler(rpc_call_t *call, void *arg)
{
    (void)arg;
    rpc_call_finish(call, RPC_OK, NULL, rpc_call_take_request(call));
}

rpc_bytes_t *bytes_of(const char *text)
{
    return rpc_bytes_copy(text, strlen(text));
}
