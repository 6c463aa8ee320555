#include "gateway/front/rest.h"

#include "gateway/access/access.h"
#include "gateway/front/readiness.h"
#include "gateway/front/rest_regions.h"
#include "gateway/links/control.h"
#include "gateway/sessions/session.h"
#include "http/url.h"
#include "image/picture.h"
#include "oip/describe.h"
#include "oip/rest_codec.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Bodies up to here are always received into the arena: what a connection sends at once anyway. */
enum { PLACED_ALWAYS_BYTES = 64 << 10 };

struct rest {
    gateway_t *gateway;
    http_server_t *server;
    strbuf_t document;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

static const char json_type[] = "application/json";

/* ------------------------------------------------------------------ infer */

static void respond_failure(http_request_t *request, const err_t *err, uint32_t retry_after_ms)
{
    char header[40] = "";
    if (err->code == STATUS_UNAVAILABLE || err->code == STATUS_NO_MEMORY || err->code == STATUS_LIMITED)
        snprintf(header, sizeof header, "Retry-After: %u\r\n",
                 (retry_after_ms + 999) / 1000 + (retry_after_ms == 0));
    http_respond_error(request, status_to_http(err->code), header, "%s", err->text);
}

static void refuse(http_request_t *request, session_t *session, gateway_t *gateway, const err_t *err)
{
    uint32_t retry_after_ms = session ? session->retry_after_ms : 0;
    session_count_refusal(gateway, PROTOCOL_REST, err->code);
    if (session)
        session_close(session);
    http_request_set_context(request, NULL);
    respond_failure(request, err, retry_after_ms);
}

/* Whether a Content-Type is one of a list that ends with NULL; its parameters ("; charset=…") do not count. */
static bool is_type(const char *type, const char *const *list)
{
    size_t len = strcspn(type, "; \t");
    for (; *list; list++)
        if (strlen(*list) == len && strncasecmp(type, *list, len) == 0)
            return true;
    return false;
}

static bool is_picture_type(const char *type)
{
    static const char *const pictures[] = {"image/jpeg", "image/jpg", "image/png", NULL};
    return type && is_type(type, pictures);
}

/* Clients that say nothing of JSON or tensors send what their library thinks of: a form (curl), text. */
static bool is_taken_type(const char *type)
{
    static const char *const taken[] = {"application/json", "application/octet-stream",
                                        "application/x-www-form-urlencoded", NULL};
    return !type || !*type || is_picture_type(type) || is_type(type, taken) ||
           strncasecmp(type, "text/", 5) == 0;
}

/* A picture file is never a tensor, even where its size would fit one. */
static status_t check_picture(const http_request_t *request, const oip_model_spec_t *spec, err_t *err)
{
    if (!is_picture_type(http_request_header(request, "Content-Type")) || spec->picture_input >= 0 ||
        spec->inputs[0].datatype == OIP_BYTES)
        return STATUS_OK;
    return err_set(err, STATUS_INVALID_ARGUMENT,
                   "model '%s' takes no pictures: its config.yaml declares no preprocess", spec->name);
}

/* OIP_REST_ALL_JSON, the number in the header, or 0 for raw bodies; false when the header is no number. */
static bool header_bytes(const http_request_t *request, int64_t *bytes)
{
    const char *text = http_request_header(request, "Inference-Header-Content-Length");
    if (!text) {
        *bytes = is_picture_type(http_request_header(request, "Content-Type")) ? 0 : OIP_REST_ALL_JSON;
        return true;
    }
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 18 || text[digits] != '\0')
        return false;
    *bytes = strtoll(text, NULL, 10);
    return true;
}

static status_t check_headers(const http_request_t *request, int64_t *json_bytes, err_t *err)
{
    if (!header_bytes(request, json_bytes))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "header Inference-Header-Content-Length is not a number");
    if (http_request_header_repeats(request, "Inference-Header-Content-Length"))
        return err_set(err, STATUS_INVALID_ARGUMENT, "header Inference-Header-Content-Length comes twice");
    return STATUS_OK;
}

