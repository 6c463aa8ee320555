/* Unary calls: answers, deadlines, cancellation, limits, bad peers. */
#include "support.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#define ECHO_METHOD "/test.Echo/Echo"
#define HOLD_METHOD "/test.Echo/Hold"

/* A handler that keeps the call until the test lets it go. */
typedef struct {
    rpc_call_t *call;
    int calls, cancels;
    int64_t remaining_ns;
    char peer[64];
} held_t;

static void hold_cancelled(rpc_call_t *call, void *arg)
{
    held_t *held = arg;
    held->cancels++;
    cr_expect(rpc_call_cancelled(call));
}

static void hold_handler(rpc_call_t *call, void *arg)
{
    held_t *held = arg;
    held->calls++;
    held->call = call;
    held->remaining_ns = rpc_call_remaining_ns(call);
    strncpy(held->peer, rpc_call_peer(call), sizeof held->peer - 1);
    rpc_call_on_cancel(call, hold_cancelled, held);
}

static void serve(rig_t *rig, held_t *held, const rpc_limits_t *server_limits)
{
    rig_init(rig);
    rig_server(rig, NULL, server_limits);
    cr_assert_eq(rpc_server_add_unary(rig->server, ECHO_METHOD, echo_handler, NULL), STATUS_OK);
    cr_assert_eq(rpc_server_add_unary(rig->server, HOLD_METHOD, hold_handler, held), STATUS_OK);
    rig_serve(rig);
    rig_client(rig, NULL);
}

Test(unary, echo)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, bytes_of("hello"), &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_OK, "%s", answer.text);
    cr_expect_eq(answer.len_bytes, 5);
    cr_expect_eq(answer.first, 'h');
    rig_dispose(&rig);
}

Test(unary, an_empty_message_is_a_message)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, rpc_bytes_copy("", 0), &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_OK, "%s", answer.text);
    cr_expect_eq(answer.len_bytes, 0);
    rig_dispose(&rig);
}

Test(unary, many_outstanding)
{
    enum { MANY = 1000 };
    static answer_t answers[MANY];
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    for (int i = 0; i < MANY; i++) {
        unsigned char byte = (unsigned char)i;
        rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, rpc_bytes_copy(&byte, 1), &answers[i]);
    }
    for (int i = 0; i < MANY; i++) {
        rig_until(&rig, answers[i].done);
        cr_assert_eq(answers[i].code, RPC_OK, "%d: %s", i, answers[i].text);
        cr_assert_eq(answers[i].first, (unsigned char)i);
    }
    rig_dispose(&rig);
}

Test(unary, remaining_time_and_peer_are_the_clients)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, HOLD_METHOD, 5 * NS_PER_S, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 1);
    cr_expect(held.remaining_ns > 0 && held.remaining_ns <= 5 * NS_PER_S + 10 * NS_PER_MS, "%ld",
              (long)held.remaining_ns);
    cr_expect_eq(strncmp(held.peer, "127.0.0.1:", 10), 0, "%s", held.peer);
    rpc_call_finish(held.call, RPC_NOT_FOUND, "no such thing", NULL);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_NOT_FOUND);
    cr_expect_str_eq(answer.text, "no such thing");

    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 2);
    cr_expect_eq(held.remaining_ns, RPC_NO_DEADLINE);
    rpc_call_finish(held.call, RPC_OK, NULL, bytes_of("y"));
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_OK);
    rig_dispose(&rig);
}

Test(unary, deadline_passes_at_both_ends)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, HOLD_METHOD, 2 * NS_PER_S, bytes_of("x"), &answer); /* time enough to come there */
    rig_until(&rig, answer.done && held.cancels == 1);
    cr_expect_eq(answer.code, RPC_DEADLINE_EXCEEDED, "%s", rpc_code_name(answer.code));
    rpc_call_finish(held.call, RPC_OK, NULL, bytes_of("late"));
    rig_dispose(&rig);
}

Test(unary, client_cancels)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rpc_unary_t *unary = rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 1);
    rpc_unary_cancel(unary);
    rig_until(&rig, answer.done && held.cancels == 1);
    cr_expect_eq(answer.code, RPC_CANCELLED);
    rpc_call_finish(held.call, RPC_OK, NULL, NULL);
    rig_dispose(&rig);
}

