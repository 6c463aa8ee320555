/*
 * The gRPC front end over a real connection, with sessions of the test's own in place of session.c.
 */
#include "gateway/front/grpc_front.h"
#include "base/clock.h"
#include "gateway/front/grpc_stream.h"
#include "gateway/front/readiness.h"
#include "gateway/models/catalogue.h"
#include "gateway/sessions/session.h"
#include "open_inference.pb-c.h"
#include "rpc/client.h"
#include "until.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define METHOD(name) "/inference.GRPCInferenceService/" name

/* ---- the gateway behind the front end ---- */

enum { LARGE_BYTES = 3 << 20 };

static const oip_tensor_spec_t inputs[] = {
    {.name = "x", .datatype = OIP_INT32, .dims = {.rank = 1, .dims = {2}}}};
static const oip_tensor_spec_t outputs[] = {
    {.name = "y", .datatype = OIP_INT32, .dims = {.rank = 1, .dims = {2}}}};
static model_entry_t model = {.spec = {.name = "m",
                                       .version = "1",
                                       .platform = "test",
                                       .max_batch = 4,
                                       .input_count = 1,
                                       .output_count = 1,
                                       .inputs = inputs,
                                       .outputs = outputs,
                                       .picture_input = -1,
                                       .softmax_output = -1},
                              .ready = true};

static struct {
    int open, closed, refused, cancelled;
    status_t refusal;
    bool ready, undescribed;
    int64_t budget_ns;
    session_t *held;
    session_done_fn held_done;
    void *held_arg;
    uint8_t *large;
    struct iovec piece;
} fake;

static void *fake_alloc(void *self, size_t len_bytes)
{
    (void)self;
    (void)len_bytes;
    return NULL;
}

/* Once for each session: a message may come in pieces, however small it is. Of large ones there is no memory. */
void *session_alloc(session_t *session, size_t len_bytes)
{
    enum { MEMORY_BYTES = 64 << 10 };
    if (len_bytes <= MEMORY_BYTES && !session->internal)
        session->internal = malloc(MEMORY_BYTES);
    return len_bytes <= MEMORY_BYTES ? session->internal : NULL;
}

session_t *session_open(gateway_t *gateway, protocol_t protocol, err_t *err)
{
    session_t *session = calloc(1, sizeof *session);
    (void)err;
    cr_assert_eq(protocol, PROTOCOL_GRPC);
    session->gateway = gateway;
    session->allocator = (oip_allocator_t){fake_alloc, NULL};
    oip_reply_init(&session->reply, 1 << 20);
    fake.open++;
    return session;
}

void session_close(session_t *session)
{
    oip_reply_dispose(&session->reply);
    free(session->internal);
    free(session);
    fake.closed++;
}

status_t session_admit(session_t *session, struct keyring_holder *holder, const char *peer, err_t *err)
{
    (void)peer;
    (void)session, (void)holder, (void)err;
    return STATUS_OK;
}

status_t session_set_model(session_t *session, const char *name, const char *version, err_t *err)
{
    return catalogue_find(session->gateway->catalogue, name, version, &session->model, err);
}

void session_submit(session_t *session, int64_t budget_ns, session_done_fn done, void *arg)
{
    fake.budget_ns = budget_ns;
    oip_validate_request(&session->request, &model.spec, &session->error);
    if (strcmp(session->request.id, "late") == 0)
        err_set(&session->error, STATUS_DEADLINE_EXCEEDED, "too late");
    session->response =
        (oip_response_t){.model = "m", .version = "1", .id = session->request.id, .output_count = 1};
    fake.piece = (struct iovec){(void *)"12345678", 8};
    if (strcmp(session->request.id, "large") == 0)
        fake.piece = (struct iovec){fake.large, LARGE_BYTES};
    session->response.outputs[0] = (oip_output_t){.name = "y",
                                                  .datatype = OIP_INT32,
                                                  .shape = {.rank = 2, .dims = {1, 2}},
                                                  .pieces = &fake.piece,
                                                  .piece_count = 1};
    if (strcmp(session->request.id, "hold") == 0) {
        fake.held = session;
        fake.held_done = done;
        fake.held_arg = arg;
        return;
    }
    done(session, arg);
}