/* Why a body is not taken as it is sent, and with which status; 0: it is. */
static int untaken(const http_request_t *request, err_t *why)
{
    const char *encoding = http_request_header(request, "Content-Encoding");
    const char *type = http_request_header(request, "Content-Type");
    if (encoding && strcasecmp(encoding, "identity") != 0) {
        err_set(why, STATUS_INVALID_ARGUMENT,
                "Content-Encoding '%.100s' is not taken: send the bytes as they are", encoding);
        return 415;
    }
    if (!is_taken_type(type)) {
        err_set(why, STATUS_INVALID_ARGUMENT,
                "Content-Type '%.100s' is not taken: application/json, application/octet-stream (tensors), "
                "and of pictures image/jpeg and image/png are",
                type);
        return 415;
    }
    if (http_request_content_length(request) == 0 && !http_request_header(request, "Content-Length")) {
        err_set(why, STATUS_INVALID_ARGUMENT, "a request needs a Content-Length, or is chunked");
        return 411;
    }
    return 0;
}

static void refuse_as(http_request_t *request, session_t *session, gateway_t *gateway, int http_status,
                      const err_t *why)
{
    session_count_refusal(gateway, PROTOCOL_REST, STATUS_INVALID_ARGUMENT);
    session_close(session);
    http_request_set_context(request, NULL);
    http_respond_error(request, http_status, NULL, "%s", why->text);
}

/*
 * Whether a body may be received straight into the arena. Large ones only while half of it is free: clients
 * that announce much and send little must not take the room of those that have sent everything. The others
 * are received into memory that grows as bytes come, and copied.
 */
static bool may_place(const rest_t *rest, int64_t length)
{
    arena_stats_t stats;
    if (length <= PLACED_ALWAYS_BYTES)
        return true;
    arena_stats(rest->gateway->arena, &stats);
    return stats.used_bytes + (size_t)length <= stats.total_bytes / 2;
}

/* The model is known and the body goes to its place: raw tensors straight to where workers fetch them. */
static void infer_headers(http_request_t *request, void *user)
{
    rest_t *rest = user;
    err_t err = {0};
    int64_t json_bytes, length = http_request_content_length(request);
    session_t *session = session_open(rest->gateway, PROTOCOL_REST, &err);
    if (!session) {
        refuse(request, NULL, rest->gateway, &err);
        return;
    }
    if (session_admit(session, http_request_caller(request), http_request_peer(request), &err) != STATUS_OK ||
        session_set_model(session, http_request_param(request, "model"),
                          http_request_param(request, "version"), &err) != STATUS_OK ||
        check_headers(request, &json_bytes, &err) != STATUS_OK ||
        check_picture(request, &session->model->spec, &err) != STATUS_OK) {
        refuse(request, session, rest->gateway, &err);
        return;
    }
    int http_status = untaken(request, &err);
    if (http_status) {
        refuse_as(request, session, rest->gateway, http_status, &err);
        return;
    }
    http_request_set_context(request, session);
    if (json_bytes == OIP_REST_ALL_JSON || length <= 0 || !may_place(rest, length))
        return;
    size_t before = session_lead((size_t)json_bytes);
    uint8_t *body = session_alloc(session, before + (size_t)length);
    if (!body) {
        err_set(&err, STATUS_UNAVAILABLE, "the gateway has no memory left for tensors");
        refuse(request, session, rest->gateway, &err);
        return;
    }
    http_request_set_body_buffer(request, body + before, (size_t)length);
}

static void close_session(void *arg)
{
    session_close(arg);
}

static void respond_outputs(http_request_t *request, session_t *session)
{
    const oip_reply_t *reply = &session->reply;
    char header[64] = "";
    bool binary = reply->json_bytes > 0;
    if (binary)
        snprintf(header, sizeof header, "Inference-Header-Content-Length: %zu\r\n", reply->json_bytes);
    http_respond(request, &(http_response_t){.status = 200,
                                             .content_type = binary ? "application/octet-stream" : json_type,
                                             .extra_headers = header,
                                             .body = reply->iov,
                                             .body_count = reply->iov_count,
                                             .release = close_session,
                                             .release_arg = session});
}

