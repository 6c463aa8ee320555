#include "http/client.h"
#include "harness.h"

static struct {
    int calls_seen, drop_next;
    char last_body[64];
    size_t last_len;
    int done, failed, status;
    status_t code;
    http_request_t *held;
    bool hold;
} app;

static void serve(http_request_t *request, void *user)
{
    (void)user;
    size_t len;
    const uint8_t *body = http_request_body(request, &len);
    app.calls_seen++;
    if (app.hold) {
        app.held = request;
        return;
    }
    http_respond_copy(request, 200, "text/plain", "X-One: 1\r\n", body, len);
}

static void gone(http_request_t *request, void *user)
{
    (void)user;
    app.held = NULL;
    http_respond_error(request, 499, NULL, "gone");
}

static const http_handler_ops_t ops = {.on_request = serve, .on_close = gone};
static const http_route_t routes[] = {{HTTP_METHOD_POST, "/x", &ops, NULL},
                                      {HTTP_METHOD_GET, "/x", &ops, NULL}};

static harness_t h;
static http_client_t *client;

static void start(void)
{
    memset(&app, 0, sizeof app);
    harness_start(&h, (http_server_config_t){0}, routes, 2);
    http_client_config_t config = {.server = http_server_address(h.server), .connections_max = 4};
    cr_assert(http_client_create(&h.loop, &config, &client, NULL) == STATUS_OK);
}

static void stop(void)
{
    http_client_destroy(client);
    harness_stop(&h, 0);
}

static void on_done(const http_client_response_t *response, const err_t *err, void *user)
{
    (void)user;
    app.done++;
    if (!response) {
        app.failed++;
        app.code = err->code;
        return;
    }
    app.status = http_client_response_status(response);
    size_t len;
    const uint8_t *body = http_client_response_body(response, &len);
    app.last_len = len;
    if (len < sizeof app.last_body && len > 0)
        memcpy(app.last_body, body, len);
    if (app.status == 200)
        cr_assert(strcmp(http_client_response_header(response, "x-one"), "1") == 0);
}

static void wait_done(int count)
{
    int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
    while (app.done < count && harness_now_ms() < end)
        harness_turn(&h, -1);
    cr_assert(app.done == count, "%d of %d calls done", app.done, count);
}

static void call(http_method_t method, struct iovec *body, size_t count, uint32_t timeout_ms)
{
    http_client_request_t request = {.method = method,
                                     .target = "/x",
                                     .content_type = "text/plain",
                                     .body = body,
                                     .body_count = count,
                                     .timeout_ms = timeout_ms};
    cr_assert(http_client_call(client, &request, on_done, NULL, NULL) == STATUS_OK);
}

Test(client, calls_share_few_connections, .init = start, .fini = stop)
{
    struct iovec body[2] = {{"ab", 2}, {"cd", 2}};
    for (int i = 0; i < 100; i++)
        call(HTTP_METHOD_POST, body, 2, 0);
    wait_done(100);
    cr_assert(app.failed == 0 && app.last_len == 4 && memcmp(app.last_body, "abcd", 4) == 0);
    cr_assert(http_server_counters(h.server)->connections_total <= 4);
}

Test(client, large_bodies_go_both_ways, .init = start, .fini = stop)
{
    static char big[3 << 20];
    struct iovec body = {big, sizeof big};
    call(HTTP_METHOD_POST, &body, 1, 0);
    wait_done(1);
    cr_assert(app.failed == 0 && app.last_len == sizeof big);
}

Test(client, head_and_empty_answers, .init = start, .fini = stop)
{
    call(HTTP_METHOD_HEAD, NULL, 0, 0);
    call(HTTP_METHOD_GET, NULL, 0, 0);
    wait_done(2);
    cr_assert(app.failed == 0 && app.last_len == 0 && app.status == 200);
}

Test(client, a_silent_server_is_a_deadline, .init = start, .fini = stop)
{
    app.hold = true;
    call(HTTP_METHOD_GET, NULL, 0, 50);
    wait_done(1);
    cr_assert(app.failed == 1 && app.code == STATUS_DEADLINE_EXCEEDED);
}

Test(client, nobody_listening_is_unavailable, .init = start, .fini = stop)
{
    http_client_t *lost = NULL;
    http_client_config_t config = {.server = "127.0.0.1:1"};
    cr_assert(http_client_create(&h.loop, &config, &lost, NULL) == STATUS_OK);
    http_client_request_t request = {.method = HTTP_METHOD_GET, .target = "/x"};
    for (int i = 0; i < 3; i++)
        cr_assert(http_client_call(lost, &request, on_done, NULL, NULL) == STATUS_OK);
    wait_done(3);
    cr_assert(app.failed == 3 && app.code == STATUS_UNAVAILABLE);
    http_client_destroy(lost);
}

Test(client, destroying_cancels_what_runs, .init = start)
{
    app.hold = true;
    call(HTTP_METHOD_GET, NULL, 0, 0);
    while (app.calls_seen < 1)
        harness_turn(&h, -1);
    http_client_destroy(client);
    wait_done(1);
    cr_assert(app.failed == 1 && app.code == STATUS_CANCELLED);
    harness_stop(&h, 0);
}

Test(client, a_connection_that_the_server_closed_is_replaced)
{
    memset(&app, 0, sizeof app);
    harness_start(&h, (http_server_config_t){.idle_timeout_ms = 30}, routes, 2);
    http_client_config_t config = {.server = http_server_address(h.server), .connections_max = 1};
    cr_assert(http_client_create(&h.loop, &config, &client, NULL) == STATUS_OK);
    for (int i = 1; i <= 3; i++) {
        call(HTTP_METHOD_GET, NULL, 0, 0);
        wait_done(i);
        while (http_server_counters(h.server)->connections_open > 0)
            harness_turn(&h, -1);
    }
    cr_assert(app.failed == 0 && http_server_counters(h.server)->connections_total == 3);
    stop();
}
