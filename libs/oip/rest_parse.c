#include "oip/base64.h"
#include "oip/json_data.h"
#include "oip/rest_codec.h"
#include "oip/unknown.h"

#include <string.h>

typedef struct {
    oip_request_t *request;
    const oip_model_spec_t *spec;
    const oip_allocator_t *allocator;
    const uint8_t *binary; /* the section behind the JSON, as far as it is not taken yet */
    size_t binary_bytes;
    err_t *err;
} rest_parse_t;

/* One element of `inputs` while its members come in, in any order. */
typedef struct {
    rest_parse_t *parse;
    oip_input_t *input;
    bool has_shape, has_binary, read;
    uint64_t binary_bytes;
    json_reader_t data; /* where `data` begins and at most ends; .at NULL when there is none */
} input_parse_t;

/* The same of `outputs`. */
typedef struct {
    rest_parse_t *parse;
    oip_requested_t *requested;
} output_parse_t;

static status_t keep_text(rest_parse_t *parse, json_reader_t *reader, const char *what, const char **kept)
{
    char text[OIP_NAME_BYTES];
    status_t status = json_read_text(reader, text, sizeof text);
    if (status)
        return err_prefix(parse->err, "%s", what), status;
    *kept = oip_request_keep(parse->request, text, strlen(text));
    if (!*kept)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "%s: over %d bytes of names in one request", what,
                       OIP_TEXT_BYTES);
    return STATUS_OK;
}

/* ---- parameters ---- */

/* False when the value is no scalar (null, list, object); it is then skipped. text: room for a string. */
static status_t read_value(json_reader_t *reader, oip_value_t *value, char text[OIP_NAME_BYTES], bool *scalar)
{
    json_number_t number;
    char c = json_read_peek(reader);
    *scalar = true;
    if (c == '"') {
        *value = (oip_value_t){.kind = OIP_PARAM_STRING, .str = text};
        return json_read_text(reader, text, OIP_NAME_BYTES);
    }
    if (c == 't' || c == 'f') {
        value->kind = OIP_PARAM_BOOL;
        return json_read_bool(reader, &value->b);
    }
    if (c == '{' || c == '[' || c == 'n') {
        *scalar = false;
        return json_read_skip(reader);
    }
    status_t status = json_read_number(reader, &number);
    if (status)
        return status;
    if (json_read_int64(&number, &value->i64))
        value->kind = OIP_PARAM_INT64;
    else if (json_read_uint64(&number, &value->u64))
        value->kind = OIP_PARAM_UINT64;
    else
        *value = (oip_value_t){.kind = OIP_PARAM_DOUBLE, .f64 = json_read_double(&number)};
    return STATUS_OK;
}

static status_t on_request_parameter(json_reader_t *reader, const char *key, void *user)
{
    rest_parse_t *parse = user;
    oip_value_t value;
    char text[OIP_NAME_BYTES];
    bool scalar;
    status_t status = read_value(reader, &value, text, &scalar);
    if (status || !scalar)
        return status;
    return oip_request_set_parameter(parse->request, key, &value, parse->err);
}

/* Of a tensor; what says where it lies is taken. */
static status_t read_tensor_value(json_reader_t *reader, rest_parse_t *parse, oip_memory_t *memory,
                                  const char *key, oip_value_t *value, char text[OIP_NAME_BYTES],
                                  bool *scalar)
{
    status_t status = read_value(reader, value, text, scalar);
    if (status)
        return status;
    if (!*scalar)
        value->kind = OIP_PARAM_BOOL; /* of no use either, where a region, a size or an offset is wanted */
    return oip_memory_set_parameter(parse->request, memory, key, value, parse->err);
}