void session_cancel(session_t *session)
{
    fake.cancelled++;
    err_set(&session->error, STATUS_CANCELLED, "gone");
    fake.held_done(session, fake.held_arg);
}

status_t session_write(session_t *session, session_write_fn write, err_t *err)
{
    if (session->error.code == STATUS_OK)
        return write(&session->reply, &session->response, err);
    *err = session->error;
    return err->code;
}

void session_count_refusal(gateway_t *gateway, protocol_t protocol, status_t status)
{
    (void)gateway;
    (void)protocol;
    fake.refused++;
    fake.refusal = status;
}

status_t catalogue_find(catalogue_t *catalogue, const char *name, const char *version, model_entry_t **entry,
                        err_t *err)
{
    (void)catalogue;
    if (strcmp(name, "m") != 0 || (version[0] && strcmp(version, "1") != 0))
        return err_set(err, STATUS_NOT_FOUND, "no model '%s'", name);
    *entry = &model;
    return STATUS_OK;
}

status_t model_entry_check_described(const model_entry_t *entry, err_t *err)
{
    (void)entry;
    return fake.undescribed ? err_set(err, STATUS_UNAVAILABLE, "it never loaded") : STATUS_OK;
}

uint32_t catalogue_versions(catalogue_t *catalogue, const char *name, const char **versions, uint32_t cap)
{
    (void)catalogue;
    (void)name;
    (void)cap;
    versions[0] = "1";
    return 1;
}

status_t catalogue_write_index(catalogue_t *catalogue, bool only_ready, bool pb, strbuf_t *out)
{
    const oip_index_entry_t entry = {"m", "1", only_ready ? "READY" : "ANY", ""};
    (void)catalogue;
    cr_assert(pb);
    return oip_describe_index_pb(out, &entry, 1);
}

status_t catalogue_write_stats(catalogue_t *catalogue, const char *name, const char *version, bool pb,
                               strbuf_t *out, err_t *err)
{
    const oip_model_stats_t stats = {.name = "m", .version = "1", .inference_count = 5};
    (void)catalogue;
    (void)version;
    (void)pb;
    if (name[0] && strcmp(name, "m") != 0)
        return err_set(err, STATUS_NOT_FOUND, "no model '%s'", name);
    return oip_describe_stats_pb(out, &stats, 1);
}

bool gateway_is_ready(const gateway_t *gateway, const char **reason)
{
    (void)gateway;
    (void)reason;
    return fake.ready;
}

/* ---- the client ---- */

static gateway_t gateway;
static grpc_front_t *front;
static rpc_runtime_t *runtime;
static rpc_client_t *client;

typedef struct {
    bool done;
    rpc_code_t code;
    char text[256];
    rpc_bytes_t *bytes;
} answer_t;

#define until(condition) loop_until(gateway.loop, condition)

static void on_answer(void *arg, rpc_code_t code, const char *text, rpc_bytes_t *response, bool *keep)
{
    answer_t *answer = arg;
    answer->code = code;
    strncpy(answer->text, text ? text : "", sizeof answer->text - 1);
    answer->bytes = response;
    *keep = true;
    answer->done = true;
}

static void setup(void)
{
    err_t err;
    memset(&fake, 0, sizeof fake);
    fake.ready = true;
    fake.large = malloc(LARGE_BYTES);
    memset(fake.large, 'L', LARGE_BYTES);
    gateway = (gateway_t){.body_bytes_max = 1 << 20};
    cr_assert_eq(loop_create(&gateway.loop, &err), STATUS_OK);
    rpc_runtime_options_t options = {.loop = gateway.loop};
    cr_assert_eq(rpc_runtime_create(&options, &runtime, &err), STATUS_OK);
    const grpc_front_options_t front_options = {.rpc = runtime,
                                                .listen = "127.0.0.1:0",
                                                .step_ns = HANG_NS}; /* no message of a busy machine is cut */
    cr_assert_eq(grpc_front_create(&gateway, &front_options, &front, &err), STATUS_OK, "%s", err.text);
    rpc_client_options_t client_options = {.address = grpc_front_address(front)};
    cr_assert_eq(rpc_client_create(runtime, &client_options, &client, &err), STATUS_OK);
}