Test(unary, no_cancel_after_finish)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 1);
    rpc_call_finish(held.call, RPC_OK, NULL, bytes_of("y"));
    rig_until(&rig, answer.done);
    rig_dispose(&rig);
    cr_expect_eq(held.cancels, 0);
}

static void *finish_elsewhere(void *arg)
{
    rpc_call_finish(arg, RPC_OK, NULL, bytes_of("from afar"));
    return NULL;
}

Test(unary, finish_from_another_thread)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 1);
    pthread_t thread;
    cr_assert_eq(pthread_create(&thread, NULL, finish_elsewhere, held.call), 0);
    rig_until(&rig, answer.done);
    pthread_join(thread, NULL);
    cr_expect_eq(answer.len_bytes, strlen("from afar"));
    rig_dispose(&rig);
}

Test(unary, unknown_method)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, "/test.Echo/Nothing", RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_UNIMPLEMENTED);
    cr_expect_str_eq(answer.text, "unknown method");
    rig_dispose(&rig);
}

Test(unary, message_over_the_servers_limit)
{
    rig_t rig;
    held_t held = {0};
    rpc_limits_t limits = {.max_receive_bytes = 1000};
    serve(&rig, &held, &limits);
    answer_t answer;
    uint8_t *data;
    rpc_bytes_t *big = rpc_bytes_reserve(1001, &data);
    memset(data, 'b', 1001);
    rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, big, &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_RESOURCE_EXHAUSTED, "%s %s", rpc_code_name(answer.code), answer.text);

    big = rpc_bytes_reserve(1000, &data);
    memset(data, 'b', 1000);
    rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, big, &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_OK, "the limit itself is allowed: %s", answer.text);
    rig_dispose(&rig);
}

static int released;
static void count_release(void *arg)
{
    (void)arg;
    atomic_fetch_add((atomic_int *)&released, 1);
}

Test(unary, big_message_from_memory_of_the_caller)
{
    enum { BIG = 20 * 1024 * 1024 };
    rig_t rig;
    held_t held = {0};
    rpc_limits_t limits = {.max_receive_bytes = INT32_MAX};
    serve(&rig, &held, &limits);
    char *memory = malloc(BIG);
    memset(memory, 'm', BIG);
    rpc_part_t parts[] = {{.data = "ab", .len_bytes = 2},
                          {.data = memory, .len_bytes = BIG, .release = count_release}};
    answer_t answer;
    rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, rpc_bytes_from_parts(parts, 2), &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_OK, "%s", answer.text);
    cr_expect_eq(answer.len_bytes, BIG + 2);
    cr_expect_eq(answer.first, 'a');
    rig_until(&rig, atomic_load((atomic_int *)&released) == 1);
    free(memory);
    rig_dispose(&rig);
}

static int connect_raw(int port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

Test(unary, garbage_on_the_connection_harms_nobody_else)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    static const char *const junk[] = {
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    };
    for (size_t i = 0; i < sizeof junk / sizeof junk[0]; i++) {
        int fd = connect_raw(rpc_server_port(rig.server));
        cr_assert(send(fd, junk[i], strlen(junk[i]), MSG_NOSIGNAL) > 0);
        answer_t answer;
        rig_call(&rig, ECHO_METHOD, RPC_NO_DEADLINE, bytes_of("still here"), &answer);
        rig_until(&rig, answer.done);
        cr_expect_eq(answer.code, RPC_OK, "%s", answer.text);
        close(fd);
    }
    rig_dispose(&rig);
}

Test(unary, port_in_use_is_an_error)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    rpc_server_options_t options = {.address = rpc_server_address(rig.server)};
    rpc_server_t *second;
    err_t err = {0};
    cr_assert_eq(rpc_server_create(rig.runtime, &options, &second, &err), STATUS_OK);
    cr_expect_eq(rpc_server_start(second, &err), STATUS_IO);
    cr_expect(strstr(err.text, options.address) != NULL, "%s", err.text);
    rpc_server_destroy(second);
    rig_dispose(&rig);
}

Test(unary, nobody_listens)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    rig_stop_server(&rig, 0);
    answer_t answer = {0};
    rpc_unary_options_t options = {.method = ECHO_METHOD, .timeout_ns = RPC_NO_DEADLINE};
    rpc_client_unary(rig.client, &options, bytes_of("x"), answer_take, &answer);
    rig_until(&rig, answer.done);
    cr_expect_eq(answer.code, RPC_UNAVAILABLE, "%s", rpc_code_name(answer.code));
    rig_dispose(&rig);
}