static status_t on_input_parameter(json_reader_t *reader, const char *key, void *user)
{
    input_parse_t *state = user;
    oip_value_t value;
    char text[OIP_NAME_BYTES];
    bool scalar;
    status_t status =
        read_tensor_value(reader, state->parse, &state->input->memory, key, &value, text, &scalar);
    if (status == STATUS_OK && strcmp(key, "content_type") == 0)
        state->input->base64 = scalar && value.kind == OIP_PARAM_STRING && strcmp(value.str, "base64") == 0;
    if (status || strcmp(key, "binary_data_size") != 0)
        return status;
    if (!scalar || value.kind != OIP_PARAM_INT64 || value.i64 < 0)
        return json_read_fail(reader, "parameter 'binary_data_size' must be an integer of at least 0");
    state->has_binary = true;
    state->binary_bytes = (uint64_t)value.i64;
    return STATUS_OK;
}

static status_t on_output_parameter(json_reader_t *reader, const char *key, void *user)
{
    output_parse_t *state = user;
    oip_value_t value;
    char text[OIP_NAME_BYTES];
    bool scalar;
    status_t status =
        read_tensor_value(reader, state->parse, &state->requested->memory, key, &value, text, &scalar);
    if (status || !scalar)
        return status;
    return oip_requested_set_parameter(state->requested, key, &value, reader->err);
}

/* ---- inputs ---- */

static status_t on_dimension(json_reader_t *reader, void *user)
{
    oip_shape_t *shape = user;
    json_number_t number;
    int64_t dim;
    status_t status = json_read_number(reader, &number);
    if (status)
        return status;
    if (!json_read_int64(&number, &dim) || dim < 0)
        return json_read_fail(reader, "a dimension of 'shape' must be an integer of at least 0");
    if (shape->rank == OIP_MAX_RANK)
        return json_read_fail(reader, "'shape' has more than %d dimensions", OIP_MAX_RANK);
    shape->dims[shape->rank++] = dim;
    return STATUS_OK;
}

static status_t read_datatype(json_reader_t *reader, oip_datatype_t *type)
{
    char text[16];
    status_t status = json_read_text(reader, text, sizeof text);
    if (status)
        return status;
    *type = oip_datatype_parse(text, strlen(text));
    return *type != OIP_INVALID ? STATUS_OK : json_read_fail(reader, "unknown datatype '%s'", text);
}

static status_t take_binary(input_parse_t *state)
{
    rest_parse_t *parse = state->parse;
    oip_input_t *input = state->input;
    if (state->binary_bytes > parse->binary_bytes)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has a binary_data_size of %llu, the body has %zu bytes left", input->name,
                       (unsigned long long)state->binary_bytes, parse->binary_bytes);
    input->data = parse->binary;
    input->len_bytes = (size_t)state->binary_bytes;
    input->borrowed = true;
    parse->binary += input->len_bytes;
    parse->binary_bytes -= input->len_bytes;
    return STATUS_OK;
}

/* Memory for the elements. The text bounds how many there can be, so a lying shape allocates nothing. */
static status_t allocate(input_parse_t *state, uint64_t *count, size_t *cap_bytes)
{
    rest_parse_t *parse = state->parse;
    oip_input_t *input = state->input;
    size_t text_bytes = (size_t)(state->data.end - state->data.at);
    bool bytes = input->datatype == OIP_BYTES;
    char text[OIP_SHAPE_TEXT_BYTES];
    if (!oip_shape_elements(&input->shape, count) ||
        *count > text_bytes / (bytes ? JSON_MIN_STRING_CHARS : JSON_MIN_NUMBER_CHARS))
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has less data than its shape %s says",
                       input->name, oip_shape_format(&input->shape, text));
    /* Decoded strings are shorter than their text; each gets a prefix. */
    *cap_bytes = bytes ? text_bytes + *count * 4 : *count * oip_datatype_bytes(input->datatype);
    uint8_t *memory = parse->allocator->alloc(parse->allocator->self, *cap_bytes ? *cap_bytes : 1);
    if (!memory)
        return err_set(parse->err, STATUS_UNAVAILABLE, "no memory for the %zu bytes of input '%s'",
                       *cap_bytes, input->name);
    input->data = memory;
    return STATUS_OK;
}