static void set_flag(void *flag)
{
    *(bool *)flag = true;
}

static void teardown(void)
{
    bool stopped = false;
    rpc_client_destroy(client);
    grpc_front_stop(front, NS_PER_S, set_flag, &stopped);
    until(stopped);
    grpc_front_destroy(front);
    rpc_runtime_destroy(runtime);
    loop_destroy(gateway.loop);
    cr_assert_eq(fake.open, fake.closed, "every session is closed");
    free(fake.large);
}

TestSuite(grpc_front, .init = setup, .fini = teardown, .timeout = 120);

static rpc_unary_t *start(const char *method, const void *message, size_t len_bytes, int64_t timeout_ns,
                          answer_t *answer)
{
    rpc_unary_options_t options = {.method = method, .timeout_ns = timeout_ns, .wait_for_ready = true};
    *answer = (answer_t){0};
    return rpc_client_unary(client, &options, rpc_bytes_copy(message, len_bytes), on_answer, answer);
}

static answer_t call(const char *method, const void *message, size_t len_bytes)
{
    answer_t answer;
    start(method, message, len_bytes, RPC_NO_DEADLINE, &answer);
    until(answer.done);
    return answer;
}

/* name = 1 (and a version = 2). */
#define NAME_M "\x0a\x01m"
#define CALL(method, text) call(METHOD(method), text, sizeof(text) - 1)

static size_t infer_message(const char *name, const char *id, uint8_t *out)
{
    Inference__ModelInferRequest message = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor input =
        INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
    Inference__ModelInferRequest__InferInputTensor *input_list[] = {&input};
    ProtobufCBinaryData raw = {8, (uint8_t *)"abcdefgh"};
    int64_t dims[] = {1, 2};
    message.model_name = (char *)(uintptr_t)name;
    message.id = (char *)(uintptr_t)id;
    message.n_inputs = 1;
    message.inputs = input_list;
    input.name = (char *)"x";
    input.datatype = (char *)"INT32";
    input.n_shape = 2;
    input.shape = dims;
    message.n_raw_input_contents = 1;
    message.raw_input_contents = &raw;
    return inference__model_infer_request__pack(&message, out);
}

static answer_t infer(const char *name, const char *id)
{
    uint8_t message[512];
    return call(METHOD("ModelInfer"), message, infer_message(name, id, message));
}

static Inference__ModelInferResponse *read_response(const answer_t *answer)
{
    cr_assert_eq(answer->code, RPC_OK, "%s", answer->text);
    return inference__model_infer_response__unpack(NULL, rpc_bytes_len(answer->bytes),
                                                   rpc_bytes_flat(answer->bytes));
}

Test(grpc_front, infers)
{
    answer_t answer = infer("m", "seven");
    Inference__ModelInferResponse *response = read_response(&answer);
    cr_assert_str_eq(response->id, "seven");
    cr_assert_eq(memcmp(response->raw_output_contents[0].data, "12345678", 8), 0);
    cr_assert_eq(fake.budget_ns, SESSION_NO_BUDGET);
    inference__model_infer_response__free_unpacked(response, NULL);
    rpc_bytes_free(answer.bytes);
}

Test(grpc_front, lends_large_answers)
{
    for (int i = 0; i < 3; i++) {
        answer_t answer = infer("m", "large");
        Inference__ModelInferResponse *response = read_response(&answer);
        cr_assert_eq(response->raw_output_contents[0].len, LARGE_BYTES);
        cr_assert_eq(memcmp(response->raw_output_contents[0].data, fake.large, LARGE_BYTES), 0);
        inference__model_infer_response__free_unpacked(response, NULL);
        rpc_bytes_free(answer.bytes);
        until(fake.closed == fake.open);
    }
}