static void infer_done(session_t *session, void *arg)
{
    http_request_t *request = arg;
    err_t err = {0};
    if (session_write(session, oip_rest_write, &err) == STATUS_OK) {
        respond_outputs(request, session);
        return;
    }
    uint32_t retry_after_ms = session->retry_after_ms;
    session_close(session);
    respond_failure(request, &err, retry_after_ms);
}

static status_t query_value(const http_request_t *request, const char *key, int64_t *value, err_t *err)
{
    char text[24], *end;
    status_t status = url_query_get(http_request_query(request), key, text, sizeof text);
    if (status != STATUS_OK)
        return status == STATUS_NOT_FOUND ? status
                                          : err_set(err, STATUS_INVALID_ARGUMENT,
                                                    "query parameter %s is too long or malformed", key);
    errno = 0;
    *value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "query parameter %s is not a number", key);
    return STATUS_OK;
}

static status_t classify_all(oip_request_t *infer, const oip_model_spec_t *spec, int64_t classes, err_t *err)
{
    const oip_value_t value = {.kind = OIP_PARAM_INT64, .i64 = classes};
    if (spec->output_count > OIP_MAX_TENSORS)
        return err_set(err, STATUS_INVALID_ARGUMENT, "the model has over %d outputs", OIP_MAX_TENSORS);
    infer->requested_count = spec->output_count;
    for (uint32_t i = 0; i < spec->output_count; i++) {
        infer->requested[i] = (oip_requested_t){.name = spec->outputs[i].name};
        if (oip_requested_set_parameter(&infer->requested[i], "classification", &value, err) != STATUS_OK)
            return err->code;
    }
    return STATUS_OK;
}

/* A raw body has no JSON to carry parameters in: the query string does. */
static status_t apply_query(const http_request_t *request, session_t *session, err_t *err)
{
    static const char *const names[] = {"timeout", "priority", "fermata_timing"};
    oip_request_t *infer = &session->request;
    int64_t number = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        status_t status = query_value(request, names[i], &number, err);
        oip_value_t value = {.kind = OIP_PARAM_INT64, .i64 = number};
        if (strcmp(names[i], "fermata_timing") == 0)
            value = (oip_value_t){.kind = OIP_PARAM_BOOL, .b = number != 0};
        if (status == STATUS_OK)
            status = oip_request_set_parameter(infer, names[i], &value, err);
        if (status != STATUS_OK && status != STATUS_NOT_FOUND)
            return status;
    }
    status_t status = query_value(request, "classification", &number, err);
    if (status == STATUS_OK)
        status = classify_all(infer, &session->model->spec, number, err);
    return status == STATUS_NOT_FOUND ? STATUS_OK : status;
}

/* `curl --data-binary @7.png` without a Content-Type says that it sends a form, and so JSON. */
static void explain_picture(const uint8_t *body, size_t body_bytes, err_t *err)
{
    image_format_t format;
    if (body && image_recognise(body, body_bytes, &format))
        err_set(err, STATUS_INVALID_ARGUMENT,
                "the body is a picture: send it with the header 'Content-Type: %s'",
                format == IMAGE_PNG ? "image/png" : "image/jpeg");
}

static void infer_request(http_request_t *request, void *user)
{
    rest_t *rest = user;
    session_t *session = http_request_context(request);
    err_t err = {0};
    int64_t json_bytes = OIP_REST_ALL_JSON;
    size_t body_bytes;
    const uint8_t *body = http_request_body(request, &body_bytes);
    (void)header_bytes(request, &json_bytes); /* it is a number: infer_headers has looked */
    status_t status = oip_rest_parse(&session->request, &session->model->spec, body ? (const char *)body : "",
                                     body_bytes, json_bytes, &session->allocator, &err);
    if (status == STATUS_OK && json_bytes == 0)
        status = apply_query(request, session, &err);
    if (status != STATUS_OK) {
        if (json_bytes == OIP_REST_ALL_JSON)
            explain_picture(body, body_bytes, &err);
        refuse(request, session, rest->gateway, &err);
        return;
    }
    session->front = request; /* from here on done answers */
    session_submit(session, SESSION_NO_BUDGET, infer_done, request);
}