static status_t read_data(input_parse_t *state)
{
    oip_input_t *input = state->input;
    uint64_t count = 0;
    size_t cap_bytes = 0;
    if (oip_datatype_bytes(input->datatype) > 0 || input->datatype == OIP_BYTES) {
        status_t status = allocate(state, &count, &cap_bytes);
        if (status)
            return status;
    }
    return json_data_read(&state->data, input->name, input->datatype, count, (uint8_t *)input->data,
                          cap_bytes, &input->len_bytes);
}

/* What must be known before any data are read. */
static status_t check_known(const input_parse_t *state)
{
    rest_parse_t *parse = state->parse;
    const oip_input_t *input = state->input;
    if (!input->name)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "an input has no 'name'");
    if (input->datatype == OIP_INVALID)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has no 'datatype'", input->name);
    if (!state->has_shape)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has no 'shape'", input->name);
    if (oip_model_spec_input(parse->spec, input->name) < 0)
        return oip_unknown_input(parse->spec, input->name, parse->err);
    return STATUS_OK;
}

static status_t finish_in_memory(const input_parse_t *state)
{
    oip_input_t *input = state->input;
    if (state->has_binary || state->data.at)
        return err_set(state->parse->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has both data and a region of shared memory", input->name);
    input->len_bytes = input->memory.len_bytes;
    return STATUS_OK;
}

static status_t finish_input(input_parse_t *state)
{
    rest_parse_t *parse = state->parse;
    const char *name = state->input->name;
    status_t status = check_known(state);
    if (status == STATUS_OK)
        status = oip_memory_finish(&state->input->memory, "input", name, parse->err);
    if (status)
        return status;
    if (state->has_binary && state->data.at)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "input '%s' has both 'data' and 'binary_data_size'", name);
    if (state->input->base64 &&
        (state->has_binary || state->input->memory.region || state->input->datatype != OIP_BYTES))
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "input '%s': content_type base64 is for BYTES in 'data'", name);
    if (state->input->memory.region)
        return finish_in_memory(state);
    if (state->has_binary)
        return take_binary(state);
    if (!state->data.at)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT, "input '%s' has no 'data'", name);
    return state->read ? STATUS_OK : read_data(state);
}

/*
 * Reads numbers at once when name, shape and datatype came first, as clients send them. Otherwise, and for strings,
 * whose memory depends on where they end, notes the place and skips.
 */
static status_t on_data(json_reader_t *reader, input_parse_t *state)
{
    state->data = *reader;
    if (state->input->datatype != OIP_BYTES && check_known(state) == STATUS_OK) {
        state->read = true;
        status_t status = read_data(state);
        reader->at = state->data.at;
        return status;
    }
    status_t status = json_read_skip(reader);
    state->data.end = reader->at;
    return status;
}

/* The reader's own words say where it stopped; people also want to know in what. Other errors name it already. */
static bool is_reader_error(const err_t *err)
{
    return err && strncmp(err->text, "JSON at ", strlen("JSON at ")) == 0;
}

static status_t read_input_member(json_reader_t *reader, const char *key, input_parse_t *state)
{
    if (strcmp(key, "name") == 0)
        return keep_text(state->parse, reader, "input name", &state->input->name);
    if (strcmp(key, "shape") == 0) {
        state->has_shape = true;
        return json_read_array(reader, on_dimension, &state->input->shape);
    }
    if (strcmp(key, "datatype") == 0)
        return read_datatype(reader, &state->input->datatype);
    if (strcmp(key, "parameters") == 0)
        return json_read_object(reader, on_input_parameter, state);
    if (strcmp(key, "data") != 0)
        return json_read_skip(reader);
    return on_data(reader, state);
}

static status_t on_input_member(json_reader_t *reader, const char *key, void *user)
{
    input_parse_t *state = user;
    status_t status = read_input_member(reader, key, state);
    if (status && is_reader_error(state->parse->err))
        err_prefix(state->parse->err, "input '%s', '%.32s'", state->input->name ? state->input->name : "",
                   key);
    return status;
}