Test(grpc_front, errors_keep_their_code_and_text)
{
    answer_t answer = infer("nobody", "");
    cr_assert_eq(answer.code, RPC_NOT_FOUND);
    cr_assert_str_eq(answer.text, "no model 'nobody'");
    cr_assert(fake.refused == 1 && fake.refusal == STATUS_NOT_FOUND);
    answer = infer("m", "late");
    cr_assert_eq(answer.code, RPC_DEADLINE_EXCEEDED);
    cr_assert_str_eq(answer.text, "too late");
    cr_assert_eq(fake.refused, 1);
    answer = CALL("ModelInfer", "\x0a\x7fm");
    cr_assert_eq(answer.code, RPC_INVALID_ARGUMENT);
    answer = CALL("ModelInfer", "");
    cr_assert_eq(answer.code, RPC_NOT_FOUND);
}

/* It comes in pieces, which are put together in memory of the session. */
Test(grpc_front, a_large_message_for_which_there_is_no_memory)
{
    enum { BYTES = 1 << 20 };
    uint8_t *large = calloc(1, BYTES);
    answer_t answer = call(METHOD("ModelInfer"), large, BYTES);
    cr_assert_eq(answer.code, RPC_UNAVAILABLE);
    cr_assert_str_eq(answer.text, "the gateway has no memory left for tensors");
    cr_assert(fake.refused == 1 && fake.closed == fake.open);
    free(large);
}

Test(grpc_front, a_message_over_the_limit)
{
    uint8_t *huge = calloc(1, 2 << 20);
    answer_t answer = call(METHOD("ModelInfer"), huge, 2 << 20);
    cr_assert_eq(answer.code, RPC_RESOURCE_EXHAUSTED, "%s", answer.text);
    free(huge);
}

Test(grpc_front, a_client_that_goes_cancels_its_session)
{
    uint8_t message[512];
    answer_t answer;
    rpc_unary_t *unary =
        start(METHOD("ModelInfer"), message, infer_message("m", "hold", message), 30 * NS_PER_S, &answer);
    until(fake.held);
    /* gRPC rounds the time-out up on the wire, and takes its clock once for many events. */
    cr_assert(fake.budget_ns > 20 * NS_PER_S && fake.budget_ns <= 31 * NS_PER_S, "%lld",
              (long long)fake.budget_ns);
    rpc_unary_cancel(unary);
    until(answer.done);
    cr_assert_eq(answer.code, RPC_CANCELLED);
    until(fake.cancelled == 1 && fake.closed == fake.open);
}

/* On a busy machine the deadline passes before the call is there, and nobody sees it: then it gets more time. */
Test(grpc_front, the_deadline_of_the_client_cancels_too)
{
    uint8_t message[512];
    answer_t answer;
    for (int64_t timeout_ns = 50 * NS_PER_MS; fake.open == 0; timeout_ns *= 2) {
        start(METHOD("ModelInfer"), message, infer_message("m", "hold", message), timeout_ns, &answer);
        until(answer.done);
        cr_assert_eq(answer.code, RPC_DEADLINE_EXCEEDED);
        rpc_bytes_free(CALL("ServerLive", "").bytes); /* comes after it */
    }
    until(fake.cancelled == 1 && fake.closed == fake.open);
}

static void assert_bytes(answer_t answer, const char *wanted, size_t len_bytes)
{
    cr_assert_eq(answer.code, RPC_OK, "%s", answer.text);
    cr_assert_eq(rpc_bytes_len(answer.bytes), len_bytes);
    cr_assert_eq(memcmp(rpc_bytes_flat(answer.bytes), wanted, len_bytes), 0);
    rpc_bytes_free(answer.bytes);
}