Test(unary, calls_over_the_bound_are_refused_at_once)
{
    rig_t rig;
    held_t held = {0};
    rig_init(&rig);
    err_t err = {0};
    rpc_server_options_t options = {.address = "127.0.0.1:0", .calls_max = 1};
    cr_assert_eq(rpc_server_create(rig.runtime, &options, &rig.server, &err), STATUS_OK);
    cr_assert_eq(rpc_server_add_unary(rig.server, HOLD_METHOD, hold_handler, &held), STATUS_OK);
    rig_serve(&rig);
    rig_client(&rig, NULL);
    answer_t first, second;
    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &first);
    rig_until(&rig, held.calls == 1);
    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &second);
    rig_until(&rig, second.done);
    cr_expect_eq(second.code, RPC_UNAVAILABLE);
    cr_expect_eq(held.calls, 1);
    rpc_call_finish(held.call, RPC_OK, NULL, bytes_of("y"));
    rig_until(&rig, first.done);
    rig_dispose(&rig);
}

Test(unary, stop_drains_then_cancels)
{
    rig_t rig;
    held_t held = {0};
    serve(&rig, &held, NULL);
    answer_t answer;
    rig_call(&rig, HOLD_METHOD, RPC_NO_DEADLINE, bytes_of("x"), &answer);
    rig_until(&rig, held.calls == 1);
    rpc_server_stop(rig.server, 50 * NS_PER_MS, rig_flag, &rig.stopped);
    rig_until(&rig, held.cancels == 1 && answer.done);
    cr_expect_neq(answer.code, RPC_OK);
    cr_expect(!rig.stopped, "a call that its handler has not finished keeps the server");
    rpc_call_finish(held.call, RPC_OK, NULL, NULL);
    rig_until(&rig, rig.stopped);
    rpc_server_destroy(rig.server);
    rig.server = NULL;
    rig_dispose(&rig);
}

/* ---- Direct delivery ---- */

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int done, ok;
} tally_t;

static void tally_answer(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    (void)text;
    (void)response;
    (void)keep;
    tally_t *tally = arg;
    pthread_mutex_lock(&tally->lock);
    tally->done++;
    tally->ok += code == RPC_OK;
    pthread_cond_signal(&tally->changed);
    pthread_mutex_unlock(&tally->lock);
}

static void tally_stopped(void *arg)
{
    tally_answer(arg, RPC_OK, "", NULL, NULL);
}

static void tally_wait(tally_t *tally, int done)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&tally->lock);
    int rc = 0;
    while (tally->done < done && rc == 0)
        rc = pthread_cond_timedwait(&tally->changed, &tally->lock, &until);
    cr_assert_eq(rc, 0, "only %d of %d", tally->done, done);
    pthread_mutex_unlock(&tally->lock);
}

Test(unary, direct_delivery_on_several_threads)
{
    enum { MANY = 2000 };
    tally_t tally = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    err_t err = {0};
    rpc_runtime_t *runtime;
    rpc_runtime_options_t how = {.threads = 3};
    cr_assert_eq(rpc_runtime_create(&how, &runtime, &err), STATUS_OK, "%s", err.text);
    rpc_server_t *server;
    rpc_server_options_t server_options = {.address = "127.0.0.1:0"};
    cr_assert_eq(rpc_server_create(runtime, &server_options, &server, &err), STATUS_OK);
    cr_assert_eq(rpc_server_add_unary(server, ECHO_METHOD, echo_handler, NULL), STATUS_OK);
    cr_assert_eq(rpc_server_start(server, &err), STATUS_OK, "%s", err.text);
    rpc_client_t *client;
    rpc_client_options_t client_options = {.address = rpc_server_address(server)};
    cr_assert_eq(rpc_client_create(runtime, &client_options, &client, &err), STATUS_OK);
    rpc_unary_options_t options = {.method = ECHO_METHOD, .timeout_ns = RPC_NO_DEADLINE};
    for (int i = 0; i < MANY; i++)
        rpc_client_unary(client, &options, bytes_of("direct"), tally_answer, &tally);
    tally_wait(&tally, MANY);
    cr_expect_eq(tally.ok, MANY);
    rpc_server_stop(server, NS_PER_S, tally_stopped, &tally);
    tally_wait(&tally, MANY + 1);
    rpc_client_destroy(client);
    rpc_server_destroy(server);
    rpc_runtime_destroy(runtime);
}