static status_t on_input(json_reader_t *reader, void *user)
{
    rest_parse_t *parse = user;
    oip_request_t *request = parse->request;
    if (request->input_count == OIP_MAX_TENSORS)
        return json_read_fail(reader, "more than %d inputs", OIP_MAX_TENSORS);
    input_parse_t state = {.parse = parse, .input = &request->inputs[request->input_count]};
    *state.input = (oip_input_t){0};
    status_t status = json_read_object(reader, on_input_member, &state);
    if (status == STATUS_OK)
        status = finish_input(&state);
    request->input_count++;
    return status;
}

/* ---- outputs and the whole ---- */

static status_t on_output_member(json_reader_t *reader, const char *key, void *user)
{
    output_parse_t *state = user;
    if (strcmp(key, "name") == 0)
        return keep_text(state->parse, reader, "output name", &state->requested->name);
    if (strcmp(key, "parameters") == 0)
        return json_read_object(reader, on_output_parameter, state);
    return json_read_skip(reader);
}

static status_t on_output(json_reader_t *reader, void *user)
{
    rest_parse_t *parse = user;
    oip_request_t *request = parse->request;
    if (request->requested_count == OIP_MAX_TENSORS)
        return json_read_fail(reader, "more than %d outputs", OIP_MAX_TENSORS);
    output_parse_t state = {.parse = parse, .requested = &request->requested[request->requested_count]};
    *state.requested = (oip_requested_t){0};
    status_t status = json_read_object(reader, on_output_member, &state);
    if (status == STATUS_OK && !state.requested->name)
        status = err_set(parse->err, STATUS_INVALID_ARGUMENT, "an output has no 'name'");
    if (status == STATUS_OK)
        status = oip_memory_finish(&state.requested->memory, "output", state.requested->name, parse->err);
    request->requested_count++;
    return status;
}

static status_t read_member(json_reader_t *reader, const char *key, rest_parse_t *parse)
{
    if (strcmp(key, "id") == 0)
        return keep_text(parse, reader, "id", &parse->request->id);
    if (strcmp(key, "parameters") == 0)
        return json_read_object(reader, on_request_parameter, parse);
    if (strcmp(key, "inputs") == 0)
        return json_read_array(reader, on_input, parse);
    if (strcmp(key, "outputs") == 0)
        return json_read_array(reader, on_output, parse);
    return json_read_skip(reader);
}

static status_t on_member(json_reader_t *reader, const char *key, void *user)
{
    rest_parse_t *parse = user;
    status_t status = read_member(reader, key, parse);
    if (status && is_reader_error(parse->err))
        err_prefix(parse->err, "'%.32s'", key);
    return status;
}

/* When all parameters are known, wherever they stood. The memory is the request's own. */
static status_t decode_base64(rest_parse_t *parse)
{
    oip_request_t *request = parse->request;
    status_t status = STATUS_OK;
    for (uint32_t i = 0; i < request->input_count && status == STATUS_OK; i++) {
        oip_input_t *input = &request->inputs[i];
        if ((input->base64 || request->base64) && input->datatype == OIP_BYTES && !input->borrowed &&
            !input->memory.region)
            status = oip_base64_decode(input->name, (uint8_t *)(uintptr_t)input->data, &input->len_bytes,
                                       parse->err);
    }
    return status;
}

static status_t parse_document(rest_parse_t *parse, const char *json, size_t json_bytes)
{
    json_reader_t reader = {.begin = json, .at = json, .end = json + json_bytes, .err = parse->err};
    status_t status = json_read_object(&reader, on_member, parse);
    if (status)
        return status;
    json_read_space(&reader);
    if (reader.at != reader.end)
        return json_read_fail(&reader, "something follows the document");
    if (parse->binary_bytes > 0)
        return err_set(parse->err, STATUS_INVALID_ARGUMENT,
                       "the body has %zu bytes behind the binary data of its inputs", parse->binary_bytes);
    for (uint32_t i = 0; i < parse->request->requested_count; i++)
        if (!parse->request->requested[i].binary_set)
            parse->request->requested[i].binary = parse->request->binary_output;
    return decode_base64(parse);
}