static void infer_closed(http_request_t *request, void *user)
{
    session_t *session = http_request_context(request);
    (void)user;
    if (session && session->front) {
        session_cancel(session);
        return;
    }
    if (session)
        session_close(session);
    http_respond_error(request, 499, NULL, "the client is gone");
}

/* ------------------------------------------------------------------ documents */

static void respond_document(rest_t *rest, http_request_t *request, status_t status, const err_t *err)
{
    if (status != STATUS_OK)
        http_respond_error(request, status_to_http(status), NULL, "%s",
                           err && err->code != STATUS_OK ? err->text : "the answer cannot be written");
    else
        http_respond_copy(request, 200, json_type, NULL, rest->document.data, rest->document.len_bytes);
    strbuf_clear(&rest->document);
}

static bool has_regions(const rest_t *rest)
{
    return rest->gateway->regions;
}

static void get_server(http_request_t *request, void *user)
{
    rest_t *rest = user;
    respond_document(
        rest, request,
        oip_describe_server_json(&rest->document, GATEWAY_SERVER_NAME, FERMATA_VERSION, has_regions(rest)),
        NULL);
}

static void get_live(http_request_t *request, void *user)
{
    (void)user;
    http_respond_copy(request, 200, NULL, NULL, "", 0);
}

static void get_ready(http_request_t *request, void *user)
{
    const rest_t *rest = user;
    const char *reason;
    if (gateway_is_ready(rest->gateway, &reason))
        http_respond_copy(request, 200, NULL, NULL, "", 0);
    else
        http_respond_error(request, 503, NULL, "not ready: %s", reason);
}

/* NULL: it has been answered. */
static model_entry_t *find_model(rest_t *rest, http_request_t *request)
{
    err_t err = {0};
    model_entry_t *entry;
    if (catalogue_find(rest->gateway->catalogue, http_request_param(request, "model"),
                       http_request_param(request, "version"), &entry, &err) == STATUS_OK)
        return entry;
    http_respond_err(request, &err);
    return NULL;
}

/* As find_model, for what only a description of the model can answer. */
static model_entry_t *find_described(rest_t *rest, http_request_t *request)
{
    err_t err = {0};
    model_entry_t *entry = find_model(rest, request);
    if (!entry || model_entry_check_described(entry, &err) == STATUS_OK)
        return entry;
    http_respond_err(request, &err);
    return NULL;
}

static void get_model(http_request_t *request, void *user)
{
    rest_t *rest = user;
    const char *versions[CATALOGUE_VERSIONS_MAX];
    const model_entry_t *entry = find_described(rest, request);
    if (!entry)
        return;
    uint32_t count =
        catalogue_versions(rest->gateway->catalogue, entry->spec.name, versions, CATALOGUE_VERSIONS_MAX);
    respond_document(rest, request, oip_describe_model_json(&rest->document, &entry->spec, versions, count),
                     NULL);
}

static void get_model_ready(http_request_t *request, void *user)
{
    rest_t *rest = user;
    const model_entry_t *entry = find_model(rest, request);
    if (!entry)
        return;
    if (entry->ready)
        http_respond_copy(request, 200, NULL, NULL, "", 0);
    else
        http_respond_error(request, 503, NULL, "model '%s' version %s is not ready: %s", entry->spec.name,
                           entry->spec.version, entry->reason);
}

static void get_config(http_request_t *request, void *user)
{
    rest_t *rest = user;
    const model_entry_t *entry = find_described(rest, request);
    if (entry)
        respond_document(rest, request, oip_describe_config_json(&rest->document, &entry->spec), NULL);
}