Test(grpc_front, liveness_and_readiness)
{
    assert_bytes(CALL("ServerLive", ""), "\x08\x01", 2);
    assert_bytes(CALL("ServerReady", ""), "\x08\x01", 2);
    assert_bytes(CALL("ModelReady", NAME_M), "\x08\x01", 2);
    assert_bytes(CALL("ModelReady", "\x0a\x01q"), "", 0);
    assert_bytes(call("/grpc.health.v1.Health/Check", "", 0), "\x08\x01", 2);
    fake.ready = false;
    assert_bytes(CALL("ServerReady", ""), "", 0);
    assert_bytes(call("/grpc.health.v1.Health/Check", "", 0), "\x08\x02", 2);
    cr_assert_eq(call("/grpc.health.v1.Health/Check", NAME_M, 3).code, RPC_NOT_FOUND);
}

Test(grpc_front, describes_models)
{
    answer_t answer = CALL("ModelMetadata", NAME_M "\x12\x01"
                                                   "1");
    cr_assert_eq(answer.code, RPC_OK, "%s", answer.text);
    Inference__ModelMetadataResponse *metadata = inference__model_metadata_response__unpack(
        NULL, rpc_bytes_len(answer.bytes), rpc_bytes_flat(answer.bytes));
    cr_assert_str_eq(metadata->inputs[0]->name, "x");
    cr_assert_str_eq(metadata->versions[0], "1");
    inference__model_metadata_response__free_unpacked(metadata, NULL);
    rpc_bytes_free(answer.bytes);
    answer = CALL("ModelConfig", NAME_M);
    cr_assert_eq(answer.code, RPC_OK);
    rpc_bytes_free(answer.bytes);
    answer = CALL("ModelStatistics", "");
    cr_assert_eq(answer.code, RPC_OK);
    rpc_bytes_free(answer.bytes);
    answer = CALL("RepositoryIndex", "\x10\x01");
    assert_bytes(answer,
                 "\x0a\x0d\x0a\x01m\x12\x01"
                 "1\x1a\x05READY",
                 15);
    assert_bytes(CALL("RepositoryIndex", ""),
                 "\x0a\x0b\x0a\x01m\x12\x01"
                 "1\x1a\x03"
                 "ANY",
                 13);
    answer = CALL("ServerMetadata", "");
    cr_assert_eq(answer.code, RPC_OK);
    rpc_bytes_free(answer.bytes);
    cr_assert_eq(CALL("ModelMetadata", "\x0a\x01q").code, RPC_NOT_FOUND);
    cr_assert_eq(CALL("ModelConfig", "\x0a\x01q").code, RPC_NOT_FOUND);
    cr_assert_eq(CALL("ModelStatistics", "\x0a\x01q").code, RPC_NOT_FOUND);
    cr_assert_eq(CALL("ModelConfig", "\x0a\x09q").code, RPC_INVALID_ARGUMENT);
    cr_assert_eq(CALL("ModelReady", "\x0a\x01\0").code, RPC_INVALID_ARGUMENT, "a NUL in a name");
    cr_assert_eq(CALL("RepositoryIndex", "\x0a\x09q").code, RPC_INVALID_ARGUMENT);
}

Test(grpc_front, a_model_that_never_loaded_says_why_instead_of_having_no_tensors)
{
    fake.undescribed = true;
    answer_t answer = CALL("ModelMetadata", NAME_M);
    cr_assert_eq(answer.code, RPC_UNAVAILABLE);
    cr_assert_str_eq(answer.text, "it never loaded");
    cr_assert_eq(CALL("ModelConfig", NAME_M).code, RPC_UNAVAILABLE);
    answer = CALL("ModelReady", NAME_M);
    cr_assert_eq(answer.code, RPC_OK);
    rpc_bytes_free(answer.bytes);
}

Test(grpc_front, says_what_it_does_not_do)
{
    answer_t answer = CALL("SystemSharedMemoryRegister", "");
    cr_assert_eq(answer.code, RPC_UNIMPLEMENTED);
    cr_assert(strstr(answer.text, "shared memory"), "%s", answer.text);
    answer = CALL("RepositoryModelLoad", "\x1a\x08\x0a\x06"
                                         "config");
    cr_assert_eq(answer.code, RPC_UNIMPLEMENTED);
    cr_assert(strstr(answer.text, "parameter 'config'"), "%s", answer.text);
    cr_assert_eq(CALL("RepositoryModelUnload", "\x1a\x06\x0a\x04"
                                               "else")
                     .code,
                 RPC_UNIMPLEMENTED);
    cr_assert_eq(CALL("RepositoryModelLoad", "\xff").code, RPC_INVALID_ARGUMENT);
    cr_assert_eq(CALL("NoSuchMethod", "").code, RPC_UNIMPLEMENTED);
}