status_t oip_rest_parse(oip_request_t *request, const oip_model_spec_t *spec, const char *body,
                        size_t body_bytes, int64_t header_bytes, const oip_allocator_t *allocator, err_t *err)
{
    if (header_bytes == 0)
        return oip_rest_parse_raw(request, spec, body, body_bytes, allocator, err);
    if (header_bytes < OIP_REST_ALL_JSON || (header_bytes > 0 && (uint64_t)header_bytes > body_bytes))
        return err_set(err, STATUS_INVALID_ARGUMENT,
                       "Inference-Header-Content-Length is %lld, the body has %zu bytes",
                       (long long)header_bytes, body_bytes);
    size_t json_bytes = header_bytes < 0 ? body_bytes : (size_t)header_bytes;
    oip_request_init(request);
    rest_parse_t parse = {.request = request,
                          .spec = spec,
                          .allocator = allocator,
                          .binary = (const uint8_t *)body + json_bytes,
                          .binary_bytes = body_bytes - json_bytes,
                          .err = err};
    return parse_document(&parse, body, json_bytes);
}

/* ---- the repository index ---- */

static status_t on_index_member(json_reader_t *reader, const char *key, void *user)
{
    bool *only_ready = user;
    if (strcmp(key, "ready") != 0)
        return json_read_skip(reader);
    status_t status = json_read_bool(reader, only_ready);
    if (status)
        err_prefix(reader->err, "'ready'");
    return status;
}

/* One object, or nothing at all. */
static status_t parse_small_document(const char *body, size_t body_bytes, json_member_fn member, void *user,
                                     err_t *err)
{
    json_reader_t reader = {.begin = body, .at = body, .end = body + body_bytes, .err = err};
    if (json_read_peek(&reader) != '\0') {
        status_t status = json_read_object(&reader, member, user);
        if (status)
            return status;
    }
    if (json_read_peek(&reader) != '\0' || reader.at < reader.end)
        return json_read_fail(&reader, "something follows the document");
    return STATUS_OK;
}

status_t oip_rest_parse_index(const char *body, size_t body_bytes, bool *only_ready, err_t *err)
{
    bool ready = false;
    status_t status = parse_small_document(body, body_bytes, on_index_member, &ready, err);
    if (status == STATUS_OK)
        *only_ready = ready;
    return status;
}

/* ---- loads and unloads ---- */

status_t oip_check_model_control(const char *parameter, err_t *err)
{
    if (strcmp(parameter, "unload_dependents") == 0)
        return STATUS_OK;
    return err_set(
        err, STATUS_UNSUPPORTED,
        "parameter '%.64s' is not supported: models are loaded as they are in the repository, configured by "
        "their config.yaml",
        parameter);
}

static status_t on_control_parameter(json_reader_t *reader, const char *key, void *user)
{
    bool value;
    (void)user;
    if (oip_check_model_control(key, reader->err) != STATUS_OK)
        return STATUS_UNSUPPORTED;
    status_t status = json_read_bool(reader, &value);
    if (status)
        err_prefix(reader->err, "'%s'", key);
    return status;
}

static status_t on_control_member(json_reader_t *reader, const char *key, void *user)
{
    if (strcmp(key, "parameters") == 0)
        return json_read_object(reader, on_control_parameter, user);
    return json_read_skip(reader);
}

status_t oip_rest_parse_model_control(const char *body, size_t body_bytes, err_t *err)
{
    return parse_small_document(body, body_bytes, on_control_member, NULL, err);
}

/* ---- raw bodies ---- */