static void get_stats(http_request_t *request, void *user)
{
    rest_t *rest = user;
    err_t err = {0};
    status_t status =
        catalogue_write_stats(rest->gateway->catalogue, http_request_param(request, "model"),
                              http_request_param(request, "version"), false, &rest->document, &err);
    respond_document(rest, request, status, &err);
}

static void post_index(http_request_t *request, void *user)
{
    rest_t *rest = user;
    size_t len;
    err_t err = {0};
    bool only_ready;
    const uint8_t *body = http_request_body(request, &len);
    status_t status = oip_rest_parse_index(body ? (const char *)body : "", len, &only_ready, &err);
    if (status == STATUS_OK)
        status = catalogue_write_index(rest->gateway->catalogue, only_ready, false, &rest->document);
    respond_document(rest, request, status, &err);
}

/* ------------------------------------------------------------------ loading and unloading */

/* A load or unload under way, the context of its request. */
typedef struct {
    rest_t *rest;
    http_request_t *request;
    uint64_t id;
} pending_ask_t;

static void on_asked(void *ctx, const err_t *err)
{
    pending_ask_t *ask = ctx;
    http_request_t *request = ask->request;
    http_request_set_context(request, NULL);
    free(ask);
    if (err->code == STATUS_OK)
        http_respond_copy(request, 200, NULL, NULL, "", 0);
    else
        respond_failure(request, err, 0);
}

static void ask_for_model(rest_t *rest, http_request_t *request, bool load)
{
    size_t len;
    err_t err = {0};
    const uint8_t *body = http_request_body(request, &len);
    pending_ask_t *ask = NULL;
    status_t status = oip_rest_parse_model_control(body ? (const char *)body : "", len, &err);
    if (status == STATUS_OK && !(ask = malloc(sizeof *ask)))
        status = err_set(&err, STATUS_NO_MEMORY, "no memory for the request");
    if (status == STATUS_OK) {
        *ask = (pending_ask_t){.rest = rest, .request = request};
        status = gateway_control_ask(rest->gateway->control, load, http_request_param(request, "model"),
                                     on_asked, ask, &ask->id, &err);
    }
    if (status == STATUS_OK) {
        http_request_set_context(request, ask);
        return;
    }
    free(ask);
    respond_failure(request, &err, 0);
}

static void post_load(http_request_t *request, void *user)
{
    ask_for_model(user, request, true);
}

static void post_unload(http_request_t *request, void *user)
{
    ask_for_model(user, request, false);
}

static void ask_closed(http_request_t *request, void *user)
{
    rest_t *rest = user;
    pending_ask_t *ask = http_request_context(request);
    if (ask) {
        gateway_control_forget(rest->gateway->control, ask->id);
        http_request_set_context(request, NULL);
        free(ask);
    }
    http_respond_error(request, 499, NULL, "the client is gone");
}

/* ------------------------------------------------------------------ shared memory */

static void get_regions(http_request_t *request, void *user)
{
    rest_regions_status(((rest_t *)user)->gateway, request);
}

static void post_register(http_request_t *request, void *user)
{
    rest_regions_register(((rest_t *)user)->gateway, request);
}

static void post_unregister(http_request_t *request, void *user)
{
    rest_regions_unregister(((rest_t *)user)->gateway, request);
}

/* user says why. */
static void refuse_unserved(http_request_t *request, void *user)
{
    http_respond_error(request, 501, NULL, "%s", (const char *)user);
}

/* ------------------------------------------------------------------ routes */

static const http_handler_ops_t infer_ops = {
    .on_headers = infer_headers, .on_request = infer_request, .on_close = infer_closed};