/* ---- streams of requests ---- */

enum { ANSWERS_KEPT = 8 };

typedef struct {
    rpc_stream_t *stream;
    bool closed;
    rpc_code_t code;
    int count;
    size_t bytes;
    char ids[ANSWERS_KEPT][16], errors[ANSWERS_KEPT][64]; /* of the first ones */
} streamed_t;
static streamed_t streamed;

static void stream_open(rpc_stream_t *stream, void *arg)
{
    streamed_t *to = arg;
    if (!to->closed)
        to->stream = stream;
}

static void stream_message(rpc_stream_t *stream, void *arg, rpc_bytes_t *bytes, bool *keep)
{
    streamed_t *to = arg;
    (void)stream, (void)keep;
    to->bytes += rpc_bytes_len(bytes);
    if (to->count++ >= ANSWERS_KEPT)
        return;
    Inference__ModelStreamInferResponse *answer =
        inference__model_stream_infer_response__unpack(NULL, rpc_bytes_len(bytes), rpc_bytes_flat(bytes));
    cr_assert(answer);
    snprintf(to->errors[to->count - 1], sizeof to->errors[0], "%s", answer->error_message);
    if (answer->infer_response)
        snprintf(to->ids[to->count - 1], sizeof to->ids[0], "%s", answer->infer_response->id);
    inference__model_stream_infer_response__free_unpacked(answer, NULL);
}

static void stream_close(rpc_stream_t *stream, void *arg, rpc_code_t code, const char *text)
{
    streamed_t *to = arg;
    (void)stream, (void)text;
    to->stream = NULL;
    to->closed = true;
    to->code = code;
}

static rpc_link_t *open_stream_to(streamed_t *to)
{
    rpc_link_t *link;
    err_t err;
    rpc_link_options_t options = {
        .method = METHOD("ModelStreamInfer"),
        .ops = {.on_open = stream_open, .on_message = stream_message, .on_close = stream_close},
        .arg = to};
    *to = (streamed_t){0};
    cr_assert_eq(rpc_link_create(client, &options, &link, &err), STATUS_OK);
    until(to->stream);
    return link;
}

static rpc_link_t *open_stream(void)
{
    return open_stream_to(&streamed);
}

static void close_stream(rpc_link_t *link)
{
    bool closed = false;
    rpc_link_close(link, set_flag, &closed);
    until(closed);
}

static void stream_infer_to(streamed_t *to, const char *name, const char *id)
{
    uint8_t message[512];
    size_t len_bytes = infer_message(name, id, message);
    until(to->closed || rpc_stream_has_room(to->stream, len_bytes));
    cr_assert(!to->closed, "%s", rpc_code_name(to->code));
    cr_assert_eq(rpc_stream_send(to->stream, rpc_bytes_copy(message, len_bytes)), STATUS_OK);
}

static void stream_infer(const char *name, const char *id)
{
    stream_infer_to(&streamed, name, id);
}

Test(grpc_front, a_stream_is_answered_in_the_order_of_its_requests)
{
    rpc_link_t *link = open_stream();
    stream_infer("m", "hold");
    stream_infer("m", "second");
    stream_infer("nobody", "third");
    until(fake.refused == 1);
    cr_assert_eq(streamed.count, 0, "the first is not answered yet");
    fake.held_done(fake.held, fake.held_arg);
    until(streamed.count == 3);
    cr_assert_str_eq(streamed.ids[0], "hold");
    cr_assert_str_eq(streamed.ids[1], "second");
    cr_assert_str_eq(streamed.ids[2], "third");
    cr_assert_str_eq(streamed.errors[1], "");
    cr_assert_str_eq(streamed.errors[2], "no model 'nobody'");
    close_stream(link);
}