static status_t raw_element(oip_input_t *input, const oip_model_spec_t *spec, const void *body,
                            size_t body_bytes, const oip_allocator_t *allocator, err_t *err)
{
    uint32_t prefix = (uint32_t)body_bytes;
    if (body_bytes > UINT32_MAX - sizeof prefix)
        return err_set(err, STATUS_TOO_LARGE, "a BYTES element of %zu bytes", body_bytes);
    uint8_t *memory = allocator->alloc(allocator->self, sizeof prefix + body_bytes);
    if (!memory)
        return err_set(err, STATUS_UNAVAILABLE, "no memory for the %zu bytes of input '%s'", body_bytes,
                       input->name);
    memcpy(memory, &prefix, sizeof prefix);
    memcpy(memory + sizeof prefix, body, body_bytes);
    input->datatype = OIP_BYTES;
    input->data = memory;
    input->len_bytes = sizeof prefix + body_bytes;
    input->shape = (oip_shape_t){.rank = 1, .dims = {1}};
    if (spec->inputs[0].datatype == OIP_BYTES) {
        input->shape = oip_model_spec_public_shape(spec, &spec->inputs[0]);
        for (uint32_t i = 0; i < input->shape.rank; i++)
            if (input->shape.dims[i] == -1)
                input->shape.dims[i] = 1;
    }
    return STATUS_OK;
}

/* The one dimension that the size of the body decides: the batch, else a variable one. */
static status_t raw_tensor(oip_input_t *input, const oip_model_spec_t *spec, const void *body,
                           size_t body_bytes, err_t *err)
{
    int32_t open = -1;
    uint64_t unit_bytes;
    input->datatype = spec->inputs[0].datatype;
    input->shape = oip_model_spec_public_shape(spec, &spec->inputs[0]);
    for (uint32_t i = 0; i < input->shape.rank; i++) {
        if (input->shape.dims[i] != -1)
            continue;
        if (open == 0 && spec->max_batch > 0)
            input->shape.dims[0] = 1;
        else if (open >= 0)
            return err_set(
                err, STATUS_INVALID_ARGUMENT,
                "input '%s' has several variable dimensions, so a raw body does not tell its shape",
                input->name);
        open = (int32_t)i;
        input->shape.dims[i] = 1;
    }
    if (!oip_shape_bytes(&input->shape, input->datatype, &unit_bytes) || unit_bytes == 0 ||
        body_bytes % unit_bytes != 0 || (open < 0 && body_bytes != unit_bytes))
        return err_set(err, STATUS_INVALID_ARGUMENT, "the raw body of %zu bytes does not fill input '%s'",
                       body_bytes, input->name);
    if (open >= 0)
        input->shape.dims[open] = (int64_t)(body_bytes / unit_bytes);
    input->data = body;
    input->len_bytes = body_bytes;
    input->borrowed = true;
    return STATUS_OK;
}

status_t oip_rest_parse_raw(oip_request_t *request, const oip_model_spec_t *spec, const void *body,
                            size_t body_bytes, const oip_allocator_t *allocator, err_t *err)
{
    oip_request_init(request);
    if (spec->input_count != 1)
        return err_set(err, STATUS_INVALID_ARGUMENT, "a raw body needs a model with one input, '%s' has %u",
                       spec->name, spec->input_count);
    if (body_bytes == 0)
        return err_set(err, STATUS_INVALID_ARGUMENT, "input '%s' has no data: the body is empty",
                       spec->inputs[0].name);
    oip_input_t *input = &request->inputs[0];
    *input = (oip_input_t){.name = spec->inputs[0].name};
    request->input_count = 1;
    request->binary_output = !oip_rest_is_picture(body, body_bytes);
    bool element = spec->inputs[0].datatype == OIP_BYTES || spec->picture_input == 0;
    /* The picture input also takes its tensor raw, which never begins like a picture file by accident. */
    if (element && spec->inputs[0].datatype != OIP_BYTES && !oip_rest_is_picture(body, body_bytes) &&
        raw_tensor(input, spec, body, body_bytes, NULL) == STATUS_OK)
        return STATUS_OK;
    if (element)
        return raw_element(input, spec, body, body_bytes, allocator, err);
    return raw_tensor(input, spec, body, body_bytes, err);
}

bool oip_rest_is_picture(const void *body, size_t body_bytes)
{
    static const uint8_t jpeg[] = {0xff, 0xd8, 0xff}, png[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    return (body_bytes >= sizeof jpeg && memcmp(body, jpeg, sizeof jpeg) == 0) ||
           (body_bytes >= sizeof png && memcmp(body, png, sizeof png) == 0);
}