static const http_handler_ops_t server_ops = {.on_request = get_server};
static const http_handler_ops_t live_ops = {.on_request = get_live};
static const http_handler_ops_t ready_ops = {.on_request = get_ready};
static const http_handler_ops_t model_ops = {.on_request = get_model};
static const http_handler_ops_t model_ready_ops = {.on_request = get_model_ready};
static const http_handler_ops_t config_ops = {.on_request = get_config};
static const http_handler_ops_t stats_ops = {.on_request = get_stats};
static const http_handler_ops_t index_ops = {.on_request = post_index};
static const http_handler_ops_t load_ops = {.on_request = post_load, .on_close = ask_closed};
static const http_handler_ops_t unload_ops = {.on_request = post_unload, .on_close = ask_closed};
static const http_handler_ops_t regions_ops = {.on_request = get_regions};
static const http_handler_ops_t register_ops = {.on_request = post_register};
static const http_handler_ops_t unregister_ops = {.on_request = post_unregister};
static const http_handler_ops_t unserved_ops = {.on_request = refuse_unserved};

/* A row of the table below. */
typedef struct {
    http_route_t route;
    auth_right_t right; /* that a key must give; 0: anybody's */
} rest_route_t;

/* What Triton serves and this gateway does not. */
/* clang-format off */
#define UNSERVED(method, path, reason) {{HTTP_METHOD_##method, path, &unserved_ops, (void *)(uintptr_t)(reason)}, 0}
#define UNSERVED_SETTING(path, reason) UNSERVED(GET, path, reason), UNSERVED(POST, path, reason)
#define UNSERVED_MEMORY(path) \
    UNSERVED(GET, path "/status", GATEWAY_NO_CUDA_SHARED_MEMORY), \
    UNSERVED(GET, path "/region/{region}/status", GATEWAY_NO_CUDA_SHARED_MEMORY), \
    UNSERVED(POST, path "/region/{region}/register", GATEWAY_NO_CUDA_SHARED_MEMORY), \
    UNSERVED(POST, path "/region/{region}/unregister", GATEWAY_NO_CUDA_SHARED_MEMORY), \
    UNSERVED(POST, path "/unregister", GATEWAY_NO_CUDA_SHARED_MEMORY)
/* clang-format on */