Test(grpc_front, a_stream_ends_after_it_has_answered)
{
    rpc_link_t *link = open_stream();
    stream_infer("m", "hold");
    until(fake.held);
    rpc_stream_close(streamed.stream, RPC_OK, NULL); /* a client half-closes */
    fake.held_done(fake.held, fake.held_arg);
    until(streamed.closed);
    cr_assert_eq(streamed.count, 1);
    cr_assert_eq(streamed.code, RPC_OK);
    close_stream(link);
}

Test(grpc_front, a_client_that_goes_cancels_what_its_stream_asked)
{
    rpc_link_t *link = open_stream();
    stream_infer("m", "hold");
    stream_infer("m", "waits behind it");
    until(fake.open == 2 && fake.closed == 1);
    close_stream(link);
    until(fake.cancelled == 1 && fake.closed == 2);
}

Test(grpc_front, a_message_that_is_none_leaves_the_stream)
{
    rpc_link_t *link = open_stream();
    cr_assert_eq(rpc_stream_send(streamed.stream, rpc_bytes_copy("\x0a\x7fm", 3)), STATUS_OK);
    stream_infer("m", "after");
    until(streamed.count == 2);
    cr_assert_neq(streamed.errors[0][0], '\0');
    cr_assert_str_eq(streamed.ids[1], "after");
    close_stream(link);
}

/* They come all at once: far more bytes than the send queue holds. */
Test(grpc_front, large_answers_of_a_stream_wait_until_they_can_be_sent)
{
    enum { MANY = 40 };
    rpc_link_t *link = open_stream();
    for (int i = 0; i < MANY; i++)
        stream_infer("m", "large");
    until(streamed.count == MANY || streamed.closed);
    cr_assert_eq(streamed.count, MANY, "closed with %s", rpc_code_name(streamed.code));
    cr_assert_gt(streamed.bytes, (size_t)MANY * LARGE_BYTES);
    close_stream(link);
}

/* The first is expected to leave room for three large answers, not quite; those that wait behind it count
 * as they are. */
Test(grpc_front, no_more_requests_are_read_than_there_is_room_for_answers)
{
    enum { MANY = 40, FIT = 3 };
    model.output_row_bytes = STREAM_BYTES_MAX - FIT * LARGE_BYTES - 1;
    rpc_link_t *link = open_stream();
    stream_infer("m", "hold");
    for (int i = 1; i < MANY; i++)
        stream_infer("m", "large");
    until(fake.closed == FIT);
    infer("m", "after them"); /* a round trip: what would be read would be read by then */
    cr_assert_eq(fake.open, 1 + FIT + 1);
    fake.held_done(fake.held, fake.held_arg);
    until(streamed.count == MANY || streamed.closed);
    cr_assert_eq(streamed.count, MANY, "closed with %s", rpc_code_name(streamed.code));
    close_stream(link);
}

Test(grpc_front, a_stream_full_of_requests_leaves_room_for_others)
{
    enum { SENT = 1000, QUEUED = 600 };
    streamed_t other;
    rpc_link_t *link = open_stream(), *other_link = open_stream_to(&other);
    stream_infer("m", "hold");
    for (int i = 0; i < STREAM_CALLS_MAX - 1; i++)
        stream_infer("nobody", "");
    until(fake.refused == STREAM_CALLS_MAX - 1);
    for (int i = 0; i < QUEUED; i++) /* these find no room */
        stream_infer("nobody", "");
    for (int i = 0; i < SENT; i++)
        stream_infer_to(&other, "m", "quick");
    until(other.count == SENT || other.closed);
    cr_assert_eq(other.count, SENT);
    cr_assert_eq(fake.refused, STREAM_CALLS_MAX - 1, "they are not even read");
    cr_assert(streamed.count == 0 && !streamed.closed);
    fake.held_done(fake.held, fake.held_arg);
    until(streamed.count == STREAM_CALLS_MAX + QUEUED);
    cr_assert_str_eq(streamed.ids[0], "hold");
    close_stream(link);
    close_stream(other_link);
}