/* The first that fits counts: the hot ones are first, and "stats" is no model. */
static const rest_route_t routes[] = {
    {{HTTP_METHOD_POST, "/v2/models/{model}/infer", &infer_ops, NULL}, AUTH_INFER},
    {{HTTP_METHOD_POST, "/v2/models/{model}/versions/{version}/infer", &infer_ops, NULL}, AUTH_INFER},
    {{HTTP_METHOD_GET, "/v2/health/live", &live_ops, NULL}, 0},
    {{HTTP_METHOD_GET, "/v2/health/ready", &ready_ops, NULL}, 0},
    {{HTTP_METHOD_GET, "/v2", &server_ops, NULL}, 0},
    {{HTTP_METHOD_GET, "/v2/models/stats", &stats_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}", &model_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/ready", &model_ready_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/config", &config_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/stats", &stats_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/versions/{version}", &model_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/versions/{version}/ready", &model_ready_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/versions/{version}/config", &config_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_GET, "/v2/models/{model}/versions/{version}/stats", &stats_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_POST, "/v2/repository/index", &index_ops, NULL}, AUTH_READ},
    {{HTTP_METHOD_POST, "/v2/repository/models/{model}/load", &load_ops, NULL}, AUTH_ADMIN},
    {{HTTP_METHOD_POST, "/v2/repository/models/{model}/unload", &unload_ops, NULL}, AUTH_ADMIN},
    {{HTTP_METHOD_GET, "/v2/systemsharedmemory/status", &regions_ops, NULL}, AUTH_INFER},
    {{HTTP_METHOD_GET, "/v2/systemsharedmemory/region/{region}/status", &regions_ops, NULL}, AUTH_INFER},
    {{HTTP_METHOD_POST, "/v2/systemsharedmemory/region/{region}/register", &register_ops, NULL}, AUTH_INFER},
    {{HTTP_METHOD_POST, "/v2/systemsharedmemory/region/{region}/unregister", &unregister_ops, NULL},
     AUTH_INFER},
    {{HTTP_METHOD_POST, "/v2/systemsharedmemory/unregister", &unregister_ops, NULL}, AUTH_INFER},
    UNSERVED_MEMORY("/v2/cudasharedmemory"),
    UNSERVED_SETTING("/v2/trace/setting", GATEWAY_NO_TRACING),
    UNSERVED_SETTING("/v2/models/{model}/trace/setting", GATEWAY_NO_TRACING),
    UNSERVED_SETTING("/v2/logging", GATEWAY_NO_LOGGING),
};
enum { ROUTE_COUNT = sizeof routes / sizeof *routes };

/* ------------------------------------------------------------------ who may */

static const char *peer_of(void *request)
{
    return http_request_peer(request);
}

static access_claim_t claim_of(http_request_t *request)
{
    const char *authorization = http_request_header(request, "Authorization");
    const char *api_key = http_request_header(request, "x-api-key");
    return (access_claim_t){.authorization = authorization,
                            .authorization_bytes = authorization ? strlen(authorization) : 0,
                            .api_key = api_key,
                            .api_key_bytes = api_key ? strlen(api_key) : 0,
                            .peer = peer_of,
                            .arg = request};
}

static bool admit(http_request_t *request, void *user)
{
    const rest_t *rest = user;
    access_t *access = rest->gateway->access;
    auth_right_t right = routes[http_request_route(request)].right;
    access_claim_t claim = claim_of(request);
    keyring_holder_t *holder = NULL;
    err_t err;
    if (!right) /* anybody's */
        return true;
    if (access_check(access, &claim, right, http_request_param(request, "model"), &holder, &err) !=
        STATUS_OK) {
        http_respond_error(request, status_to_http(err.code),
                           err.code == STATUS_UNAUTHENTICATED ? "WWW-Authenticate: Bearer\r\n" : NULL, "%s",
                           err.text);
        return false;
    }
    if (right == AUTH_ADMIN)
        access_audit(access, holder, http_request_peer(request),
                     http_method_name(http_request_method(request)), http_request_path(request));
    http_request_set_caller(request, holder);
    return true;
}

status_t rest_create(gateway_t *gateway, const http_server_config_t *config, rest_t **rest, err_t *err)
{
    rest_t *made = calloc(1, sizeof *made);
    http_route_t bound[ROUTE_COUNT];
    if (!made)
        return err_set(err, STATUS_NO_MEMORY, "no memory for the REST front end");
    made->gateway = gateway;
    for (size_t i = 0; i < ROUTE_COUNT; i++) {
        bound[i] = routes[i].route;
        bound[i].user = bound[i].user ? bound[i].user : made;
    }
    http_server_config_t admitting = *config;
    if (gateway->access) {
        admitting.admit = admit;
        admitting.admit_user = made;
    }
    status_t status =
        http_server_create(loop_uv(gateway->loop), &admitting, bound, ROUTE_COUNT, &made->server, err);
    if (status != STATUS_OK) {
        free(made);
        return status;
    }
    strbuf_init(&made->document, GATEWAY_DOCUMENT_BYTES_MAX);
    *rest = made;
    return STATUS_OK;
}

const char *rest_address(const rest_t *rest)
{
    return http_server_address(rest->server);
}

uint64_t rest_connections(const rest_t *rest)
{
    return http_server_counters(rest->server)->connections_open;
}

static void on_server_stopped(http_server_t *server, void *user)
{
    rest_t *rest = user;
    (void)server;
    if (rest->stopped)
        rest->stopped(rest->stopped_arg);
}

void rest_part(rest_t *rest)
{
    http_server_part(rest->server);
}

void rest_stop(rest_t *rest, uint32_t grace_ms, void (*done)(void *arg), void *arg)
{
    rest->stopped = done;
    rest->stopped_arg = arg;
    http_server_stop(rest->server, grace_ms, on_server_stopped, rest);
}

void rest_destroy(rest_t *rest)
{
    if (!rest)
        return;
    http_server_destroy(rest->server);
    strbuf_dispose(&rest->document);
    free(rest);
}
